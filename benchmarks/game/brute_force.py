"""Counts and BM25 scores of the game's queries, computed without an index."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import Shape, generate, words
from benchmarks.game.texts import texts_of
from benchmarks.peers.servers.game_player import GameQuery
from common.term_weights import inverse_doc_freq

K1, B = 1.2, 0.75


Idf = Callable[[int, int], float]
"""Inverse document frequency, given the documents that have a word, and all."""


def bm25_idf(doc_freq: int, num_docs: int) -> float:
    """Return the idf of BM25 as Lucene and tantivy compute it."""
    return math.log(1 + (num_docs - doc_freq + 0.5) / (doc_freq + 0.5))


def _idf_of_pisa(doc_freq: int, num_docs: int) -> float:
    return max(1e-6, math.log((num_docs - doc_freq + 0.5) / (doc_freq + 0.5)))


IDFS: Mapping[str, Idf] = {"facetd": inverse_doc_freq, "pisa": _idf_of_pisa}
"""By player, where it is not `bm25_idf`."""


class BruteForce:
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
            tokens, owners = texts_of(items)
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

    def best_scores(self, query: GameQuery, k: int, idf: Idf) -> list[float]:
        """Return the scores of the best hits, by an engine's idf; not for phrases."""
        norms = K1 * (1 - B + B * self.lengths / self.lengths.mean())
        scores = np.zeros(self.num_items)
        for number in self.queries[query]:
            docs, freqs = self.docs[number]
            weight = idf(len(docs), self.num_items)
            scores[docs] += weight * freqs / (freqs + norms[docs])
        hits = scores[self._mask(query)]
        return sorted(hits.tolist(), reverse=True)[:k]
