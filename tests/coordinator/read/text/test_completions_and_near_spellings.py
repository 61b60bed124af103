"""The best words of all shards, from their counts and bounds, against adding up everything."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from common.protocol.messages import TermsResponse
from coordinator.read.text.completions_and_near_spellings import best_of_parts

WORDS = [f"w{i}" for i in range(8)]
COUNTS = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 9))


def response(counts: dict[str, int], num: int) -> TermsResponse:
    """Return the most frequent words of a shard, and the bound for the others."""
    order = sorted(counts, key=lambda word: (-counts[word], word))
    sent = order[:num]
    bound = max([counts[word] for word in order[num:]], default=0)
    return TermsResponse(tuple(sent), tuple(counts[word] for word in sent), (0,) * len(sent), bound)


@given(st.lists(COUNTS, min_size=1, max_size=3), st.integers(1, 8), st.integers(1, 4))
def test_what_is_certain_is_the_best_of_all(
    shards: list[dict[str, int]], num: int, size: int
) -> None:
    total: Counter[str] = Counter()
    for counts in shards:
        total.update(counts)
    order = sorted(total, key=lambda word: (-total[word], word))

    found = best_of_parts([response(counts, num) for counts in shards], size)

    if found is not None:
        terms = [(one.text, one.count) for one in found.terms]
        assert terms[:size] == [(word, total[word]) for word in order[:size]]
        if found.are_all:
            assert terms == [(word, total[word]) for word in order]
    elif all(len(counts) <= num for counts in shards):
        raise AssertionError("nothing was left out, so everything is certain")


def test_words_that_one_shard_left_out_are_not_certain() -> None:
    one = TermsResponse(("a", "b"), (5, 4), (0, 0), 3)
    other = TermsResponse(("a", "c"), (5, 4), (0, 0), 3)

    best = best_of_parts([one, other], 1)
    assert best is not None
    assert [(term.text, term.count) for term in best.terms] == [("a", 10)]
    assert not best.are_all
    assert best_of_parts([one, other], 2) is None


def test_a_word_that_is_better_than_every_bound_is_enough() -> None:
    many = TermsResponse(("a",), (50,), (0,), 20)

    best = best_of_parts([many, many], 1)
    assert best is not None
    assert best.terms[0].count == 100
    assert best_of_parts([many, TermsResponse(("b",), (50,), (0,), 20)], 1) is None
