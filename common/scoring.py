"""From document frequencies to the weights of a query's words: what the shards multiply.

The coordinator sums the statistics of all shards and calls `clause_weights` once per word, so that
every shard scores with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from common.query import NUM_MATCH_KINDS, MatchKind

STEM_FACTOR: Final = 1.0
BEST_FACTORS: Final = (1.0, 0.8, 0.8, 0.6)
"""By tier (typed, prefix, one typo, two typos): what a word counts whose best match this is."""
LESSER_FACTOR: Final = 0.1
"""What a tier counts when the index has a better one for the word, per step."""


def inverse_doc_freq(doc_freq: float, num_docs: int) -> float:
    """Return BM25's idf, which is positive for any frequency."""
    doc_freq = min(doc_freq, num_docs)
    return math.log1p((num_docs - doc_freq + 0.5) / (doc_freq + 0.5))


def clause_weights(doc_freqs: Sequence[int], num_docs: int) -> tuple[float, ...]:
    """Return the weight of a word by `MatchKind`.

    A word's rarity is that of its best tier in the index: "terms as typed and their other forms",
    else "begins with it", else typos. Lesser tiers count a small part of that, however rare they
    are: a misspelt word must not outweigh a correct one for being rare.

    Args:
        doc_freqs: live documents by `MatchKind`, of all shards.
        num_docs: live documents of all shards.

    Returns:
        Weights by `MatchKind`; 0 for kinds that no document has.
    """
    frequent = (
        doc_freqs[MatchKind.EXACT] + doc_freqs[MatchKind.STEM],
        doc_freqs[MatchKind.PREFIX],
        doc_freqs[MatchKind.TYPO_1],
        doc_freqs[MatchKind.TYPO_2],
    )
    present = [tier for tier, doc_freq in enumerate(frequent) if doc_freq > 0]
    weights = [0.0] * NUM_MATCH_KINDS
    if not present:
        return tuple(weights)
    best = present[0]
    idf = inverse_doc_freq(frequent[best], num_docs)
    for tier in present:
        factor = BEST_FACTORS[best] if tier == best else LESSER_FACTOR
        kind = tier + 1
        weights[kind] = idf * factor
    if best == 0:
        weights[MatchKind.EXACT] = weights[MatchKind.STEM]
        weights[MatchKind.STEM] *= STEM_FACTOR
    for kind in MatchKind:
        if doc_freqs[kind] == 0:
            weights[kind] = 0.0
    return tuple(weights)
