"""The command that shows search analytics."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import click

from coordinator.cli.argument_completion import complete_index
from coordinator.cli.connection_options import ConnectionOptions, with_service
from coordinator.cli.console_tables import print_table
from coordinator.cli.escaped_output import echo


@click.command()
@click.argument("index", required=False, shell_complete=complete_index)
@click.option("--days", default=7, show_default=True, help="Today and the days before.")
@click.option("--size", default=10, show_default=True, help="Rows of each table.")
@click.option("--json", "as_json", is_flag=True, help="Print the service's answer.")
@with_service
def analytics(
    service: ConnectionOptions, index: str | None, days: int, size: int, as_json: bool
) -> None:
    """Show what is searched for: often, without a hit, slowly; and what is clicked."""
    parameters: dict[str, Any] = {"days": days, "size": size}
    if index is not None:
        parameters["index"] = index
    found = service.client().request("GET", f"/_analytics?{urlencode(parameters)}")
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
        return
    share = found["no_hits"] / max(found["searches"], 1)
    echo(f"{found['searches']:,} searches, {share:.1%} without a hit")
    for title, rows, numbers in (
        ("Popular", found["popular"], ("searches", "clicks")),
        ("Without a hit", found["without_hits"], ("no_hits", "searches")),
        ("Slow", found["slow"], ("ms",)),
    ):
        if rows:
            echo(f"\n{title}")
            print_table(
                ("query", "index", *(name.replace("no_hits", "no hit") for name in numbers)),
                [
                    (row["query"] or "(everything)", row["index"], *_figures(row, numbers))
                    for row in rows
                ],
                right=[name.replace("no_hits", "no hit") for name in numbers],
            )
    if found["clicked"]:
        echo("\nClicked")
        print_table(
            ("id", "index", "clicks", "position"),
            [
                (row["id"], row["index"], f"{row['clicks']:,}", f"{row['position']:g}")
                for row in found["clicked"]
            ],
            right=("clicks", "position"),
        )


def _figures(row: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """Return the numbers of a row as texts."""
    return [f"{row['took_us'] / 1000:.1f}" if name == "ms" else f"{row[name]:,}" for name in names]
