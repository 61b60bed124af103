"""Search as you type: do titles that were shown stay, and do whole names come first?

    python -m benchmarks.search_as_you_type_relevance              starts facetd on an empty folder
    python -m benchmarks.search_as_you_type_relevance --port 3000  uses the one that runs there

Reads the sets from `../shared/data` beside the checkout (or --data), an index each, configured with
the language and the fields only.

Typing: titles drawn with a seed are typed letter by letter, like an interface that searches at
every keystroke. A title has vanished if it was among the first ten at the previous keystroke, in
the same word, and no longer is. Names: whole names are typed, of packages drawn with a seed and of
the cities with the most people; an item of that name should be first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.relevance import (
    SEED,
    NoData,
    Searcher,
    begin,
    parser_of_sets,
    read_items,
    save,
    serving,
)

SHOWN = 10
LETTERS_MIN = 2
"""Interfaces search from the second letter on."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """One set: the field that is typed, and the names that should come first."""

    name: str
    title: str
    fields: tuple[str, ...]
    num_names: int = 0
    """So many names are typed whole."""
    order: str = ""
    """Number field whose greatest items give the names; else they are drawn."""


CATALOGUES = (
    Catalogue("wikipedia-movies", "title", ("title", "plot")),
    Catalogue("debian-packages", "name", ("name", "description"), num_names=200),
    Catalogue("geonames-cities", "name", ("name",), num_names=300, order="population"),
    Catalogue("bestbuy-products", "name", ("name", "description")),
)


def keystrokes(title: str) -> Iterator[tuple[str, bool]]:
    """Yield the typed text after each letter, and whether its word had letters before."""
    text = title.casefold()
    for end in range(LETTERS_MIN, len(text) + 1):
        typed = text[:end]
        if not typed[-1].isspace():
            yield typed, end > LETTERS_MIN and not typed[-2].isspace()


def type_titles(
    searcher: Searcher, index: str, titles: Mapping[str, str], options: Mapping[str, Any]
) -> Counter[str]:
    """Type titles by id; count keystrokes, those that show the title, and those that lose it."""
    counts: Counter[str] = Counter()
    for number, title in titles.items():
        is_shown = False
        for typed, continues in keystrokes(title):
            found = searcher.rank(index, typed, options)
            counts["keystrokes"] += 1
            counts["vanished"] += is_shown and continues and number not in found
            is_shown = number in found
            counts["shown"] += is_shown
        counts["titles"] += 1
        counts["found"] += is_shown
    return counts


def type_names(
    searcher: Searcher,
    index: str,
    names: Sequence[str],
    titles: Mapping[str, str],
    options: Mapping[str, Any],
) -> int:
    """Type whole names; count those where an item of that name comes first."""
    found = 0
    for name in names:
        first = searcher.rank(index, name, options)[:1]
        found += any(titles[number].casefold() == name.casefold() for number in first)
    return found


def choose_names(catalogue: Catalogue, items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the greatest items, or of some that are drawn."""
    if not catalogue.order:
        return list(_draw(items, catalogue.title, catalogue.num_names, seed=1).values())
    ordered = sorted(items, key=lambda item: -(item.get(catalogue.order) or 0))
    names = dict.fromkeys(str(item[catalogue.title]) for item in ordered)
    return list(names)[: catalogue.num_names]


def _draw(
    items: Sequence[Mapping[str, Any]], title: str, count: int, *, seed: int
) -> dict[str, str]:
    rng = np.random.default_rng([SEED, seed])
    picked = rng.choice(len(items), min(count, len(items)), replace=False)
    return {str(items[i]["id"]): str(items[i][title]) for i in picked.tolist()}


def measure(
    searcher: Searcher, data: Path, catalogue: Catalogue, options: argparse.Namespace
) -> dict[str, int]:
    """Load a set and type."""
    raw = read_items(data / catalogue.name)
    items = [json.loads(line) for line in raw.splitlines()]
    items = [item for item in items if item.get(catalogue.title)]
    index = f"keystrokes-{catalogue.name}"
    configuration = {"searchable_fields": list(catalogue.fields), "language": "english"}
    configuration.update(json.loads(options.configuration))
    searcher.load(index, configuration, raw)
    asked = {
        "match": "all",
        "prefix": "last",
        "per_page": SHOWN,
        **json.loads(options.parameters),
    }
    drawn = _draw(items, catalogue.title, options.titles, seed=2)
    counts = type_titles(searcher, index, drawn, asked)
    if catalogue.num_names:
        names = choose_names(catalogue, items)
        titles = {str(item["id"]): str(item[catalogue.title]) for item in items}
        counts["names"] = len(names)
        counts["first"] = type_names(searcher, index, names, titles, asked)
    searcher.drop(index)
    return dict(counts)


def table(measured: Mapping[str, Mapping[str, int]]) -> str:
    """Return the table of all sets."""
    rows: list[list[results.Cell]] = []
    for name, counts in measured.items():
        share = counts["vanished"] / max(1, counts["keystrokes"])
        row: list[results.Cell] = [name, str(counts["titles"]), str(counts["keystrokes"])]
        row += [f"{share:.2%}", f"{counts['found'] / max(1, counts['titles']):.1%}"]
        whole = counts.get("names", 0)
        row.append(f"{counts['first'] / whole:.1%} of {whole}" if whole else "")
        rows.append(row)
    head = ["set", "titles", "keystrokes", "lose the title", "shown when whole", "names first"]
    return results.table(head, rows)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    sets = (one.name for one in CATALOGUES)
    made = parser_of_sets("benchmarks.search_as_you_type_relevance", sets)
    made.add_argument("--titles", type=int, default=150, help="that are typed, of each set")
    return made


def main(arguments: Sequence[str] | None = None) -> Path:
    """Type, print, save."""
    options = parser().parse_args(arguments)
    machine = begin(options)
    wanted = options.sets.split(",")
    with serving(options.port, options.shards) as searcher:
        measured = {
            catalogue.name: measure(searcher, options.data, catalogue, options)
            for catalogue in CATALOGUES
            if catalogue.name in wanted
        }
    sys.stdout.write(table(measured) + "\n")
    return save("search_as_you_type_relevance", machine, options, measured)


if __name__ == "__main__":
    try:
        main()
    except NoData as no_data:
        sys.exit(str(no_data))
