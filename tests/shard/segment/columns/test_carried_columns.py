"""A merged segment has the columns that searches have used of its parts, and they are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from shard.segment.builder.segment_builder import make_doc_maps, merge_segments
from shard.segment.columns import text_columns
from shard.segment.columns.carried_columns import carry_columns
from shard.segment.columns.sort_columns import needs_column, sort_column
from shard.segment.columns.text_columns import needs_documents, text_column
from shard.segment.snapshot import SegmentView
from tests.shard.columns_model import Item, World

TEXTS = st.sampled_from(["", "a", "b", "ä", "a b", "longer than eight bytes", "longer than eight"])
VALUES = st.none() | st.integers(0, 2) | TEXTS | st.lists(TEXTS, max_size=3)
ITEMS = st.fixed_dictionaries({}, optional={"name": VALUES, "other": TEXTS})


class _Merge:
    """The segments of a world, merged.

    Attributes:
        field: the number of `name`.
        merged: the merged segment, without the documents deleted in the parts.
    """

    def __init__(self, world: World, dropped: frozenset[int]) -> None:
        self._world = world
        self._parts = world.snapshot.views
        gone = []
        first = 0
        for part in self._parts:
            records = range(first, first + part.segment.num_docs)
            gone.append(np.array([one - first for one in dropped if one in records], np.uint32))
            first += part.segment.num_docs
        segments = [part.segment for part in self._parts]
        self._doc_maps = make_doc_maps(segments, gone)
        merged = merge_segments(segments, self._doc_maps)
        hidden = [
            int(doc_map[doc])
            for part, doc_map in zip(self._parts, self._doc_maps, strict=True)
            for doc in part.deleted or ()
            if doc_map[doc] >= 0
        ]
        self.merged = SegmentView(merged, FrozenBitMap(hidden) if hidden else None)
        field = world.snapshot.registry.number("name")
        self.field = world.snapshot.registry.register("name") if field is None else field

    def carry(self) -> None:
        carry_columns(self._world.snapshot, self._parts, self._doc_maps, self.merged.segment)


@given(st.data())
def test_carried_texts_are_those_that_are_extracted(data: st.DataObject) -> None:
    items: list[Item] = data.draw(st.lists(ITEMS, min_size=1, max_size=12))
    records = st.integers(0, len(items) - 1)
    cuts = sorted(data.draw(st.sets(records.filter(bool), max_size=3)))
    deleted = data.draw(st.frozensets(records))
    dropped = data.draw(st.frozensets(records)) & deleted
    world = World(items, cuts=cuts, deleted=deleted, facets=(), has_texts=True)
    merge = _Merge(world, dropped)
    if not merge.merged.segment.num_docs:
        return
    snapshot, field = world.snapshot, merge.field
    for view in snapshot.views:
        if data.draw(st.booleans()):
            sort_column(snapshot, view, field, data.draw(st.sampled_from(["", "de"])))

    merge.carry()

    expected = text_columns._extract_texts(snapshot, merge.merged, field)
    found = text_column(snapshot, merge.merged, field)
    if found is None:
        assert not expected.num_values
    else:
        assert found.all_keys() == expected.all_keys()
        assert found.column.codes.tolist() == expected.column.codes.tolist()
        assert found.column.starts.tolist() == expected.column.starts.tolist()
        assert found.longest == expected.longest


@pytest.mark.parametrize("collation", ["", "de"])
def test_no_search_waits_for_a_column_that_was_in_use(
    collation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items: list[Item] = [{"name": f"name {i * 7 % 100}"} for i in range(100)]
    world = World(items, cuts=[70], deleted=frozenset({3, 80}), facets=(), has_texts=True)
    merge = _Merge(world, frozenset({3}))
    snapshot, field = world.snapshot, merge.field
    first, second = snapshot.views
    sort_column(snapshot, first, field, collation)
    extract = text_columns._extract_texts
    extracted: list[SegmentView] = []

    def note(snapshot: Any, view: SegmentView, field: int) -> Any:
        extracted.append(view)
        return extract(snapshot, view, field)

    monkeypatch.setattr(text_columns, "_extract_texts", note)
    merge.carry()

    assert extracted == [second]  # the part that no search has sorted yet
    assert not needs_documents(snapshot, merge.merged, field)
    assert not needs_column(snapshot, merge.merged, field, collation)
    docs = np.setdiff1d(np.arange(99, dtype=np.uint32), [79])
    names = sort_column(snapshot, merge.merged, field, collation).values(docs)
    assert names == [items[i]["name"] for i in range(100) if i not in (3, 80)]


def test_a_column_of_few_documents_is_not_carried() -> None:
    items: list[Item] = [{"name": f"name {i}"} for i in range(100)]
    world = World(items, cuts=[40], facets=(), has_texts=True)
    merge = _Merge(world, frozenset())
    sort_column(world.snapshot, world.snapshot.views[0], merge.field)

    merge.carry()

    assert needs_documents(world.snapshot, merge.merged, merge.field)
