"""The query game: counts and best hits in process, one thread, beside Lucene, tantivy and PISA.

    python -m benchmarks.game --items 1000000 --rounds 3
    python -m benchmarks.game --items 1000000 --reuse --queries FILE --peers facetd,lucene

The commands are those of tantivy's search-benchmark-game: COUNT, TOP_10 (an engine may skip what
cannot be among the best), TOP_10_COUNT and TOP_100_COUNT (the exact number of hits as well). The
queries are terms, intersections (`+a +b`), unions (`a b`) and phrases (`"a b"`), drawn with a seed
or read from a file in that notation, one a line or `number TAB query`. The words of a file are
those of another language: its i-th most frequent word stands for the i-th most frequent of the
corpus. Queries that mix forms are left out.

Every engine indexes one text an item (title and description) and plays in a process of its own
(`peers/servers/game_player.py`), taking turns with the others command by command. What is measured
is the processor time of its thread, from the prepared query to counts and scores; stored items are
not read. The first turns only warm. Counts are compared with brute force, scores with BM25 computed
without an index.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import corpus, processes, results
from benchmarks.corpus import Items, Shape, block, generate, words
from benchmarks.peers.base import SERVERS, NotInstalled, require_packages
from benchmarks.peers.facetd import Facetd
from benchmarks.peers.lucene import INDEXING_HEAP, Lucene
from benchmarks.peers.servers.game_player import COMMANDS, GameQuery, Played
from benchmarks.processes import Running
from common.scoring import inverse_doc_freq

KINDS = ("term", "intersection", "union", "phrase")
PLAYER = "benchmarks.peers.servers.game_player"
SERVING_HEAP = "512m"
WARM_TURNS = 3
"""Turns before the first one that counts; the Java machine compiles meanwhile."""
K1, B = 1.2, 0.75
SCORED_QUERIES = 60
SCORE_TOLERANCE = 0.08
"""Engines round the lengths of texts, each in its own way."""
RANKS_MAX = 2_000
"""Drawn words are as frequent as this rank at least."""
NUM_WORDS = (2, 3, 4, 5)
SHARES = (0.66, 0.27, 0.05, 0.02)


# --- queries


def draw_queries(shape: Shape, count: int, seed: int) -> list[GameQuery]:
    """Draw terms and, of each set of words, an intersection and a union; phrases from items."""
    rng = np.random.default_rng([shape.seed, 4, seed])
    vocabulary = words(shape)
    some = block(shape, 0)
    queries = []
    for _ in range(count):
        size = int(rng.choice(NUM_WORDS, p=SHARES))
        drawn: list[str] = []
        while len(drawn) < size:
            rank = int(math.exp(rng.uniform(0, math.log(min(RANKS_MAX, len(vocabulary)))))) - 1
            if vocabulary[rank] not in drawn:
                drawn.append(vocabulary[rank])
        queries += [GameQuery(kind, tuple(drawn)) for kind in ("intersection", "union")]
        queries.append(GameQuery("term", tuple(drawn[:1])))
        queries.append(GameQuery("phrase", _phrase_of(rng, some, vocabulary, size)))
    return list(dict.fromkeys(queries))


def _phrase_of(
    rng: np.random.Generator, items: Items, vocabulary: Sequence[str], size: int
) -> tuple[str, ...]:
    """Return neighbouring words of a description."""
    item = int(rng.integers(1, len(items)))
    start, end = items.description_ends[item - 1 : item + 1].tolist()
    first = int(rng.integers(start, end - size + 1))
    return tuple(vocabulary[number] for number in items.description[first : first + size].tolist())


def read_queries(path: Path, shape: Shape) -> tuple[list[GameQuery], int]:
    """Read a file of queries, words mapped by rank; returns how many are of other forms, too."""
    lines = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line.strip()]
    texts = [row[1] if len(row) > 1 else row[0] for row in lines]
    parsed = [_parse(text.lower()) for text in texts]
    known = [one for one in parsed if one is not None]
    freqs = Counter(word for one in known for word in one.words)
    vocabulary = words(shape)
    stands_for = {word: vocabulary[i] for i, (word, _) in enumerate(freqs.most_common())}
    queries = [GameQuery(one.kind, tuple(stands_for[word] for word in one.words)) for one in known]
    return list(dict.fromkeys(queries)), len(parsed) - len(known)


def _parse(text: str) -> GameQuery | None:
    """Return a query of one form, None for one that mixes them."""
    if text.startswith('"') and text.endswith('"') and text.count('"') == 2:
        parts = text.strip('"').split()
        return GameQuery("phrase" if len(parts) > 1 else "term", tuple(parts))
    parts = text.split()
    if '"' in text or any(part.startswith("-") for part in parts):
        return None
    plain = tuple(dict.fromkeys(part.lstrip("+") for part in parts))
    if len(plain) == 1:
        return GameQuery("term", plain)
    marked = {part.startswith("+") for part in parts}
    if len(marked) > 1:
        return None
    return GameQuery("intersection" if marked == {True} else "union", plain)


# --- truth


Rarity = Callable[[int, int], float]
"""Weight of a word, given the documents that have it, and all."""


def _usual_rarity(doc_freq: int, num_docs: int) -> float:
    return math.log(1 + (num_docs - doc_freq + 0.5) / (doc_freq + 0.5))


def _rarity_in_pisa(doc_freq: int, num_docs: int) -> float:
    return max(1e-6, math.log((num_docs - doc_freq + 0.5) / (doc_freq + 0.5)))


RARITIES: Mapping[str, Rarity] = {"facetd": inverse_doc_freq, "pisa": _rarity_in_pisa}
"""By player, where it is not the usual one."""


class Teller:
    """Counts and BM25 scores by brute force over the texts of the corpus."""

    def __init__(self, shape: Shape, num_items: int, queries: Iterable[GameQuery]) -> None:
        number = {word: i for i, word in enumerate(words(shape))}
        self.queries = {one: [number[word] for word in one.words] for one in queries}
        self.num_items = num_items
        wanted = np.zeros(len(number), bool)
        wanted[sorted({n for numbers in self.queries.values() for n in numbers})] = True
        lengths: list[NDArray[np.int64]] = []
        found: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
        size = 0
        for items in generate(shape, num_items):
            tokens, owners = _texts(items)
            lengths.append(np.bincount(owners, minlength=len(items)))
            places = np.flatnonzero(wanted[tokens])
            places = places[np.argsort(tokens[places], kind="stable")]
            for part in np.split(places, np.flatnonzero(np.diff(tokens[places])) + 1):
                if len(part):
                    # One apart between texts, so that no phrase reaches into the next.
                    found[int(tokens[part[0]])].append(part + owners[part] + size)
            size += len(tokens) + len(items)
        self.lengths = np.concatenate(lengths)
        self.places = {word: np.concatenate(parts) for word, parts in found.items()}
        self.ends = np.cumsum(self.lengths + 1)
        nothing = np.zeros(0, np.int64)
        self.docs = {
            n: self._docs_of(self.places.get(n, nothing)) for n in np.flatnonzero(wanted).tolist()
        }

    def _docs_of(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return documents, ascending, and how many of the positions each has."""
        return np.unique(np.searchsorted(self.ends, places, "right"), return_counts=True)

    def count(self, query: GameQuery) -> int:
        """Return the number of hits."""
        numbers = self.queries[query]
        if query.kind == "phrase":
            starts = self.places.get(numbers[0], np.zeros(0, np.int64))
            for offset, number in enumerate(numbers[1:], 1):
                others = self.places.get(number, np.zeros(0, np.int64))
                starts = starts[np.isin(starts + offset, others)]
            return len(self._docs_of(starts)[0])
        return int(self._mask(query).sum())

    def _mask(self, query: GameQuery) -> NDArray[np.bool_]:
        counts = np.zeros(self.num_items, np.int8)
        for number in self.queries[query]:
            counts[self.docs[number][0]] += 1
        return counts >= (1 if query.kind == "union" else len(query.words))

    def best_scores(self, query: GameQuery, k: int, idf: Rarity) -> list[float]:
        """Return the scores of the best hits, by an engine's rarity of words; not for phrases."""
        norms = K1 * (1 - B + B * self.lengths / self.lengths.mean())
        scores = np.zeros(self.num_items)
        for number in self.queries[query]:
            docs, freqs = self.docs[number]
            rarity = idf(len(docs), self.num_items)
            scores[docs] += rarity * freqs / (freqs + norms[docs])
        hits = scores[self._mask(query)]
        return sorted(hits.tolist(), reverse=True)[:k]


