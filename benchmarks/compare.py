"""facetd and its peers: same items, same queries, results checked.

    python -m benchmarks.compare --items 100000 --peers facetd,lucene,tantivy --rounds 3

Every peer loads the corpus and gets time to finish background work, then all take turns in rounds:
open, (first round) compare results with the brute-force truth, run Q1-Q16 with one client and with
sixteen, measure the processes' memory, close. The floor, the same HTTP stack without a search, is
measured in every round. Result caches are off; tables show medians over the rounds, and of memory
the most. Requests that fail are listed: they are in the medians. "facetd" has as many shards as by
default on this machine, "facetd:4" four; "facetd+cache" has its result cache on: its first requests
fill it, so it shows the cost of repeated searches. "lucene:2" searches with two threads a query, as
two shards do; "lucene+merged" has one segment. `--before CHECKOUT` takes another version of facetd
along, in turns with this one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import corpus, floor, processes, results, wrk
from benchmarks.corpus import Shape
from benchmarks.peers import PEERS, check_name, make
from benchmarks.peers.base import NotInstalled, Peer
from benchmarks.peers.facetd import Facetd
from benchmarks.queries import CLASSES, Query, make_queries
from benchmarks.truth import Truth, TruthTeller, TypoRule, differences
from coordinator.settings import SHARDS_DEFAULT

NUM_CLIENTS = 16
CHECKED_QUERIES = 60
CHECK_SECONDS = 20.0
RUN_SECONDS_MAX = 20.0
SLOW_MS = 1_000.0
"""Beyond this median, sixteen clients are not tried."""
ANSWER_SECONDS_MAX = 60.0
DISAGREES = " ≠"
BEFORE = "facetd before"
"""Name of the other version in tables."""


@dataclass(slots=True)
class Loaded:
    """Time and space of a load."""

    seconds: float
    items_per_second: float
    disk_bytes: int


@dataclass(slots=True)
class Round:
    """Results of one turn of one peer."""

    open_seconds: float
    memory: processes.Memory = field(default_factory=processes.Memory)
    one: dict[str, dict[str, float]] = field(default_factory=dict)
    many: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Result:
    """Everything about one peer."""

    title: str
    loads: list[Loaded] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    """Class to the first difference from the truth."""
    failure: str = ""


class Workload:
    """Items, queries and truth of one corpus size."""

    def __init__(self, num_items: int, seed: int, shape: Shape | None = None) -> None:
        self.shape = shape or Shape()
        self.num_items = num_items
        path = corpus.path(self.shape, num_items)
        self.file = corpus.write(path, self.shape, num_items)
        self.queries = make_queries(self.shape, num_items, seed=seed)
        self._teller: TruthTeller | None = None
        self._notes = path.with_name(f"{path.stem}-truth-{seed}.json")
        self._known: dict[str, Truth] = {}
        if self._notes.exists():
            notes = json.loads(self._notes.read_text())
            self._known = {key: Truth.from_json(truth) for key, truth in notes.items()}

    def truth(self, class_name: str, number: int, rule: TypoRule) -> Truth:
        """Return the correct result of a query, computed once and kept beside the corpus."""
        query = self.queries[class_name][number]
        key = f"{query} {rule if query.num_typos else ''}"
        if key not in self._known:
            self._teller = self._teller or TruthTeller(self.shape, self.num_items)
            self._known[key] = self._teller.answer(query, rule)
        return self._known[key]

    def forget_items(self) -> None:
        """Free the columns of the corpus and save the truths computed from them."""
        if self._teller is not None:
            notes = {key: asdict(truth) for key, truth in self._known.items()}
            self._notes.write_text(json.dumps(notes))
        self._teller = None


def check(peer: Peer, workload: Workload, count: int = CHECKED_QUERIES) -> dict[str, str]:
    """Compare results with the truth; returns the differences by class."""
    wrong: dict[str, str] = {}
    for class_name in peer.classes:
        found, asked, until = [], 0, time.monotonic() + CHECK_SECONDS
        for number, query in enumerate(workload.queries[class_name][:count]):
            truth = workload.truth(class_name, number, peer.typo_rule)
            found += differences(query, truth, peer.ask(query))[:1]
            asked += 1
            if time.monotonic() > until:
                break
        if found:
            wrong[class_name] = f"{len(found)} of {asked}: {found[0]}"
    return wrong


def load(peer: Peer, workload: Workload) -> Loaded:
    """Load the corpus into an empty peer."""
    try:
        seconds = peer.load(workload.file)
        processes.wait_for_rest(peer.pids())
    finally:
        peer.close()
    disk = processes.settled_disk_bytes(peer.folder)
    return Loaded(seconds, workload.num_items / seconds, 0 if peer.is_memory_only else disk)


def open_until_right(peer: Peer, workload: Workload) -> float:
    """Open a loaded peer; returns the seconds until the first correct response."""
    texts = [query.text for query in workload.queries["Q1"]]
    number = next(i for i, text in enumerate(texts) if " " not in text)  # every peer gets one word
    query = workload.queries["Q1"][number]
    truth = workload.truth("Q1", number, peer.typo_rule)
    started = time.monotonic()
    peer.open()
    while wrong := differences(query, truth, peer.ask(query)):
        if time.monotonic() - started > ANSWER_SECONDS_MAX + 10 * workload.num_items / 1e5:
            raise RuntimeError(f"no right answer after opening: {wrong[0]}")
        time.sleep(0.01)
    return time.monotonic() - started


def run_class(
    peer: Peer, class_name: str, queries: Sequence[Query], seconds: float
) -> tuple[wrk.Load, wrk.Load | None]:
    """Measure one class: warm, one client, sixteen clients."""

    def run(num_clients: int, for_seconds: float) -> wrk.Load:
        return peer.measure(class_name, queries, clients=num_clients, seconds=for_seconds)

    warm = run(1, peer.warm_seconds)
    meter = processes.ProcessorMeter(peer.pids())
    one = run(1, max(seconds, min(RUN_SECONDS_MAX, warm.median_ms / 100)))
    one = one._replace(processor_us=meter.us_per(one.num_requests))
    many = None
    if one.median_ms < SLOW_MS:
        many = run(NUM_CLIENTS, max(seconds, min(RUN_SECONDS_MAX, one.median_ms / 25)))
    if peer.client.port:
        peer.ask(Query(item_id=1))  # a queue that a slow class left must not spoil the next one
    return one, many


def take_turn(
    peer: Peer, workload: Workload, classes: Sequence[str], seconds: float, result: Result
) -> None:
    """Open, check results the first time, measure classes and memory, close."""
    try:
        turn = Round(open_seconds=open_until_right(peer, workload))
        if not result.rounds:
            result.wrong = check(peer, workload)
        for class_name in classes:
            if class_name not in peer.classes:
                continue
            one, many = run_class(peer, class_name, workload.queries[class_name], seconds)
            turn.one[class_name] = one._asdict()
            if many is not None:
                turn.many[class_name] = many._asdict()
            errors = one.num_errors + (many.num_errors if many else 0)
            _say(
                f"  {peer.name:10} {class_name:3} {one.median_ms:9.3f} ms {one.p99_ms:9.3f} ms p99"
                f" {many.per_second if many else 0:9.0f}/s" + f" {errors} errors" * bool(errors)
            )
        turn.memory = processes.memory(peer.pids())
        result.rounds.append(turn)
    finally:
        peer.close()


def measure_floors(num_shards: int, seconds: float) -> Round:
    """Measure the floors of one round."""
    turn = Round(open_seconds=0)
    for name, (kind, shards) in floor.kinds([num_shards]).items():
        one, many = floor.measure(kind, shards, seconds)
        turn.one[name], turn.many[name] = one._asdict(), many._asdict()
        _say(f"  floor      {name:9} {one.median_ms:.3f} ms  {many.per_second:.0f}/s")
    return turn


def _quotient(mine: results.Cell, other: results.Cell) -> float | None:
    """Return how many times another figure ours is; None if one of them is not a figure."""
    if isinstance(mine, int | float) and isinstance(other, int | float) and other:
        return mine / other
    return None


def _total(memory: processes.Memory) -> int:
    return memory.total


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


# --- the report


class Report:
    """Tables of one comparison."""

    def __init__(
        self, found: Mapping[str, Result], floors: Sequence[Round], num_shards: int, json_bytes: int
    ) -> None:
        self.found = {name: r for name, r in found.items() if r.rounds or r.loads}
        self.floors = floors
        self.num_shards = num_shards
        self.json_bytes = json_bytes
        self.classes = [c for c in CLASSES if any(c in t.one for t in self._turns())]

    def _turns(self) -> list[Round]:
        return [turn for result in self.found.values() for turn in result.rounds]

    def _floor(self, class_name: str, part: str, measure: str) -> float | None:
        name = "item" if class_name == "Q6" else f"fan-out {self.num_shards}"
        loads = [getattr(turn, part).get(name, {}) for turn in self.floors]
        return results.median(load.get(measure) for load in loads)

    def _cell(self, result: Result, class_name: str, part: str, measure: str) -> float | None:
        loads = [getattr(turn, part).get(class_name, {}) for turn in result.rounds]
        return results.median(load.get(measure) for load in loads)

    def _num_errors(self, result: Result, class_name: str) -> float:
        loads = [
            part.get(class_name, {}) for turn in result.rounds for part in (turn.one, turn.many)
        ]
        return sum(load.get("num_errors", 0) for load in loads)

    def resources(self) -> str:
        """Return the table of loading, opening, disk and memory."""
        rows: list[list[results.Cell]] = []
        for name, result in self.found.items():
            disk = results.median(load.disk_bytes for load in result.loads) or None
            memory = max((turn.memory for turn in result.rounds), key=_total, default=None)
            rows.append(
                [
                    name,
                    result.title,
                    results.median(load.items_per_second for load in result.loads),
                    disk and disk / 1e6,
                    disk and disk / self.json_bytes,
                    results.median(turn.open_seconds for turn in result.rounds),
                    memory and memory.own / 1e6,
                    memory and memory.files / 1e6,
                    memory and memory.total / self.json_bytes,
                ]
            )
        head = ["peer", "what", "items/s", "disk MB", "÷ JSON", "open s", "own MB", "files MB"]
        head.append("sum ÷ JSON")
        least = dict.fromkeys((3, 4, 5, 6, 8), "least")
        return results.table(head, rows, {2: "greatest", **least})

    def measure(self, part: str, measure: str, which: str) -> str:
        """Return the table of one measure over the classes, with multiples of floor and peers."""
        rows: list[list[results.Cell]] = []
        for name, result in self.found.items():
            row: list[results.Cell] = [name]
            for class_name in self.classes:
                cell = self._cell(result, class_name, part, measure)
                is_wrong = class_name in result.wrong and cell is not None
                row.append(results.show(cell) + DISAGREES if is_wrong else cell)
            rows.append(row)
        floors = [self._floor(c, part, measure) for c in self.classes]
        body = [["floor", *floors], *rows]
        if "facetd" in self.found:
            body += self._ratios(rows, floors, which)
        head = ["", *(f"{c} {CLASSES[c]}" for c in self.classes)]
        best = dict.fromkeys(range(1, len(head)), which)
        lines = results.table(head, rows, best).splitlines()
        plain = results.table(head, body).splitlines()
        return "\n".join([*lines[:2], plain[2], *lines[2:], *plain[3 + len(rows) :]])

    def _ratios(
        self,
        rows: Sequence[Sequence[results.Cell]],
        floors: Sequence[float | None],
        which: str,
    ) -> list[list[results.Cell]]:
        own = next(row for row in rows if row[0] == "facetd")
        others = [row for row in rows if not str(row[0]).startswith("facetd")]
        to_floor: list[results.Cell] = ["facetd ÷ floor"]
        to_best: list[results.Cell] = ["facetd ÷ best peer"]
        for column, lowest in enumerate(floors, 1):
            mine = own[column]
            known = [c for row in others if isinstance(c := row[column], int | float)]
            best = (min(known) if which == "least" else max(known)) if known else None
            to_floor.append(_quotient(mine, lowest))
            to_best.append(_quotient(mine, best))
        ratios = [to_floor, to_best]
        former = next((row for row in rows if row[0] == BEFORE), None)
        if former is not None:
            pairs = zip(own[1:], former[1:], strict=True)
            ratios.append([f"facetd ÷ {BEFORE}", *(_quotient(mine, its) for mine, its in pairs)])
        return ratios

    def agreement(self) -> str:
        """Report which results differ from the truth, and requests that failed."""
        lines = [
            f"- {name} {class_name}: {difference}"
            for name, result in self.found.items()
            for class_name, difference in result.wrong.items()
        ]
        lines += [f"- {n}: {r.failure}" for n, r in self.found.items() if r.failure]
        lines += [
            f"- {name} {class_name}: {num_errors:,.0f} requests failed"
            for name, result in self.found.items()
            for class_name in self.classes
            if (num_errors := self._num_errors(result, class_name))
        ]
        return "\n".join(lines) or "All totals, facet counts, values and sorted prices are right."

    def spread(self) -> str:
        """Report the spread of the rounds' medians."""
        ratios = []
        for result in self.found.values():
            for class_name in self.classes:
                medians = [
                    turn.one[class_name]["median_ms"]
                    for turn in result.rounds
                    if class_name in turn.one
                ]
                if len(medians) > 1 and min(medians) > 0:
                    ratios.append(max(medians) / min(medians))
        if not ratios:
            return "One round only."
        return f"Rounds differ by x{statistics.median(ratios):.2f}, at worst x{max(ratios):.2f}."

    def text(self, title: str) -> str:
        """Return the whole report as Markdown."""
        return "\n\n".join(
            [
                title,
                self.resources(),
                "Median with one client, ms (≠: answers are not all right):",
                self.measure("one", "median_ms", "least"),
                "p99 with one client, ms:",
                self.measure("one", "p99_ms", "least"),
                f"Requests a second with {NUM_CLIENTS} clients:",
                self.measure("many", "per_second", "greatest"),
                "Processor time of the server for each request, one client, µs:",
                self.measure("one", "processor_us", "least"),
                self.agreement(),
                self.spread(),
            ]
        )


