"""The documents of one segment that pass the filters of a search without text.

    common clauses     tags = drama            14,849 documents
    group "country"    country ∈ {US, UK}      17,948 documents
    group "year"       year ∈ {1994}            9,120 documents

There are two ways, chosen by how selective the clauses are:

    by documents   List the documents of a selective clause from stored sets (0.2 ns each), and test
                   every other clause on these only: a code looked up in a table, or a bit of its
                   bitset (0.5 ns each). No array as long as the segment is allocated.
    by bitsets     Where no clause is selective: resolve all clauses to bitsets and combine them in
                   numpy.

The list comes from the rarest value that all documents must have. If the common clauses have none,
it comes from the groups: whatever passes all groups but one passes the rarest or the second rarest.

Counters want documents in order anyway, and listing those of a bitset costs 1-2 ns each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from common.query_syntax_tree import AllOf, And, AnyOf, Filter
from shard.query.filters.disjunctive_facets import narrow_each
from shard.query.filters.filter_bitsets import resolve
from shard.query.filters.filter_intersection import narrow, resolve_groups
from shard.query.matches import Matches
from shard.segment.columns.facet_columns import (
    FacetColumn,
    StoredSet,
    code_table,
    facet_column,
    num_in,
)
from shard.segment.doc_sets import pick_docs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView, Snapshot

_SELECTIVE_SHARE: Final = 8
"""Documents are listed if at most 1 / `_SELECTIVE_SHARE` of the segment is."""
_LISTED_GROUPS_MIN: Final = 3
"""With fewer groups, all but one means one whole group: its bitset gives that in order."""
_LISTED_VALUES_MAX: Final = 16
"""Greatest number of values of one clause whose documents are listed; each costs a call."""
_TABLE_VALUES_MAX: Final = 1 << 13
"""For a dictionary up to this length, a search builds a table of the wanted codes."""


def match_filters(
    snapshot: Snapshot,
    view: SegmentView,
    common: Sequence[Filter],
    groups: Mapping[str, Sequence[Filter]],
) -> tuple[Matches, dict[str, Matches]]:
    """Find the documents that pass all clauses, and those that pass all but one group's.

    Args:
        snapshot: to search.
        view: one of its segments.
        common: clauses that narrow everything.
        groups: by disjunctive facet: clauses that do not narrow that facet's own counts.
    """
    if not common and not groups:
        live = view.live_mask
        return Matches(view, bitset=live, is_all=live is None), {}
    conditions: list[Filter] = []
    for clause in common:
        _add_parts(clause, conditions)
    clauses = [_Clause(snapshot, view, condition) for condition in conditions]
    limit = view.segment.num_docs // _SELECTIVE_SHARE
    # Selective common clause: list its documents, test the rest on them.
    rarest = _rarest(clauses, limit)
    if rarest is not None:
        clauses.remove(rarest)
        docs = _narrowed(rarest.list_docs(view.live_mask), clauses)
        if not groups:
            return Matches(view, docs=docs), {}
        return _leave_out_each(view, docs, _grouped(snapshot, view, groups))
    # None: bitsets, unless the two rarest groups are selective themselves.
    base = narrow(snapshot, view, view.live_mask, conditions)
    if len(groups) >= _LISTED_GROUPS_MIN:
        grouped = _grouped(snapshot, view, groups)
        if sum([clauses[0].num_listed() for _, clauses in grouped[:2]]) <= limit:
            return _leave_out_each(view, None, grouped, base)
    return narrow_each(view, base, resolve_groups(snapshot, view, groups))


def _leave_out_each(
    view: SegmentView,
    docs: NDArray[np.uint32] | None,
    groups: Sequence[_Group],
    base: NDArray[np.uint64] | None = None,
) -> tuple[Matches, dict[str, Matches]]:
    """Narrow documents by all groups of clauses, and by all groups but one.

    Args:
        view: the segment and its deletions.
        docs: those that pass the common clauses, ascending; None if the groups are to list them.
        groups: rarest first. If `docs` is None, the first two must be able to list their documents.
        base: bitset to narrow the groups' documents by, if not None.
    """
    is_listed = docs is None  # listed value by value, so not yet in order

    def matches(clauses: Sequence[_Clause]) -> Matches:
        passing = _narrowed(docs, clauses, base)
        return Matches(view, docs=np.sort(passing) if is_listed else passing)

    without: dict[str, Matches] = {}
    for position, (facet, clauses) in enumerate(groups):
        others = groups[position + 1 :]
        without[facet] = matches([clause for _, other in others for clause in other])
        docs = _narrowed(docs, clauses, base)
    return matches(()), without


def _narrowed(
    docs: NDArray[np.uint32] | None,
    clauses: Sequence[_Clause],
    base: NDArray[np.uint64] | None = None,
) -> NDArray[np.uint32]:
    """Return the given documents that pass all clauses; None: the first clause lists them."""
    for clause in clauses:
        docs = clause.list_docs(base) if docs is None else clause.pick(docs)
    assert docs is not None, "neither documents nor clauses"
    return docs


class _Clause:
    """A condition on the documents of one segment.

    It can test given documents. If it names few values of a facet, it can also list all documents
    that pass.
    """

    __slots__ = (
        "_bitset",
        "_column",
        "_condition",
        "_is_wanted",
        "_num_listed",
        "_num_values",
        "_sets",
        "_snapshot",
        "_view",
    )

    def __init__(self, snapshot: Snapshot, view: SegmentView, condition: Filter) -> None:
        self._snapshot = snapshot
        self._view = view
        self._condition = condition
        self._column: FacetColumn | None = None
        self._num_values = 0  # of the dictionary
        if isinstance(condition, AnyOf) and condition.field in snapshot.dictionaries:
            field = snapshot.registry.number(condition.field)
            self._column = None if field is None else facet_column(view.segment, field)
            self._num_values = snapshot.dictionary_lengths.get(condition.field, 0)
        self._sets: Sequence[StoredSet] | None = None
        self._num_listed = 0
        self._is_wanted: NDArray[np.uint8] | None = None
        self._bitset: NDArray[np.uint64] | None = None

    def num_listed(self, num_values_max: int = _LISTED_VALUES_MAX) -> float:
        """Return how many documents `list_docs` returns; infinite if it cannot list them.

        Args:
            num_values_max: a clause with more values cannot. The documents of a single value are in
                order.
        """
        column = self._column
        if column is None or not column.has_sets:
            return math.inf
        assert isinstance(self._condition, AnyOf), "no values of a facet"
        # A document may have several values, but must be listed once.
        if len(self._condition.values) > (num_values_max if column.is_single else 1):
            return math.inf
        if self._sets is None:
            self._sets = column.stored_sets(self._numbers())
            self._num_listed = num_in(self._sets)
        return self._num_listed

    def list_docs(self, allowed: NDArray[np.uint64] | None) -> NDArray[np.uint32]:
        """Return the documents that pass, each once, value by value (ascending within a value).

        Args:
            allowed: bitset of those that count; None: all.
        """
        assert self._column is not None, "no values of a facet"
        assert self._sets is not None, "not known to be few"
        docs = self._column.docs_in(self._sets)
        return docs if allowed is None else _pick(docs, allowed)

    def pick(self, docs: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the given documents that pass."""
        column = self._column
        if column is not None and column.is_single and self._num_values <= _TABLE_VALUES_MAX:
            if self._is_wanted is None:
                self._is_wanted = code_table(self._numbers(), self._num_values)
            return column.pick_with(self._is_wanted, docs)
        if self._bitset is None:
            self._bitset = resolve(self._snapshot, self._view, self._condition)
        return _pick(docs, self._bitset)

    def _numbers(self) -> list[int]:
        """Return the requested values of the facet."""
        assert isinstance(self._condition, AnyOf), "no values of a facet"
        dictionary = self._snapshot.dictionaries[self._condition.field]
        return dictionary.numbers(self._condition.values, self._num_values)


