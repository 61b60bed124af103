"""Snapshots of random items in random segments, and a naive model of each field."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from common.facet_dictionary import FacetDictionary
from common.index_configuration import IndexConfiguration
from common.value_kinds_and_facet_keys import Shape, facet_key
from shard.segment.builder.all_columns import build_columns
from shard.segment.doc_records_and_places import build_doc_records, records_of
from shard.segment.field_registry import FieldRegistry
from shard.segment.items.value_extraction import Extraction, extract
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView, Snapshot
from shard.segment.text.text_builder import build_text

Item = dict[str, Any]

PATHS = ("tags", "year", "name", "flag", "box", "box.in", "rows.cell", "unknown")
FACETS = ("tags", "year", "rows.cell")


def extract_items(items: Sequence[Item], registry: FieldRegistry) -> Extraction:
    """Return the values of items that are written as JSON."""
    encoded = [json.dumps(item).encode() for item in items]
    lengths = np.array([len(one) for one in encoded], np.int64)
    starts = np.zeros(len(items), np.int64)
    np.cumsum(lengths[:-1] + 1, out=starts[1:])
    payload = np.frombuffer(bytearray(b"\n".join([*encoded, b""])), np.uint8)
    return extract(payload, starts, starts + lengths, registry)


def build_segment(
    items: Sequence[Item],
    registry: FieldRegistry,
    dictionaries: Mapping[str, FacetDictionary],
    *,
    records: Sequence[int] | None = None,
    places: Sequence[int] | None = None,
    has_texts: bool = False,
) -> Segment:
    """Build a segment with columns only, or with texts as well, all fields searchable."""
    facets = {registry.register(path): one for path, one in dictionaries.items()}
    extraction = extract_items(items, registry)
    arrays: dict[str, NDArray[Any]] = dict(build_columns(extraction, facets))
    if has_texts:
        arrays.update(build_text(extraction, np.ones(len(registry.paths) + 1, np.bool_)))
    numbers = build_doc_records(
        np.array(range(len(items)) if places is None else places, np.uint64),
        np.array(range(len(items)) if records is None else records, np.uint64),
    )
    return Segment(arrays | numbers.arrays, num_docs=len(items), meta=numbers.facts)


class Documents:
    """Stored bytes by record; deleted ones cannot be read."""

    def __init__(self, items: Mapping[int, Item]) -> None:
        self._items = items

    def read(self, records: Sequence[int], bytes_max: int = 0) -> list[bytes]:
        """Return the bytes of each record."""
        return [json.dumps(self._items[record]).encode() for record in records]

    def read_joined(self, records: Sequence[int]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the bytes of all records, and where those of each end."""
        items = self.read(records)
        joined = np.frombuffer(bytearray(b"".join(items)), np.uint8)
        return joined, np.cumsum([len(item) for item in items], dtype=np.int64)

    def read_some(self, records: Sequence[int], bytes_max: int) -> list[bytes | None]:
        """Return all of them: they are small."""
        return [*self.read(records)]


class World:
    """A snapshot, and the live items that it is made of.

    Attributes:
        snapshot: what is searched.
        live: (place, record, item) of every live item.
    """

    def __init__(
        self,
        items: Sequence[Item],
        *,
        cuts: Sequence[int] = (),
        deleted: frozenset[int] = frozenset(),
        places: Sequence[int] | None = None,
        facets: Sequence[str] = FACETS,
        has_texts: bool = False,
    ) -> None:
        registry = FieldRegistry()
        dictionaries = {path: FacetDictionary() for path in facets}
        places = list(range(len(items))) if places is None else places
        views = []
        for begin, end in itertools.pairwise([0, *cuts, len(items)]):
            segment = build_segment(
                items[begin:end],
                registry,
                dictionaries,
                records=range(begin, end),
                places=places[begin:end],
                has_texts=has_texts,
            )
            gone = [record - begin for record in deleted if begin <= record < end]
            views.append(SegmentView(segment, FrozenBitMap(gone) if gone else None))
        live = {record: item for record, item in enumerate(items) if record not in deleted}
        self.live = [(places[record], record, item) for record, item in live.items()]
        self.snapshot = Snapshot(
            seq=1,
            revision=1,
            views=tuple(views),
            configuration=IndexConfiguration(),
            registry=registry,
            dictionaries=dictionaries,
            dictionary_lengths={path: len(one) for path, one in dictionaries.items()},
            documents=Documents(live),
        )

    def records(self, bitsets: Sequence[NDArray[np.uint64]]) -> set[int]:
        """Return the live records in one bitset per segment."""
        found = set()
        for view, words in zip(self.snapshot.views, bitsets, strict=True):
            bits = np.unpackbits(words.view(np.uint8), bitorder="little")
            assert not bits[view.segment.num_docs :].any(), "bits beyond the last document"
            for doc in np.flatnonzero(bits).tolist():
                if view.deleted is None or doc not in view.deleted:
                    found.add(int(records_of(view.segment)[doc]))
        return found


