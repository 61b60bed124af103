"""Setting fields of existing items from a file: what `facetd load --update` sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from coordinator.cli.sources.exact_json_codec import encoded
from coordinator.cli.sources.json_and_ndjson import parsed_items
from coordinator.cli.sources.source import Source, SourceError, counted
from coordinator.command_line_client import Client, ClientError, index_path

BATCH_ITEMS: Final = 1_000
BATCH_BYTES: Final = 2 * 1024 * 1024
"""Of a request, unless its only item is longer."""
ERRORS_KEPT: Final = 20


def update_items(client: Client, index: str, source: Source) -> dict[str, Any]:
    """Set the fields of each item of a source in the item with its id; others stay as they are.

    Every request is all or nothing, the whole is not. Ids that no item has are rejected.

    Returns:
        `updated`, `rejected` and the first `errors`, as of a load.

    Raises:
        ClientError: a request was refused; it says how many items had been updated before.
        SourceError: the source cannot be read on; it says the same.
    """
    total: dict[str, Any] = {"created": 0, "updated": 0, "rejected": 0, "errors": []}
    try:
        for body in _batches(source):
            result = client.request("PATCH", f"{index_path(index)}/items", body)
            total["updated"] += result["updated"]
            total["rejected"] += result["rejected"]
            total["errors"] = [*total["errors"], *result["errors"]][:ERRORS_KEPT]
    except (ClientError, SourceError) as error:
        if not total["updated"]:
            raise
        message = f"{error}; {counted(total['updated'], 'item')} before were updated"
        if isinstance(error, SourceError):
            raise SourceError(message) from error
        raise ClientError(
            message, status=error.status, code=error.code, details=error.details
        ) from error
    return total


def _batches(source: Source) -> Iterator[bytes]:
    """Yield the items as the bodies of requests."""
    batch: list[bytes] = []
    num_bytes = 0
    for _, item in parsed_items(source.pieces(), source.name):
        text = encoded(item)
        if batch and (len(batch) == BATCH_ITEMS or num_bytes + len(text) > BATCH_BYTES):
            yield b"[%b]" % b",".join(batch)
            batch, num_bytes = [], 0
        batch.append(text)
        num_bytes += len(text)
    if batch:
        yield b"[%b]" % b",".join(batch)
