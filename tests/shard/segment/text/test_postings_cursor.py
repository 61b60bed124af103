"""Cursors find what a scan of the whole list finds, whatever they skip."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shard.segment.doc_sets import bitset_of
from shard.segment.field_registry import FieldRegistry
from shard.segment.text.positions import decode_varint
from shard.segment.text.postings import BLOCK_ENTRIES, PostingLists, decode_entry, new_block
from shard.segment.text.postings_cursor import (
    BlockCursor,
    BlockScratch,
    EntryCursor,
    PositionsCursor,
    Wanted,
    advance,
    advance_entry,
    advance_wanted,
    after_entry,
    block_scratch,
    decode_entries,
    decode_wanted,
    next_block,
    open_entries,
    open_positions,
    open_postings,
    seek_positions,
)
from shard.segment.text.text_index import TextIndex, text_index
from tests.shard.text_model import make_segment

NUM_DOCS = 700

Step = Callable[[PostingLists, EntryCursor, NDArray[np.uint32]], EntryCursor]


@pytest.fixture(scope="module")
def index() -> TextIndex:
    """`often` in two fields of most documents, `seldom` in one of some: many blocks, and one."""
    rng = np.random.default_rng(5)
    items = []
    for doc in range(NUM_DOCS):
        item = {"title": "tide", "text": "sand " * int(rng.integers(0, 4))}
        if doc % 7 or doc > 600:
            item["title"] += " often"
            item["text"] += "often " * int(rng.integers(0, 3))
        if doc % 40 == 3:
            item["text"] += " seldom shell seldom"
        items.append(item)
    return text_index(make_segment(items, FieldRegistry()))


def _all_entries(index: TextIndex, term: int) -> list[tuple[int, int, int]]:
    """Return document, field and frequency of all entries, in order."""
    entries = new_block()
    rows: list[tuple[int, int, int]] = []
    cursor = BlockCursor(*open_postings(term))
    while (cursor := BlockCursor(*next_block(index.lists, cursor))).size:
        decode_entries(index.lists, cursor, entries)
        assert cursor.size <= BLOCK_ENTRIES
        columns = [column[: cursor.size].tolist() for column in entries]
        rows += zip(*columns, strict=True)
    return rows


def _walk(
    index: TextIndex, term: int, targets: np.ndarray, step: Step = advance_entry
) -> Iterator[EntryCursor]:
    cursor = open_entries(term)
    while (cursor := EntryCursor(*step(index.lists, cursor, targets))).size:
        yield cursor


docs = st.lists(st.integers(0, NUM_DOCS + 5), unique=True, max_size=60).map(
    lambda docs: np.array(sorted(docs), np.uint32)
)
words = st.sampled_from(["often", "seldom", "sand", "tide"])


@given(word=words, targets=docs)
def test_advance_finds_the_entries_of_the_targets(
    index: TextIndex, word: str, targets: np.ndarray
) -> None:
    term = index.vocabulary.find(word)
    assert term is not None
    found = []
    for cursor in _walk(index, term, targets):
        assert targets[cursor.target] == cursor.doc
        found.append(
            (cursor.doc, *decode_entry(index.lists.postings, cursor.packing, cursor.entry))
        )
    wanted = set(targets.tolist())
    expected = [entry for entry in _all_entries(index, term) if entry[0] in wanted]
    assert found == expected
    docs = [cursor.doc for cursor in _walk(index, term, targets, advance)]
    assert docs == sorted({doc for doc, _, _ in expected})


@given(word=words, targets=docs)
def test_blocks_that_are_skipped_hold_no_target(
    index: TextIndex, word: str, targets: np.ndarray
) -> None:
    term = index.vocabulary.find(word)
    assert term is not None
    bits = bitset_of(targets[targets < NUM_DOCS], NUM_DOCS)
    for wanted in (Wanted.of(bits), Wanted.among(targets, bits)):
        scratch = BlockScratch(*block_scratch())
        found: list[int] = []
        cursor = BlockCursor(*open_postings(term))
        while (cursor := BlockCursor(*advance_wanted(index.lists, cursor, wanted))).size:
            count, _ = decode_wanted(index.lists, cursor, wanted.bits, scratch)
            found += scratch.docs[scratch.picked[:count]].tolist()
        listed = set(targets.tolist())
        assert found == [doc for doc, _, _ in _all_entries(index, term) if doc in listed]


@given(word=words, targets=docs)
def test_positions_are_those_of_the_entry(index: TextIndex, word: str, targets: np.ndarray) -> None:
    term = index.vocabulary.find(word)
    assert term is not None

    def positions(targets: np.ndarray) -> dict[tuple[int, int], list[int]]:
        read = {}
        at = open_positions()
        for cursor in _walk(index, term, targets):
            field, freq = decode_entry(index.lists.postings, cursor.packing, cursor.entry)
            offset = seek_positions(index.lists, index.positions, at, cursor)
            deltas = []
            for _ in range(freq):
                delta, offset = decode_varint(index.positions.positions, offset)
                deltas.append(delta)
            at = PositionsCursor(*after_entry(cursor, offset))
            read[cursor.doc, field] = np.cumsum(deltas).tolist()
        return read

    # All entries one after the other need no seeking.
    every = positions(np.arange(NUM_DOCS, dtype=np.uint32))
    wanted = set(targets.tolist())
    assert positions(targets) == {key: at for key, at in every.items() if key[0] in wanted}
    if word == "seldom":
        assert set(map(tuple, every.values())) <= {(at, at + 2) for at in range(6)}
