"""Text columns: the texts of one field of one segment as ordinals, in their order.

Sort columns, filters, ranges and groups compare texts by rank instead of by their bytes. There are
two sources:

    a facet with only texts    the facet dictionary: ranks mean the same in all segments; no cost
    any other field            the stored documents: extracted once, 1.5 s for 500,000 documents,
                               then kept in the LRU cache, and in a file beside that of the
                               segment; a merge of segments merges them too, so that no search
                               waits for them again, nor after a start. Those that searches are
                               likely to need are made while the index is idle
                               (`text_ordinal_preparation`)

    texts.codes, texts.starts      as those of a facet column; code - 1 is the rank of a text
    texts.keys, texts.offsets      the texts by rank
    texts.deleted                  documents that were deleted by then, and are left out

A collation other than the code point order ranks the same numbers differently; these ranks are
cached as well.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from pyroaring import FrozenBitMap

from common.analysis.collation import collator
from common.analysis.collation_names import CODE_POINTS
from common.facet_dictionary import FacetDictionary
from common.kernels.decorator import kernel
from common.kernels.intrinsics import prefetch
from common.kernels.types import I64Array, U8Array, U32Array, int64, uint32
from common.key_arena import KeyArena
from common.string_sort_kernels import sort_keys
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.batch_values_by_column import KEY_KINDS, TEXT_KINDS, group_values
from shard.segment.columns.facet_column_builder import build_column
from shard.segment.columns.facet_columns import FacetColumn, facet_column
from shard.segment.columns.presence_and_value_kinds import presence_of
from shard.segment.doc_records_and_places import records_of
from shard.segment.items.numbers_and_facet_keys import canonical_keys
from shard.segment.items.value_extraction import Extraction, extract
from shard.segment.segment import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView, Snapshot

_SORTED_FAST_MAX: Final = 10_000
"""Up to this many values of a facet are sorted within 2 ms."""
_COLLATED_FAST_BYTES: Final = 100_000
"""Up to this many bytes of texts are put in the order of a language within 2 ms."""
_COLLATED_FAST_LENGTH: Final = 10_000
"""The longest text, in bytes, up to which the hits of several segments are ordered likewise: each
search collates theirs again."""
_CHUNK_DOCS: Final = 4_096
"""Documents read at a time to build a text column; bounds the memory for their bytes."""
FILE_DOCS_MIN: Final = 20_000
"""Texts of segments with fewer documents are not worth a file: they are extracted in 60 ms."""


_PREFETCHED: Final = 16
"""A key is requested from memory while so many before it are copied."""


@kernel
def _arrange_keys(
    keys: U8Array, offsets: I64Array, order: U32Array, out: U8Array, out_offsets: I64Array
) -> None:
    """Copy keys in another order."""
    out_offsets[0] = 0
    for i in range(len(order)):
        if i + _PREFETCHED < len(order):
            prefetch(keys, offsets[order[i + _PREFETCHED]])
        start = offsets[order[i]]
        length = offsets[order[i] + uint32(1)] - start
        at = out_offsets[i]
        for position in range(length):
            out[at + position] = keys[start + position]
        out_offsets[i + 1] = at + length


@kernel(allocates=False)
def _rank_distinct(keys: U8Array, offsets: I64Array, order: U32Array, ranks: U32Array) -> int:
    """Write the rank of each key; keep one of equal keys in `order`. Return how many remain.

    Args:
        keys: their bytes.
        offsets: where each begins, with a sentinel.
        order: numbers in the order of their keys; changed.
        ranks: output, by number.
    """
    count = int64(0)
    for i in range(len(order)):
        number = int64(order[i])
        start = offsets[number]
        length = offsets[number + 1] - start
        is_new = True
        if count > 0:
            last = int64(order[count - 1])
            last_start = offsets[last]
            if offsets[last + 1] - last_start == length:
                at = int64(0)
                while at < length and keys[start + at] == keys[last_start + at]:
                    at += 1
                is_new = at < length
        if is_new:
            order[count] = number
            count += 1
        ranks[number] = count - 1
    return count


_serials = itertools.count(1)


class TextColumn:
    """The texts of one field of one segment, by number, and the order of the numbers.

    Attributes:
        column: numbers by document, those of array elements included.
        arena: the texts by number.
        num_values: numbers are below this.
        are_ranks_global: whether ranks mean the same in all segments of the snapshot.
        collation: which order this is; empty: by code point.
        identity: identifies these texts, as a cache key for what is derived from them.
        longest: bytes of the longest text, if they were extracted; 0 of a facet.
        size: bytes that the LRU cache charges for it.
    """

    __slots__ = (
        "_dictionary",
        "_order",
        "_ranks",
        "are_ranks_global",
        "arena",
        "collation",
        "column",
        "identity",
        "longest",
        "num_values",
        "size",
    )

    def __init__(
        self,
        column: FacetColumn,
        arena: KeyArena,
        *,
        order: NDArray[np.uint32] | None = None,
        ranks: NDArray[np.uint32] | None = None,
        dictionary: FacetDictionary | None = None,
        collation: str = CODE_POINTS,
        identity: tuple[int, int] | None = None,
        longest: int = 0,
        size: int = 0,
    ) -> None:
        self.column = column
        self.arena = arena
        self.num_values = len(arena.offsets) - 1
        self.are_ranks_global = dictionary is not None
        self.collation = collation
        self.identity = (next(_serials), 0) if identity is None else identity
        self.longest = longest
        self.size = size
        self._dictionary = dictionary
        self._order = order
        self._ranks = ranks

    @property
    def order(self) -> NDArray[np.uint32] | None:
        """Number by rank; None if each number is its own rank."""
        if self._order is None and self._dictionary is not None:
            self._order = self._dictionary.order(self.num_values, self.collation)
        return self._order

    @property
    def ranks(self) -> NDArray[np.uint32] | None:
        """Rank by number; None likewise."""
        if self._ranks is None and self._dictionary is not None:
            self._ranks = self._dictionary.ranks(self.num_values, self.collation)
        return self._ranks

    def keys(self, numbers: Sequence[int]) -> list[bytes]:
        """Return some texts as UTF-8, by number."""
        return self.arena.keys_of(numbers)

    def all_keys(self) -> list[bytes]:
        """Return all texts as UTF-8, by number."""
        return self.arena.keys_of(range(self.num_values))

    def text_of_rank(self, rank: int) -> bytes:
        """Return the text of a rank as UTF-8."""
        number = rank if self.order is None else int(self.order[rank])
        return self.arena.keys_of((number,))[0]

    def rank_of(self, text: str) -> int | None:
        """Return the rank of a text in the order of code points; None if it is not among these."""
        wanted = text.encode("utf-8", "surrogatepass")
        rank = bisect_left(range(self.num_values), wanted, key=self.text_of_rank)
        is_found = rank < self.num_values and self.text_of_rank(rank) == wanted
        return rank if is_found else None

    def rank_bounds(self, text: str) -> tuple[int, int]:
        """Return how many texts sort before `text`, and how many do not sort after it."""
        sort_key = sort_key_of(self.collation)
        wanted = sort_key(text.encode("utf-8", "surrogatepass"))

        def key_of(rank: int) -> bytes:
            return sort_key(self.text_of_rank(rank))

        ranks = range(self.num_values)
        low = bisect_left(ranks, wanted, key=key_of)
        return low, bisect_right(ranks, wanted, lo=low, key=key_of)

    def numbers_between(self, first_rank: int, end_rank: int) -> NDArray[np.uint32]:
        """Return the numbers of the ranks [first_rank, end_rank), ascending."""
        if self.order is None:
            return np.arange(first_rank, max(first_rank, end_rank), dtype=np.uint32)
        return np.sort(self.order[first_rank : max(first_rank, end_rank)])


def sort_key_of(collation: str) -> Callable[[bytes], bytes]:
    """Return the function from a text, as UTF-8, to the bytes that it is compared by."""
    return bytes if collation == CODE_POINTS else collator(collation).key


class _StoredTexts(NamedTuple):
    """A text column extracted from documents, and the documents that it does not cover."""

    texts: TextColumn
    """Numbers are ranks."""
    deleted: FrozenBitMap | None
    """Documents deleted by then (they may not be readable); None if there are none."""


def needs_documents(snapshot: Snapshot, view: SegmentView, field: int) -> bool:
    """Return whether the texts of a field must be extracted from the documents of a segment."""
    presence = presence_of(view.segment)
    return bool(
        presence.kinds(field) & TEXT_KINDS
        and not _is_facet_of_texts(snapshot, view, field)
        and _cached_texts(view, field) is None
    )


def needs_texts(
    snapshot: Snapshot, view: SegmentView, field: int, collation: str = CODE_POINTS
) -> bool:
    """Return whether `text_column` takes milliseconds or more: to read documents, or to sort."""
    if _is_facet_of_texts(snapshot, view, field):
        dictionary = snapshot.dictionaries[snapshot.registry.paths[field]]
        _, length = _facet_identity(snapshot, field)
        if dictionary.is_sorted(length, collation):
            return False
        return _is_slow_to_sort(length, dictionary.num_bytes(length), collation)
    if needs_documents(snapshot, view, field):
        return True
    texts = _cached_texts(view, field)
    if texts is None or collation == CODE_POINTS:
        return False
    return texts.longest > _COLLATED_FAST_LENGTH or (
        _is_slow_to_sort(texts.num_values, texts.size, collation)
        and COLUMN_CACHE.get(("collated", texts.identity, collation)) is None
    )


def _is_slow_to_sort(num_values: int, num_bytes: int, collation: str) -> bool:
    return num_values > _SORTED_FAST_MAX or (
        collation != CODE_POINTS and num_bytes > _COLLATED_FAST_BYTES
    )


def texts_identity(snapshot: Snapshot, view: SegmentView, field: int) -> tuple[int, int] | None:
    """Return what identifies the texts of a field; None if they have to be extracted first."""
    if _is_facet_of_texts(snapshot, view, field):
        return _facet_identity(snapshot, field)
    texts = _cached_texts(view, field)
    return None if texts is None else texts.identity


def text_column(
    snapshot: Snapshot, view: SegmentView, field: int, collation: str = CODE_POINTS
) -> TextColumn | None:
    """Return the texts of a field, or None if the segment has none but empty ones.

    Args:
        snapshot: whose facets are known.
        view: of the segment.
        field: its number.
        collation: in which order they are ranked.

    Cost: none if the field is a facet with only texts, or cached; otherwise one pass over the
    stored documents of the segment. The texts of a facet are sorted when their order is first read.
    """
    if not presence_of(view.segment).kinds(field) & TEXT_KINDS:
        return None
    if _is_facet_of_texts(snapshot, view, field):
        dictionary = snapshot.dictionaries[snapshot.registry.paths[field]]
        _, length = identity = _facet_identity(snapshot, field)
        column = facet_column(view.segment, field)
        assert column is not None
        return TextColumn(
            column,
            dictionary.arena(0, length),
            dictionary=dictionary,
            collation=collation,
            identity=identity,
        )
    texts = _cached_texts(view, field)
    if texts is None:
        key = ("texts", view.segment.uid, field)
        with COLUMN_CACHE.making(key):
            texts = _cached_texts(view, field)
            if texts is None:
                texts = _extract_texts(snapshot, view, field)
                _keep(view.segment, field, _StoredTexts(texts, view.deleted))
    return texts if collation == CODE_POINTS else _collated(texts, collation, view.segment)


def _collated(texts: TextColumn, collation: str, segment: Segment) -> TextColumn:
    """Return extracted texts in the order of a language; cached."""

    def make() -> TextColumn:
        order = sort_keys(*collator(collation).keys(*texts.arena))
        ranks = np.empty(len(order), np.uint32)
        ranks[order] = np.arange(len(order), dtype=np.uint32)
        return TextColumn(
            texts.column,
            texts.arena,
            order=order,
            ranks=ranks,
            collation=collation,
            identity=texts.identity,
            longest=texts.longest,
            size=order.nbytes + ranks.nbytes,
        )

    return COLUMN_CACHE.get_or_make(
        ("collated", texts.identity, collation), make, lambda made: made.size, segment
    )


def _is_facet_of_texts(snapshot: Snapshot, view: SegmentView, field: int) -> bool:
    """Return whether the field's facet column holds its texts and no other values."""
    return (
        snapshot.registry.paths[field] in snapshot.dictionaries
        and not presence_of(view.segment).kinds(field) & KEY_KINDS & ~TEXT_KINDS
        and facet_column(view.segment, field) is not None
    )


