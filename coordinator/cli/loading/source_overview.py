"""What a load shows of its source before anything is sent: its columns, or its first item."""

from __future__ import annotations

import json
from typing import Final

from rich.table import Table
from rich.text import Text

from common.process.control_character_escaping import printable
from coordinator.cli.console_tables import console
from coordinator.cli.escaped_output import echo
from coordinator.cli.sources.source import Source, counted, shown

COLUMNS_SHOWN: Final = 100
FIRST_CHARS_SHOWN: Final = 300
"""Of the item that a dry run shows."""


def show_columns(source: Source) -> None:
    """Show the columns and their kinds, before anything is sent."""
    if not source.columns:
        return
    out = console(is_error=True)
    rows = "" if source.num_items is None else f"{counted(source.num_items, 'row')}, "
    out.print(Text(f"{printable(source.name)}: {rows}{counted(len(source.columns), 'column')}"))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("column", "kind", "for example"):
        table.add_column(heading)
    for column in source.columns[:COLUMNS_SHOWN]:
        name, example = printable(shown(column.name)), printable(column.example)
        table.add_row(Text(name), Text(column.kind), Text(example, "dim"))
    out.print(table)
    if len(source.columns) > COLUMNS_SHOWN:
        out.print(Text(f"… and {counted(len(source.columns) - COLUMNS_SHOWN, 'column')} more"))


def show_first(source: Source) -> None:
    """Show of JSON, whose fields are not shown as columns, the number of items and the first."""
    if not source.columns:
        echo(f"{source.name}: {counted(source.num_items or 0, 'item')}", err=True)
    if source.sample:
        first = shown(json.dumps(source.sample[0], ensure_ascii=False), FIRST_CHARS_SHOWN)
        echo(f"facetd: its first item {first}", err=True)
