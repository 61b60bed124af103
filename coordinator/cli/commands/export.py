"""The command that writes all items of an index, or its mapping for another engine."""

from __future__ import annotations

import json
from itertools import chain
from typing import BinaryIO

import click

from coordinator.cli import opensearch_export_format
from coordinator.cli.argument_completion import complete_index
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.escaped_output import printable_pieces
from coordinator.command_line_client import index_path


@click.command()
@click.argument("index", shell_complete=complete_index)
@click.option(
    "--output", type=click.File("wb"), default="-", help="Write to this file instead of stdout."
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["ndjson", "opensearch", "opensearch-mapping"]),
    default="ndjson",
    show_default=True,
    help="Write items, a body for POST /_bulk, or no items but the body for PUT of the index.",
)
@with_service
def export(service: ConnectionOptions, index: str, output: BinaryIO, style: str) -> None:
    """Write all items of INDEX as they were stored, one a line.

    They come in the order in which they were added, and facetd load takes them again.
    """
    client = service.client()
    if style == "opensearch-mapping":
        document = client.request("GET", f"{index_path(index)}/configuration")
        output.write(
            json.dumps(opensearch_export_format.mapping(document), ensure_ascii=False).encode()
            + b"\n"
        )
        return
    pieces = client.stream(f"{index_path(index)}/items")
    first = next(pieces, b"")  # before FILE is opened, which empties it
    pieces = chain([first], pieces)
    pieces = opensearch_export_format.bulk(pieces) if style == "opensearch" else pieces
    for piece in printable_pieces(pieces) if output.isatty() else pieces:
        output.write(piece)
