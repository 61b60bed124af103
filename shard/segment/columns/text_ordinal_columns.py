"""Text columns: the texts of one field of one segment as ordinals, in their order.

Sort columns, filters, ranges and groups compare texts by rank instead of by their bytes. There are
two sources:

    a facet with only texts    the facet dictionary: ranks mean the same in all segments; no cost
    any other field            the stored documents: extracted once, 1.5 s for 500,000 documents,
                               then kept in the LRU cache, and in a file beside that of the
                               segment (`text_ordinal_files`); a merge of segments merges them too
                               (`text_ordinal_merge`), so that no search waits for them again, nor
                               after a start. Those that searches are likely to need are made while
                               the index is idle (`text_ordinal_preparation`)

A collation other than the code point order ranks the same numbers differently; these ranks are
cached as well.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from pyroaring import FrozenBitMap

from common.analysis.collation import collator
from common.analysis.collation_names import CODE_POINTS
from common.facet_dictionary import FacetDictionary
from common.kernels.decorator import kernel
from common.kernels.intrinsics import prefetch
from common.kernels.types import I64Array, U8Array, U32Array, uint32
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
IN_FILE: Final = "texts"
"""Key of the column among what is derived of its file."""
_PREFETCHED: Final = 16
"""How many keys ahead of the one that is copied are prefetched."""


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


class StoredTexts(NamedTuple):
    """A text column that was extracted from documents, and the documents that it does not cover."""

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
                keep_texts(view.segment, field, StoredTexts(texts, view.deleted))
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
    stored = stored_texts(view, field)
    return None if stored is None else stored.texts


def stored_texts(view: SegmentView, field: int) -> StoredTexts | None:
    """Return what was extracted before, cached or in a file, if it covers all live documents."""
    segment = view.segment
    entry: StoredTexts | None = COLUMN_CACHE.get(("texts", segment.uid, field))
    if entry is not None and _covers(entry, view):
        return entry
    file = segment.text_files.get(field)
    if file is None or not _covers(file.caches[IN_FILE], view):
        return None
    return keep_texts(segment, field, file.caches[IN_FILE])  # the cache had dropped it


def _covers(entry: StoredTexts, view: SegmentView) -> bool:
    """Return whether a column has the texts of all live documents of a view."""
    return entry.deleted is None or (
        view.deleted is not None and entry.deleted.issubset(view.deleted)
    )


def keep_texts(segment: Segment, field: int, entry: StoredTexts) -> StoredTexts:
    """Cache the texts of a field of a segment; return them."""
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
        return ranked_column(
            TextPairs(np.concatenate(self._docs), np.concatenate(self._numbers)),
            self._dictionary.arena(0, length),
            self._dictionary.order(length),
            self._dictionary.ranks(length),
            num_docs,
        )


class TextPairs(NamedTuple):
    """The texts of documents, by number."""

    docs: NDArray[np.uint32]
    """Ascending."""
    numbers: NDArray[np.uint32]


def ranked_column(
    pairs: TextPairs,
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
    arranged = arranged_keys(arena, order)
    return TextColumn(
        FacetColumn(arrays, num_docs),
        arranged,
        longest=int(np.diff(arranged.offsets).max(initial=0)),
        size=arranged.num_bytes + sum(array.nbytes for array in arrays.values()),
    )


def arranged_keys(arena: KeyArena, order: NDArray[np.uint32]) -> KeyArena:
    """Return some keys in another order."""
    keys, offsets = arena
    sizes = offsets[order + np.uint32(1)] - offsets[order]
    arranged = KeyArena(np.empty(int(sizes.sum()), np.uint8), np.empty(len(order) + 1, np.int64))
    _arrange_keys(keys, offsets, order, *arranged)
    return arranged
