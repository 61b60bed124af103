"""Filters on the values of one field of one segment: the leaves of `filter_bitsets`.

Which column answers depends on the field alone, never on how the segment came about:

    AnyOf AllOf           facet: its column                      else: numbers, booleans, texts
    StartsWith Contains   facet: keys of its dictionary          else: keys of its values
    Range                 numbers: the number column             texts: ranks of the text column
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, assert_never

import numpy as np

from common.distinct_values import distinct_values
from common.query_syntax_tree import AllOf, AnyOf, Contains, Range, StartsWith
from common.value_kinds_and_facet_keys import WHOLE_FLOAT_MAX, number_text
from shard.query.filters.starts_with_and_contains import (
    fold_key,
    fold_keys,
    numbers_alike,
    values_alike,
)
from shard.segment.columns.facet_columns import FacetColumn, facet_column
from shard.segment.columns.number_columns import NumberColumn, number_column, plain_number
from shard.segment.columns.presence_and_value_kinds import Aspect, presence_of
from shard.segment.columns.text_ordinal_columns import TextColumn
from shard.segment.doc_sets import empty_bitset, full_bitset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView, Snapshot

_EQUAL_SCANS_MAX: Final = 4
"""Up to this many numbers are looked up one scan each; more share one pass."""


class FieldColumns:
    """The values of one field of one segment, whichever columns hold them."""

    def __init__(
        self, snapshot: Snapshot, view: SegmentView, field: int, texts: TextColumn | None
    ) -> None:
        self._snapshot = snapshot
        self._view = view
        self._field = field
        self._texts = texts
        self._path = snapshot.registry.paths[field]
        self._presence = presence_of(view.segment)
        self._num_docs = view.segment.num_docs

    def resolve(
        self, condition: AnyOf | AllOf | Range | StartsWith | Contains
    ) -> NDArray[np.uint64]:
        """Return the documents that pass a condition on this field."""
        match condition:
            case AnyOf(values=keys):
                return self._with_any(keys)
            case AllOf(values=keys):
                bitset = full_bitset(self._num_docs)
                for key in keys:
                    bitset &= self._with_any((key,))
                return bitset
            case Range():
                return self._in_range(condition)
            case StartsWith(text=text):
                return self._with_key_like(fold_key(text), is_at_start=True)
            case Contains(text=text):
                return self._with_key_like(fold_key(text), is_at_start=False)
            case _:
                assert_never(condition)

    def _facet(self) -> FacetColumn | None:
        return facet_column(self._view.segment, self._field)

    @property
    def _is_facet(self) -> bool:
        return self._path in self._snapshot.dictionaries

    def _with_any(self, keys: Sequence[str]) -> NDArray[np.uint64]:
        """Return the documents that have a value with one of the keys."""
        bitset = empty_bitset(self._num_docs)
        if self._is_facet:
            column = self._facet()
            if column is not None:
                length = self._snapshot.dictionary_lengths[self._path]
                numbers = self._snapshot.dictionaries[self._path].numbers(keys, length)
                column.add_docs_with(numbers, bitset)
            return bitset
        numeric = number_column(self._view.segment, self._field)
        if numeric is not None:
            _add_docs_equal(
                numeric, [n for key in keys if (n := _number_of(key)) is not None], bitset
            )
        self._add_booleans(keys, bitset)
        texts = self._texts
        if texts is not None:
            ranks = [rank for key in keys if (rank := texts.rank_of(key)) is not None]
            if ranks:
                texts.column.add_docs_with(_numbers_of_ranks(texts, ranks), bitset)
        return bitset

    def _add_booleans(self, keys: Iterable[str], bitset: NDArray[np.uint64]) -> None:
        if "true" in keys:
            self._presence.add_docs(self._field, Aspect.TRUE, bitset)
        if "false" in keys:
            self._presence.add_docs(self._field, Aspect.FALSE, bitset)

    def _in_range(self, condition: Range) -> NDArray[np.uint64]:
        bitset = empty_bitset(self._num_docs)
        lower, upper = condition.lower, condition.upper
        if isinstance(lower, str) or isinstance(upper, str):
            assert not isinstance(lower, int | float), "bounds of different types"
            assert not isinstance(upper, int | float), "bounds of different types"
            self._add_texts_in_range(
                lower, condition.is_lower_open, upper, condition.is_upper_open, bitset
            )
            return bitset
        numeric = number_column(self._view.segment, self._field)
        if numeric is not None:
            numeric.add_docs_in_range(
                lower, condition.is_lower_open, upper, condition.is_upper_open, bitset
            )
        return bitset

    def _add_texts_in_range(
        self,
        lower: str | None,
        is_lower_open: bool,
        upper: str | None,
        is_upper_open: bool,
        bitset: NDArray[np.uint64],
    ) -> None:
        texts = self._texts
        if texts is None:
            return
        first, end = 0, texts.num_values
        if lower is not None:
            first = texts.rank_bounds(lower)[1 if is_lower_open else 0]
        if upper is not None:
            end = texts.rank_bounds(upper)[0 if is_upper_open else 1]
        numbers = texts.numbers_between(first, end)
        if len(numbers):
            texts.column.add_docs_with(numbers, bitset)

    def _with_key_like(self, text: str, *, is_at_start: bool) -> NDArray[np.uint64]:
        """Return the documents with a value whose folded key has a text, or begins with it."""
        bitset = empty_bitset(self._num_docs)
        if self._is_facet:
            column = self._facet()
            if column is not None:
                length = self._snapshot.dictionary_lengths[self._path]
                dictionary = self._snapshot.dictionaries[self._path]
                alike = values_alike(dictionary, length, text, is_at_start=is_at_start)
                column.add_docs_with(alike, bitset)
            return bitset
        is_like = str.startswith if is_at_start else str.__contains__
        self._add_booleans([key for key in ("true", "false") if is_like(key, text)], bitset)
        numeric = number_column(self._view.segment, self._field)
        if numeric is not None:
            named = [n for n in _distinct(numeric) if is_like(fold_key(number_text(n)), text)]
            _add_docs_equal(numeric, named, bitset)
        texts = self._texts
        if texts is not None:
            folded = fold_keys(texts.arena)
            alike = numbers_alike(folded, text, is_at_start=is_at_start)
            texts.column.add_docs_with(alike, bitset)
        return bitset


def _numbers_of_ranks(texts: TextColumn, ranks: list[int]) -> list[int]:
    numbers = ranks if texts.order is None else texts.order[ranks].tolist()
    return sorted(set(numbers))


def _number_of(key: str) -> int | float | None:
    """Return the number whose key this is, or None ("1.0" is not a key: the key of 1.0 is "1")."""
    try:
        number: int | float = int(key) if key.lstrip("-").isdecimal() else float(key)
    except ValueError:
        return None
    is_short = abs(number) < WHOLE_FLOAT_MAX if isinstance(number, int) else math.isfinite(number)
    if not is_short or number_text(number) != key:
        return None
    if isinstance(number, float) and number.is_integer():
        return int(number)  # exact, and compares equal to itself
    return number


def _add_docs_equal(
    column: NumberColumn, numbers: Sequence[int | float], bitset: NDArray[np.uint64]
) -> None:
    """Add the documents that have one of the numbers to a bitset."""
    if len(numbers) <= _EQUAL_SCANS_MAX or not column.is_exact_as_double:
        for number in numbers:
            column.add_docs_in_range(number, False, number, False, bitset)
        return
    # An integer between two doubles is none of the column's numbers.
    doubles = [float(number) for number in numbers if float(number) == number]
    column.add_docs_among(np.array(doubles), bitset)


def _distinct(column: NumberColumn) -> list[int | float]:
    """Return the distinct numbers of a column."""
    _, doubles, residuals = column.pairs()
    if residuals is None:
        return [plain_number(double, 0) for double in distinct_values(doubles).tolist()]
    pairs = set(zip(doubles.tolist(), residuals.tolist(), strict=True))
    return [plain_number(double, residual) for double, residual in sorted(pairs)]
