"""Geo columns: the points of a field, and their distances from others.

Questions they answer, for one field of one segment: which documents have a point in a circle, a box
or a polygon; how far is the nearest point of a document?

    {"_geo": {"lat": 48.2, "lng": 16.4}}     {"_geo": [{"lat": …, "lng": …}, …]}

    geo.<f>.lats   float64   by point: degrees north, -90 to 90
    geo.<f>.lngs   float64   by point: degrees east, -180 to below 180
    geo.<f>.docs   uint32    document of each point, ascending; absent if each has exactly one

A point is an object at the field, or in an array there, with one number `lat` and one number `lng`
within these bounds (180 is -180). Anything else is ignored.

All distances are those of `haversine`, on a sphere, in metres: a single kernel, so that a circle,
an order and a ring agree on every point.

Costs: build 60 ns a point; memory 16 bytes a point. Where documents are sorted by distance, the LRU
cache (`COLUMN_CACHE`) keeps 8 bytes a document, unless each has one point, and 12 a point, if they
are many. A box is a scan of 0.5 ns a point; a circle adds 40 ns for each point in the box around
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.kernels.decorator import arguments, kernel
from common.kernels.types import F64Array, U32Array, U64Array, uint64
from common.query_syntax_tree import Area, GeoBox, GeoPolygon, GeoRadius
from shard.caches.derived_values import derived_by_key
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.batch_values_by_column import NUMBER_KINDS, group_values
from shard.segment.columns.nested_elements import Elements
from shard.segment.doc_sets import count_docs, list_docs
from shard.segment.items.numbers_and_facet_keys import parse_numbers
from shard.segment.merge_allocator import IN_MEMORY, GrowingArray
from shard.segment.merge_state import MergeState
from shard.segment.segment import fields_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment

EARTH_RADIUS_METRES: Final = 6_371_008.8
"""Mean radius of the earth."""
_RADIANS: Final = math.pi / 180.0
_CHORD_MARGIN: Final = np.float32(1e-5)
"""Far above the error of a squared chord in single precision."""
_CLOSEST_SHARE: Final = 16
"""Up to 1 / `_CLOSEST_SHARE` of the documents, exact distances cost less than all points' chords.
"""
_VECTOR_BYTES: Final = 12
"""Of a point in `_unit_vectors`."""
_POINTS_FAST_MAX: Final = 50_000
"""Distances of up to this many points, or their vectors, are computed within 5 ms."""
_SLACK_DEGREES: Final = 1e-6
"""Margin of the box around a circle: 11 cm, far above any rounding error."""


@kernel(inline=True, allocates=False)
def haversine(lat: float, lng: float, other_lat: float, other_lng: float) -> float:
    """Return the distance of two points, given in degrees, in metres."""
    half_lat = math.sin((other_lat - lat) * _RADIANS * 0.5)
    half_lng = math.sin((other_lng - lng) * _RADIANS * 0.5)
    cosines = math.cos(lat * _RADIANS) * math.cos(other_lat * _RADIANS)
    squared = half_lat * half_lat + cosines * (half_lng * half_lng)
    return 2.0 * EARTH_RADIUS_METRES * math.asin(math.sqrt(min(1.0, squared)))


@kernel(allocates=False)
def _measure(lats: F64Array, lngs: F64Array, lat: float, lng: float, distances: F64Array) -> None:
    """Write the distance of every point from a given one."""
    for i in range(len(lats)):
        distances[i] = haversine(lats[i], lngs[i], lat, lng)


@arguments
class _Bands(NamedTuple):
    """A band of latitudes, and two of longitudes: a box across 180° has a part on either side."""

    bottom: float
    top: float
    left: float
    right: float
    other_left: float
    other_right: float


@kernel(allocates=False)
def _scan_box(lats: F64Array, lngs: F64Array, bands: _Bands, bitset: U64Array) -> None:
    """Set the bits of the points within a band of latitudes and one of two bands of longitudes.

    At a pole all meridians meet, so a pole matches any longitude. The inner loop has constant
    length and no branch, so it vectorizes.
    """
    bottom, top, left, right, other_left, other_right = bands
    num_whole = len(lats) >> 6
    for word in range(num_whole):
        bits = uint64(0)
        base = word << 6
        for i in range(64):
            lat = lats[base + i]
            lng = lngs[base + i]
            is_in = (lat >= bottom) & (lat <= top)
            is_beside = (lng >= left) & (lng <= right)
            is_beside |= (lng >= other_left) & (lng <= other_right)
            is_beside |= abs(lat) == 90.0
            bits |= uint64(is_in & is_beside) << uint64(i)
        bitset[word] |= bits
    for point in range(num_whole << 6, len(lats)):
        lat = lats[point]
        lng = lngs[point]
        is_beside = (lng >= left) & (lng <= right)
        is_beside |= (lng >= other_left) & (lng <= other_right)
        is_beside |= abs(lat) == 90.0
        is_in = (lat >= bottom) & (lat <= top) & is_beside
        bitset[num_whole] |= uint64(is_in) << uint64(point & 63)


@kernel(allocates=False)
def _pick_near(
    lats: F64Array,
    lngs: F64Array,
    points: U32Array,
    lat: float,
    lng: float,
    metres: float,
    picked: U32Array,
) -> int:
    """Write the points that lie within a distance of a given one; return their number."""
    count = 0
    for point in points:
        picked[count] = point
        count += 1 if haversine(lats[point], lngs[point], lat, lng) <= metres else 0
    return count


@kernel(allocates=False)
def _pick_inside(
    lats: F64Array,
    lngs: F64Array,
    points: U32Array,
    corner_lats: F64Array,
    corner_lngs: F64Array,
    picked: U32Array,
) -> int:
    """Write the points that lie in a polygon; return their number.

    Even-odd rule: a ray to the east crosses the border of a polygon that contains its origin an odd
    number of times. Each point is tested at -360, 0 and +360 degrees, since polygons may cross
    180°.
    """
    count = 0
    for point in points:
        lat = lats[point]
        is_inside = False
        for turn in range(-1, 2):
            lng = lngs[point] + 360.0 * turn
            is_odd = False
            before = len(corner_lats) - 1
            for corner in range(len(corner_lats)):
                low = corner_lats[before]
                high = corner_lats[corner]
                if (low > lat) != (high > lat):
                    along = (lat - low) / (high - low)
                    crossing = corner_lngs[before]
                    crossing += along * (corner_lngs[corner] - corner_lngs[before])
                    if lng < crossing:
                        is_odd = not is_odd
                before = corner
            is_inside = is_inside or is_odd
        picked[count] = point
        count += 1 if is_inside else 0
    return count


class _Points(NamedTuple):
    """Points in document order."""

    docs: NDArray[np.uint32]
    lats: NDArray[np.float64]
    lngs: NDArray[np.float64]


def build_points(
    elements: Elements, field: int, lat_field: int, lng_field: int, num_docs: int
) -> dict[str, NDArray[Any]]:
    """Build the geo column of a field of a batch.

    Args:
        elements: the objects at the field.
        field: its number.
        lat_field: number of the field `lat` inside it.
        lng_field: number of the field `lng` inside it.
        num_docs: documents of the batch.

    Returns:
        Arrays by name, see the module's drawing.
    """
    num_elements = len(elements.docs)
    selection, offsets = group_values(elements.values, (lat_field, lng_field), NUMBER_KINDS)
    numbers = parse_numbers(elements.values, selection)
    coordinates = np.full((2, num_elements), math.nan)
    for axis in (0, 1):
        chosen = slice(int(offsets[axis]), int(offsets[axis + 1]))
        owners = elements.values.doc[selection[chosen]]
        coordinates[axis, owners] = numbers[chosen]
        # Several numbers under one name: no point.
        coordinates[axis, np.bincount(owners, minlength=num_elements) != 1] = math.nan
    lats, lngs = coordinates
    is_point = (np.abs(lats) <= 90.0) & (np.abs(lngs) <= 180.0)
    lngs[lngs == 180.0] = -180.0
    # -0.0 is 0.0: equal points have equal bits.
    points = _Points(elements.docs[is_point], lats[is_point] + 0.0, lngs[is_point] + 0.0)
    return _named(field, points, num_docs)


def _named(field: int, points: _Points, num_docs: int) -> dict[str, NDArray[Any]]:
    if not len(points.docs):
        return {}
    arrays: dict[str, NDArray[Any]] = {
        f"geo.{field}.lats": points.lats,
        f"geo.{field}.lngs": points.lngs,
    }
    is_one_each = len(points.docs) == num_docs and all(
        bool((np.diff(points.docs[piece]) == 1).all()) and points.docs[piece.start] == piece.start
        for piece in IN_MEMORY.pieces(num_docs)
    )
    if not is_one_each:
        arrays[f"geo.{field}.docs"] = points.docs
    return arrays


def merge_points(state: MergeState) -> Iterator[dict[str, NDArray[Any]]]:
    """Merge the geo columns of segments; equal to a build from the kept documents.

    Yields:
        The arrays of one field after the other.
    """
    allocator = state.allocator
    for field in fields_of(state.parts, "geo", "lats"):
        docs, lats, lngs = (
            GrowingArray(allocator, np.uint32),
            GrowingArray(allocator, np.float64),
            GrowingArray(allocator, np.float64),
        )
        for part, doc_map in state.mapped_parts:
            column = geo_column(part, field)
            if column is None:
                continue
            for piece in allocator.pieces(len(column.docs)):
                new_docs = doc_map[column.docs[piece]]
                keep = new_docs >= 0
                docs.append(new_docs[keep].astype(np.uint32))
                lats.append(column.lats[piece][keep])
                lngs.append(column.lngs[piece][keep])
        yield _named(field, _Points(docs.finish(), lats.finish(), lngs.finish()), state.num_docs)


class GeoColumn:
    """The points of one field of one segment; one instance per segment and field.

    Attributes:
        lats: by point.
        lngs: by point.
        docs: by point, ascending.
        num_docs: of the segment.
        is_one_each: whether point d belongs to document d.
    """

    __slots__ = (
        "__weakref__",
        "_starts_key",
        "_vectors_key",
        "docs",
        "is_one_each",
        "lats",
        "lngs",
        "num_docs",
    )

    def __init__(self, segment: Segment, field: int) -> None:
        self.lats: NDArray[np.float64] = segment[f"geo.{field}.lats"]
        self.lngs: NDArray[np.float64] = segment[f"geo.{field}.lngs"]
        docs = segment.get(f"geo.{field}.docs")
        self.is_one_each = docs is None
        self.docs: NDArray[np.uint32] = (
            np.arange(segment.num_docs, dtype=np.uint32) if docs is None else docs
        )
        self.num_docs = segment.num_docs
        self._starts_key = "starts of points", segment.uid, field
        self._vectors_key = "unit vectors", segment.uid, field

    def points_within(self, area: Area) -> NDArray[np.uint32]:
        """Return the points in an area, its border included, ascending.

        Circles and polygons scan the box around them first.
        """
        match area:
            case GeoBox(bottom=bottom, top=top, left=left, right=right):
                return self._in_box(bottom, top, left, right)
            case GeoRadius(lat=lat, lng=lng, metres=metres):
                around = self._in_box(*_box_around(lat, lng, metres))
                picked = np.empty_like(around)
                count = _pick_near(self.lats, self.lngs, around, lat, lng, metres, picked)
            case GeoPolygon(corners=corners):
                lats, lngs = np.array(corners, np.float64).T.copy()
                around = self._in_box(lats.min(), lats.max(), *_within_turn(lngs))
                picked = np.empty_like(around)
                count = _pick_inside(self.lats, self.lngs, around, lats, lngs, picked)
        return picked[:count]

    def _in_box(self, bottom: float, top: float, left: float, right: float) -> NDArray[np.uint32]:
        """Return the points in a box; it crosses 180° if its left side is east of its right."""
        bitset = np.zeros((len(self.lats) + 63) >> 6, np.uint64)
        if left > right:
            bands = _Bands(bottom, top, left, 180.0, -180.0, right)
        else:
            # 180 is stored as -180.
            other_right = -180.0 if right == 180.0 else -math.inf
            bands = _Bands(bottom, top, left, right, -180.0, other_right)
        _scan_box(self.lats, self.lngs, bands, bitset)
        return list_docs(bitset, int(count_docs(bitset)))

    def distances(
        self, points: NDArray[np.uint32] | None, lat: float, lng: float
    ) -> NDArray[np.float64]:
        """Return the distance of some points (all if None) from a given one, in metres."""
        lats, lngs = self.lats, self.lngs
        if points is not None:
            lats, lngs = lats[points], lngs[points]
        distances = np.empty(len(lats), np.float64)
        _measure(lats, lngs, lat, lng, distances)
        return distances

    def nearest(self, docs: NDArray[np.uint32], lat: float, lng: float) -> NDArray[np.float64]:
        """Return the distance of each document's nearest point; NaN if it has none."""
        if self.is_one_each:
            return self.distances(docs, lat, lng)
        starts = self._doc_starts()
        firsts, ends = starts[docs], starts[docs + np.uint32(1)]
        nearest = np.full(len(docs), math.nan)
        lengths = ends - firsts
        rows = np.flatnonzero(lengths)
        lengths = lengths[rows]
        row_starts = np.cumsum(lengths) - lengths
        points = np.arange(int(lengths.sum())) + np.repeat(firsts[rows] - row_starts, lengths)
        if len(points):
            distances = self.distances(points.astype(np.uint32), lat, lng)
            nearest[rows] = np.minimum.reduceat(distances, row_starts)
        return nearest

    def closest(
        self, docs: NDArray[np.uint32], lat: float, lng: float, k: int
    ) -> NDArray[np.uint32]:
        """Return the given documents that can be among the k closest to a point.

        Compares chords through the earth in single precision, at 3 ns a point instead of 60, with a
        margin wider than their rounding errors. Vectors too large to be cached would cost more
        than exact distances: then all documents are returned.
        """
        if len(docs) <= max(k, self.num_docs // _CLOSEST_SHARE):
            return docs
        if not COLUMN_CACHE.takes(_VECTOR_BYTES * len(self.lats)):
            return docs
        make = partial(_unit_vectors, self.lats, self.lngs)
        vectors = COLUMN_CACHE.get_or_make(self._vectors_key, make, lambda made: made.nbytes, self)
        x, y, z = _unit_vectors(np.array([lat]), np.array([lng]))[:, 0]
        chords = (vectors[0] - x) ** 2
        chords += (vectors[1] - y) ** 2
        chords += (vectors[2] - z) ** 2
        if self.is_one_each:
            of_docs = chords[docs]
        else:
            starts = self._doc_starts()
            of_all = np.full(self.num_docs, np.inf, np.float32)
            has_points = np.flatnonzero(np.diff(starts))
            of_all[has_points] = np.minimum.reduceat(chords, starts[has_points])
            of_docs = of_all[docs]
        threshold = np.partition(of_docs, k - 1)[k - 1] + _CHORD_MARGIN
        closest: NDArray[np.uint32] = docs[of_docs <= threshold]
        return closest

    def is_slow_to_order(self, *, is_descending: bool) -> bool:
        """Return whether the order of all documents from a point takes milliseconds.

        It does while `closest` has no vectors, and for the farthest ones.
        """
        return len(self.lats) > _POINTS_FAST_MAX and (
            is_descending or COLUMN_CACHE.get(self._vectors_key) is None
        )

    def _doc_starts(self) -> NDArray[np.int64]:
        """Return where the points of each document begin, and where the last ones end."""
        make = partial(_starts_of, self.docs, self.num_docs)
        return COLUMN_CACHE.get_or_make(self._starts_key, make, lambda made: made.nbytes, self)


def _starts_of(docs: NDArray[np.uint32], num_docs: int) -> NDArray[np.int64]:
    """Return where the entries of each document begin in an ascending list of documents."""
    starts = np.zeros(num_docs + 1, np.int64)
    np.cumsum(np.bincount(docs, minlength=num_docs), out=starts[1:])
    return starts


def _unit_vectors(lats: NDArray[np.float64], lngs: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return x, y and z of points on a sphere of radius 1; `_VECTOR_BYTES` each."""
    cosines = np.cos(lats * _RADIANS)
    vectors = np.empty((3, len(lats)), np.float32)
    vectors[0] = cosines * np.cos(lngs * _RADIANS)
    vectors[1] = cosines * np.sin(lngs * _RADIANS)
    vectors[2] = np.sin(lats * _RADIANS)
    return vectors


def _box_around(lat: float, lng: float, metres: float) -> tuple[float, float, float, float]:
    """Return bottom, top, left and right of a box that contains a circle."""
    angle = metres / EARTH_RADIUS_METRES
    degrees = angle / _RADIANS + _SLACK_DEGREES
    bottom, top = lat - degrees, lat + degrees
    if bottom <= -90.0 or top >= 90.0:  # a pole is inside
        return bottom, top, -180.0, 180.0
    width = math.asin(min(1.0, math.sin(angle) / math.cos(lat * _RADIANS))) / _RADIANS
    width += _SLACK_DEGREES / math.cos(lat * _RADIANS)
    if width >= 180.0:
        return bottom, top, -180.0, 180.0
    left, right = lng - width, lng + width
    return (
        bottom,
        top,
        left + 360.0 if left < -180.0 else left,
        right - 360.0 if right > 180.0 else right,
    )


def _within_turn(lngs: NDArray[np.float64]) -> tuple[float, float]:
    """Return left and right of the band between longitudes, which may reach beyond 180°."""
    left, right = float(lngs.min()) - _SLACK_DEGREES, float(lngs.max()) + _SLACK_DEGREES
    if right - left >= 360.0:
        return -180.0, 180.0
    return (left + 180.0) % 360.0 - 180.0, (right + 180.0) % 360.0 - 180.0


@derived_by_key
def geo_column(segment: Segment, field: int) -> GeoColumn | None:
    """Return the points of a field, or None if no document of the segment has any."""
    return GeoColumn(segment, field) if f"geo.{field}.lats" in segment else None