def _facet_identity(snapshot: Snapshot, field: int) -> tuple[int, int]:
    """Return what identifies the texts of a facet in a snapshot."""
    path = snapshot.registry.paths[field]
    return snapshot.dictionaries[path].epoch, snapshot.dictionary_lengths[path]


def _cached_texts(view: SegmentView, field: int) -> TextColumn | None:
    """Return the cached text column, if it covers all live documents of the view."""
    stored = _cached(view, field)
    return None if stored is None else stored.texts


def _cached(view: SegmentView, field: int) -> _StoredTexts | None:
    segment = view.segment
    entry: _StoredTexts | None = COLUMN_CACHE.get(("texts", segment.uid, field))
    if entry is not None and _covers(entry, view):
        return entry
    file = segment.text_files.get(field)
    if file is None or not _covers(file.caches[_IN_FILE], view):
        return None
    return _keep(segment, field, file.caches[_IN_FILE])  # the cache had dropped it


def _covers(entry: _StoredTexts, view: SegmentView) -> bool:
    """Return whether a column has the texts of all live documents of a view."""
    return entry.deleted is None or (
        view.deleted is not None and entry.deleted.issubset(view.deleted)
    )


def _keep(segment: Segment, field: int, entry: _StoredTexts) -> _StoredTexts:
    COLUMN_CACHE.put(("texts", segment.uid, field), entry, entry.texts.size, segment)
    return entry


