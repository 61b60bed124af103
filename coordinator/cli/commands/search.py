"""The command that searches an index."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import click

from coordinator.cli.argument_completion import complete_index
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.escaped_output import echo
from coordinator.cli.options_as_one_value import with_options
from coordinator.cli.search_output import HIGHLIGHT_MARKS, print_answer

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
    service: ConnectionOptions, index: str, query: str, options: SearchOptions, as_json: bool
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
