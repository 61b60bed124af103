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
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import processes, results
from benchmarks.corpus import Shape
from benchmarks.game.brute_force import IDFS, BruteForce, bm25_idf
from benchmarks.game.players import BEFORE, PLAYERS, FacetdPlayer, Player, Playing
from benchmarks.game.queries import draw_queries, read_queries
from benchmarks.game.records import Cell, Record, check_counts, check_scores
from benchmarks.game.texts import write_texts
from benchmarks.peers.base import NotInstalled
from benchmarks.peers.servers.game_player import COMMANDS, GameQuery, Played

KINDS = ("term", "intersection", "union", "phrase")
WARM_TURNS = 3
"""Turns before the first one that counts; the Java machine compiles meanwhile."""


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
    brute_force = BruteForce(shape, options.items, queries)
    truths = {query: brute_force.count(query) for query in queries}
    for name, record in records.items():
        if name != "floor":
            check_counts(record, queries, truths)
            idf = IDFS.get(players[name].name, bm25_idf)
            check_scores(record, queries, brute_force, idf)
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