def _extract_texts(snapshot: Snapshot, view: SegmentView, field: int) -> TextColumn:
    """Read the live documents of a segment and collect the texts of one field."""
    columns = extract_texts(snapshot, view, [field])
    assert columns is not None
    return columns[0]


def extract_texts(
    snapshot: Snapshot,
    view: SegmentView,
    fields: Sequence[int],
    is_wanted: Callable[[], bool] = lambda: True,
) -> list[TextColumn] | None:
    """Read the live documents of a segment and collect the texts of some fields.

    Args:
        snapshot: whose paths are known.
        view: of the segment.
        fields: their numbers.
        is_wanted: asked every few milliseconds; if it is not, the result is None.

    Raises:
        InternalError: item_corrupt, an item is damaged.

    Cost: 6 µs a document of 1 KB, most of it to decode the item, and 0.4 µs a text.
    """
    segment = view.segment
    only = snapshot.registry.paths[fields[0]] if len(fields) == 1 else ""
    collected = [_Collected() for _ in fields]
    live = view.live_docs
    for begin in range(0, len(live), _CHUNK_DOCS):
        if not is_wanted():
            return None
        chunk = live[begin : begin + _CHUNK_DOCS]
        extraction = extract_docs(snapshot, segment, chunk, only)
        selection, offsets = group_values(extraction, fields, TEXT_KINDS)
        for texts, start, end in zip(collected, offsets[:-1], offsets[1:], strict=True):
            texts.add(chunk, extraction, selection[start:end])
    return [texts.ranked(segment.num_docs) for texts in collected]


