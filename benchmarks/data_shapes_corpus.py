"""The made-up shop (`corpus`) with everything that has a shape: variants, places, trees, dates.

    variants      5 objects: size 8, color 20, shop 500, fit 4 values, price 5-200
    _geo          a random point
    path          a leaf of a tree of 20 x 8 x 6 nodes, "a > b > c"
    made          a day of 2018-2025
    discount      5-70, in seven of ten items
    material 12  season 4  grade 6  origin 60  seller 1,000 values      one each

Block b depends on the seed and b only, so a smaller corpus is a prefix of a larger one. Without
these fields the items are those of `corpus`.

    python -m benchmarks.data_shapes_corpus 100000 > items.ndjson
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import corpus, processes
from benchmarks.corpus import BLOCK_ITEMS, Items, Shape

VARIANTS = 5
VARIANT_FACETS: Mapping[str, int] = {"size": 8, "color": 20, "shop": 500, "fit": 4}
"""Number of values of each facet of a variant."""
PLAIN_FACETS: Mapping[str, int] = {
    "material": 12,
    "season": 4,
    "grade": 6,
    "origin": 60,
    "seller": 1_000,
}
"""Number of values of each additional facet of an item."""
TREE = (20, 8, 6)
"""Branches at each level."""
SEPARATOR = " > "

_FIRST_DAY = datetime.date(2018, 1, 1)
_NUM_DAYS = 8 * 365

CONFIGURATION: Mapping[str, Any] = {
    "aggregations": {
        **{name: {"size": 10, "conjunction": name == "tags"} for name in corpus.FACETS},
        **{name: {"size": 10, "conjunction": False} for name in PLAIN_FACETS},
        **{f"variants.{name}": {"size": 10, "conjunction": False} for name in VARIANT_FACETS},
        "path": {"size": 10, "conjunction": False},
        "made": {"size": 10, "conjunction": False},
    },
    "searchable_fields": ["title", "description"],
    "nested": ["variants"],
    "suggestions": {"fields": ["title"], "facets": list(corpus.FACETS), "popularity": "price"},
    "hierarchies": {"path": {"path": "path", "separator": SEPARATOR}},
}


def lines(shape: Shape, items: Items) -> Iterator[str]:
    """Write items as JSON, one a line, without the line ends."""
    number = items.first_id // BLOCK_ITEMS
    rng = np.random.default_rng([shape.seed, 4, number])
    n = BLOCK_ITEMS
    kinds = {
        name: rng.integers(0, count, (n, VARIANTS)).tolist()
        for name, count in VARIANT_FACETS.items()
    }
    prices = rng.integers(5, 201, (n, VARIANTS)).tolist()
    lats = rng.uniform(-90, 90, n).round(6).tolist()
    lngs = rng.uniform(-180, 180, n).round(6).tolist()
    branches = [rng.integers(0, count, n).tolist() for count in TREE]
    days = rng.integers(0, _NUM_DAYS, n).tolist()
    discounts = rng.integers(5, 71, n).tolist()
    has_discount = (rng.random(n) < 0.7).tolist()
    plain = {name: rng.integers(0, count, n).tolist() for name, count in PLAIN_FACETS.items()}
    dates = [(_FIRST_DAY + datetime.timedelta(day)).isoformat() for day in range(_NUM_DAYS)]
    for i, line in enumerate(corpus.lines(shape, items)):
        variants = ",".join(
            [
                f'{{"size":"size{size}","color":"color{color:02d}","shop":"shop{shop:03d}",'
                f'"fit":"fit{fit}","price":{price}}}'
                for size, color, shop, fit, price in zip(
                    *(kinds[name][i] for name in VARIANT_FACETS), prices[i], strict=True
                )
            ]
        )
        a, b, c = (level[i] for level in branches)
        facets = ",".join([f'"{name}":"{name}{values[i]:03d}"' for name, values in plain.items()])
        discount = f',"discount":{discounts[i]}' if has_discount[i] else ""
        yield (
            f'{line[:-1]},{facets},"_geo":{{"lat":{lats[i]},"lng":{lngs[i]}}},'
            f'"path":"a{a:02d}{SEPARATOR}b{b}{SEPARATOR}c{c}","made":"{dates[days[i]]}"'
            f'{discount},"variants":[{variants}]}}'
        )


def write(shape: Shape, num_items: int) -> Path:
    """Write the corpus as newline-delimited JSON, unless the file is there already."""
    numbers = "-".join(str(number) for number in (*astuple(shape), num_items))
    path = processes.home() / "corpus" / f"shapes-{numbers}.ndjson"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        with part.open("w", encoding="ascii") as file:
            for items in corpus.generate(shape, num_items):
                file.writelines(line + "\n" for line in lines(shape, items))
        part.rename(path)
    return path


if __name__ == "__main__":
    for some_items in corpus.generate(Shape(), int(sys.argv[1])):
        sys.stdout.writelines(line + "\n" for line in lines(Shape(), some_items))
