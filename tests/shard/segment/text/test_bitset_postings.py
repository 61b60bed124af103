"""From a document to its entries in a long list, without reading the list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.segment.field_registry import FieldRegistry
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from shard.segment.text.bitset_postings import (
    DENSE_PADDING,
    DOCS_MIN,
    DOCS_PER_ENTRY_MAX,
    find_dense,
    find_entries,
)
from shard.segment.text.text_index import TextIndex, text_index
from shard.segment.text.text_merge import merge_text
from tests.shard.text_model import Lists, join, list_places, make_segment

EVERY_LIST = Lists(
    entries_min=3,
    dense_docs_min=1,
    docs_per_entry_max=1_000_000,
    docs_per_prefix_entry_max=1_000_000,
)

FIELDS = ("a", "b", "c")


def entries_of(index: TextIndex, place: int, docs: list[int]) -> list[tuple[int, int]]:
    """Return first entry and number of entries of some documents."""
    firsts = np.empty(len(docs), np.int64)
    counts = np.empty(len(docs), np.uint16)
    wanted = np.array(docs, np.uint32)
    find_entries(index.dense_lists, place, index.num_docs, wanted, firsts, counts)
    return list(zip(firsts.tolist(), counts.tolist(), strict=True))


def expect_entries(docs: list[int]) -> dict[int, tuple[int, int]]:
    """Return first entry and number of entries of each document of a list with these."""
    return {doc: (docs.index(doc), docs.count(doc)) for doc in docs}


def members(index: TextIndex, place: int) -> list[int]:
    """Return the documents of a dense list's bitset."""
    num_words = (index.num_docs + 63) >> 6
    words = index.dense_lists.dense_bits[place * num_words : (place + 1) * num_words]
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


def make_items(seed: int, num_docs: int, share: float, num_fields: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    has_word = rng.random((num_docs, num_fields)) < share
    return [
        {field: "sea" for field, one in zip(FIELDS, row, strict=False) if one} for row in has_word
    ]


@given(
    seed=st.integers(0, 1_000),
    num_docs=st.sampled_from((1, 63, 64, 65, 255, 256, 257, 300, 1_025)),
    share=st.sampled_from((0.02, 0.3, 1.0)),
    num_fields=st.integers(1, 3),
    data=st.data(),
)
def test_entries_are_found_where_reading_the_list_finds_them(
    seed: int, num_docs: int, share: float, num_fields: int, data: st.DataObject
) -> None:
    items = make_items(seed, num_docs, share, num_fields)
    registry = FieldRegistry()
    index = text_index(make_segment(items, registry, EVERY_LIST))
    places, _ = list_places(items)
    if not places:
        assert len(index.dense_lists.dense_terms) == 0
        return
    docs = sorted(doc for doc, _ in places["sea"])
    place = find_dense(index.dense_lists, 0)
    assert members(index, place) == sorted(set(docs))
    expected = expect_entries(docs)
    wanted = data.draw(st.lists(st.sampled_from(docs), unique=True).map(sorted))
    for some in (sorted(set(docs)), wanted):
        assert entries_of(index, place, some) == [expected[doc] for doc in some]


def test_each_list_has_its_own() -> None:
    """Terms and prefixes; the last group of the last list is read with the padding."""
    items = [{"a": f"sea{i % 3} seb{i % 2}", "b": f"sea{i % 5}"} for i in range(700)]
    registry = FieldRegistry()
    index = text_index(make_segment(items, registry, EVERY_LIST))
    places, _ = list_places(items)
    assert len(index.dense_lists.dense_bits) % 11 == DENSE_PADDING
    terms = sorted(places)
    for term, name in enumerate(terms):
        docs = sorted(doc for doc, _ in places[name])
        place = find_dense(index.dense_lists, term)
        expected = expect_entries(docs)
        assert entries_of(index, place, sorted(expected)) == [
            expected[doc] for doc in sorted(set(docs))
        ]
    assert index.prefix_lists
    for (first, last), number in index.prefix_lists.items():
        entries = {entry for name in terms[first:last] for entry in places[name]}
        docs = sorted(doc for doc, _ in entries)
        expected = expect_entries(docs)
        place = find_dense(index.dense_lists, number)
        assert entries_of(index, place, sorted(expected)) == [
            expected[doc] for doc in sorted(set(docs))
        ]
    assert find_dense(index.dense_lists, len(index.lists.entry_counts)) == -1


def test_a_document_may_have_many_entries() -> None:
    items = [{"a": "sea"}, {f"a{i}": "sea" for i in range(700)}, {"a": "sea", "a1": "sea"}]
    index = text_index(make_segment(items, FieldRegistry(), EVERY_LIST))
    assert entries_of(index, 0, [0, 1, 2]) == [(0, 1), (1, 700), (701, 2)]


@pytest.mark.parametrize(("num_docs", "every"), [(DOCS_MIN - 1, 1), (DOCS_MIN, 16), (DOCS_MIN, 17)])
def test_short_lists_and_small_segments_have_none(num_docs: int, every: int) -> None:
    items = [{"a": "sea" if i % every == 0 else ""} for i in range(num_docs)]
    index = text_index(make_segment(items, FieldRegistry()))
    is_dense = num_docs >= DOCS_MIN and every <= DOCS_PER_ENTRY_MAX
    assert (find_dense(index.dense_lists, 0) == 0) == is_dense


@pytest.mark.parametrize("every", [2, 3])
def test_a_list_of_a_prefix_has_one_if_half_of_the_documents_have_the_prefix(every: int) -> None:
    items = [{"a": f"sea se{'ab'[i // every % 2]}" if i % every == 0 else ""} for i in range(4_200)]
    index = text_index(make_segment(items, FieldRegistry(), Lists(entries_min=100)))
    is_dense = [
        find_dense(index.dense_lists, number) >= 0 for number in (0, index.prefix_lists[0, 2])
    ]
    assert is_dense == [True, every == 2]


def test_a_merge_rebuilds_them() -> None:
    items = make_items(5, 900, 0.4, 3)
    registry = FieldRegistry()
    parts = [make_segment(part, registry, EVERY_LIST) for part in (items[:333], items[333:])]
    is_kept = np.arange(len(items)) % 7 > 0
    doc_map = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
    num_kept = int(is_kept.sum())
    with EVERY_LIST.in_force():
        arrays = join(merge_text(MergeState.of(parts, [doc_map[:333], doc_map[333:]])))
    merged = text_index(Segment(arrays, num_docs=num_kept))
    built = text_index(
        make_segment([item for i, item in enumerate(items) if i % 7], registry, EVERY_LIST)
    )
    for name, array in merged.dense_lists._asdict().items():
        assert array.tolist() == getattr(built.dense_lists, name).tolist(), name