def extract_docs(
    snapshot: Snapshot, segment: Segment, docs: NDArray[np.uint32], only: str = ""
) -> Extraction:
    """Return the values of some documents, or those of one path only."""
    payload, ends = snapshot.documents.read_joined(records_of(segment, docs).tolist())
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return extract(payload, starts, ends, snapshot.registry, only=only)


class _Collected:
    """The texts of one field so far.

    Numbers are assigned as texts appear, then replaced by ranks, so that the column needs no
    `order`.
    """

    __slots__ = ("_dictionary", "_docs", "_numbers")

    def __init__(self) -> None:
        self._dictionary = FacetDictionary()
        self._docs = [np.zeros(0, np.uint32)]
        self._numbers = [np.zeros(0, np.uint32)]

    def add(
        self, docs: NDArray[np.uint32], extraction: Extraction, selection: NDArray[np.int64]
    ) -> None:
        """Add the selected texts of a chunk of documents."""
        self._numbers.append(self._dictionary.encode(*canonical_keys(extraction, selection)))
        self._docs.append(docs[extraction.doc[selection]])

    def ranked(self, num_docs: int) -> TextColumn:
        """Return the column of them, in a segment of `num_docs`."""
        length = len(self._dictionary)
        return _ranked(
            _Pairs(np.concatenate(self._docs), np.concatenate(self._numbers)),
            self._dictionary.arena(0, length),
            self._dictionary.order(length),
            self._dictionary.ranks(length),
            num_docs,
        )


class _Pairs(NamedTuple):
    """The texts of documents, by number."""

    docs: NDArray[np.uint32]
    """Ascending."""
    numbers: NDArray[np.uint32]


