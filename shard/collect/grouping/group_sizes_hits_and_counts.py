"""Groups: sizes, hits and facet counts by value of the `distinct` field.

    sizes and hits   of the values of one page, which the coordinator asks for by their tokens
    facets           how many groups have a value of a facet, instead of how many hits

A group's hits are on several shards, so groups with a facet value cannot be added up: shards send
the pairs (facet value, group), each once; the coordinator counts different ones. Hits without
a value of the field are groups of their own; these are counted as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
from shard.collect.nested_element_collectors import docs_without
from shard.query.matches import Matches

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
        self._values: dict[Scope, MatchValues] = {}
        self.ungrouped = counted.restricted(self._find_ungrouped)

    def _values_in(self, scope: Scope) -> MatchValues:
        """Return the values of the field in the matches of a scope."""
        values = self._values.get(scope)
        if values is None:
            matches = self._counted.within(scope)
            values = self._values[scope] = values_of(self._snapshot, self._path, matches)
        return values

    def _find_ungrouped(self, scope: Scope) -> Sequence[Matches]:
        matches = self._counted.within(scope)
        numbers = self._values_in(scope).of_matches(matches)
        return [
            Matches(part.view, docs=part.docs[own == 0] if part.count else own)
            for part, own in zip(matches, numbers, strict=True)
        ]

    def pairs(self, request: FacetRequest) -> GroupPairs:
        """Return which values of a facet, and which groups, occur together."""
        scope = self._counted.scope_of_facet(request)
        matches = self._counted.within(scope)
        values = self._values_in(scope)
        keys: list[NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
        for i, part in enumerate(matches):
            check_call()
            if not part.count:
                continue
            pairs = match_value_pairs(self._snapshot, request, part)
            keys.append(_keys(pairs.codes, values.of(i, pairs.docs)))
            if request.wants_missing:
                if request.within is None:
                    has_value = np.zeros(part.view.segment.num_docs, np.bool_)
                    has_value[pairs.docs] = True
                    docs = part.docs[~has_value.take(part.docs)]
                else:
                    docs = docs_without(self._snapshot, request.field, request.within, part)
                keys.append(_keys(np.zeros(len(docs), np.uint32), values.of(i, docs)))
        distinct = distinct_values(np.concatenate(keys))
        codes = (distinct >> np.uint64(32)).astype(np.uint32)
        numbers = (distinct & np.uint64(0xFFFFFFFF)).astype(np.int64)
        codes, numbers = codes[numbers > 0], numbers[numbers > 0]
        if self._sends_pairs:
            has_pairs = np.zeros(len(values.tokens) + 1, np.bool_)
            has_pairs[numbers] = True
            groups = (np.cumsum(has_pairs, dtype=np.uint32) - np.uint32(1)).take(numbers)
            tokens = values.tokens[has_pairs[1:]]
            return GroupPairs(codes.tobytes(), groups.tobytes(), tokens.tobytes())
        present, counts = counted_runs(codes)
        return GroupPairs(present.tobytes(), b"", b"", counts.astype(np.uint32).tobytes())


def _keys(codes: NDArray[np.uint32], numbers: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return each pair as one number."""
    return (codes.astype(np.uint64) << np.uint64(32)) | numbers.astype(np.uint64)
