"""Filters over one segment: syntax tree → bitset of documents.

    And(AnyOf(tags: a, b), Not(Range(year < 1990)))

    AnyOf    dictionary: a → 17, b → 40; stored sets of 17 and 40 OR-ed             6 µs
    Range    one pass over the number column                                        30-100 µs
    Not      complement over all documents of the segment
    And      numpy AND of two bitsets                                               1 µs

A result covers every document of the segment, deleted ones included; the caller removes these once,
at the end. So a leaf's result depends on an immutable segment only, and stays cached
(`FILTER_CACHE`) whatever is written meanwhile. Results are shared: never write to them.

What answers a leaf:

    AnyOf AllOf Range     the columns of the field (`field_filters`)
    StartsWith Contains
    Exists IsNull IsEmpty presence rows
    GeoRadius GeoBox …    the geo column of its field
    Same                  resolved over the elements as over documents, then their documents

The text column of a non-facet field is extracted from the stored documents on first use, which is
slow (`is_slow` predicts it, so that such a search can run off the event loop).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

import numpy as np

from common.item_placement import hash_id
from common.kernels.decorator import kernel
from common.kernels.intrinsics import trailing_zeros
from common.kernels.types import U32Array, U64Array, uint64
from common.query_syntax_tree import (
    AllOf,
    And,
    AnyOf,
    Area,
    Contains,
    Exists,
    Filter,
    GeoBox,
    GeoPolygon,
    GeoRadius,
    Ids,
    IsEmpty,
    IsNull,
    Not,
    NumElements,
    Or,
    Range,
    Same,
    StartsWith,
    Under,
)
from shard.caches.derived_values import derived
from shard.caches.lru_cache import FILTER_CACHE
from shard.query.filters.field_filters import FieldColumns
from shard.segment.columns.external_ids import find_live, is_item_of
from shard.segment.columns.facet_columns import facet_column
from shard.segment.columns.geo_columns import geo_column
from shard.segment.columns.nested_elements import ElementSegment, element_segment
from shard.segment.columns.presence_and_value_kinds import Aspect, presence_of
from shard.segment.columns.text_ordinal_columns import TextColumn, needs_texts, text_column
from shard.segment.doc_records_and_places import records_of
from shard.segment.doc_sets import (
    add_docs,
    bitset_of,
    complement,
    count_docs,
    empty_bitset,
    full_bitset,
    list_docs,
    set_bit,
)
from shard.segment.snapshot import SegmentView

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.snapshot import Snapshot

KEYS_FAST_MAX: Final = 20_000
"""Scanning up to this many keys, or documents, takes a few milliseconds at most."""
_VALUES_FAST_MAX: Final = 100
"""Looking up more values takes milliseconds: 100 µs each among texts that are no facet, and 25
where an item must have all of them."""


def resolve(snapshot: Snapshot, view: SegmentView, condition: Filter) -> NDArray[np.uint64]:
    """Return the documents of a segment that pass a filter, deleted ones included.

    Args:
        snapshot: to search.
        view: one of its segments.
        condition: the filter.

    Returns:
        Bitset; shared, do not write to it.
    """
    match condition:  # the most frequent ones first
        case AnyOf() | Range():
            return _resolve_leaf(snapshot, view, condition)
        case AllOf(values=values):
            if not values:
                return full_bitset(view.segment.num_docs)
            return _resolve_leaf(snapshot, view, condition)
        case And(children=children):
            return _combine(snapshot, view, children, np.bitwise_and, full_bitset)
        case Or(children=children):
            return _combine(snapshot, view, children, np.bitwise_or, empty_bitset)
        case Not(child=child):
            return complement(resolve(snapshot, view, child), view.segment.num_docs)
        case Exists(field=path):
            return _exists(snapshot, view, path)
        case GeoRadius() | GeoBox() | GeoPolygon() | Same() | NumElements() | Under():
            return _resolve_cached(snapshot, view, condition)
        case IsNull(field=path):
            return _with_aspects(snapshot, view, path, (Aspect.NULL,))
        case IsEmpty(field=path):
            return _with_aspects(snapshot, view, path, (Aspect.EMPTY_TEXT, Aspect.EMPTY))
        case Ids(ids=ids):
            return bitset_of(docs_with_ids(snapshot, view, ids)[1], view.segment.num_docs)
        case StartsWith() | Contains():
            return _resolve_leaf(snapshot, view, condition)
        case _:
            assert_never(condition)


def docs_with_ids(
    snapshot: Snapshot, view: SegmentView, ids: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return the live documents of a segment that have one of some ids.

    Args:
        snapshot: to search.
        view: one of its segments.
        ids: in canonical form, no duplicates.

    Returns:
        For each document found, its position in `ids` and its ordinal, both in document order.
    """
    hashes = np.array([hash_id(one.encode()) for one in ids], np.uint64)
    positions, docs = find_live(view.segment, view.live_mask, hashes)
    # Hashes can collide: compare the stored ids.
    documents = snapshot.read_documents(records_of(view.segment, docs))
    is_found = np.array(
        [
            is_item_of(document, ids[position].encode())
            for document, position in zip(documents, positions.tolist(), strict=True)
        ],
        np.bool_,
    )
    positions, docs = positions[is_found], docs[is_found]
    order = np.argsort(docs)
    return positions[order], docs[order]