def _ranked(
    pairs: _Pairs,
    arena: KeyArena,
    order: NDArray[np.uint32],
    ranks: NDArray[np.uint32],
    num_docs: int,
) -> TextColumn:
    """Return a column whose numbers are ranks, so that it needs no `order`.

    Args:
        pairs: the texts of documents.
        arena: texts by number.
        order: number of the text of each rank.
        ranks: rank by number; equal texts have the same one.
        num_docs: documents of the segment.
    """
    arrays = build_column(pairs.docs, ranks[pairs.numbers], num_docs)
    arranged = _arranged(arena, order)
    return TextColumn(
        FacetColumn(arrays, num_docs),
        arranged,
        longest=int(np.diff(arranged.offsets).max(initial=0)),
        size=arranged.num_bytes + sum(array.nbytes for array in arrays.values()),
    )


def _arranged(arena: KeyArena, order: NDArray[np.uint32]) -> KeyArena:
    """Return some keys in another order."""
    keys, offsets = arena
    sizes = offsets[order + np.uint32(1)] - offsets[order]
    arranged = KeyArena(np.empty(int(sizes.sum()), np.uint8), np.empty(len(order) + 1, np.int64))
    _arrange_keys(keys, offsets, order, *arranged)
    return arranged


# --- merging


def merge_texts(
    snapshot: Snapshot,
    parts: Sequence[SegmentView],
    doc_maps: Sequence[NDArray[np.int64]],
    merged: SegmentView,
    fields: Sequence[int],
) -> None:
    """Cache the texts of some fields of a merged segment, where its parts have theirs.

    Parts without, such as those written since the last search that used the field, are extracted;
    if they have most of the documents, nothing is done.

    Args:
        snapshot: has the parts.
        parts: that were merged.
        doc_maps: by part: ordinal in the merged segment, or -1.
        merged: the segment, without the documents deleted in the parts.
        fields: their numbers.

    Raises:
        InternalError: item_corrupt, an item is damaged.

    Cost: 0.5 µs a text.
    """
    wanted = [field for field in fields if _is_worth_merging(snapshot, parts, merged, field)]
    extracted = [_extract_missing(snapshot, part, wanted) for part in parts]
    for field in wanted:
        having = [
            (extracted[at].get(field) or _cached(part, field), doc_maps[at])
            for at, part in enumerate(parts)
            if presence_of(part.segment).kinds(field) & TEXT_KINDS
        ]
        stored = [(one, doc_map) for one, doc_map in having if one is not None]
        if len(stored) < len(having):
            continue  # the cache has just dropped one
        texts = _merge_columns(
            [one.texts for one, _ in stored],
            [doc_map for _, doc_map in stored],
            merged.segment.num_docs,
        )
        gone = [
            doc_map[one.deleted.to_array()] for one, doc_map in stored if one.deleted is not None
        ]
        deleted = np.concatenate([np.zeros(0, np.int64), *gone])
        deleted = deleted[deleted >= 0]
        entry = _StoredTexts(texts, FrozenBitMap(deleted.tolist()) if len(deleted) else None)
        _keep(merged.segment, field, entry)


def _is_worth_merging(
    snapshot: Snapshot, parts: Sequence[SegmentView], merged: SegmentView, field: int
) -> bool:
    """Return whether half of the documents are in parts whose texts need not be extracted."""
    if not needs_documents(snapshot, merged, field):
        return False
    having = [part for part in parts if presence_of(part.segment).kinds(field) & TEXT_KINDS]
    num_known = sum(part.num_docs for part in having if _cached(part, field) is not None)
    return 2 * num_known >= sum(part.num_docs for part in having)


def _extract_missing(
    snapshot: Snapshot, part: SegmentView, fields: Sequence[int]
) -> dict[int, _StoredTexts]:
    """Extract the texts of those fields of a part that are not cached, in one pass."""
    missing = [field for field in fields if needs_documents(snapshot, part, field)]
    if not missing:
        return {}
    columns = extract_texts(snapshot, part, missing)
    assert columns is not None
    return {
        field: _StoredTexts(texts, part.deleted)
        for field, texts in zip(missing, columns, strict=True)
    }


