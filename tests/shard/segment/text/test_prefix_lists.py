"""Prefix lists against sums of dictionaries."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.analysis.accented_spellings import is_spelling
from shard.segment.field_registry import FieldRegistry
from shard.segment.merge_state import MergeState
from shard.segment.text import postings
from shard.segment.text.postings import BLOCK_ENTRIES, decode_block, new_block
from shard.segment.text.prefix_lists import ENTRIES_MAX, ENTRIES_MIN, entries_min
from shard.segment.text.text_index import TextIndex, text_index
from shard.segment.text.text_merge import merge_text
from tests.shard.text_model import Lists, Places, join, list_places, make_segment

# Characters of one to four bytes; some begin with the same bytes.
TERMS = st.text(st.sampled_from("abéêаб中丮𝒳𝒴"), min_size=1, max_size=5)
TEXTS = st.lists(TERMS, max_size=8).map(" ".join)
ITEMS = st.lists(st.fixed_dictionaries({}, optional={"a": TEXTS, "b": TEXTS}), max_size=10)
Entries = dict[tuple[int, str], int]
"""(document, path) → frequency."""


def read_list(index: TextIndex, registry: FieldRegistry, number: int) -> Entries:
    """Read a list by its blocks, and compare what is known of it elsewhere."""
    block = postings.Entries(*new_block())
    docs, fields, freqs = block
    entries: Entries = {}
    order = []
    row, last_row = int(index.lists.skip_starts[number]), int(index.lists.skip_starts[number + 1])
    at = int(index.lists.posting_starts[number])
    left = int(index.lists.entry_counts[number])
    assert last_row - row == (-(-left // BLOCK_ENTRIES) if left > BLOCK_ENTRIES else 0)
    while left:
        count = min(left, BLOCK_ENTRIES)
        if row < last_row:
            assert index.lists.skip_postings[row] == at - index.lists.posting_starts[number]
        at = int(decode_block(index.lists.postings, at, count, block))
        if row < last_row:
            assert index.lists.skip_docs[row] == docs[0]
        row += 1
        left -= count
        for i in range(count):
            order.append((int(docs[i]), int(fields[i])))
            entries[int(docs[i]), registry.paths[fields[i]]] = int(freqs[i])
    assert at == index.lists.posting_starts[number + 1]
    assert order == sorted(set(order))
    assert index.doc_freqs[number] == len({doc for doc, _ in order})
    return entries


def expected_lists(places: Places, least: int) -> dict[tuple[int, int], Entries]:
    """Return by range of terms the sums of prefixes with enough entries."""
    terms = sorted(places, key=lambda term: term.encode())
    lists = {}
    words = [term for term in terms if not is_spelling(term)]
    for prefix in {word[:end] for word in words for end in range(1, len(word) + 1)}:
        own = [i for i, term in enumerate(terms) if term.startswith(prefix)]
        sums: Counter[tuple[int, str]] = Counter()
        num_entries = 0
        for i in own:
            num_entries += len(places[terms[i]])
            for entry, positions in places[terms[i]].items():
                sums[entry] += len(positions)
        if len(own) > 1 and num_entries >= least:
            lists[own[0], own[-1] + 1] = dict(sums)
    return lists


@given(ITEMS, st.integers(1, 6))
def test_every_prefix_with_enough_entries_has_the_sum_of_its_terms(
    items: list[dict[str, Any]], least: int
) -> None:
    registry = FieldRegistry()
    index = text_index(make_segment(items, registry, Lists(least)))
    places, _ = list_places(items)

    read = {
        terms: read_list(index, registry, number) for terms, number in index.prefix_lists.items()
    }
    assert read == expected_lists(places, least)
    for prefix in {term[:2] for term in places}:
        number = index.prefix_lists.get(index.vocabulary.prefix_range(prefix))
        wanted = {entry for term in places if term.startswith(prefix) for entry in places[term]}
        if number is not None:
            assert set(read_list(index, registry, number)) == wanted


@given(ITEMS, st.integers(1, 6), st.data())
def test_merged_lists_are_those_of_one_batch(
    items: list[dict[str, Any]], least: int, data: st.DataObject
) -> None:
    """Whatever lists the parts have: of each prefix, some parts have one and others have none."""
    registry = FieldRegistry()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(items)), max_size=3)))
    parts = [
        make_segment(items[start:end], registry, Lists(data.draw(st.integers(1, 6))))
        for start, end in itertools.pairwise([0, *cuts, len(items)])
    ]
    is_dropped = st.none() | st.lists(st.booleans(), min_size=len(items), max_size=len(items))
    dropped = np.array(data.draw(is_dropped) or [False] * len(items), bool)
    gone = [
        np.flatnonzero(dropped[start:end]).astype(np.uint32)
        for start, end in itertools.pairwise([0, *cuts, len(items)])
    ]
    kept = [item for item, is_gone in zip(items, dropped, strict=True) if not is_gone]

    with Lists(least).in_force():
        merged = join(merge_text(MergeState.without(parts, gone)))

    built = make_segment(kept, registry, Lists(least))
    assert sorted(merged) == sorted(built)
    for name, array in merged.items():
        assert array.dtype == built[name].dtype, name
        assert array.tobytes() == built[name].tobytes(), name


def many_items() -> list[dict[str, Any]]:
    """Items enough for lists of several blocks; some have a word in both fields, often."""
    return [
        {"a": f"sea{i % 7} seb{i % 11} sea{i % 3}", "b": f"se{i % 5} " * (i % 4 + 1)}
        for i in range(1_000)
    ]


@pytest.mark.parametrize("drop", [0, 10])
def test_lists_of_many_blocks_survive_a_merge(drop: int) -> None:
    items = many_items()
    registry = FieldRegistry()
    least = 500
    lists = Lists(least, dense_docs_min=1)
    # Parts of some blocks, of less than one, of none; the second one loses no document.
    cuts = [0, 300, 310, 310, 540, 1_000]
    parts = [make_segment(items[a:b], registry, lists) for a, b in itertools.pairwise(cuts)]
    is_kept = np.array([not drop or i % drop != 9 or 300 <= i < 540 for i in range(len(items))])
    kept = [items[i] for i in np.flatnonzero(is_kept).tolist()]
    doc_map = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
    doc_maps = [doc_map[a:b] for a, b in itertools.pairwise(cuts)]
    with lists.in_force():
        merged = join(merge_text(MergeState.of(parts, doc_maps)))

    built = make_segment(kept, registry, lists)
    for name, array in merged.items():
        assert array.dtype == built[name].dtype, name
        assert array.tolist() == built[name].tolist(), name
    index = text_index(built)
    places, _ = list_places(kept)
    read = {
        terms: read_list(index, registry, number) for terms, number in index.prefix_lists.items()
    }
    assert read == expected_lists(places, least)
    assert max(map(len, read.values())) > 3 * BLOCK_ENTRIES


@pytest.mark.parametrize(
    ("num_docs", "expected"),
    [
        (0, ENTRIES_MIN),
        (100_000, ENTRIES_MIN),
        (400_000, 50_000),
        (10_000_000, ENTRIES_MAX),
    ],
)
def test_the_threshold_grows_with_large_segments(num_docs: int, expected: int) -> None:
    assert entries_min(num_docs) == expected
