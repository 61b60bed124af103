"""Sort columns: any scalar field as keys that compare as integers.

Questions it answers, for one field of one segment: in which order are these documents, what are
their values, which come first of very many? Any scalar field can be sorted by, without
configuration, so what the segment does not store is computed on first use and kept in a bounded LRU
cache.

One key of `sort_keys` per document and field orders values of all types. Where a number is not
exact as a double (`number_columns`), a second, minor key of its residual follows.

Where the keys come from:

    only numbers, one a document    from the number column, document by document, nothing is stored
    everything else                 an array of keys by document, 8 bytes each, in the LRU cache

If a field is a facet with only texts, the facet dictionary ranks them (ranks then mean the same in
all segments). Otherwise they are ranked within the segment (`text_ordinal_columns`).

Once it is used repeatedly, the order has a permutation (`permutations`): the documents by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from common.analysis.collation_names import CODE_POINTS
from common.distinct_values import distinct_values
from common.kernels.decorator import kernel
from common.kernels.types import (
    U64,
    F64Array,
    I8Array,
    I16Array,
    I32Array,
    U32Array,
    U64Array,
    int64,
    uint64,
)
from common.value_kinds_and_facet_keys import ValueKind
from shard.caches.derived_values import derived_by_key
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.batch_values_by_column import TEXT_KINDS
from shard.segment.columns.code_counting import Codes
from shard.segment.columns.number_columns import number_column, plain_number, split_number
from shard.segment.columns.permutations import Permutation, Permuted
from shard.segment.columns.presence_and_value_kinds import Aspect, presence_of
from shard.segment.columns.sort_keys import (
    EMPTY_TEXT_KEY,
    FALSE_KEY,
    MISSING_KEY,
    ordered_bits,
    ordered_keys,
    plain_doubles,
)
from shard.segment.columns.text_ordinal_columns import (
    TextColumn,
    needs_texts,
    sort_key_of,
    text_column,
    texts_identity,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView, Snapshot

Numbers = TypeVar("Numbers", I8Array, I16Array, I32Array, F64Array)

COLUMN_FAST_MAX: Final = 100_000
"""Up to this many documents, a column that is not just a number column is built within 2 ms."""

_MISSING: Final = uint64(MISSING_KEY)
_FIRST_TEXT: Final = uint64(EMPTY_TEXT_KEY + 1)
_NO_RANKS: Final = np.zeros(0, np.uint32)
_BOOLEAN_KINDS: Final = (1 << ValueKind.TRUE) | (1 << ValueKind.FALSE)


@kernel
def _number_keys(
    values: Numbers, missing: float, docs: U32Array, flip: U64, missing_key: U64, keys: U64Array
) -> None:
    """Write the key of each document, given a dense number column; `missing` may be NaN."""
    for i in range(len(docs)):
        value = np.float64(values[docs[i]])
        if value != value or value == missing:
            keys[i] = missing_key
        else:
            keys[i] = ordered_bits(value) ^ flip


@kernel
def _gather_keys(
    by_doc: U64Array, docs: U32Array, flip: U64, missing_key: U64, keys: U64Array
) -> None:
    for i in range(len(docs)):
        key = by_doc[docs[i]]
        keys[i] = missing_key if key == _MISSING else key ^ flip


class SortColumn(Permuted):
    """The order of one field in one segment.

    Attributes:
        texts: the texts that text keys refer to; None if there are none.
        are_keys_global: whether keys compare with those of other segments.
        minor_keys: by document, breaks ties between equal keys, int16; None if there is nothing to
            break.
        has_several: whether some document without an array has several values, under `a.b` and in
            the object `a`; like an array, they have no key.
        size: bytes that the LRU cache charges for it.
    """

    __slots__ = (
        "_by_doc",
        "_missing",
        "_numbers",
        "are_keys_global",
        "has_several",
        "minor_keys",
        "size",
        "texts",
    )

    def __init__(
        self,
        num_docs: int,
        *,
        numbers: NDArray[Any] | None = None,
        by_doc: NDArray[np.uint64] | None = None,
        minor_keys: NDArray[np.int16] | None = None,
        texts: TextColumn | None = None,
        has_several: bool = False,
    ) -> None:
        super().__init__(num_docs)
        self.has_several = has_several
        self._numbers = numbers
        self._by_doc = by_doc
        self.minor_keys = minor_keys
        self.texts = texts
        self.are_keys_global = texts is None or texts.are_ranks_global
        self._missing = float("nan")
        if numbers is not None and numbers.dtype.kind == "i":
            self._missing = float(np.iinfo(numbers.dtype).min)
        self.size = 64 + (0 if by_doc is None else by_doc.nbytes)

    def keys(
        self, docs: NDArray[np.uint32], *, is_descending: bool, is_missing_first: bool
    ) -> NDArray[np.uint64]:
        """Return the keys of some documents in the requested order; smaller comes first.

        Cost: 1-2 ns a document.
        """
        keys = np.empty(len(docs), np.uint64)
        flip = _MISSING if is_descending else uint64(0)
        missing_key = uint64(0) if is_missing_first else _MISSING
        if self._numbers is not None:
            _number_keys(self._numbers, self._missing, docs, flip, missing_key, keys)
        elif self._by_doc is not None:
            _gather_keys(self._by_doc, docs, flip, missing_key, keys)
        else:
            keys.fill(missing_key)
        return keys

    def doubles(self, docs: NDArray[np.uint32]) -> NDArray[np.float64] | None:
        """Return the values of some documents if all have numbers that are exact as doubles."""
        if self.minor_keys is not None:
            return None
        keys = self.keys(docs, is_descending=False, is_missing_first=False)
        are_numbers = int(keys.max(initial=0)) < EMPTY_TEXT_KEY
        return plain_doubles(keys) if are_numbers else None

    def values(self, docs: NDArray[np.uint32]) -> list[Any]:
        """Return the values of some documents: float, str, bool, or None if missing.

        A number is an int only if no double is exact.
        """
        if self._numbers is not None:
            missing = self._missing
            doubles: list[float] = self._numbers[docs].astype(np.float64).tolist()
            return [None if one == missing or one != one else one for one in doubles]
        keys = self.keys(docs, is_descending=False, is_missing_first=False)
        doubles = plain_doubles(keys).tolist()
        if self.minor_keys is None and int(keys.max(initial=0)) < EMPTY_TEXT_KEY:
            return doubles
        minors = [0] * len(docs) if self.minor_keys is None else self.minor_keys[docs].tolist()
        listed = keys.tolist()
        # Hits that were sorted by few values share them.
        others = {key: self._other_value(key) for key in set(listed) if key >= EMPTY_TEXT_KEY}
        return [
            others[key] if key in others else plain_number(double, minor)
            for key, double, minor in zip(listed, doubles, minors, strict=True)
        ]

    def _other_value(self, key: int) -> str | bool | None:
        if key == MISSING_KEY:
            return None
        if key >= FALSE_KEY:
            return key != FALSE_KEY
        if key == EMPTY_TEXT_KEY:
            return ""
        assert self.texts is not None, "a text key without texts"
        encoded = self.texts.text_of_rank(key - EMPTY_TEXT_KEY - 1)
        return encoded.decode("utf-8", "surrogatepass")

    def key_bounds(self, value: Any) -> tuple[int, int, int]:
        """Return where a value belongs in ascending order, whether or not the segment has it.

        Returns:
            (least key that is not before it, least key after all equal to it, minor key). The two
            keys are the same for a text that the segment does not have.
        """
        if value is None:
            return MISSING_KEY, MISSING_KEY + 1, 0
        if isinstance(value, bool):
            key = FALSE_KEY + value
            return key, key + 1, 0
        if isinstance(value, str):
            if value == "":
                return EMPTY_TEXT_KEY, EMPTY_TEXT_KEY + 1, 0
            low, high = (0, 0) if self.texts is None else self.texts.rank_bounds(value)
            return EMPTY_TEXT_KEY + 1 + low, EMPTY_TEXT_KEY + 1 + high, 0
        double, residual = split_number(value)
        key = int(ordered_keys(np.array([double + 0.0]))[0])
        return key, key + 1, residual

    def _sorted_docs(self) -> Permutation:
        """Return the documents that have a value, by ascending key."""
        docs = np.arange(self.num_docs, dtype=np.uint32)
        keys = self.keys(docs, is_descending=False, is_missing_first=False)
        order = np.argsort(keys)
        ordered = keys[order]
        num_values = int(np.searchsorted(ordered, _MISSING))
        is_first = np.ones(num_values, np.bool_)
        np.not_equal(ordered[1:num_values], ordered[: max(num_values - 1, 0)], out=is_first[1:])
        # Sort again by (run of equal keys, document). A stable sort of the keys would take four
        # times as long as both sorts together.
        packed = np.cumsum(is_first, dtype=np.uint64) << np.uint64(32)
        packed |= order[:num_values].astype(np.uint64)
        packed.sort()
        return Permutation(packed.astype(np.uint32), is_first)


def sort_column(
    snapshot: Snapshot, view: SegmentView, field: int, collation: str = CODE_POINTS
) -> SortColumn:
    """Return the order of a field in a segment; of its texts, by a collation.

    Arrays cannot be sorted by: documents that have one count as missing, and so do those that have
    several values under both spellings of a path, `a.b` and in the object `a`.
    """
    segment = view.segment
    column = _plain_column(segment, field)
    if column is not None:
        return column
    has_texts = bool(presence_of(segment).scalar_kinds(field) & TEXT_KINDS)
    texts = text_column(snapshot, view, field, collation) if has_texts else None
    key = ("order", segment.uid, field, None if texts is None else texts.identity, collation)
    return COLUMN_CACHE.get_or_make(
        key, lambda: _make_column(view, field, texts), lambda made: made.size, segment
    )


def needs_column(
    snapshot: Snapshot, view: SegmentView, field: int, collation: str = CODE_POINTS
) -> bool:
    """Return whether building the order of a field in a segment takes milliseconds or more."""
    segment = view.segment
    if _plain_column(segment, field) is not None:
        return False
    if needs_texts(snapshot, view, field, collation):
        return True
    if segment.num_docs <= COLUMN_FAST_MAX:
        return False
    identity = texts_identity(snapshot, view, field)
    return COLUMN_CACHE.get(("order", segment.uid, field, identity, collation)) is None


@derived_by_key
def _plain_column(segment: Segment, field: int) -> SortColumn | None:
    """Return the order of a field if a number column alone, or nothing, determines it."""
    if not _is_plain(segment, field):
        return None
    numbers = number_column(segment, field)
    return SortColumn(segment.num_docs, numbers=None if numbers is None else numbers.values)


def _is_plain(segment: Segment, field: int) -> bool:
    """Return whether a number column alone is the order of a field (or it has no values)."""
    presence = presence_of(segment)
    kinds = presence.scalar_kinds(field)
    if kinds & (TEXT_KINDS | _BOOLEAN_KINDS) or presence.count(field, Aspect.EMPTY_TEXT):
        return False
    numbers = number_column(segment, field)
    return numbers is None or (
        numbers.is_dense and numbers.is_exact_as_double and presence.count(field, Aspect.ARRAY) == 0
    )


@kernel
def _write_text_keys(codes: Codes, starts: U32Array, ranks: U32Array, by_doc: U64Array) -> None:
    """Write the key of the first text of each document that has one.

    Args:
        codes: of a facet column, value number + 1; 0: none.
        starts: of the rows of codes; empty: one code a document.
        ranks: by value number; empty: each number is its own rank.
        by_doc: the keys.
    """
    for doc in range(len(by_doc)):
        at = int64(doc)
        if len(starts):
            at = int64(starts[doc])
            if at == int64(starts[doc + 1]):
                continue
        code = int64(codes[at])
        if code == 0:
            continue
        rank = uint64(ranks[code - 1]) if len(ranks) else uint64(code - 1)
        by_doc[doc] = _FIRST_TEXT + rank


def _make_column(view: SegmentView, field: int, texts: TextColumn | None) -> SortColumn:
    """Compute the key of every document of a segment.

    Documents with an array, or with several values, become missing at the end. The empty text is no
    value beside another one.
    """
    segment = view.segment
    presence = presence_of(segment)
    by_doc = np.full(segment.num_docs, _MISSING)
    num_values = np.zeros(segment.num_docs, np.int32)
    minor_keys: NDArray[np.int16] | None = None
    for aspect, special in (
        (Aspect.EMPTY_TEXT, EMPTY_TEXT_KEY),
        (Aspect.TRUE, FALSE_KEY + 1),
        (Aspect.FALSE, FALSE_KEY),
    ):
        if presence.count(field, aspect):
            docs = presence.docs(field, aspect)
            by_doc[docs] = np.uint64(special)
            num_values[docs] += special != EMPTY_TEXT_KEY
    # Texts by rank, then numbers.
    if texts is not None:
        codes, starts = texts.column.codes, texts.column.starts
        num_values += codes != 0 if texts.column.is_single else np.diff(starts).astype(np.int32)
        ranks = _NO_RANKS if texts.ranks is None else texts.ranks
        _write_text_keys(texts.column.codes, texts.column.starts, ranks, by_doc)
    column = number_column(segment, field)
    if column is not None:
        number_docs, values, residuals = column.pairs()
        keys = ordered_keys(values)
        by_doc[number_docs] = keys
        is_other = by_doc[number_docs] != keys
        if residuals is not None:
            minor_keys = np.zeros(segment.num_docs, np.int16)
            minor_keys[number_docs] = residuals
            is_other |= minor_keys[number_docs] != residuals
        num_values[number_docs] += 1  # once for each document, also where it has several numbers
        num_values[number_docs[is_other]] += 1
    arrays = presence.docs(field, Aspect.ARRAY)
    num_values[arrays] = 0
    several = np.flatnonzero(num_values > 1).astype(np.uint32)
    for docs in (arrays, several):
        by_doc[docs] = _MISSING
        if minor_keys is not None:
            minor_keys[docs] = 0
    return SortColumn(
        segment.num_docs,
        by_doc=by_doc,
        minor_keys=minor_keys,
        texts=texts,
        has_several=bool(len(several)),
    )


def rank_texts(columns: Sequence[SortColumn], keys: Sequence[NDArray[np.uint64]]) -> None:
    """Make the text keys of several segments comparable, in place.

    Args:
        columns: order of the field in each segment.
        keys: ascending keys of some documents of each segment; text keys become the rank among the
            texts of all of them.
    """
    texts: list[dict[int, bytes]] = []
    for column, part in zip(columns, keys, strict=True):
        is_text = (part > np.uint64(EMPTY_TEXT_KEY)) & (part < np.uint64(FALSE_KEY))
        found: dict[int, bytes] = {}
        for key in distinct_values(part[is_text]).tolist():
            assert column.texts is not None, "a text key without texts"
            found[key] = column.texts.text_of_rank(key - EMPTY_TEXT_KEY - 1)
        texts.append(found)
    sort_key = sort_key_of(next((one.texts.collation for one in columns if one.texts), CODE_POINTS))
    distinct = sorted({text for one in texts for text in one.values()}, key=sort_key)
    ranks = {text: i for i, text in enumerate(distinct)}
    for part, found in zip(keys, texts, strict=True):
        for i, key in enumerate(part.tolist()):
            if key in found:
                part[i] = EMPTY_TEXT_KEY + 1 + ranks[found[key]]
