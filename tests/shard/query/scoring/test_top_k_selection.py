"""Selection by score: the best, in their order, and which of those that tie for the last place."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shard.query.scoring.top_k_selection import best_of, first_best_of


@given(st.lists(st.integers(-3, 5), min_size=1, max_size=400), st.integers(1, 400))
def test_the_best_and_their_ties(scores: list[int], k: int) -> None:
    k = min(k, len(scores))
    docs = np.arange(10, 10 + len(scores), dtype=np.uint32)
    ranking = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    found, values = first_best_of(docs, np.array(scores, np.int64), k)
    expected = sorted(ranking[:k])
    assert found.tolist() == docs[expected].tolist()
    assert values.tolist() == [scores[i] for i in expected]

    found, values = best_of(docs, np.array(scores, np.int64), k)
    expected = [i for i, score in enumerate(scores) if score >= scores[ranking[k - 1]]]
    assert found.tolist() == docs[expected].tolist()
    assert values.tolist() == [scores[i] for i in expected]


@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=50))
def test_doubles_are_in_the_order_of_their_bits(scores: list[float]) -> None:
    doubles = np.array(scores)
    assert np.sort(doubles.view(np.int64)).view(np.float64).tolist() == sorted(scores)
