"""Each shape of data against Q2: variants, trees, places, groups, brushes, calendars, suggestions.

    python -m benchmarks.data_shapes
    python -m benchmarks.data_shapes --items 100000 --only "same + 4 facets,big page" --reuse
    python -m benchmarks.data_shapes --only "" --before ../facetd-of-last-month

First the plain corpus (`corpus`), which uses none of it: its size on disk, and Q2. `--before` loads
it with another checkout of facetd as well, to show the cost to a user who needs no shape. Then the
corpus with everything (`data_shapes_corpus`), every shape with `REQUESTS` different requests: once
after a start ("first", caches empty), then in a cycle with one client.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import corpus, data_shapes_corpus, processes, results, wrk
from benchmarks.corpus import FACETS, Shape
from benchmarks.data_shapes_corpus import PLAIN_FACETS, VARIANT_FACETS
from benchmarks.http_client import JSON, HttpRequest
from benchmarks.peers.facetd import CONFIGURATION, INDEX, Facetd
from benchmarks.queries import make_queries

REQUESTS = 160
OTHER_INDEX = "other"
"""A second index for lists that are merged from two."""
OTHER_ITEMS_MAX = 100_000

BOOST = {"price": {"log": 0.3}}
FREQUENT = 40
"""Words of `Draw.frequent`."""

BOX_SHARE = 0.01
"""Share of the items in a box: 10,000 of a million."""

Body = dict[str, Any]


@cache
def _texts(shape: Shape, num_items: int) -> tuple[Sequence[str], Sequence[str]]:
    """Return the texts of searches, and texts whose last word is half typed."""
    queries = make_queries(shape, num_items, REQUESTS)
    return tuple(one.text for one in queries["Q2"]), tuple(one.text for one in queries["Q8"])


class Draw:
    """Draws the parameters of requests, the same ones in every run."""

    def __init__(self, shape: Shape, num_items: int) -> None:
        self._rng = np.random.default_rng([shape.seed, 5])
        self._shape = shape
        self.texts, self.half_typed = _texts(shape, num_items)
        self.frequent = corpus.words(shape)[:FREQUENT]

    def variant(self) -> Body:
        """Return a size and a colour that one variant must have."""
        size, color = self._number(VARIANT_FACETS["size"]), self._number(VARIANT_FACETS["color"])
        return {"variants": {"same": {"size": [f"size{size}"], "color": [f"color{color:02d}"]}}}

    def box(self, share: float = BOX_SHARE) -> Body:
        """Return a box that holds a share of points strewn over all latitudes and longitudes."""
        height, width = 180 * share**0.5, 360 * share**0.5
        bottom = float(self._rng.uniform(-90, 90 - height))
        left = float(self._rng.uniform(-180, 180 - width))
        return {
            "box": {
                "top_right": {"lat": round(bottom + height, 4), "lng": round(left + width, 4)},
                "bottom_left": {"lat": round(bottom, 4), "lng": round(left, 4)},
            }
        }

    def point(self) -> tuple[float, float]:
        """Return a latitude and a longitude."""
        lat, lng = self._rng.uniform(-60, 60), self._rng.uniform(-180, 180)
        return round(float(lat), 4), round(float(lng), 4)

    def some(self, facet: str, count: int) -> list[str]:
        """Return different values of a facet."""
        if facet in PLAIN_FACETS:
            picked = self._rng.choice(PLAIN_FACETS[facet], count, replace=False)
            return [f"{facet}{number:03d}" for number in picked.tolist()]
        values = self._shape.values(facet)
        picked = self._rng.choice(min(30, len(values)), count, replace=False)
        return [values[number] for number in picked.tolist()]

    def branch(self) -> str:
        """Return a node of the tree, at its second level."""
        a, b = self._number(data_shapes_corpus.TREE[0]), self._number(data_shapes_corpus.TREE[1])
        return f"a{a:02d}{data_shapes_corpus.SEPARATOR}b{b}"

    def _number(self, count: int) -> int:
        return int(self._rng.integers(count))


def _q2(draw: Draw, i: int) -> Body:
    return {"query": draw.texts[i], "typo": 0, "prefix": "none", "facet_fields": FACETS}


def _same(draw: Draw, _: int) -> Body:
    facets = [f"variants.{name}" for name in VARIANT_FACETS]
    return {"filters": draw.variant(), "facet_fields": facets}


def _same_in_category(draw: Draw, _: int) -> Body:
    facets = [f"variants.{name}" for name in VARIANT_FACETS]
    filters = {**draw.variant(), "category": draw.some("category", 1)}
    return {"filters": filters, "facet_fields": facets}


def _cheapest(draw: Draw, _: int) -> Body:
    return {"filters": draw.variant(), "sort": ["variants.price:asc"], "facet_fields": []}


def _tree(draw: Draw, _: int) -> Body:
    return {"filters": {"path": [draw.branch(), draw.branch()]}, "trees": ["path"],
            "facet_fields": FACETS}  # fmt: skip


def _box(draw: Draw, _: int) -> Body:
    return {"filters": {"_geo": draw.box()}, "facet_fields": []}


def _radius(draw: Draw, _: int) -> Body:
    lat, lng = draw.point()
    radius = {"lat": lat, "lng": lng, "metres": 1_000_000}
    return {"filters": {"_geo": {"radius": radius}}, "facet_fields": []}


def _nearest(draw: Draw, _: int) -> Body:
    lat, lng = draw.point()
    return {"sort": [f"_geo({lat},{lng}):asc"], "facet_fields": []}


def _map(draw: Draw, _: int) -> Body:
    corners = draw.box(0.25)["box"]
    shown = ",".join([f"[{one['lat']},{one['lng']}]" for one in corners.values()])
    return {"filter": f"_geoBoundingBox({shown})", "facet_ranges": {"_geo": {"grid": 6}},
            "facet_fields": []}  # fmt: skip


def _groups(draw: Draw, i: int) -> Body:
    return {**_q2(draw, i), "distinct": {"field": "brand", "limit": 1, "sizes": True}}


def _cube(draw: Draw, i: int) -> Body:
    return {**_q2(draw, i), "facet_cube": {"field": "rating", "interval": 0.1},
            "facet_ranges": {"year": {"interval": 1}}}  # fmt: skip


def _cube_of_all(_: Draw, __: int) -> Body:
    return {"facet_fields": FACETS, "facet_cube": {"field": "rating", "interval": 0.1},
            "facet_ranges": {"year": {"interval": 1}}}  # fmt: skip


def _missing(draw: Draw, i: int) -> Body:
    ranges = [{"to": 20}, {"from": 20, "to": 50}, {"from": 50}]
    return {**_q2(draw, i), "facets": {name: {"missing": True} for name in FACETS},
            "facet_ranges": {"discount": {"ranges": ranges, "missing": True}}}  # fmt: skip


def _calendar(draw: Draw, i: int) -> Body:
    return {**_q2(draw, i), "facet_ranges": {"made": {"calendar": "week"}}}


def _percentiles(draw: Draw, i: int) -> Body:
    options = {"size": 10, "percentiles": [5, 50, 95], "cardinality": True}
    return {**_q2(draw, i), "facet_fields": ["year"], "facets": {"year": options}}


def _values(draw: Draw, i: int) -> Body:
    return {**_q2(draw, i), "facets": {"category": {"stats": ["price"]}}}


def _merged(draw: Draw, i: int) -> Body:
    query = {**_q2(draw, i), "facet_fields": ["brand", "category"]}
    searches = [{"index": INDEX, **query}, {"index": OTHER_INDEX, **query, "weight": 2}]
    return {"searches": searches, "merge": {"per_page": 10}}


def _big_page(draw: Draw, _: int) -> Body:
    chosen = {name: draw.some(name, 3) for name in ("category", "country", "material")}
    eight = [name for name in (*FACETS, *PLAIN_FACETS) if name != "tags"]
    prices = [{"to": 10}, {"from": 10, "to": 50}, {"from": 50}]
    return {
        "filters": {**chosen, "_geo": draw.box()},
        "facet_fields": eight,
        "trees": ["path"],
        "facet_ranges": {"price": prices, "rating": {"interval": 1}, "year": {"interval": 5}},
    }


def _open_page(draw: Draw, _: int) -> Body:
    page = _big_page(draw, 0)
    return {**page, "filters": {"_geo": page["filters"]["_geo"]}}


def _excluding(draw: Draw, i: int) -> Body:
    words = draw.frequent
    text = f"{words[i % len(words)]} -{words[(7 * i + 3) % len(words)]}"
    return {"query": text, "typo": 0, "prefix": "none", "facet_fields": []}


def _boosted(draw: Draw, i: int) -> Body:
    return {**_q2(draw, i), "boost": BOOST}


def _boosted_all(draw: Draw, i: int) -> Body:
    return {"boost": BOOST, "page": 1 + i, "facet_fields": FACETS}


def _suggest(draw: Draw, i: int) -> Body:
    return {"query": draw.half_typed[i]}


SHAPES: Mapping[str, Callable[[Draw, int], Body]] = {
    "Q2": _q2,
    "same + 4 facets": _same,
    "same + category + 4 facets": _same_in_category,
    "same by the cheapest": _cheapest,
    "2 branches of a tree + 4 facets": _tree,
    "geo box 1 %": _box,
    "geo radius 1000 km": _radius,
    "nearest of all": _nearest,
    "map: box of 25 % + grid": _map,
    "Q2 + distinct with group sizes": _groups,
    "Q2 + cube": _cube,
    "cube of all items": _cube_of_all,
    "Q2 + missing": _missing,
    "Q2 + weeks": _calendar,
    "text + percentiles": _percentiles,
    "Q2 + price by category": _values,
    "merged list of 2 indexes": _merged,
    "frequent word without another": _excluding,
    "Q2 + boost": _boosted,
    "all items by boost + 4 facets": _boosted_all,
    "big page with nothing chosen": _open_page,
    "big page": _big_page,
    "suggest": _suggest,
}
"""Requests by shape. "Big page": a geo box of 1 %, 8 disjunctive facets, three of them with three
values chosen, a tree and three ranges."""


ROUTES = {"merged list of 2 indexes": "/_search", "suggest": f"/{INDEX}/suggest"}


def requests(name: str, shape: Shape, num_items: int) -> list[HttpRequest]:
    """Return the requests of a shape, those that differ."""
    draw = Draw(shape, num_items)
    route = ROUTES.get(name, f"/{INDEX}/search")
    bodies = [json.dumps(SHAPES[name](draw, i)) for i in range(REQUESTS)]
    return [HttpRequest(route, "POST", JSON, body) for body in dict.fromkeys(bodies)]


def load(service: Facetd, folder: Path, file: Path, configuration: Mapping[str, Any]) -> float:
    """Load a file into an empty service; return the seconds, when all has settled."""
    service.folder = folder
    service.empty_folder()
    service.start_service()
    service.configure(configuration)
    started = time.monotonic()
    service.load_file(file)
    seconds = time.monotonic() - started
    processes.wait_for_rest(service.pids())
    return seconds


def measure(service: Facetd, asked: Sequence[HttpRequest], seconds: float) -> list[float]:
    """Return, in milliseconds, the mean of first answers, median, p99 and processor time."""
    first = []
    for one in asked:
        started = time.perf_counter()
        service.client.send(one)
        first.append(1_000 * (time.perf_counter() - started))
    file = wrk.write_requests(service.home / "requests" / "shapes.txt", asked)
    meter = processes.ProcessorMeter(service.pids())
    seen = wrk.run(service.port, file, connections=1, seconds=seconds)
    if seen.num_errors:
        raise RuntimeError(f"{seen.num_errors} of {seen.num_requests} requests failed")
    processor_ms = meter.us_per(seen.num_requests) / 1_000
    return [statistics.mean(first), seen.median_ms, seen.p99_ms, processor_ms]


def measure_plain(options: argparse.Namespace, shape: Shape) -> list[list[results.Cell]]:
    """Measure an index without any shape, here and with the other checkout."""
    file = corpus.write(corpus.path(shape, options.items), shape, options.items)
    rows: list[list[results.Cell]] = []
    asked = requests("Q2", shape, options.items)
    for label, checkout in (("this", None), ("before", options.before)):
        if label == "before" and checkout is None:
            continue
        service = Facetd(options.items, num_shards=options.shards, checkout=checkout)
        try:
            folder = service.home / "data" / f"plain-{label}"
            seconds = load(service, folder, file, CONFIGURATION)
            size = processes.settled_disk_bytes(service.folder)
            costs = measure(service, asked, options.seconds)
            rows.append([label, options.items / seconds, size / options.items, *costs[1:]])
        finally:
            service.close()
            service.empty_folder()
    return rows


def measure_shapes(options: argparse.Namespace, shape: Shape) -> list[list[results.Cell]]:
    """Measure every shape, and Q2 before and after them."""
    service = Facetd(options.items, num_shards=options.shards)
    folder = service.home / "data" / f"shapes-{options.items}-{options.shards}"
    try:
        if not (options.reuse and folder.exists()):
            file = data_shapes_corpus.write(shape, options.items)
            load(service, folder, file, data_shapes_corpus.CONFIGURATION)
            fewer = data_shapes_corpus.write(shape, min(options.items, OTHER_ITEMS_MAX))
            service.configure(data_shapes_corpus.CONFIGURATION, OTHER_INDEX)
            service.load_file(fewer, OTHER_INDEX)
            processes.wait_for_rest(service.pids())
            service.close()
        service.folder = folder
        service.start_service()
        q2 = requests("Q2", shape, options.items)
        measure(service, q2, 1)
        before = measure(service, q2, options.seconds)
        chosen = SHAPES if options.only is None else options.only.split(",")
        rows = [
            (name, measure(service, requests(name, shape, options.items), options.seconds))
            for name in chosen
            if name not in ("Q2", "")
        ]
        after = measure(service, q2, options.seconds)
    finally:
        service.close()
    beside = [statistics.mean(pair) for pair in zip(before, after, strict=True)]
    every = [("Q2", beside), *rows]
    return [[name, *costs, costs[1] / beside[1], costs[3] / beside[3]] for name, costs in every]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="benchmarks.data_shapes")
    made.add_argument("--items", type=int, default=1_000_000)
    made.add_argument("--shards", type=int, default=2)
    made.add_argument("--seconds", type=float, default=3.0, help="of load for each shape")
    made.add_argument("--only", help="names of shapes, separated by commas")
    made.add_argument("--reuse", action="store_true", help="what an earlier run has loaded")
    made.add_argument("--skip-plain", action="store_true", help="no index without shapes")
    made.add_argument("--before", type=Path, help="another checkout of facetd, with its .venv")
    return made


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    options = parser().parse_args(arguments)
    machine = processes.machine()
    shape = Shape()
    sys.stdout.write(f"{results.describe(machine)}; {options.items:,} items\n")
    plain: list[list[results.Cell]] = []
    if not options.skip_plain:
        plain = measure_plain(options, shape)
        head = ["no shapes", "items/s", "bytes an item", "Q2 median, ms", "p99", "processor"]
        sys.stdout.write(f"\n{results.table(head, plain)}\n")
        sys.stdout.flush()
    rows = measure_shapes(options, shape)
    head = ["shape", "first, ms", "median, ms", "p99", "processor", "÷ Q2", "processor ÷ Q2"]
    sys.stdout.write(f"\n{results.table(head, rows)}\n")
    raw = {"machine": machine, "options": {k: str(v) for k, v in vars(options).items()}}
    return results.save("data_shapes", {**raw, "plain": plain, "shapes": rows})


if __name__ == "__main__":
    try:
        main()
    except wrk.MissingTool as missing_tool:
        sys.exit(str(missing_tool))
