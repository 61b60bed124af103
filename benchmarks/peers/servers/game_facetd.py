"""facetd in the query game: the searcher of a shard on one partition, without HTTP and RPC.

A search that reaches a shard carries the weights of its words, which the coordinator derives once;
they are made beforehand here too. The shard's answer is the whole message: total, scores, places
and records of the hits. Totals are always exact, so TOP_10 and TOP_10_COUNT are one request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.peers.servers.game_player import COMMANDS, GameQuery
from common.process.glibc_malloc import configure_allocator
from common.protocol.messages import (
    FieldWeight,
    ScoredClause,
    SearchRequest,
    StatisticsRequest,
    TextQuery,
)
from common.query_syntax_tree import Phrase, Word
from common.shard_settings import ShardSettings
from common.term_weights import clause_weights
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.partition.partition import Partition
from shard.read.corpus_statistics import statistics
from shard.read.searcher import search

K1, B = 1.2, 0.75


class Engine:
    """One opened partition."""

    def __init__(self, folder: Path) -> None:
        configure_allocator()  # as a shard does
        partition = Partition.open(folder / "shard-0" / "index-1", 1, ShardSettings())
        self.snapshot = self.all = partition.newest
        self.description = f"segments: {len(self.snapshot.views)}"

    @cache  # noqa: B019 - as old as the process
    def _word(self, word: str) -> tuple[Word, tuple[float, ...]]:
        """Return a word, matched exactly, with its weights."""
        clause = Word(word, is_stemmed=False)
        found = statistics(self.all, StatisticsRequest(1, 0, 0, (clause,), needs_fields=False))
        return clause, clause_weights(found.doc_freqs[0], found.num_docs)

    @cache  # noqa: B019
    def _fields(self) -> tuple[FieldWeight, ...]:
        found = statistics(self.all, StatisticsRequest(1, 0, 0, ()))
        return tuple(
            FieldWeight(one.path, 1.0, one.total_length / one.num_docs)
            for one in found.fields
            if one.path == "text"
        )

    @cache  # noqa: B019
    def _request(self, query: GameQuery, num_hits: int) -> SearchRequest:
        words = [self._word(word) for word in query.words]
        clauses = tuple(ScoredClause(word, (weights,)) for word, weights in words)
        if query.kind == "phrase":
            clauses = (ScoredClause(Phrase(query.words), tuple(w for _, w in words)),)
        required = 1 if query.kind == "union" else len(clauses)
        text = TextQuery(clauses, required, False, (), self._fields(), K1, B, proximity=0.0)
        return SearchRequest(1, 0, 0, text, (), (), (), (), False, num_hits, 0)

    def prepare(self, query: GameQuery, command: str) -> Callable[[], tuple[int, Sequence[float]]]:
        """Return what runs a query."""
        BACKGROUND_TASKS.run_all()  # as a shard does when it rests
        request = self._request(query, COMMANDS[command])
        snapshot = self.snapshot

        def run() -> tuple[int, Sequence[float]]:
            found = search(snapshot, request)
            return found.total, np.frombuffer(found.scores).tolist()

        return run