def is_slow(snapshot: Snapshot, view: SegmentView, condition: Filter) -> bool:
    """Return whether a filter needs a text column that is not cached yet, or scans many keys."""
    match condition:  # the most frequent ones first
        case AnyOf() if condition.field in snapshot.dictionaries:
            return False
        case AllOf(values=values) if len(values) > _VALUES_FAST_MAX:
            return True
        case AllOf() if condition.field in snapshot.dictionaries:
            return False
        case AnyOf() | AllOf() | Range() | StartsWith() | Contains():
            field = snapshot.registry.number(condition.field)
            if field is None:
                return False
            looks_at_all_keys = isinstance(condition, StartsWith | Contains)
            num_keys = snapshot.dictionary_lengths.get(condition.field, 0)
            if looks_at_all_keys and max(view.segment.num_docs, num_keys) > KEYS_FAST_MAX:
                return True
            if not _wants_texts(snapshot, condition) or not _has_documents(view):
                return False
            return needs_texts(snapshot, view, field) or _looks_up_many_texts(
                snapshot, view, field, condition
            )
        case And(children=children) | Or(children=children):
            return any(is_slow(snapshot, view, child) for child in children)
        case Not(child=child):
            return is_slow(snapshot, view, child)
        case Same(condition=inner):
            elements = element_view(snapshot, view.segment, condition.field)
            return elements is not None and is_slow(snapshot, elements.view, inner)
        case Exists() | IsNull() | IsEmpty() | NumElements() | Ids():
            return False
        case GeoRadius() | GeoBox() | GeoPolygon():
            return False
        case Under():
            num_keys = snapshot.dictionary_lengths.get(condition.field, 0)
            key = (view.segment.uid, condition, None)
            return num_keys > KEYS_FAST_MAX and FILTER_CACHE.get(key) is None
        case _:
            assert_never(condition)


def _looks_up_many_texts(
    snapshot: Snapshot,
    view: SegmentView,
    field: int,
    condition: AnyOf | AllOf | Range | StartsWith | Contains,
) -> bool:
    """Return whether a leaf has not been resolved yet, and has many texts to look up or to pass."""
    match condition:
        case Range():
            is_large = view.segment.num_docs > KEYS_FAST_MAX
        case AnyOf(values=values):
            is_large = len(values) > _VALUES_FAST_MAX
        case AllOf() | StartsWith() | Contains():
            return False  # they are few
    if not is_large:
        return False
    texts = text_column(snapshot, view, field)
    return FILTER_CACHE.get(_leaf_key(view, condition, texts)) is None


def _combine(
    snapshot: Snapshot,
    view: SegmentView,
    children: Sequence[Filter],
    combine: Callable[..., Any],
    neutral: Callable[[int], NDArray[np.uint64]],
) -> NDArray[np.uint64]:
    if not children:
        return neutral(view.segment.num_docs)
    bitset = resolve(snapshot, view, children[0])
    # The first combination copies: arrays that `resolve` returns are shared.
    own: NDArray[np.uint64] | None = None
    for child in children[1:]:
        bitset = own = combine(bitset, resolve(snapshot, view, child), out=own)
    return bitset


# --- points and elements -------------------------------------------------------------------------


class ElementView(NamedTuple):
    """The elements of a nested field of one segment, as a view that conditions are resolved on."""

    view: SegmentView
    elements: ElementSegment

    @property
    def docs(self) -> NDArray[np.uint32]:
        """Document of each element, ascending."""
        return self.elements.docs


