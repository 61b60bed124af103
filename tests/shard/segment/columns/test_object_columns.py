"""Points and elements: merged columns equal built ones; objects cost nothing unless configured."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from common.facet_dictionary import FacetDictionary
from common.index_configuration import IndexConfiguration
from common.index_configuration_parser import parse_configuration
from common.query_syntax_tree import GeoBox, GeoPolygon, GeoRadius
from coordinator.parameters.geo import polygon_of
from shard.caches.lru_cache import MIB, LruCache
from shard.segment.builder.segment_builder import SegmentBuilder
from shard.segment.builder.segment_merge import merge_segments
from shard.segment.columns import geo_columns
from shard.segment.columns.geo_columns import geo_column
from shard.segment.columns.nested_elements import element_segment
from shard.segment.field_registry import FieldRegistry
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from tests.cluster.test_nested_and_geo_against_oracle import places, variants
from tests.oracle.elements import elements_of
from tests.oracle.geo import in_area

Item = dict[str, Any]

NESTED = IndexConfiguration(geo_fields=("_geo", "far.off"), nested=("variants", "rows.cell"))
FACETS = ("variants.size", "variants.color", "rows.cell.size")

items = st.fixed_dictionaries(
    {"id": st.integers(0, 9)},
    optional={
        "_geo": places,
        "variants": variants,
        "rows": st.lists(st.fixed_dictionaries({"cell": variants}), max_size=2),
        "far": st.fixed_dictionaries({"off": places}),
    },
)


class Builder:
    """Builds segments of items, as a partition would."""

    def __init__(self, configuration: IndexConfiguration = NESTED) -> None:
        self.registry = FieldRegistry()
        dictionaries = {path: FacetDictionary() for path in FACETS}
        self._builder = SegmentBuilder(configuration, self.registry, dictionaries)
        self._next = 0

    def build(self, batch: list[Item]) -> Segment:
        encoded = [json.dumps(item).encode() for item in batch]
        ends = np.cumsum([len(one) + 1 for one in encoded], dtype=np.int64) - 1
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))[: len(batch)]
        payload = np.frombuffer(bytearray(b"\n".join([*encoded, b""])), np.uint8)
        numbers = np.arange(self._next, self._next + len(batch), dtype=np.uint64)
        self._next += len(batch)
        return self._builder.build(self._builder.extract(payload, starts, ends), numbers, numbers)


def shapes_of(segment: Segment) -> dict[str, NDArray[Any]]:
    """Return the arrays of points and elements; kinds that once were may stay with a merge."""
    return {
        name: segment[name]
        for name in segment
        if name.startswith(("geo.", "nested.")) and not name.endswith("presence.kinds")
    }


@given(st.lists(items, min_size=1, max_size=12), st.data())
def test_merging_gives_what_building_gives(batch: list[Item], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(batch)), max_size=3)) | {0, len(batch)})
    dropped = data.draw(st.sets(st.integers(0, len(batch) - 1)))
    builder = Builder()
    parts = [builder.build(batch[low:high]) for low, high in itertools.pairwise(cuts)]
    gone = [
        np.array([one - low for one in sorted(dropped) if low <= one < high], np.uint32)
        for low, high in itertools.pairwise(cuts)
    ]
    merged = merge_segments(MergeState.without(parts, gone))
    kept = [item for number, item in enumerate(batch) if number not in dropped]
    built = shapes_of(builder.build(kept)) if kept else {}
    found = shapes_of(merged)
    assert set(found) == set(built)
    for name, array in built.items():
        assert array.dtype == found[name].dtype, name
        assert np.array_equal(array, found[name], equal_nan=array.dtype.kind == "f"), name


@given(st.lists(items, min_size=1, max_size=6))
def test_elements_stand_where_the_array_has_them(batch: list[Item]) -> None:
    builder = Builder()
    segment = builder.build(batch)
    for path in ("variants", "rows.cell"):
        number = builder.registry.number(path)
        elements = None if number is None else element_segment(segment, number)
        found = [0] * len(batch)
        for doc in [] if elements is None else elements.docs.tolist():
            found[doc] += 1
        assert found == [len(elements_of(item, path)) for item in batch]


areas = st.sampled_from(
    [
        GeoRadius("_geo", 0.0, 180.0, 100_000.0),
        GeoRadius("_geo", 89.95, 0.0, 20_000.0),
        GeoRadius("_geo", 48.2, 16.4, 0.0),
        GeoRadius("_geo", -10.0, 10.0, 20_015_115.0),
        GeoBox("_geo", -1.0, 1.0, 179.0, -179.0),
        GeoBox("_geo", 0.0, 90.0, 100.0, 180.0),
        GeoBox("_geo", -90.0, 90.0, -180.0, 180.0),
        GeoBox("_geo", -80.0, 80.0, 180.0, 180.0),
        GeoBox("_geo", -80.0, 80.0, -180.0, -180.0),
        GeoBox("_geo", -80.0, 80.0, 180.0, -180.0),
        GeoBox("_geo", -80.0, 80.0, 180.0, 10.0),
    ]
)


@given(st.lists(items, min_size=1, max_size=6), areas)
def test_points_of_an_area_are_those_of_the_model(
    batch: list[Item], area: GeoRadius | GeoBox
) -> None:
    builder = Builder()
    segment = builder.build(batch)
    number = builder.registry.number("_geo")
    column = None if number is None else geo_column(segment, number)
    found = set() if column is None else set(column.docs[column.points_within(area)].tolist())
    if isinstance(area, GeoRadius):
        described: dict[str, Any] = {"lat": area.lat, "lng": area.lng, "metres": area.metres}
        name = "radius"
    else:
        described = {
            "top_right": [area.top, area.right],
            "bottom_left": [area.bottom, area.left],
        }
        name = "box"
    wanted = {i for i, item in enumerate(batch) if in_area(item, "_geo", name, described)}
    assert found == wanted


def test_an_index_without_such_fields_has_no_array_of_theirs() -> None:
    builder = Builder(IndexConfiguration())
    segment = builder.build([{"id": 1, "variants": [{"size": "M"}], "geo": {"lat": 1, "lng": 2}}])
    assert shapes_of(segment) == {}


def test_the_first_point_of_an_index_is_found() -> None:
    """Also where its batch was extracted before it was known that there are points."""
    builder = Builder(IndexConfiguration())
    builder.build([{"id": 1}])
    segment = builder.build([{"id": 2}, {"id": 3, "_geo": {"lat": 1, "lng": 2}}])
    column = geo_column(segment, builder.registry.number("_geo") or 0)
    assert column is not None
    assert column.docs.tolist() == [1]
    assert math.isclose(column.distances(None, 1.0, 3.0)[0], 111_178.14, rel_tol=1e-6)


@pytest.mark.parametrize("left", [180.0, -180.0])
@pytest.mark.parametrize("right", [180.0, -180.0])
def test_a_box_without_width_at_180_is_that_meridian(left: float, right: float) -> None:
    builder = Builder(IndexConfiguration())
    lngs = (180, -180, 179.9, -179.9, 0)
    batch = [{"id": i, "_geo": {"lat": 1, "lng": lng}} for i, lng in enumerate(lngs)]
    column = geo_column(builder.build(batch), builder.registry.number("_geo") or 0)
    assert column is not None
    is_whole = (left, right) == (-180.0, 180.0)
    found = column.points_within(GeoBox("_geo", 0.0, 2.0, left, right)).tolist()
    assert found == ([0, 1, 2, 3, 4] if is_whole else [0, 1])


def test_a_polygon_has_a_hole_where_it_crosses_itself() -> None:
    builder = Builder(IndexConfiguration())
    places = [(10, 2), (15, 10), (10, 18), (10, 21), (5, 10)]
    batch = [{"id": i, "_geo": {"lat": lat, "lng": lng}} for i, (lat, lng) in enumerate(places)]
    column = geo_column(builder.build(batch), builder.registry.number("_geo") or 0)
    assert column is not None
    corners = ((0.0, 0.0), (20.0, 0.0), (0.0, 20.0), (20.0, 20.0))
    inside = column.points_within(GeoPolygon("_geo", corners))
    assert inside.tolist() == [0, 2]


@pytest.mark.parametrize("pole", [90, -90])
def test_a_polygon_round_a_pole_contains_it(pole: int) -> None:
    builder = Builder(IndexConfiguration())
    places = [(pole, lng) for lng in (-180, -90, 0, 0.5, 179.9, 180)] + [(0, 0), (-pole, 0)]
    batch = [{"id": i, "_geo": {"lat": lat, "lng": lng}} for i, (lat, lng) in enumerate(places)]
    column = geo_column(builder.build(batch), builder.registry.number("_geo") or 0)
    assert column is not None
    corners = [(math.copysign(80.0, pole), lng) for lng in (0.0, 90.0, 180.0, -90.0)]
    for border in (corners, corners[::-1]):
        assert column.points_within(polygon_of("_geo", border)).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("key", ["geo_fields", "nested"])
def test_fields_are_read_from_the_configuration(key: str) -> None:
    configuration, warnings = parse_configuration({key: ["a", "b.c", "a"]})
    assert getattr(configuration, key) == ("a", "b.c")
    assert warnings == []


@pytest.mark.parametrize("each", [1, 3])
def test_the_closest_documents_are_among_those_that_chords_choose(each: int) -> None:
    """Whatever single precision does; ties and poles included."""
    random = np.random.default_rng(each)
    batch = [
        {
            "id": i,
            "_geo": [
                {"lat": float(lat), "lng": float(lng)}
                for lat, lng in zip(
                    random.choice([-90, 0, 48.2, 48.20001, 89.99999], each),
                    random.choice([-180, -179.99999, 0, 16.4, 16.40001], each),
                    strict=True,
                )
            ],
        }
        for i in range(400)
    ]
    builder = Builder(IndexConfiguration())
    column = geo_column(builder.build(batch), builder.registry.number("_geo") or 0)
    assert column is not None
    docs = np.arange(400, dtype=np.uint32)
    for lat, lng in ((48.2, 16.4), (90.0, 0.0), (0.0, 180.0), (-48.2, -163.6)):
        distances = column.nearest(docs, lat, lng)
        for k in (1, 10, 399):
            chosen = column.closest(docs, lat, lng, k)
            threshold = np.partition(distances, k - 1)[k - 1]
            assert set(np.flatnonzero(distances <= threshold)) <= set(chosen.tolist())


def test_chords_are_charged_to_a_cache_and_done_without_where_it_is_too_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They stayed as long as their segment, beyond every bound."""
    builder = Builder(IndexConfiguration())
    batch = [{"id": i, "_geo": {"lat": i / 9, "lng": 3}} for i in range(400)]
    segment = builder.build(batch)
    column = geo_column(segment, builder.registry.number("_geo") or 0)
    assert column is not None
    docs = np.arange(400, dtype=np.uint32)
    cache = LruCache(MIB)
    monkeypatch.setattr(geo_columns, "COLUMN_CACHE", cache)
    assert column.closest(docs, 0.0, 3.0, 2).tolist() == [0, 1]
    assert cache.size >= 400 * 12
    monkeypatch.setattr(cache, "bytes_max", 400 * 12)
    assert column.closest(docs, 0.0, 3.0, 2).tolist() == docs.tolist()


def test_starts_of_points_are_charged_to_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder(IndexConfiguration())
    batch = [{"id": i, "_geo": [{"lat": i / 9, "lng": 3}] * (i % 3)} for i in range(400)]
    segment = builder.build(batch)
    column = geo_column(segment, builder.registry.number("_geo") or 0)
    assert column is not None
    cache = LruCache(MIB)
    monkeypatch.setattr(geo_columns, "COLUMN_CACHE", cache)
    distances = column.nearest(np.arange(400, dtype=np.uint32), 0.0, 3.0)
    assert np.flatnonzero(np.isnan(distances)).tolist() == list(range(0, 400, 3))
    assert cache.size >= 401 * 8