def _merge_columns(
    parts: Sequence[TextColumn], doc_maps: Sequence[NDArray[np.int64]], num_docs: int
) -> TextColumn:
    """Merge columns; texts that only dropped documents have are left out."""
    docs_parts, numbers_parts = [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    keys_parts, sizes_parts = [np.zeros(0, np.uint8)], [np.zeros(1, np.int64)]
    num_texts = 0
    for texts, doc_map in zip(parts, doc_maps, strict=True):
        docs, numbers = _pairs_of(texts.column)
        docs = doc_map[docs]
        numbers, docs = numbers[docs >= 0], docs[docs >= 0]
        is_used = np.zeros(texts.num_values, np.bool_)
        is_used[numbers] = True
        used = _arranged(texts.arena, np.flatnonzero(is_used).astype(np.uint32))
        docs_parts.append(docs.astype(np.uint32))
        numbers_parts.append((num_texts - 1 + np.cumsum(is_used))[numbers].astype(np.uint32))
        keys_parts.append(used.keys)
        sizes_parts.append(np.diff(used.offsets))
        num_texts += used.num_keys
    # Rank them: equal texts of several parts are one.
    arena = KeyArena(np.concatenate(keys_parts), np.cumsum(np.concatenate(sizes_parts)))
    order = sort_keys(*arena)
    ranks = np.empty(num_texts, np.uint32)
    num_ranks = _rank_distinct(*arena, order, ranks)
    pairs = _Pairs(np.concatenate(docs_parts), np.concatenate(numbers_parts))
    return _ranked(pairs, arena, order[:num_ranks], ranks, num_docs)


def _pairs_of(column: FacetColumn) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the documents and numbers of a column's texts, ascending by document."""
    codes = column.codes
    if column.is_single:
        docs = np.flatnonzero(codes)
        return docs, codes[docs].astype(np.int64) - 1
    docs = np.repeat(np.arange(len(column.starts) - 1), np.diff(column.starts))
    return docs, codes.astype(np.int64) - 1


# --- files

_IN_FILE: Final = "texts"
"""What is derived of a file: its column."""


def texts_to_write(segment: Segment) -> Iterator[tuple[int, Segment]]:
    """Yield the columns of a segment that are cached, but in no file: field, arrays for a file."""
    for field, entry in _not_in_files(segment):
        yield field, _to_arrays(entry, segment.num_docs)


def has_texts_to_write(snapshot: Snapshot) -> bool:
    """Return whether searches have made columns that belong in files."""
    return any(True for view in snapshot.views for _ in _not_in_files(view.segment))


def _not_in_files(segment: Segment) -> Iterator[tuple[int, _StoredTexts]]:
    """Yield the columns of a segment that are cached, but in no file, by field."""
    if segment.path is None or segment.num_docs < FILE_DOCS_MIN:
        return
    for key in COLUMN_CACHE.keys_of(segment):
        match key:
            case ("texts", _, int(field)) if field not in segment.text_files:
                entry: _StoredTexts | None = COLUMN_CACHE.get(key)
                if entry is not None:
                    yield field, entry


def adopt_texts(segment: Segment, field: int, file: Segment) -> None:
    """Let a segment have the texts of a field from a file; they take the place of cached ones."""
    known: _StoredTexts | None = COLUMN_CACHE.get(("texts", segment.uid, field))
    entry = _from_arrays(file, None if known is None else known.texts.identity)
    file.caches[_IN_FILE] = entry
    segment.text_files[field] = file
    if known is not None:
        _keep(segment, field, entry)


def arrays_of(texts: TextColumn, view: SegmentView) -> Segment:
    """Return the arrays of a column that was extracted from a view, for a file."""
    return _to_arrays(_StoredTexts(texts, view.deleted), view.segment.num_docs)


def _to_arrays(entry: _StoredTexts, num_docs: int) -> Segment:
    """Return the arrays of a column; see the module's drawing."""
    texts, deleted = entry
    arrays = {
        "texts.codes": texts.column.codes,
        "texts.starts": texts.column.starts,
        "texts.keys": texts.arena.keys,
        "texts.offsets": texts.arena.offsets,
        "texts.deleted": np.array([] if deleted is None else deleted.to_array(), np.uint32),
    }
    return Segment(arrays, num_docs=num_docs, meta={"longest": texts.longest})


def _from_arrays(file: Segment, identity: tuple[int, int] | None) -> _StoredTexts:
    """Return the column that a file has."""
    codes, starts = file["texts.codes"], file["texts.starts"]
    arena = KeyArena(file["texts.keys"], file["texts.offsets"])
    deleted = file["texts.deleted"].tolist()
    texts = TextColumn(
        FacetColumn({"codes": codes, "starts": starts}, file.num_docs),
        arena,
        identity=identity,
        longest=file.meta["longest"],
        size=arena.num_bytes + codes.nbytes + starts.nbytes,
    )
    return _StoredTexts(texts, FrozenBitMap(deleted) if deleted else None)