def element_view(snapshot: Snapshot, segment: Segment, path: str) -> ElementView | None:
    """Return the elements of a nested field, or None if no document of the segment has any."""
    field = snapshot.registry.number(path)
    elements = None if field is None else element_segment(segment, field)
    if elements is None:
        return None
    return ElementView(SegmentView(elements.segment), elements)


@kernel(allocates=False)
def _add_owners(elements: U64Array, owners: U32Array, bitset: U64Array) -> None:
    """Set the bits of the documents that have an element in a bitset; 1 ns an element."""
    for position in range(len(elements)):
        word = elements[position]
        base = position << 6
        while word != 0:
            doc = owners[base + trailing_zeros(word)]
            set_bit(bitset, doc)
            word &= word - uint64(1)


def _resolve_cached(
    snapshot: Snapshot, view: SegmentView, condition: Area | Same | NumElements | Under
) -> NDArray[np.uint64]:
    """Resolve a condition on points, elements or nodes of a tree, through the filter cache."""
    segment = view.segment
    key = (segment.uid, condition, None)
    kept: NDArray[Any] | None = FILTER_CACHE.get(key)
    if kept is not None:
        return _unpacked(kept, segment.num_docs)
    match condition:
        case Same():
            bitset = _with_element(snapshot, segment, condition)
        case NumElements():
            bitset = _with_num_elements(snapshot, segment, condition)
        case GeoRadius() | GeoBox() | GeoPolygon():
            bitset = _with_point(snapshot, segment, condition)
        case Under():
            bitset = _with_node(snapshot, segment, condition)
        case _:
            assert_never(condition)
    kept = _packed(bitset)
    FILTER_CACHE.put(key, kept, kept.nbytes, segment)
    return bitset


def _with_node(snapshot: Snapshot, segment: Segment, condition: Under) -> NDArray[np.uint64]:
    """Return the documents that have one of some nodes of a tree, or a value under one."""
    bitset = empty_bitset(segment.num_docs)
    number = snapshot.registry.number(condition.field)
    column = None if number is None else facet_column(segment, number)
    if column is not None and condition.field in snapshot.dictionaries:
        # Not all keys of the dictionary: a write makes a segment of few of them.
        values = column.numbers()
        keys = snapshot.dictionaries[condition.field].texts(values)
        beginnings = tuple(node + condition.separator for node in condition.nodes)
        nodes = frozenset(condition.nodes)
        column.add_docs_with(
            values[[one in nodes or one.startswith(beginnings) for one in keys]], bitset
        )
    return bitset


def _with_point(snapshot: Snapshot, segment: Segment, area: Area) -> NDArray[np.uint64]:
    """Return the documents that have a point in an area."""
    bitset = empty_bitset(segment.num_docs)
    field = snapshot.registry.number(area.field)
    column = None if field is None else geo_column(segment, field)
    if column is not None:
        points = column.points_within(area)
        add_docs(bitset, points if column.is_one_each else column.docs[points])
    return bitset


def _with_element(snapshot: Snapshot, segment: Segment, condition: Same) -> NDArray[np.uint64]:
    """Return the documents with at least one element that passes the whole condition."""
    bitset = empty_bitset(segment.num_docs)
    elements = element_view(snapshot, segment, condition.field)
    if elements is not None:
        _add_owners(resolve(snapshot, elements.view, condition.condition), elements.docs, bitset)
    return bitset


def _with_num_elements(
    snapshot: Snapshot, segment: Segment, condition: NumElements
) -> NDArray[np.uint64]:
    """Return the documents whose number of elements, or of values of a facet, is in range."""
    counts: NDArray[Any] = np.zeros(segment.num_docs, np.int64)
    if condition.field in snapshot.dictionaries:
        field = snapshot.registry.number(condition.field)
        column = None if field is None else facet_column(segment, field)
        if column is not None:
            counts = column.codes != 0 if column.is_single else np.diff(column.starts)
    elif (elements := element_view(snapshot, segment, condition.field)) is not None:
        counts = np.bincount(elements.docs, minlength=segment.num_docs)
    greatest = np.inf if condition.greatest is None else condition.greatest
    chosen = np.flatnonzero((counts >= condition.lowest) & (counts <= greatest))
    return bitset_of(chosen.astype(np.uint32), segment.num_docs)


