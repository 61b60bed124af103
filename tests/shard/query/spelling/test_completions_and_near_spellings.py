"""Candidate words of a segment, against sorting all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from common.protocol.messages import TermsRequest
from common.query_syntax_tree import AnyOf
from shard.query.spelling import completions_and_near_spellings
from shard.query.spelling.completions_and_near_spellings import (
    _count_sets,
    _most_frequent,
    _most_frequent_among,
)
from shard.segment.field_registry import FieldRegistry
from shard.segment.snapshot import SegmentView
from shard.segment.text.text_index import text_index
from tests.shard.columns_model import World
from tests.shard.text_model import Lists, make_segment


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 12))
def test_the_first_of_the_most_frequent_are_chosen(freqs: list[int], num: int) -> None:
    order = sorted(range(len(freqs)), key=lambda i: (-freqs[i], i))

    chosen, bound = _most_frequent(np.array(freqs, np.uint32), num)

    assert sorted(chosen.tolist()) == sorted(order[:num])
    assert bound == max([freqs[i] for i in order[num:]], default=0)


@pytest.mark.parametrize("num", [1, 3, 8])
def test_equal_frequencies_are_taken_in_order(num: int) -> None:
    chosen, bound = _most_frequent(np.ones(8, np.uint32), num)

    assert (chosen.tolist(), bound) == (list(range(num)), int(num < 8))


WORDS = [f"w{i}" for i in range(12)]
ITEMS = st.lists(
    st.fixed_dictionaries(
        {"a": st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)},
        optional={"b": st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)},
    ),
    min_size=1,
    max_size=40,
)
LISTS = st.sampled_from([Lists(), Lists(dense_docs_min=0, docs_per_entry_max=4)])


@pytest.mark.parametrize("at_once", [1, 2, 1_024])
def test_words_of_listed_documents_are_counted_like_all(monkeypatch: Any, at_once: int) -> None:
    monkeypatch.setattr(completions_and_near_spellings, "_COUNTED_AT_ONCE", at_once)

    @given(ITEMS, LISTS, st.sets(st.integers(0, 39)), st.integers(1, 8))
    def compare(items: list[dict[str, str]], lists: Lists, chosen: set[int], num: int) -> None:
        view = SegmentView(make_segment(items, FieldRegistry(), lists))
        listed = [doc for doc in sorted(chosen) if doc < len(items)]
        index = text_index(view.segment)
        freqs = index.doc_freqs[: len(index.vocabulary)]

        chosen_terms, counts, bound = _most_frequent_among(
            view, freqs, 0, num, np.array(listed, np.uint32)
        )

        words = [index.vocabulary.term(term) for term in range(len(index.vocabulary))]
        expected = {
            word: sum(word in " ".join(items[doc].values()).split() for doc in listed)
            for word in words
        }
        found = [words[term] for term in chosen_terms.tolist()]
        assert counts.tolist() == [expected[word] for word in found]
        positive = sorted([count for count in expected.values() if count], reverse=True)
        assert sorted(counts.tolist(), reverse=True) == positive[:num]
        assert max([expected[word] for word in words if word not in found], default=0) <= bound

    compare()


@given(
    ITEMS,
    LISTS,
    st.sets(st.integers(0, 39)),
    st.lists(
        st.lists(st.sampled_from([*WORDS, "nowhere"]), min_size=1, max_size=4).map(tuple),
        min_size=1,
        max_size=20,
    ),
)
def test_sets_of_words_are_counted_in_live_or_listed_documents(
    items: list[dict[str, str]], lists: Lists, chosen: set[int], sets: list[tuple[str, ...]]
) -> None:
    segment = make_segment(items, FieldRegistry(), lists)
    some = [doc for doc in sorted(chosen) if doc < len(items)]
    listed = np.array(some, np.uint32)
    everything, live = SegmentView(segment), SegmentView(segment, FrozenBitMap(some))

    def expected(docs: Iterable[int]) -> list[int]:
        texts = [set(" ".join(items[doc].values()).split()) for doc in docs]
        return [sum(text.issuperset(words) for text in texts) for words in sets]

    others = set(range(len(items))) - set(some)
    for view, docs, counted in (
        (everything, None, range(len(items))),
        (everything, listed, some),
        (live, None, others),
    ):
        counts = _count_sets(Mock(views=[view, view]), sets, [docs, docs])
        assert counts == tuple([2 * count for count in expected(counted)])


def test_a_filter_whose_texts_must_be_read_first_is_slow() -> None:
    snapshot = World([{"name": "a", "tags": "a"}], has_texts=True).snapshot
    for field, expected in (("tags", False), ("name", True)):
        request = TermsRequest(1, 1, 1, "a", filters=(AnyOf(field, ("a",)),), num_terms=3)
        assert completions_and_near_spellings.is_slow_to_list(snapshot, request) == expected
        completions_and_near_spellings.near_terms(snapshot, request)
        assert not completions_and_near_spellings.is_slow_to_list(snapshot, request)
