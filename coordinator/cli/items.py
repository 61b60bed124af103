"""Commands for items: search, export. Loading is in `coordinator.cli.loading`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO, Final

import click

from coordinator.cli import opensearch_export
from coordinator.cli.completion import complete_index
from coordinator.cli.options import with_options
from coordinator.cli.printing import echo, printable_pieces
from coordinator.cli.search_output import HIGHLIGHT_MARKS, print_answer
from coordinator.cli.service_options import ServiceOptions, with_service
from coordinator.clients.http_client import index_path

_MARKS: Final = {"pre": HIGHLIGHT_MARKS[0], "post": HIGHLIGHT_MARKS[1]}


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options about which items a search shows."""

    expression: str | None
    filters: str | None
    sort: str | None
    fields: str | None
    page: int
    per_page: int
    no_facets: bool

    def parameters(self) -> dict[str, Any]:
        """Return them as parameters of a search."""
        optional = {
            "filters": self.filters,
            "filter": self.expression,
            "sort": self.sort,
            "fields": self.fields,
            "facet_fields": "[]" if self.no_facets else None,
        }
        given = {name: value for name, value in optional.items() if value is not None}
        return {"page": self.page, "per_page": self.per_page, **given}


with_search: Final = with_options(
    "options",
    SearchOptions,
    click.option(
        "--filter",
        "expression",
        metavar="EXPRESSION",
        help='Keep items that match, for example "year >= 1990 AND tags = a".',
    ),
    click.option("--filters", metavar="JSON", help='The same as an object: {"tags": ["a"]}.'),
    click.option("--sort", metavar="FIELDS", help="Order by fields, for example year:desc,name."),
    click.option("--fields", metavar="FIELDS", help="Show only these fields, separated by commas."),
    click.option("--page", type=int, default=1, show_default=True, help="Show this page."),
    click.option(
        "--per-page",
        type=int,
        default=10,
        show_default=True,
        help="Show this many items on a page.",
    ),
    click.option("--no-facets", is_flag=True, help="Leave the facets out."),
)


@click.command()
@click.argument("index", shell_complete=complete_index)
@click.argument("query", default="")
@with_search
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
@with_service
def search(
    service: ServiceOptions, index: str, query: str, options: SearchOptions, as_json: bool
) -> None:
    """Search INDEX for QUERY; without QUERY all items are listed."""
    parameters = {"query": query, **options.parameters()}
    if not as_json and query:
        parameters["highlight"] = json.dumps(_MARKS)
    answer = service.client().search(index, parameters)
    if as_json:
        echo(json.dumps(answer, ensure_ascii=False))
    else:
        print_answer(answer)
        for warning in answer["meta"].get("warnings") or []:
            echo(f"facetd: {warning}", err=True)


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
def export(service: ServiceOptions, index: str, output: BinaryIO, style: str) -> None:
    """Write all items of INDEX as they were stored, one a line.

    They come in the order in which they were added, and facetd load takes them again.
    """
    client = service.client()
    if style == "opensearch-mapping":
        document = client.request("GET", f"{index_path(index)}/configuration")
        output.write(
            json.dumps(opensearch_export.mapping(document), ensure_ascii=False).encode() + b"\n"
        )
        return
    pieces = client.stream(f"{index_path(index)}/items")
    first = next(pieces, b"")  # before FILE is opened, which empties it
    pieces = chain([first], pieces)
    pieces = opensearch_export.bulk(pieces) if style == "opensearch" else pieces
    for piece in printable_pieces(pieces) if output.isatty() else pieces:
        output.write(piece)
