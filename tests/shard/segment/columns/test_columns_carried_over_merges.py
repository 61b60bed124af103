"""A merged segment has the columns that searches have used of its parts, and they are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from common.moments import timestamp_of
from common.protocol.messages import RangeRequest
from shard.caches.lru_cache import COLUMN_CACHE
from shard.collect.facets.calendar_buckets import bucket_of, calendar_buckets, carry_calendars
from shard.segment.builder.segment_merge import merge_segments
from shard.segment.columns import text_ordinal_columns, text_ordinal_merge
from shard.segment.columns.cached_date_seconds import date_seconds_by_rank, has_date_seconds
from shard.segment.columns.columns_carried_over_merges import carry_columns
from shard.segment.columns.grouping_keys import grouping_keys
from shard.segment.columns.sort_columns import needs_column, sort_column
from shard.segment.columns.text_ordinal_columns import needs_documents, text_column
from shard.segment.merge_result import MergeResult
from shard.segment.merge_state import MergeState
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
        state = MergeState.without(segments, gone)
        self._result = MergeResult(self._parts, state.doc_maps, merge_segments(state))
        hidden = [
            int(doc_map[doc])
            for part, doc_map in zip(self._parts, state.doc_maps, strict=True)
            for doc in part.deleted or ()
            if doc_map[doc] >= 0
        ]
        assert self._result.merged is not None
        self.merged = SegmentView(self._result.merged, FrozenBitMap(hidden) if hidden else None)
        field = world.snapshot.registry.number("name")
        self.field = world.snapshot.registry.register("name") if field is None else field

    def carry(self) -> None:
        carry_columns(self._world.snapshot, self._result)
        carry_calendars(self._world.snapshot, self._parts, self.merged)


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

    expected = text_ordinal_columns._extract_texts(snapshot, merge.merged, field)
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
    extract = text_ordinal_columns.extract_texts
    extracted: list[SegmentView] = []

    def note(snapshot: Any, view: SegmentView, fields: Sequence[int]) -> Any:
        extracted.append(view)
        return extract(snapshot, view, fields)

    for module in (text_ordinal_columns, text_ordinal_merge):
        monkeypatch.setattr(module, "extract_texts", note)
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


@pytest.mark.parametrize("facets", [(), ("name",)])
def test_values_are_carried_where_hits_were_told_apart_by_them(facets: tuple[str, ...]) -> None:
    items: list[Item] = [{"name": f"name {i * 7 % 50}"} for i in range(100)]
    world = World(items, cuts=[70], deleted=frozenset({3, 80}), facets=facets, has_texts=True)
    merge = _Merge(world, frozenset({3}))
    snapshot, field = world.snapshot, merge.field
    for view in snapshot.views:
        grouping_keys(snapshot, view, field)

    merge.carry()

    cached = COLUMN_CACHE.keys_of(merge.merged.segment)
    carried = [key for key in cached if isinstance(key, tuple) and key[0] == "distinct"]
    assert len(carried) == 1
    keys = grouping_keys(snapshot, merge.merged, field)
    assert COLUMN_CACHE.get(carried[0]) is keys  # the search makes no others
    docs = [doc for doc in range(99) if doc != 79]
    names = [items[i]["name"] for i in range(100) if i not in (3, 80)]
    by_number: dict[int, set[Any]] = {}
    for doc, name in zip(docs, names, strict=True):
        by_number.setdefault(int(keys.numbers[doc]), set()).add(name)
    assert all(len(one) == 1 for one in by_number.values())
    assert len(by_number) == len(set(names))


def test_the_values_of_a_segment_stay_numbered_when_its_facet_has_a_new_one() -> None:
    world = World([{"name": "a"}, {"name": "b"}, {"name": "c"}], cuts=[2], facets=("name",))
    snapshot = world.snapshot
    field = snapshot.registry.number("name")
    assert field is not None
    first = snapshot.views[0]
    before = snapshot.with_views(snapshot.views[:1], {"name": 2})
    assert grouping_keys(before, first, field) is grouping_keys(snapshot, first, field)


@pytest.mark.parametrize("facets", [(), ("name",)])
def test_moments_and_calendars_are_carried(facets: tuple[str, ...]) -> None:
    items: list[Item] = [
        {"name": f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}T10:00Z"} for i in range(100)
    ]
    world = World(items, cuts=[70], deleted=frozenset({3, 80}), facets=facets, has_texts=True)
    merge = _Merge(world, frozenset({3}))
    snapshot, field = world.snapshot, merge.field
    asked = [
        RangeRequest("name", calendar="month"),
        RangeRequest("name", calendar="6h", time_zone="Asia/Tokyo"),
    ]
    for view in snapshot.views:
        texts = text_column(snapshot, view, field)
        assert texts is not None
        date_seconds_by_rank(view.segment, field, texts)
        for request in asked:
            calendar_buckets(texts, request, view.segment)

    merge.carry()

    texts = text_column(snapshot, merge.merged, field)
    assert texts is not None
    cached = COLUMN_CACHE.keys_of(merge.merged.segment)
    assert has_date_seconds(merge.merged.segment, field, texts)
    calendars = {key[-2:] for key in cached if isinstance(key, tuple) and key[0] == "calendar"}
    assert calendars == {("month", None), ("6h", "Asia/Tokyo")}
    moments = date_seconds_by_rank(merge.merged.segment, field, texts).tolist()
    expected = [timestamp_of(texts.text_of_rank(rank).decode()) for rank in range(len(moments))]
    assert moments == expected
    for request in asked:
        keys, bucket_of_code = calendar_buckets(texts, request, merge.merged.segment)
        found = [keys[bucket - 1] for bucket in bucket_of_code[1:].tolist()]
        assert request.calendar is not None
        assert found == [
            bucket_of(key.decode(), request.calendar, request.time_zone) for key in texts.all_keys()
        ]
