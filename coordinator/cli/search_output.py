"""Hits and facets on a terminal: a title, the fields, the matches, and facets with bars.

1  The Godfather Part II  ·  id 5                    title: the likeliest field
   year 1974 · rating 9.0 · genres Crime, Drama      short values
   description  The early life of Vito Corleone …    where the words matched, or a long text
"""

from __future__ import annotations

import html
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from common.process.control_character_escaping import printable
from common.value_kinds_and_facet_keys import number_text
from coordinator.cli.console_tables import console

HIGHLIGHT_MARKS: Final = ("\ue000", "\ue001")
"""Marks around matched words: private-use characters, which do not occur in texts."""

TITLES: Final = ("title", "name", "label", "headline", "subject", "question")
"""Fields that usually name an item."""

BAR_COLUMNS: Final = 24
_SHORT_CHARS: Final = 60
_LONG_CHARS: Final = 240
_SHORT_FIELDS: Final = 8
_SINGLE_VALUES: Final = 5
"""From this many numbers on that one hit each has, a facet shows the least and the greatest."""


def print_answer(answer: dict[str, Any]) -> None:
    """Print hits and facets for people."""
    out = console()
    answer = _printable(answer)
    pagination, data = answer["pagination"], answer["data"]
    total, page, per_page = (pagination[name] for name in ("total", "page", "per_page"))
    took = answer["meta"]["took_us"] / 1000
    pages = -(-total // per_page) if per_page else 0
    where = f", page {page} of {pages:,}" if pages > 1 else ""
    out.print(f"[bold]{total:,}[/] {'hit' if total == 1 else 'hits'}{where} [dim]({took:.1f} ms)")
    for word in answer["meta"].get("ignored_words") or []:
        out.print(f"[yellow]no item has[/] {escape(str(word))}")
    for number, item in enumerate(data["items"], (page - 1) * per_page + 1):
        _print_item(out, number, item)
    facets = [facet for facet in data["aggregations"].values() if facet["buckets"]]
    for facet in facets:
        _print_facet(out, facet)


def _printable(value: Any) -> Any:
    """Return a value of an answer without characters that control the terminal."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    if isinstance(value, dict):
        return {printable(name): _printable(inner) for name, inner in value.items()}
    return value


def _print_item(out: Console, number: int, item: dict[str, Any]) -> None:
    """Print one hit."""
    marked = item.get("_highlight")
    if not isinstance(marked, dict):  # none were asked for: a field of the item itself
        marked = {}
    marked = {name: _unescaped(value) for name, value in marked.items()}
    fields = {name: value for name, value in item.items() if not name.startswith("_")}
    title = _title_of(fields)
    heading = Text(f"\n{number:>3}  ")
    heading.append_text(_text(marked.get(title, fields.get(title, "")), "bold"))
    if "id" in fields and title != "id":
        heading.append(f"  id {fields['id']}", "dim")
    out.print(heading)
    short, long = Text(), []
    num_short = 0
    for name, value in fields.items():
        shown = _one_line(value)
        if name in ("id", title) or not shown:
            continue
        if len(shown) > _SHORT_CHARS or name in marked:
            long.append(name)
        elif num_short < _SHORT_FIELDS:
            short.append(" · " if num_short else "     ")
            short.append(f"{name} ", "dim").append(shown)
            num_short += 1
    if num_short:
        out.print(short)
    # A field that matched tells more than one that is merely long.
    found = [name for name in long if name in marked]
    for name in found or long[:1]:
        line = Text("     ").append(f"{name} ", "dim")
        line.append_text(_text(marked.get(name, fields[name]), "", _LONG_CHARS))
        out.print(line)


def _unescaped(value: Any) -> Any:
    """Return what is highlighted as text: the service escapes it as HTML."""
    if isinstance(value, str):
        return html.unescape(value)
    if isinstance(value, list):
        return [_unescaped(one) for one in value]
    if isinstance(value, dict):
        return {name: _unescaped(inner) for name, inner in value.items()}
    return value


def _title_of(fields: dict[str, Any]) -> str:
    """Return the field that most likely names an item."""
    by_lower = {name.lower(): name for name in fields}
    for name in TITLES:
        if name in by_lower:
            return by_lower[name]
    texts = (name for name, value in fields.items() if isinstance(value, str) and name != "id")
    return next(texts, "id")


def _one_line(value: Any) -> str:
    """Return a value of an item as one line."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, map(_one_line, value)))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_one_line(inner)}" for name, inner in value.items())
    return " ".join(str(value).split())


def _text(value: Any, style: str, chars_max: int = 200) -> Text:
    """Return a text with the matched words emphasized."""
    before, after = HIGHLIGHT_MARKS
    line = _one_line(value)
    first = line.find(before)
    if first > chars_max // 2:  # make sure that the match is visible
        line = "…" + line[first - chars_max // 4 :]
    text = Text(style=style)
    is_found = False
    length = 0
    for char in line:
        if char in (before, after):
            is_found = char == before
            continue
        if length >= chars_max:
            text.append("…")
            break
        text.append(char, "bold yellow" if is_found else None)
        length += 1
    return text


def _print_facet(out: Console, facet: dict[str, Any]) -> None:
    """Print the values of a facet with bars, or the range of numbers that do not repeat."""
    buckets = [bucket for bucket in facet["buckets"] if bucket["doc_count"]]
    if not buckets:
        return
    most = max(bucket["doc_count"] for bucket in buckets)
    out.print(Text(f"\n{_one_line(facet['title'])}", "bold"))
    statistics = facet.get("facet_stats")
    if statistics and most == 1 and len(buckets) >= _SINGLE_VALUES:
        least, greatest = number_text(statistics["min"]), number_text(statistics["max"])
        out.print(Text(f"{least} to {greatest}"))
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(max_width=_SHORT_CHARS // 2, no_wrap=True)
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    for bucket in buckets:
        length = max(1, round(BAR_COLUMNS * bucket["doc_count"] / most))
        style = "green" if bucket.get("selected") else "cyan"
        key = Text(_one_line(bucket["key"]))
        table.add_row(key, f"{bucket['doc_count']:,}", Text("█" * length, style))
    out.print(table)