def _texts(items: Items) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the word numbers of all texts, one after the other, and the item of each."""
    numbers = np.arange(len(items))
    owners = np.concatenate(
        [
            np.repeat(numbers, np.diff(items.title_ends, prepend=0)),
            np.repeat(numbers, np.diff(items.description_ends, prepend=0)),
        ]
    )
    tokens = np.concatenate([items.title, items.description])
    order = np.argsort(owners, kind="stable")  # a title is in front of its description
    return tokens[order], owners[order]


def write_texts(shape: Shape, num_items: int) -> Path:
    """Write the items that all engines index, unless the file is there already."""
    path = corpus.path(shape, num_items)
    path = path.with_name(f"texts-{path.name}")
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    vocabulary = words(shape)
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="ascii") as file:
        for items in generate(shape, num_items):
            tokens, owners = _texts(items)
            typed = [vocabulary[number] for number in tokens.tolist()]
            ends = np.cumsum(np.bincount(owners, minlength=len(items))).tolist()
            for i, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
                file.write(f'{{"id":{items.first_id + i},"text":"{" ".join(typed[start:end])}"}}\n')
    part.rename(path)
    return path


# --- players


class Player:
    """One engine: how its index is built, and how it is started to play."""

    name: ClassVar[str]
    title: ClassVar[str]
    folder: Path
    checkout: Path = processes.REPOSITORY

    def __init__(self, num_items: int) -> None:
        self.num_items = num_items
        self.folder = processes.home() / "data" / f"game-{self.name}-{num_items}"
        self.log = processes.home() / "logs" / f"game-{self.name}.txt"

    def check_installed(self) -> None:
        """Raise `NotInstalled` if something is missing."""

    def build(self, items: Path) -> None:
        """Index the items, into an empty folder."""
        self.folder.mkdir(parents=True)
        with Running(self.command("build", items, self.folder), self.log) as building:
            building.finish()

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return the command line of the engine's process."""
        raise NotImplementedError


