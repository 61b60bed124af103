"""How costs grow: with items, facet values, query words, shards and page depth.

    python -m benchmarks.scale --only items --items 10000,100000,1000000
    python -m benchmarks.scale --only values,words,shards,pages --fixed 100000

Medians with one client; with --processor the processor time of all processes for each request,
which other work on the machine hardly moves. Each row ends with the exponent b of the best fit
cost = a * size ** b: 0 is constant, 1 linear. Where the fixed cost of a request dominates, small
sizes pull b towards 0, so "b, work" fits the cost above the floor of the same run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import corpus, floor, processes, results, wrk
from benchmarks.corpus import Shape, words
from benchmarks.peers.facetd import CONFIGURATION, Facetd
from benchmarks.queries import CLASSES, Query, make_queries

FREQUENT = 50
"""Words of so low a rank are in many items."""

Table = dict[str, dict[int, float]]
"""Row to size to cost."""


class Bench:
    """Runs facetd on corpora of many shapes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.fixed: int = options.fixed
        self.unit = "processor ms" if options.processor else "ms"
        self.floor_ms = self._cost(floor.measure("fan-out", options.shards, options.seconds)[0])

    def _cost(self, load: wrk.Load) -> float:
        return load.processor_us / 1_000 if self.options.processor else load.median_ms

    @contextmanager
    def serving(
        self, label: str, num_items: int, *, shape: Shape | None = None, num_shards: int = 0
    ) -> Iterator[tuple[Facetd, dict[str, float]]]:
        """Load a corpus and serve it; also yields what loading took."""
        shape = shape or Shape()
        service = Facetd(num_items, num_shards=num_shards or self.options.shards)
        service.folder = service.home / "data" / f"scale-{label}"
        file = corpus.write(corpus.path(shape, num_items), shape, num_items)
        try:
            service.empty_folder()
            service.start_service()
            service.configure(CONFIGURATION)
            seconds = _seconds(lambda: service.load_file(file))
            processes.wait_for_rest(service.pids())
            yield service, {"load, µs an item": seconds / num_items * 1e6}
        finally:
            service.close()
            service.empty_folder()

    def cost_ms(self, service: Facetd, queries: Sequence[Query]) -> float:
        """Measure queries with one client."""
        service.measure("scale", queries, clients=1, seconds=1)
        meter = processes.ProcessorMeter(service.pids())
        load = service.measure("scale", queries, clients=1, seconds=self.options.seconds)
        return self._cost(load._replace(processor_us=meter.us_per(load.num_requests)))


def _seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _add(table: Table, size: int, costs: Mapping[str, float]) -> None:
    for row, cost in costs.items():
        table.setdefault(row, {})[size] = cost


def by_items(bench: Bench) -> Table:
    """Measure every class over the number of items."""
    table: Table = {}
    for num_items in bench.options.items:
        with bench.serving("items", num_items) as (service, costs):
            for class_name, queries in make_queries(Shape(), num_items).items():
                row = f"{class_name} {CLASSES[class_name]}, ms"
                costs[row] = bench.cost_ms(service, queries)
            json_bytes = corpus.path(Shape(), num_items).stat().st_size
            costs["PSS ÷ JSON"] = processes.memory(service.pids()).total / json_bytes
            _add(table, num_items, costs)
    return table


def by_values(bench: Bench) -> Table:
    """Measure counting over the number of distinct tags that the items really have."""
    table: Table = {}
    for num_tags in bench.options.values:
        shape = Shape(num_tags=num_tags)
        distinct = np.unique(
            np.concatenate([items.tags for items in corpus.generate(shape, bench.fixed)])
        )
        with bench.serving("values", bench.fixed, shape=shape) as (service, costs):
            texts = [query.text for query in make_queries(shape, bench.fixed)["Q1"]]
            counted = [Query(text=text, facets=("tags",)) for text in texts]
            costs["text + facet, ms"] = bench.cost_ms(service, counted)
            costs["all + facet, ms"] = bench.cost_ms(service, [Query(facets=("tags",))])
            _add(table, len(distinct), costs)
    return table