def compare(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Run the whole comparison; returns the report and the raw numbers."""
    machine = processes.machine()
    shape = Shape() if options.corpus_seed is None else Shape(seed=options.corpus_seed)
    workload = Workload(options.items, options.seed, shape)
    classes = options.classes.split(",") if options.classes else list(CLASSES)
    found: dict[str, Result] = {}
    peers: dict[str, Peer] = {}
    for name in options.peers.split(","):
        peer = make(name, options.items)
        if options.corpus_seed is not None:
            peer.folder = peer.folder.with_name(f"{peer.folder.name}-seed-{options.corpus_seed}")
        try:
            peer.check_installed()
        except NotInstalled as missing:
            _say(f"left out: {missing}")
            continue
        peers[name], found[name] = peer, Result(peer.description)
    num_shards = getattr(peers.get("facetd"), "num_shards", SHARDS_DEFAULT)
    if options.before is not None:
        peer = Facetd(options.items, num_shards=num_shards, checkout=options.before)
        peer.folder = peer.folder.with_name(f"{peer.folder.name}-before")
        peers[BEFORE], found[BEFORE] = peer, Result(f"facetd of {options.before}")
    for load_round in range(options.load_rounds):
        for name, peer in peers.items():
            loaded = _load_or_reuse(peer, workload, reuses=options.reuse and load_round == 0)
            found[name].loads.append(loaded)
            _say(f"  {name:10} loads {loaded.items_per_second:,.0f} items/s")
    floors: list[Round] = []
    for number in range(options.rounds):
        _say(f"round {number + 1} of {options.rounds}")
        floors.append(measure_floors(num_shards, options.seconds))
        # What is measured first is some percent slower: every other round goes the other way.
        for name, peer in peers.items() if number % 2 == 0 else reversed(peers.items()):
            if found[name].failure:
                continue
            try:
                take_turn(peer, workload, classes, options.seconds, found[name])
            except (OSError, RuntimeError, ValueError, KeyError) as error:
                found[name].failure = f"failed: {error}"
                _say(f"  {name} failed: {error}")
        workload.forget_items()
    report = Report(found, floors, num_shards, workload.file.stat().st_size)
    title = f"{options.items:,} items; {results.describe(machine)}"
    raw = {
        "machine": machine,
        "options": {name: str(value) for name, value in vars(options).items()},
        "floors": [asdict(turn) for turn in floors],
        "peers": {name: asdict(result) for name, result in found.items()},
    }
    return report.text(title), raw


def _load_or_reuse(peer: Peer, workload: Workload, *, reuses: bool) -> Loaded:
    """Load a peer, unless the load of an earlier run is to be reused."""
    note = peer.folder.with_suffix(".json")
    if reuses and note.exists() and peer.folder.exists():
        return Loaded(**json.loads(note.read_text()))
    loaded = load(peer, workload)
    note.write_text(json.dumps(asdict(loaded)))
    return loaded


def _peers(text: str) -> str:
    for name in text.split(","):
        try:
            check_name(name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return text


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="benchmarks.compare", description=__doc__)
    made.add_argument("--items", type=int, default=100_000)
    made.add_argument(
        "--peers", type=_peers, default=",".join(PEERS), help="comma list (default: all)"
    )
    made.add_argument("--classes", default="", help="comma list of Q1…Q16 (default: all)")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--load-rounds", type=int, default=1)
    made.add_argument("--seconds", type=float, default=3.0, help="of each run of wrk")
    made.add_argument("--seed", type=int, default=7, help="of the queries")
    made.add_argument("--corpus-seed", type=int, help="of other items than the usual ones")
    made.add_argument("--before", type=Path, help="another checkout of facetd, with its .venv")
    made.add_argument("--reuse", action="store_true", help="take what an earlier run has loaded")
    return made


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compare, print, save."""
    text, raw = compare(parser().parse_args(arguments))
    sys.stdout.write(text + "\n")
    return results.save("compare", raw)


if __name__ == "__main__":
    try:
        main()
    except wrk.MissingTool as missing_tool:
        sys.exit(str(missing_tool))
