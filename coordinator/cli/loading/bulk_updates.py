"""Setting fields of existing items from a file: what `facetd load --update` sends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from coordinator.cli.sources.exact_json_codec import encoded
from coordinator.cli.sources.json_and_ndjson import placed_items
from coordinator.cli.sources.source import Source, SourceError, counted
from coordinator.command_line_client import Client, ClientError, index_path

BATCH_ITEMS: Final = 1_000
BATCH_BYTES: Final = 2 * 1024 * 1024
"""Of a request, unless its only item is longer."""
ERRORS_KEPT: Final = 20

_IN_BATCH: Final = re.compile(r"item \d+, byte \d+: ")
"""Where the service finds an error; of no use to who has the file."""


class _Item(NamedTuple):
    """An item to be sent, and where it is in its source."""

    place: str
    text: bytes


def update_items(
    client: Client, index: str, source: Source, *, skips_bad: bool = False
) -> dict[str, Any]:
    """Set the fields of each item of a source in the item with its id; others stay as they are.

    Every request is all or nothing, the whole is not. Ids that no item has are rejected.

    Args:
        client: of the service.
        index: whose items are changed.
        source: of the fields.
        skips_bad: whether items that the service refuses are rejected, too, and the others sent.

    Returns:
        `updated`, `rejected` and the first `errors`, as of a load.

    Raises:
        ClientError: a request was refused; it says how many items had been updated before.
        SourceError: the source cannot be read on; it says the same.
    """
    total: dict[str, Any] = {"created": 0, "updated": 0, "rejected": 0, "errors": []}

    def reject(errors: list[dict[str, Any]], num: int) -> None:
        total["rejected"] += num
        total["errors"] = [*total["errors"], *errors][:ERRORS_KEPT]

    try:
        for batch in _batches(source):
            left = batch
            while left:
                try:
                    result = _sent(client, index, left)
                except _Refused as refused:
                    if not skips_bad:
                        raise
                    reject(list(refused.errors.values()), len(refused.errors))
                    left = [item for i, item in enumerate(left) if i not in refused.errors]
                    continue
                total["updated"] += result["updated"]
                reject(result["errors"], result["rejected"])
                break
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


class _Refused(ClientError):
    """Items that the service refuses, with all others of their request.

    Attributes:
        errors: by ordinal in the request; not more than the service lists.
    """

    def __init__(self, refusal: ClientError, errors: dict[int, dict[str, Any]]) -> None:
        first, *_ = errors.values()
        num_others = refusal.details.get("rejected", len(errors)) - 1
        others = f" (and {num_others:,} more)" if num_others else ""
        super().__init__(
            f"{first['place']}: {first['message']}{others} ({refusal.status} {refusal.code})",
            status=refusal.status,
            code=refusal.code,
            details=refusal.details,
        )
        self.errors = errors


def _sent(client: Client, index: str, items: list[_Item]) -> dict[str, Any]:
    """Send items in one request; return the answer.

    Raises:
        _Refused: some of them are wrong.
        ClientError: the request failed for another reason.
    """
    body = b"[%b]" % b",".join(item.text for item in items)
    try:
        result: dict[str, Any] = client.request("PATCH", f"{index_path(index)}/items", body)
        return result
    except ClientError as error:
        errors = {
            one["index"]: {
                "place": items[one["index"]].place,
                "code": one["code"],
                "message": _IN_BATCH.sub("", one["message"], count=1),
            }
            for one in error.details.get("errors", [])
            if "index" in one
        }
        if not errors:
            raise
        raise _Refused(error, errors) from error


def _batches(source: Source) -> Iterator[list[_Item]]:
    """Yield the items of each request."""
    batch: list[_Item] = []
    num_bytes = 0
    for place, item in placed_items(source):
        text = encoded(item)
        if batch and (len(batch) == BATCH_ITEMS or num_bytes + len(text) > BATCH_BYTES):
            yield batch
            batch, num_bytes = [], 0
        batch.append(_Item(place, text))
        num_bytes += len(text)
    if batch:
        yield batch
