"""Compares the best hits of a search with all of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from shard.query.text.text_search import TextMatch
from shard.segment.doc_sets import bitset_of
from tests.shard.text_model import scores_of

NUM_DOCS: Final = 6_000
"""Documents of the segments that are searched."""


def some_docs(share: float) -> np.ndarray | None:
    if share == 1.0:
        return None
    chance = np.random.default_rng(3).random(NUM_DOCS)
    return bitset_of(np.flatnonzero(chance < share).astype(np.uint32), NUM_DOCS)


def check(best: TextMatch, everything: TextMatch, k: int) -> None:
    """Compare the best with all scored hits: the k-th and all that score as much must be there."""
    assert best.found.docs.tolist() == everything.found.docs.tolist()
    scores = dict(zip(everything.ranked.docs.tolist(), scores_of(everything), strict=True))
    ranked = best.ranked.docs.tolist()
    assert ranked == sorted(ranked)
    assert [scores[doc] for doc in ranked] == scores_of(best)
    worst = min(sorted(scores.values(), reverse=True)[:k], default=0.0)
    assert {doc for doc, score in scores.items() if score >= worst} <= set(ranked)
