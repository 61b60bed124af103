"""What one engine played: its times, and the checks of its counts and scores."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.game.brute_force import BruteForce, Idf
from benchmarks.peers.servers.game_player import COMMANDS, GameQuery, Played

SCORED_QUERIES = 60
SCORE_TOLERANCE = 0.08
"""Engines round the lengths of texts, each in its own way."""


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


def check_counts(
    record: Record, queries: Sequence[GameQuery], truths: Mapping[GameQuery, int]
) -> None:
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
    record: Record, queries: Sequence[GameQuery], brute_force: BruteForce, idf: Idf
) -> None:
    """Note which best scores are not nearly those of BM25, but for one factor of the engine."""
    at = [i for i, one in enumerate(queries) if one.kind != "phrase"]
    step = max(1, len(at) // SCORED_QUERIES)
    ratios: list[tuple[GameQuery, float]] = []
    for i in at[::step]:
        played = record.turns["TOP_10"][0][i]
        if played is not None:
            best = brute_force.best_scores(queries[i], len(played.scores), idf)
            pairs = zip(sorted(played.scores, reverse=True), best, strict=True)
            ratios += [(queries[i], mine / right) for mine, right in pairs]
    if not ratios:
        return
    factor = statistics.median(ratio for _, ratio in ratios)
    for query, ratio in ratios:
        if abs(ratio / factor - 1) > SCORE_TOLERANCE:
            record.wrong.append(f"TOP_10 {query}: a score is {ratio / factor:.3f} of BM25")