# --- presence -----------------------------------------------------------------------------------


def _with_aspects(
    snapshot: Snapshot, view: SegmentView, path: str, aspects: Iterable[Aspect]
) -> NDArray[np.uint64]:
    bitset = empty_bitset(view.segment.num_docs)
    field = snapshot.registry.number(path)
    if field is not None:
        for aspect in aspects:
            presence_of(view.segment).add_docs(field, aspect, bitset)
    return bitset


def _exists(snapshot: Snapshot, view: SegmentView, path: str) -> NDArray[np.uint64]:
    """Return the documents where the field, or anything inside it, is present and not null.

    An object has no values of its own: it exists if one of its keys does, even if that key is null.
    """
    bitset = _with_aspects(snapshot, view, path, (Aspect.EXISTS,))
    presence = presence_of(view.segment)
    for field in _fields_inside(snapshot, path):
        for aspect in (Aspect.EXISTS, Aspect.NULL, Aspect.ARRAY):
            presence.add_docs(field, aspect, bitset)
    return bitset


@derived
def _inner_fields(_: Snapshot) -> dict[str, list[int]]:
    """Return the fields that `_fields_inside` has looked up, by path."""
    return {}


def _fields_inside(snapshot: Snapshot, path: str) -> list[int]:
    """Return the numbers of the fields inside an object.

    Cached for paths that items have: what else requests name takes no memory.
    """
    cache = _inner_fields(snapshot)
    fields = cache.get(path)
    if fields is None:
        prefix = path + "."
        paths = list(snapshot.registry.paths)
        fields = [number for number, inner in enumerate(paths) if inner.startswith(prefix)]
        if fields or snapshot.registry.number(path) is not None:
            cache[path] = fields
    return fields


# --- leaves -------------------------------------------------------------------------------------


def _resolve_leaf(
    snapshot: Snapshot,
    view: SegmentView,
    condition: AnyOf | AllOf | Range | StartsWith | Contains,
) -> NDArray[np.uint64]:
    """Resolve a leaf, through the filter cache."""
    field = snapshot.registry.number(condition.field)
    if field is None:
        return empty_bitset(view.segment.num_docs)
    texts = None
    if _wants_texts(snapshot, condition) and _has_documents(view):
        texts = text_column(snapshot, view, field)
    key = _leaf_key(view, condition, texts)
    kept: NDArray[Any] | None = FILTER_CACHE.get(key)
    if kept is None:
        bitset = FieldColumns(snapshot, view, field, texts).resolve(condition)
        kept = _packed(bitset)
        FILTER_CACHE.put(key, kept, kept.nbytes, view.segment)
        return bitset
    return _unpacked(kept, view.segment.num_docs)


def _leaf_key(
    view: SegmentView,
    condition: AnyOf | AllOf | Range | StartsWith | Contains,
    texts: TextColumn | None,
) -> Hashable:
    """Return the key of a leaf in the filter cache.

    Extracted texts lack the documents deleted by then, so their identity is part of it.
    """
    is_extracted = texts is not None and not texts.are_ranks_global
    return view.segment.uid, condition, texts.identity if texts and is_extracted else None


def _packed(bitset: NDArray[np.uint64]) -> NDArray[Any]:
    """Return the form in which the cache keeps a bitset: a list of few documents; 5 µs."""
    count = int(count_docs(bitset))
    return bitset if 8 * count > bitset.nbytes else list_docs(bitset, count)


def _unpacked(kept: NDArray[Any], num_docs: int) -> NDArray[np.uint64]:
    """Return the bitset of a cached form; 5 µs where it has to be built."""
    return bitset_of(kept, num_docs) if kept.dtype == np.uint32 else kept


def _wants_texts(
    snapshot: Snapshot, condition: AnyOf | AllOf | Range | StartsWith | Contains
) -> bool:
    """Return whether a leaf needs the field's text column."""
    if isinstance(condition, Range):
        return isinstance(condition.lower, str) or isinstance(condition.upper, str)
    return condition.field not in snapshot.dictionaries


def _has_documents(view: SegmentView) -> bool:
    """Return whether texts can be read from stored documents: elements have none.

    Conditions on elements compare texts of facets only; the coordinator enforces that.
    """
    return "docs.record" in view.segment
