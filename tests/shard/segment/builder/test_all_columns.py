"""Columns hold the items' values; merging equals building a segment from the live items."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from common.facet_dictionary import FacetDictionary
from common.item_placement import hash_id
from common.value_kinds_and_facet_keys import Shape
from shard.segment.builder.all_columns import build_columns, merge_columns
from shard.segment.columns import facet_columns
from shard.segment.columns.external_ids import find_few_live, find_live, is_item_of
from shard.segment.columns.facet_column_builder import SETS_DOCS_MIN
from shard.segment.columns.facet_columns import facet_column
from shard.segment.columns.number_columns import number_column, split_number
from shard.segment.columns.presence_and_value_kinds import Aspect, presence_of
from shard.segment.doc_sets import empty_bitset, list_docs
from shard.segment.facet_value_sets import StoredSets, measure_stored
from shard.segment.field_registry import FieldRegistry
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from tests.shard.columns_model import (
    FACETS,
    PATHS,
    Item,
    build_segment,
    extract_items,
    items,
    keys_of,
    leaves,
    numbers_of,
)
from tests.shard.text_model import join

batches = st.lists(items(), min_size=1, max_size=30)


def make(batch: list[Item]) -> tuple[Segment, FieldRegistry, dict[str, FacetDictionary]]:
    registry = FieldRegistry()
    dictionaries = {path: FacetDictionary() for path in FACETS}
    return build_segment(batch, registry, dictionaries), registry, dictionaries


@given(batches)
def test_facet_columns_hold_each_distinct_value_of_each_item_once(batch: list[Item]) -> None:
    segment, registry, dictionaries = make(batch)
    for path in FACETS:
        column = facet_column(segment, registry.register(path))
        expected = [keys_of(item, path) for item in batch]
        if column is None:
            assert not any(expected)
            continue
        names = dictionaries[path].values()
        rows = np.split(column.codes, len(batch) if column.is_single else column.starts[1:-1])
        found = [[names[code - 1] for code in row.tolist() if code] for row in rows]
        assert [set(row) for row in found] == expected
        assert all(len(set(row)) == len(row) for row in found)
        totals = np.zeros(len(names) + 1, np.uint32)
        column.add_totals(totals)
        counts = Counter(key for row in expected for key in row)
        assert totals[1:].tolist() == [counts[name] for name in names]


@given(batches)
def test_number_columns_are_exact(batch: list[Item]) -> None:
    segment, registry, _ = make(batch)
    for path in PATHS:
        column = number_column(segment, registry.register(path))
        expected = [
            (doc, *split_number(value))
            for doc, item in enumerate(batch)
            for value in numbers_of(item, path)
        ]
        if column is None:
            assert not expected
            continue
        docs, doubles, residuals = column.pairs()
        rest = [0] * len(docs) if residuals is None else residuals.tolist()
        assert list(zip(docs.tolist(), doubles.tolist(), rest, strict=True)) == expected


@given(batches)
def test_presence_tells_every_aspect(batch: list[Item]) -> None:
    segment, registry, _ = make(batch)
    presence = presence_of(segment)
    for path in PATHS:
        found = [leaves(item, path) for item in batch]
        field = registry.register(path)
        for aspect, is_there in (
            (Aspect.EXISTS, lambda value, shape: value is not None),
            (Aspect.NULL, lambda value, shape: value is None and shape == Shape.SCALAR),
            (Aspect.EMPTY_TEXT, lambda value, shape: value == "" and shape == Shape.SCALAR),
            (Aspect.EMPTY, lambda value, shape: value in ([], {}) and shape == Shape.SCALAR),
            (Aspect.TRUE, lambda value, shape: value is True and shape != Shape.NESTED),
            (Aspect.FALSE, lambda value, shape: value is False and shape != Shape.NESTED),
            (Aspect.ARRAY, lambda value, shape: shape != Shape.SCALAR),
        ):
            expected = [
                doc for doc, one in enumerate(found) if any(is_there(*leaf) for leaf in one)
            ]
            assert presence.docs(field, aspect).tolist() == expected
            assert presence.count(field, aspect) == len(expected)


@given(batches, st.data())
def test_merging_equals_building_from_what_is_left(batch: list[Item], data: st.DataObject) -> None:
    registry = FieldRegistry()
    dictionaries = {path: FacetDictionary() for path in FACETS}
    cut = data.draw(st.integers(0, len(batch)))
    parts = [
        build_segment(part, registry, dictionaries) for part in (batch[:cut], batch[cut:]) if part
    ]
    keep = data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch)))
    doc_map = np.where(keep, np.cumsum(keep) - 1, -1)
    doc_maps = np.split(doc_map, [cut]) if 0 < cut < len(batch) else [doc_map]
    merged = join(merge_columns(MergeState.of(parts, doc_maps)))
    left = [item for item, kept in zip(batch, keep, strict=True) if kept]
    facets = {registry.register(path): one for path, one in dictionaries.items()}
    rebuilt = build_columns(extract_items(left, registry), facets) if left else {}
    if not left:
        assert all(not len(merged[name]) for name in merged if name.startswith(("facet", "number")))
        return
    assert merged.keys() == rebuilt.keys()
    for name in merged.keys() - {"presence.kinds"}:
        assert merged[name].dtype == rebuilt[name].dtype, name
        np.testing.assert_array_equal(merged[name], rebuilt[name], name)
    # A merge may remember kinds of values that it has dropped.
    assert not (rebuilt["presence.kinds"] & ~merged["presence.kinds"]).any()


def _large(count: int) -> list[Item]:
    """Items with rare and frequent values, enough of them for stored sets."""
    rng = np.random.default_rng(5)
    return [
        {
            "id": doc,
            "tags": [f"t{n}" for n in set(rng.zipf(1.5, 3).clip(0, 500).tolist())],
            "year": int(1900 + rng.integers(0, 3)) if doc % 11 else None,
            "rare": 5 if doc % 999 == 0 else None,
        }
        for doc in range(count)
    ]


def test_sets_that_take_too_long_anyway_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = _large(3 * SETS_DOCS_MIN)
    registry = FieldRegistry()
    segment = build_segment(batch, registry, {"year": FacetDictionary()})
    column = facet_column(segment, registry.register("year"))
    assert column is not None
    measured: list[object] = []

    def note(stored: StoredSets) -> tuple[int, int]:
        measured.append(stored)
        return measure_stored(stored)

    monkeypatch.setattr(facet_columns, "measure_stored", note)
    # Three years, in nearly all documents.
    assert not column.intersects_within(1.0, 1.0, 2.5 * SETS_DOCS_MIN)
    assert not measured
    assert column.intersects_within(1.0, 1.0, 4 * SETS_DOCS_MIN)
    assert len(measured) == 1


def test_large_segments_have_stored_sets_that_say_what_the_codes_say() -> None:
    batch = _large(3 * SETS_DOCS_MIN)
    registry = FieldRegistry()
    dictionaries = {path: FacetDictionary() for path in ("tags", "year")}
    segment = build_segment(batch, registry, dictionaries)
    for path, dictionary in dictionaries.items():
        column = facet_column(segment, registry.register(path))
        assert column is not None
        assert column.intersects_within(1, 1, float("inf"))
        odd = empty_bitset(len(batch))
        odd[:] = np.uint64(0xAAAAAAAAAAAAAAAA)
        counts = np.zeros(len(dictionary) + 1, np.uint32)
        column.add_intersections(odd, counts)
        having: dict[str, list[int]] = {key: [] for key in dictionary.values()}
        for doc, item in enumerate(batch):
            for key in keys_of(item, path):
                having[key].append(doc)
        for number, expected in enumerate(having.values()):
            words = empty_bitset(len(batch))
            column.add_docs_with([number], words)
            assert list_docs(words, len(batch)).tolist() == expected
            assert counts[number + 1] == sum(doc & 1 for doc in expected)


def test_merging_large_segments_equals_building_one() -> None:
    batch = _large(2 * SETS_DOCS_MIN)
    registry = FieldRegistry()
    dictionaries = {path: FacetDictionary() for path in ("tags", "year")}
    cut = SETS_DOCS_MIN - 5
    parts = [build_segment(part, registry, dictionaries) for part in (batch[:cut], batch[cut:])]
    keep = np.arange(len(batch)) % 7 != 3
    doc_map = np.where(keep, np.cumsum(keep) - 1, -1)
    merged = join(merge_columns(MergeState.of(parts, np.split(doc_map, [cut]))))
    left = [item for item, kept in zip(batch, keep.tolist(), strict=True) if kept]
    rebuilt = build_segment(left, registry, dictionaries)
    for name, array in merged.items():
        np.testing.assert_array_equal(array, rebuilt[name], name)


def test_ids_are_found_unless_deleted() -> None:
    batch: list[Item] = [{"id": 5}, {"id": "b"}, {}, {"id": "5"}]
    segment, _, _ = make(batch)
    hashes = np.array([hash_id(one) for one in (b"b", b"5", b"6")], np.uint64)

    def found(live: NDArray[np.uint64] | None, deleted: list[int]) -> list[tuple[int, int]]:
        queries, docs = find_live(segment, live, hashes)
        few = find_few_live(segment, FrozenBitMap(deleted) if deleted else None, hashes)
        assert [one.tolist() for one in few] == [queries.tolist(), docs.tolist()]
        return list(zip(queries.tolist(), docs.tolist(), strict=True))

    assert found(None, []) == [(0, 1), (1, 0), (1, 3)]
    assert found(np.array([0b1010], np.uint64), [0, 2]) == [(0, 1), (1, 3)]
    assert found(np.array([0b0001], np.uint64), [1, 2, 3]) == [(1, 0)]
    assert found(np.array([0b0100], np.uint64), [0, 1, 3]) == []


@pytest.mark.parametrize(
    ("document", "id", "expected"),
    [
        (b'{"id":7,"a":1}', b"7", True),
        (b'{"id":"7","a":1}', b"7", True),
        (b'{"id":77,"a":1}', b"7", False),
        (b'{"a":{"id":8},"id":7}', b"7", True),
        (b'{"a":{"id":7},"id":8}', b"7", False),
        (b'{ "id" : "7" }', b"7", True),
        (b'{"id":"a\\"b","c":1}', b'a"b', True),
        (b'{"id":"x","y":"z","c":1}', b'x","y":"z', False),
        (b'{"id":"a\\b","c":1}', b"a\\b", False),
        (b'{"id":"a\\\\b","c":1}', b"a\\b", True),
        (b'{"a":1}', b"7", False),
    ],
)
def test_an_item_is_known_by_its_id(document: bytes, id: bytes, expected: bool) -> None:
    assert is_item_of(document, id) == expected


def test_every_id_of_a_large_segment_is_found() -> None:
    batch: list[Item] = [{"id": str(number)} for number in range(20_000)]
    segment, _, _ = make(batch)
    hashes = np.array([hash_id(b"%d" % number) for number in range(20_000)], np.uint64)
    queries, docs = find_live(segment, None, hashes)
    assert queries.tolist() == docs.tolist() == list(range(20_000))
    assert len(find_live(segment, None, hashes + np.uint64(1))[0]) == 0
    hashes.sort()
    queries, docs = find_live(segment, None, np.ascontiguousarray(hashes[::3]), are_ascending=True)
    assert segment["ids.doc"][::3].tolist() == docs.tolist()
    assert queries.tolist() == list(range(len(docs)))
    absent = np.array([0, *(hashes[5:7] + np.uint64(1)).tolist(), (1 << 64) - 1], np.uint64)
    assert len(find_live(segment, None, absent, are_ascending=True)[0]) == 0


@given(
    ids=st.sets(st.integers(0, 300), max_size=200),
    wanted=st.sets(st.integers(0, 300), max_size=200),
    is_skewed=st.booleans(),
)
def test_ascending_hashes_are_found_as_any_others(
    ids: set[int], wanted: set[int], is_skewed: bool
) -> None:
    # An attacker can craft ids whose hashes are close together.
    spread = np.uint64(1 if is_skewed else (1 << 64) // 301)
    own = np.array(sorted(ids), np.uint64) * spread
    hashes = np.array(sorted(wanted), np.uint64) * spread
    arrays = {"ids.hash": own, "ids.doc": np.arange(len(own), dtype=np.uint32)}
    segment = Segment(arrays, num_docs=len(own))
    queries, docs = find_live(segment, None, hashes, are_ascending=True)
    assert (
        hashes[queries].tolist()
        == own[docs].tolist()
        == sorted({*own.tolist()} & {*hashes.tolist()})
    )