class PythonPlayer(Player):
    """A library in the peers' environment."""

    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def interpreter(self) -> Path:
        """Return the interpreter of the peers' own environment."""
        return processes.home() / "venv" / "bin" / "python"

    def check_installed(self) -> None:
        """Look for the packages."""
        require_packages(self.interpreter, self.packages, self.name)

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return the command line of the engine's process."""
        return [self.interpreter, "-m", PLAYER, self.name, *arguments]


class TantivyPlayer(PythonPlayer):
    """tantivy's binding."""

    name = "tantivy"
    title = "tantivy-py 0.27"
    packages = ("tantivy",)


class PisaPlayer(PythonPlayer):
    """PISA's binding."""

    name = "pisa"
    title = "PISA by pyterrier-pisa 0.4.9"
    packages = ("pyterrier-pisa",)


class FacetdPlayer(Player):
    """facetd, loaded by its service with one shard; then the shard's searcher alone."""

    name = "facetd"
    title = "facetd, the shard's searcher"

    def build(self, items: Path) -> None:
        """Load through the service and wait for the merges."""
        peer = Facetd(self.num_items, num_shards=1)
        peer.folder = self.folder
        peer.empty_folder()
        try:
            peer.start_service()
            peer.configure({"searchable_fields": ["text"]})
            peer.load_file(items)
            processes.wait_for_rest(peer.pids())
        finally:
            peer.close()

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return the command line of the engine's process."""
        python = Path(processes.python())
        if self.checkout != processes.REPOSITORY:
            python = self.checkout / ".venv" / "bin" / "python"
        return [python, "-m", PLAYER, self.module, *arguments]

    module = "facetd"


class FloorPlayer(FacetdPlayer):
    """facetd's searches on no segment."""

    title = "facetd's searches on no segment"
    module = "facetd_floor"


class LucenePlayer(Player):
    """Lucene on the Java of the peers."""

    name = "lucene"
    title = "Lucene 10.4"

    def __init__(self, num_items: int) -> None:
        super().__init__(num_items)
        self.java = Lucene(num_items, source=SERVERS / "GamePlayer.java")

    def check_installed(self) -> None:
        """Look for the library and Java; compile the player if it is not."""
        self.java.check_installed()

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return the command line of the engine's process."""
        heap = INDEXING_HEAP if arguments[0] == "build" else SERVING_HEAP
        return self.java.command(heap, *arguments)


PLAYERS: Mapping[str, type[Player]] = {
    "floor": FloorPlayer,
    "facetd": FacetdPlayer,
    "lucene": LucenePlayer,
    "tantivy": TantivyPlayer,
    "pisa": PisaPlayer,
}
BEFORE = "facetd before"