def by_words(bench: Bench) -> Table:
    """Measure full text over the number of words, all frequent ones."""
    table: Table = {}
    rng = np.random.default_rng(3)
    frequent = words(Shape())[:FREQUENT]
    with bench.serving("words", bench.fixed) as (service, _):
        for num_words in bench.options.words:
            picked = [rng.choice(FREQUENT, num_words, replace=False) for _ in range(100)]
            texts = [" ".join(frequent[i] for i in some.tolist()) for some in picked]
            costs = {"all words, ms": bench.cost_ms(service, [Query(text=t) for t in texts])}
            _add(table, num_words, costs)
    return table


def by_shards(bench: Bench) -> Table:
    """Measure every class over the number of shards."""
    table: Table = {}
    for num_shards in bench.options.shard_counts:
        with bench.serving("shards", bench.fixed, num_shards=num_shards) as (service, costs):
            for class_name, queries in make_queries(Shape(), bench.fixed).items():
                row = f"{class_name} {CLASSES[class_name]}, ms"
                costs[row] = bench.cost_ms(service, queries)
            costs["PSS, MB"] = processes.memory(service.pids()).total / 1e6
            _add(table, num_shards, costs)
    return table


def by_pages(bench: Bench) -> Table:
    """Measure one-word searches over the number of the page."""
    table: Table = {}
    with bench.serving("pages", bench.fixed) as (service, _):
        for page in bench.options.pages:
            queries = [Query(text=word, page=page) for word in words(Shape())[:10]]
            sorted_ones = [Query(sort="price", page=page)]
            costs = {
                "by relevance, ms": bench.cost_ms(service, queries),
                "all, by price, ms": bench.cost_ms(service, sorted_ones),
            }
            _add(table, page, costs)
    return table


DIMENSIONS: Mapping[str, Callable[[Bench], Table]] = {
    "items": by_items,
    "values": by_values,
    "words": by_words,
    "shards": by_shards,
    "pages": by_pages,
}


def render(name: str, table: Table, floor_ms: float) -> str:
    """Return the table of one dimension with the fitted exponents."""
    sizes = sorted({size for costs in table.values() for size in costs})
    rows: list[list[results.Cell]] = []
    for row, costs in table.items():
        known = [size for size in sizes if size in costs]
        exponent = results.growth(known, [costs[size] for size in known])
        work = [max(costs[size] - floor_ms, 0.01) for size in known]
        left = f"{results.growth(known, work):.2f}" if row.endswith(", ms") else "-"
        rows.append([row, *(costs.get(size) for size in sizes), f"{exponent:.2f}", left])
    head = [f"over {name}", *(f"{size:,}" for size in sizes), "b", "b, work"]
    return results.table(head, rows)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="benchmarks.scale")
    made.add_argument("--only", default=",".join(DIMENSIONS))
    made.add_argument("--items", type=_numbers, default=[10_000, 100_000, 1_000_000])
    made.add_argument("--values", type=_numbers, default=[100, 1_000, 10_000, 100_000, 1_000_000])
    made.add_argument("--words", type=_numbers, default=[1, 2, 4, 8])
    made.add_argument("--shard-counts", type=_numbers, default=[1, 2, 4, 8])
    made.add_argument("--pages", type=_numbers, default=[1, 10, 100, 1_000])
    made.add_argument("--fixed", type=int, default=100_000, help="items where they do not vary")
    made.add_argument("--shards", type=int, default=2, help="where they do not vary")
    made.add_argument("--seconds", type=float, default=2.0)
    made.add_argument("--processor", action="store_true", help="processor time, not latency")
    return made


def main(arguments: Sequence[str] | None = None) -> Path:
    """Measure, print, save."""
    options = parser().parse_args(arguments)
    machine = processes.machine()
    bench = Bench(options)
    sys.stdout.write(f"{results.describe(machine)}; floor {bench.floor_ms:.3f} {bench.unit}\n")
    tables: dict[str, Any] = {}
    for name in options.only.split(","):
        table = tables[name] = DIMENSIONS[name](bench)
        sys.stdout.write(f"\n{render(name, table, bench.floor_ms)}\n")
        sys.stdout.flush()
    raw = {"machine": machine, "options": vars(options), "floor_ms": bench.floor_ms}
    return results.save("scale", {**raw, "tables": tables})


if __name__ == "__main__":
    try:
        main()
    except wrk.MissingTool as missing_tool:
        sys.exit(str(missing_tool))
