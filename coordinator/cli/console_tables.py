"""Tables and figures for people, on stdout: as wide as the terminal, without colours in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.process.control_character_escaping import printable
from coordinator.cli.escaped_output import echo

PIPE_COLUMNS: Final = 10_000
"""Width if stdout is not a terminal: so nothing is wrapped."""


def console(*, is_error: bool = False) -> Console:
    """Return a console for stdout or stderr."""
    found = Console(stderr=is_error, highlight=False)
    if not found.is_terminal:
        found = Console(stderr=is_error, highlight=False, width=PIPE_COLUMNS)
    return found


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[str] = (),
    empty: str = "none",
) -> None:
    """Print a table.

    Args:
        columns: headings.
        rows: texts, one per column.
        right: headings of the right-aligned columns (numbers).
        empty: text to print if there are no rows.
    """
    rows = list(rows)
    if not rows:
        echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    numbers = set(right)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console().print(table)


def bytes_text(number: int) -> str:
    """Return a size for people: 5.2 MB."""
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:.1f} TB"
