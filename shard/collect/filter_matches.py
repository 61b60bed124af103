"""The documents of one segment that pass the filters of a search without text.

    common clauses     tags = drama            14,849 documents
    group "country"    country ∈ {US, UK}      17,948 documents

Two ways, by how selective the clauses are:

    by documents   the documents of the rarest value that all must have, listed from its stored set
                   (0.2 ns each); every other clause is asked for these only: a code looked up in a
                   table, or a bit of its bitset (0.5 ns each). Nothing is made that is as long as
                   the segment.
    by bitsets     all clauses as bitsets, combined by numpy: where no clause names one value, or
                   more than every eighth document has it.

The counters want documents in order anyway: those of a bitset cost 1-2 ns each to list.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from common.query import AllOf, And, AnyOf, Filter
from shard.collect.matches import Matches, both, leave_out_each, narrow_each
from shard.index.doc_sets import pick_docs
from shard.index.facets import FacetColumn, facet_column
from shard.query.filters import resolve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.snapshot import SegmentView, Snapshot

_SELECTIVE_SHARE: Final = 8
"""A value is selective if at most one document of so many has it."""
_TABLE_VALUES_MAX: Final = 1 << 13
"""Dictionaries up to this length have a table of the wanted codes made for a search."""
_NO_DOCS: Final = np.zeros(0, np.uint32)


def match_filters(
    snapshot: Snapshot,
    view: SegmentView,
    common: Sequence[Filter],
    groups: Mapping[str, Sequence[Filter]],
) -> tuple[Matches, dict[str, Matches]]:
    """Find what passes all clauses, and what passes all but one group's.

    Args:
        snapshot: what is searched.
        view: one of its segments.
        common: clauses that narrow everything.
        groups: by disjunctive facet: clauses that do not narrow that facet's own counts.
    """
    conditions = [part for clause in common for part in _parts(clause)]
    rarest = _rarest(snapshot, view, conditions)
    if rarest is None:
        base = narrow(snapshot, view, view.live_mask, conditions)
        return narrow_each(view, base, resolve_groups(snapshot, view, groups))
    docs = _NO_DOCS if rarest.number is None else rarest.column.docs_with(rarest.number)
    if view.live_mask is not None:
        docs = _pick(docs, view.live_mask)
    for position, condition in enumerate(conditions):
        if position != rarest.position:
            docs = _passing(snapshot, view, condition, docs)
    passing = docs
    for clause in itertools.chain.from_iterable(groups.values()):
        passing = _passing(snapshot, view, clause, passing)
    hits = Matches(view, docs=passing)
    if len(groups) < 2:
        return hits, {facet: Matches(view, docs=docs) for facet in groups}
    return hits, leave_out_each(view, docs, resolve_groups(snapshot, view, groups))


def narrow(
    snapshot: Snapshot,
    view: SegmentView,
    words: NDArray[np.uint64] | None,
    clauses: Iterable[Filter],
) -> NDArray[np.uint64] | None:
    """Return the documents of a bitset (None: all) that pass every clause."""
    for clause in clauses:
        words = both(words, resolve(snapshot, view, clause))
    return words


def resolve_groups(
    snapshot: Snapshot, view: SegmentView, groups: Mapping[str, Sequence[Filter]]
) -> dict[str, NDArray[np.uint64]]:
    """Return by group the documents that pass every clause of it."""
    resolved = {}
    for facet, clauses in groups.items():
        words = narrow(snapshot, view, None, clauses)
        assert words is not None, "a group without clauses"
        resolved[facet] = words
    return resolved


class _Value:
    """A value that all matches have, by the position of its condition."""

    __slots__ = ("column", "number", "position")

    def __init__(self, position: int, column: FacetColumn, number: int | None) -> None:
        self.position = position
        self.column = column
        self.number = number


def _parts(condition: Filter) -> Iterator[Filter]:
    """Split a condition into those that must all hold."""
    match condition:
        case And(children=children):
            for child in children:
                yield from _parts(child)
        case AllOf(field=field, values=values):
            for value in values:
                yield AnyOf(field, (value,))
        case _:
            yield condition


def _rarest(snapshot: Snapshot, view: SegmentView, conditions: Sequence[Filter]) -> _Value | None:
    """Return the most selective of the conditions that name one facet value, if one is."""
    rarest = None
    limit = view.segment.num_docs // _SELECTIVE_SHARE
    for position, condition in enumerate(conditions):
        if not isinstance(condition, AnyOf) or len(condition.values) != 1:
            continue
        dictionary = snapshot.dictionaries.get(condition.field)
        field = snapshot.registry.number(condition.field)
        if dictionary is None or field is None:
            continue
        column = facet_column(view.segment, field)
        if column is None or not column.has_sets:
            continue
        number = dictionary.number(
            condition.values[0], snapshot.dictionary_lengths[condition.field]
        )
        count = 0 if number is None else column.num_docs_with(number)
        if count <= limit:
            limit = count
            rarest = _Value(position, column, number)
    return rarest


def _passing(
    snapshot: Snapshot, view: SegmentView, condition: Filter, docs: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Return those of some documents that pass a condition."""
    if isinstance(condition, AnyOf):
        length = snapshot.dictionary_lengths.get(condition.field, _TABLE_VALUES_MAX + 1)
        field = snapshot.registry.number(condition.field)
        column = None if field is None else facet_column(view.segment, field)
        if column is not None and column.is_single and length <= _TABLE_VALUES_MAX:
            numbers = snapshot.dictionaries[condition.field].numbers(condition.values, length)
            return column.pick_with(numbers, length, docs)
    return _pick(docs, resolve(snapshot, view, condition))


def _pick(docs: NDArray[np.uint32], words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return those of some documents that a bitset holds."""
    picked = np.empty(len(docs), np.uint32)
    return picked[: pick_docs(docs, words, picked)]