def _rarest(clauses: Sequence[_Clause], limit: float) -> _Clause | None:
    """Return the clause that lists the fewest documents, in order, if within the limit."""
    rarest = None
    for clause in clauses:
        num_listed = clause.num_listed(num_values_max=1)
        if num_listed <= limit:
            limit = num_listed
            rarest = clause
    return rarest


_Group: TypeAlias = tuple[str, list[_Clause]]
"""A disjunctive facet and its clauses, the rarest first."""


def _grouped(
    snapshot: Snapshot, view: SegmentView, groups: Mapping[str, Sequence[Filter]]
) -> list[_Group]:
    """Return the groups, the rarest first."""
    grouped = []
    for facet, conditions in groups.items():
        clauses = [_Clause(snapshot, view, condition) for condition in conditions]
        grouped.append((facet, sorted(clauses, key=_Clause.num_listed)))
    return sorted(grouped, key=lambda group: group[1][0].num_listed())


def _add_parts(condition: Filter, parts: list[Filter]) -> None:
    """Split a condition into those that must all hold, and add these to others."""
    match condition:
        case AnyOf():
            parts.append(condition)
        case And(children=children):
            for child in children:
                _add_parts(child, parts)
        case AllOf(field=field, values=values):
            parts += [AnyOf(field, (value,)) for value in values]
        case _:
            parts.append(condition)


def _pick(docs: NDArray[np.uint32], bitset: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the given documents that are in a bitset."""
    picked = np.empty(len(docs), np.uint32)
    return picked[: pick_docs(docs, bitset, picked)]