class Playing:
    """A started player."""

    def __init__(self, player: Player, queries: Path) -> None:
        self.log = player.log.open("ab")
        command = player.command("play", player.folder, queries)
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=player.checkout,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.commands, self.answers = self.process.stdin, self.process.stdout
        line = self.answers.readline()
        while line and not line.startswith("ready "):  # PISA tells what it prepares
            line = self.answers.readline()
        if not line:
            self.close()
            raise RuntimeError(f"{player.name} does not play; see {player.log}")
        self.description = line.removeprefix("ready ").strip()

    def turn(self, command: str) -> list[Played | None]:
        """Let it run all queries once."""
        self.commands.write(command + "\n")
        self.commands.flush()
        played: list[Played | None] = []
        while line := self.answers.readline().strip():
            row = line.split()
            one = None
            if row != ["-"]:
                one = Played(int(row[0]), int(row[1]), [float(score) for score in row[2:]])
            played.append(one)
        return played

    def close(self) -> None:
        """End the process."""
        self.commands.close()
        self.process.wait()
        self.answers.close()
        self.log.close()


# --- the game


class Cell(NamedTuple):
    """What one engine took for the queries of one kind: microseconds."""

    median: float
    p90: float
    total: float


@dataclass(slots=True)
class Record:
    """All turns of one engine."""

    title: str
    description: str = ""
    turns: dict[str, list[list[Played | None]]] = field(default_factory=dict)
    """By command."""
    wrong: list[str] = field(default_factory=list)

    def cell(self, command: str, at: Sequence[int]) -> Cell | None:
        """Return the times of some queries, each the median of its turns; None: not played."""
        times = []
        for i in at:
            known = [one.nanoseconds for turn in self.turns[command] if (one := turn[i])]
            if not known:
                return None
            times.append(statistics.median(known) / 1_000)
        times.sort()
        return Cell(statistics.median(times), times[int(len(times) * 0.9)], sum(times))


def check(record: Record, queries: Sequence[GameQuery], truths: Mapping[GameQuery, int]) -> None:
    """Note which counts are not the truth."""
    for command, turns in record.turns.items():
        for query, played in zip(queries, turns[0], strict=True):
            if played is None:
                continue
            if played.total not in (-1, truths[query]):
                record.wrong.append(f"{command} {query}: {played.total} not {truths[query]}")
            if len(played.scores) != min(COMMANDS[command], truths[query]):
                record.wrong.append(f"{command} {query}: {len(played.scores)} scores")