# --- items, naively ------------------------------------------------------------------------------


def leaves(item: Any, path: str) -> list[tuple[Any, Shape]]:
    """Return the values at a path with their shapes, in document order."""
    found: list[tuple[Any, Shape]] = []

    def walk(value: Any, at: str, through: bool, arrays: int) -> None:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                walk(inner, f"{at}.{key}" if at else key, through or arrays > 0, 0)
        elif isinstance(value, list) and value:
            for inner in value:
                walk(inner, at, through, arrays + 1)
        elif at == path:
            many = through or arrays > 0
            shape = Shape.NESTED if arrays > 1 else Shape.ELEMENT if many else Shape.SCALAR
            found.append((value, shape))

    walk(item, "", False, 0)
    return found


def flat_values(item: Any, path: str) -> list[Any]:
    """Return the scalars that count for facets and filters, in document order."""
    return [
        value
        for value, shape in leaves(item, path)
        if shape != Shape.NESTED and facet_key(value) is not None
    ]


def keys_of(item: Any, path: str) -> set[str]:
    """Return the facet keys of an item."""
    return {key for value in flat_values(item, path) if (key := facet_key(value)) is not None}


def numbers_of(item: Any, path: str) -> list[int | float]:
    """Return the numbers of an item."""
    return [
        value
        for value in flat_values(item, path)
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def texts_of(item: Any, path: str) -> list[str]:
    """Return the texts of an item."""
    return [value for value in flat_values(item, path) if isinstance(value, str)]


def sort_value(item: Any, path: str) -> Any:
    """Return the scalar of an item that an order looks at, or None."""
    found = leaves(item, path)
    if len(found) != 1 or found[0][1] != Shape.SCALAR or isinstance(found[0][0], list | dict):
        return None
    return found[0][0]


# --- strategies ----------------------------------------------------------------------------------

texts = st.sampled_from(
    ["", "a", "b", "ab", "B", "é", "true", "1", "9.0", "2020-01-31", "2020-02-01T00:00:00", "zz"]
)
numbers = st.sampled_from(
    (
        *(0, 1, -1, 2, 9.0, 9.5, -0.0, 1e21, 1e-7, 300, -40_000, 3_000_000_000),
        *(2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    )
)
scalars = st.none() | st.booleans() | texts | numbers
shapes: st.SearchStrategy[Any] = (
    scalars | st.lists(scalars | st.lists(scalars, max_size=2), max_size=4) | st.just({})
)


@st.composite
def items(draw: st.DrawFn) -> Item:
    """An item with some of the fields, in any shape."""
    item: Item = {}
    for path, values in (
        ("tags", shapes),
        ("year", st.integers(1990, 2000) | numbers),
        ("name", texts | shapes),
        ("flag", st.booleans() | scalars),
    ):
        if draw(st.booleans()):
            item[path] = draw(values)
    if draw(st.booleans()):
        item["box"] = draw(shapes | st.fixed_dictionaries({"in": shapes}))
    if draw(st.booleans()):
        item["rows"] = draw(st.lists(st.fixed_dictionaries({"cell": shapes}), max_size=3))
    return item


@st.composite
def worlds(draw: st.DrawFn, facets: Sequence[str] = FACETS) -> World:
    """A snapshot of up to 40 items in up to 4 segments, some deleted, some out of place."""
    chosen = draw(st.lists(items(), min_size=1, max_size=40))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(chosen) - 1)), max_size=3)))
    cuts = [cut for cut in cuts if cut < len(chosen)]
    deleted = draw(st.frozensets(st.integers(0, len(chosen) - 1), max_size=len(chosen) // 2))
    places = None
    if draw(st.booleans()):
        places = draw(st.permutations(range(len(chosen))))
    return World(chosen, cuts=cuts, deleted=deleted, places=places, facets=facets)
