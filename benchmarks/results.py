"""Results: JSON files to keep, Markdown tables to read."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("results")

Cell = str | float | None


def save(name: str, result: Mapping[str, Any]) -> Path:
    """Write a result beside the others; the name carries the time."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of what was measured, None for nothing."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def show(cell: Cell) -> str:
    """Write a number with as many digits as it deserves."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if cell >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.1f}" if cell >= 10 else f"{cell:.2f}" if cell >= 1 else f"{cell:.3f}"


def table(
    head: Sequence[str], rows: Sequence[Sequence[Cell]], best: Mapping[int, str] | None = None
) -> str:
    """Make a Markdown table; `best` names columns whose "least" or "greatest" is set in bold."""
    chosen: dict[int, float] = {}
    for column, which in (best or {}).items():
        numbers = [row[column] for row in rows if isinstance(row[column], int | float)]
        if numbers:
            chosen[column] = (min if which == "least" else max)(numbers)  # type: ignore[type-var, assignment]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [
            f"**{show(cell)}**" if column in chosen and cell == chosen[column] else show(cell)
            for column, cell in enumerate(row)
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def describe(machine: Mapping[str, str]) -> str:
    """Write the line that every table carries: where and when."""
    return "; ".join(f"{value}" for value in machine.values())


def growth(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the exponent b of the best fit cost = a * size ** b (least squares of logarithms)."""
    x = [math.log(size) for size in sizes]
    y = [math.log(max(cost, 1e-9)) for cost in costs]
    return statistics.linear_regression(x, y).slope if len(set(x)) > 1 else 0.0