def check_scores(
    record: Record, queries: Sequence[GameQuery], teller: Teller, rarity: Rarity
) -> None:
    """Note which best scores are not nearly those of BM25, but for one factor of the engine."""
    at = [i for i, one in enumerate(queries) if one.kind != "phrase"]
    step = max(1, len(at) // SCORED_QUERIES)
    ratios: list[tuple[GameQuery, float]] = []
    for i in at[::step]:
        played = record.turns["TOP_10"][0][i]
        if played is not None:
            best = teller.best_scores(queries[i], len(played.scores), rarity)
            pairs = zip(sorted(played.scores, reverse=True), best, strict=True)
            ratios += [(queries[i], mine / right) for mine, right in pairs]
    if not ratios:
        return
    factor = statistics.median(ratio for _, ratio in ratios)
    for query, ratio in ratios:
        if abs(ratio / factor - 1) > SCORE_TOLERANCE:
            record.wrong.append(f"TOP_10 {query}: a score is {ratio / factor:.3f} of BM25")


def report(title: str, queries: Sequence[GameQuery], records: Mapping[str, Record]) -> str:
    """Return the whole report as Markdown."""
    peers = [name for name in records if name not in ("floor", "facetd", BEFORE)]
    head = ["command", "queries", *records, "median ÷ best", "p90 ÷ best", "sum ÷ best"]
    if BEFORE in records:
        head.append("sum ÷ before")
    rows: list[list[results.Cell]] = []
    for command in COMMANDS:
        for kind in KINDS:
            at = [i for i, one in enumerate(queries) if one.kind == kind]
            if not at:
                continue
            cells = {name: record.cell(command, at) for name, record in records.items()}
            row: list[results.Cell] = [command, f"{len(at)} {kind}s"]
            row += [_show(cell) for cell in cells.values()]
            others = [cell for name in peers if (cell := cells[name])]
            mine = cells.get("facetd")
            for part in range(3):
                best = min([cell[part] for cell in others], default=0.0)
                row.append(mine[part] / best if mine and best else None)
            if before := cells.get(BEFORE):
                row.append(mine.total / before.total if mine else None)
            rows.append(row)
    wrong = [
        f"- {name}: {len(record.wrong)} answers differ, such as {record.wrong[0]}"
        for name, record in records.items()
        if record.wrong
    ]
    engines = [f"- {name}: {one.title}; {one.description}" for name, one in records.items()]
    return "\n\n".join(
        [
            title,
            "\n".join(engines),
            "Median µs / p90 µs / sum ms of processor time:",
            results.table(head, rows),
            "\n".join(wrong) or "All counts are right; best scores are those of BM25.",
        ]
    )


def _show(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    return " / ".join(map(results.show, (cell.median, cell.p90, cell.total / 1_000)))


def make_players(options: argparse.Namespace) -> dict[str, Player]:
    """Return the players that are installed."""
    players: dict[str, Player] = {}
    for name in options.peers.split(","):
        player = PLAYERS[name](options.items)
        try:
            player.check_installed()
        except NotInstalled as missing:
            sys.stderr.write(f"left out: {missing}\n")
            continue
        players[name] = player
    if options.before is not None:
        players[BEFORE] = FacetdPlayer(options.items)
        players[BEFORE].checkout = options.before.absolute()
    return players


def build_missing(players: Iterable[Player], items: Path, *, reuses: bool) -> None:
    """Build the index of every player, each folder once."""
    for folder, player in {player.folder: player for player in players}.items():
        note = folder.with_suffix(".json")
        if reuses and note.exists() and folder.exists():
            continue
        note.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        player.build(items)
        note.write_text(json.dumps({"items": items.name}))


def take_turns(
    players: Mapping[str, Player], queries: Path, rounds: int
) -> Iterator[tuple[str, str, int, str, list[Played | None]]]:
    """Let all play in turns; yields player, its description, round, command, what was played."""
    playing: dict[str, Playing] = {}
    try:
        for name, player in players.items():
            playing[name] = Playing(player, queries)
        for number in range(-WARM_TURNS, rounds):
            for command in COMMANDS:
                for name, one in playing.items():
                    yield name, one.description, number, command, one.turn(command)
    finally:
        for one in playing.values():
            one.close()


def play(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Play the whole game; returns the report and the raw numbers."""
    machine = processes.machine()
    shape = Shape() if options.corpus_seed is None else Shape(seed=options.corpus_seed)
    left_out = 0
    if options.queries is None:
        queries = draw_queries(shape, options.count, options.seed)
    else:
        queries, left_out = read_queries(options.queries, shape)
    players = make_players(options)
    build_missing(players.values(), write_texts(shape, options.items), reuses=options.reuse)
    file = processes.home() / "requests" / f"game-{options.items}.tsv"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{one.kind}\t{' '.join(one.words)}\n" for one in queries))
    records = {name: Record(player.title) for name, player in players.items()}
    for name, description, number, command, played in take_turns(players, file, options.rounds):
        records[name].description = description
        if number >= 0:
            records[name].turns.setdefault(command, []).append(played)
    teller = Teller(shape, options.items, queries)
    truths = {query: teller.count(query) for query in queries}
    for name, record in records.items():
        if name != "floor":
            check(record, queries, truths)
            rarity = RARITIES.get(players[name].name, _usual_rarity)
            check_scores(record, queries, teller, rarity)
    title = f"{options.items:,} items, {len(queries)} queries"
    title += f" ({left_out} of other forms left out)" * bool(left_out)
    title += f", {options.rounds} rounds; {results.describe(machine)}"
    raw: dict[str, Any] = {
        "machine": machine,
        "options": {name: str(value) for name, value in vars(options).items()},
        "queries": [[one.kind, *one.words] for one in queries],
        "counts": [truths[one] for one in queries],
        "nanoseconds": {
            name: {
                command: [[one and one.nanoseconds for one in turn] for turn in turns]
                for command, turns in record.turns.items()
            }
            for name, record in records.items()
        },
    }
    return report(title, queries, records), raw


def _peers(text: str) -> str:
    unknown = [name for name in text.split(",") if name not in PLAYERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(PLAYERS)}")
    return text


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="benchmarks.game", description=__doc__)
    made.add_argument("--items", type=int, default=100_000)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument(
        "--peers", type=_peers, default=",".join(PLAYERS), help="comma list (default: all)"
    )
    made.add_argument("--queries", type=Path, help="file of queries, instead of drawn ones")
    made.add_argument("--count", type=int, default=300, help="of each kind of drawn queries")
    made.add_argument("--seed", type=int, default=7, help="of the drawn queries")
    made.add_argument("--corpus-seed", type=int, help="of other items than the usual ones")
    made.add_argument("--before", type=Path, help="another checkout of facetd, with its .venv")
    made.add_argument("--reuse", action="store_true", help="take what an earlier run has indexed")
    return made


def main(arguments: Sequence[str] | None = None) -> Path:
    """Play, print, save."""
    text, raw = play(parser().parse_args(arguments))
    sys.stdout.write(text + "\n")
    return results.save("game", raw)


if __name__ == "__main__":
    main()
