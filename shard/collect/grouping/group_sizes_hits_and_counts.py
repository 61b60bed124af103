"""Groups: sizes, hits and facet counts by value of the `distinct` field.

    sizes and hits   of the values of one page, which the coordinator asks for by their tokens
    facets           how many groups have a value of a facet, instead of how many hits

A group's hits are on several shards, so groups with a facet value cannot be added up: shards send
the pairs (facet value, group), each once; the coordinator counts different ones. Hits without
a value of the field are groups of their own; these are counted as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.deadline import check_call
from common.distinct_values import counted_runs, distinct_values
from common.protocol.messages import (
    DistinctCounts,
    FacetRequest,
    GroupPairs,
    SearchRequest,
)
from shard.collect.facets.drill_sideways import CountedMatches, Scope
from shard.collect.facets.match_value_pairs import match_value_pairs
from shard.collect.grouping.distinct_hits import MatchValues, select_best, values_of
from shard.collect.grouping.pair_marks import BITS_MAX, Pairs, marked_pairs
from shard.collect.nested.element_counts import docs_without
from shard.query.matches import Matches
from shard.segment.columns.facet_columns import facet_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.collect.top_hits.hits_and_sort_values import Hits
    from shard.segment.snapshot import Snapshot


def select_groups(
    snapshot: Snapshot, request: SearchRequest, matches: Sequence[Matches]
) -> tuple[Hits, DistinctCounts]:
    """Return the best hits of some groups, and their sizes.

    Args:
        snapshot: to search.
        request: with `groups`, and `distinct`, whose limit says how many of each.
        matches: by segment of the snapshot.

    Returns:
        (at most `num_hits` hits, best first; their tokens and the sizes).
    """
    assert request.distinct is not None
    assert request.groups is not None
    limit = request.distinct.limit
    values = values_of(snapshot, request.distinct.field, matches)
    wanted = np.frombuffer(request.groups.tokens, np.uint64)
    positions = np.searchsorted(values.tokens, wanted)
    is_known = positions < len(values.tokens)
    is_known[is_known] = values.tokens[positions[is_known]] == wanted[is_known]
    # By number: the place of its value among the wanted ones, from 1; 0: not wanted.
    place_of = np.zeros(len(values.tokens) + 1, np.uint32)
    place_of[positions[is_known] + 1] = np.flatnonzero(is_known) + 1
    sizes = np.zeros(len(wanted) + 1, np.int64)
    left: list[Matches] = []
    by_match: list[NDArray[np.uint32]] = []
    for part, numbers in zip(matches, values.of_matches(matches), strict=True):
        check_call()
        places = place_of[numbers]
        sizes += np.bincount(places, minlength=len(sizes))
        kept = places > 0
        scores = None if part.scores is None else part.scores[kept]
        docs = part.docs[kept] if part.count else np.zeros(0, np.uint32)
        left.append(Matches(part.view, docs=docs, scores=scores))
        by_match.append(numbers[kept])
    sizes = sizes[1:]
    total = int(np.minimum(sizes, limit).sum())
    num_shown = min(request.num_hits, total)
    hits, hit_numbers = select_best(snapshot, request, left, by_match, values, num_shown)
    tokens = values.tokens_of(hit_numbers)
    return hits, DistinctCounts(total, 0, tokens.tobytes(), sizes=sizes.tobytes())


class _Groups(NamedTuple):
    """The groups of the matches of a scope, numbered from 1 in the order of their tokens."""

    by_match: list[NDArray[np.uint32]]
    """By segment, by match; 0: it is a group of its own."""
    values: MatchValues
    by_value: NDArray[np.uint32]
    """By the shard's number of the value; meaningless for values that no match has."""
    tokens: NDArray[np.uint64]
    """By number - 1."""

    @classmethod
    def of(cls, values: MatchValues, matches: Sequence[Matches]) -> _Groups:
        """Number the values that some matches have."""
        present = values.counts(matches)[0]
        present = present[present > 0]
        by_value = np.empty(len(values.tokens) + 1, np.uint32)
        by_value[0] = 0
        by_value[present] = np.arange(1, len(present) + 1, dtype=np.uint32)
        by_match = [by_value.take(numbers) for numbers in values.of_matches(matches)]
        return cls(by_match, values, by_value, values.tokens.take(present - np.uint32(1)))

    def of_docs(self, view: int, docs: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the groups of some matches of a segment."""
        return self.by_value.take(self.values.of(view, docs))


class GroupCounter:
    """Counts groups by facet value; one instance per search.

    Args:
        snapshot: to search.
        request: with `distinct`.
        counted: the matches that facets count within.

    Attributes:
        ungrouped: those of them without a value of the field, each a group of its own.
    """

    def __init__(self, snapshot: Snapshot, request: SearchRequest, counted: CountedMatches) -> None:
        assert request.distinct is not None
        self._snapshot = snapshot
        self._path = request.distinct.field
        self._sends_pairs = request.wants_distinct_values
        self._counted = counted
        self._groups: dict[Scope, _Groups] = {}
        self.ungrouped = counted.restricted(self._find_ungrouped)

    def _groups_in(self, scope: Scope) -> _Groups:
        """Return the groups of the matches of a scope."""
        groups = self._groups.get(scope)
        if groups is None:
            matches = self._counted.within(scope)
            values = values_of(self._snapshot, self._path, matches)
            groups = self._groups[scope] = _Groups.of(values, matches)
        return groups

    def _find_ungrouped(self, scope: Scope) -> Sequence[Matches]:
        matches = self._counted.within(scope)
        groups = self._groups_in(scope)
        return [
            Matches(part.view, docs=part.docs[own == 0] if part.count else own)
            for part, own in zip(matches, groups.by_match, strict=True)
        ]

    def pairs(self, request: FacetRequest) -> GroupPairs:
        """Return which values of a facet, and which groups, occur together."""
        scope = self._counted.scope_of_facet(request)
        matches = self._counted.within(scope)
        groups = self._groups_in(scope)
        found = self._marked_pairs(request, matches, groups)
        if found is None:
            found = self._sorted_pairs(request, matches, groups)
        if self._sends_pairs:
            tokens = groups.tokens.tobytes()
            return GroupPairs(found.codes.tobytes(), found.groups.tobytes(), tokens)
        present, counts = counted_runs(np.sort(found.codes))
        return GroupPairs(present.tobytes(), b"", b"", counts.astype(np.uint32).tobytes())

    def _marked_pairs(
        self, request: FacetRequest, matches: Sequence[Matches], groups: _Groups
    ) -> Pairs | None:
        """Return the pairs by marking them; None: it would take too many bits, or is no column."""
        field = self._snapshot.registry.number(request.field)
        num_values = self._snapshot.dictionary_lengths.get(request.field)
        if field is None or num_values is None or request.within is not None:
            return None
        num_groups = len(groups.tokens)
        if (num_values + 1) * num_groups > BITS_MAX:
            return None
        parts = []
        for part, own in zip(matches, groups.by_match, strict=True):
            if part.count:
                check_call()
                column = facet_column(part.view.segment, field)
                if column is None:
                    return None
                parts.append((part, own, column))
        return marked_pairs(parts, num_values, num_groups, takes_missing=request.wants_missing)

    def _sorted_pairs(
        self, request: FacetRequest, matches: Sequence[Matches], groups: _Groups
    ) -> Pairs:
        """Return the pairs by sorting them, whatever they are."""
        keys: list[NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
        for i, part in enumerate(matches):
            check_call()
            if not part.count:
                continue
            pairs = match_value_pairs(self._snapshot, request, part)
            keys.append(_keys(pairs.codes, groups.of_docs(i, pairs.docs)))
            if request.wants_missing:
                if request.within is None:
                    has_value = np.zeros(part.view.segment.num_docs, np.bool_)
                    has_value[pairs.docs] = True
                    docs = part.docs[~has_value.take(part.docs)]
                else:
                    docs = docs_without(self._snapshot, request.field, request.within, part)
                keys.append(_keys(np.zeros(len(docs), np.uint32), groups.of_docs(i, docs)))
        distinct = distinct_values(np.concatenate(keys))
        codes = (distinct >> np.uint64(32)).astype(np.uint32)
        numbers = distinct.astype(np.uint32)
        is_grouped = numbers > 0
        return Pairs(codes[is_grouped], numbers[is_grouped] - np.uint32(1))


def _keys(codes: NDArray[np.uint32], numbers: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return each pair as one number."""
    return (codes.astype(np.uint64) << np.uint64(32)) | numbers.astype(np.uint64)
