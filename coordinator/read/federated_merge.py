"""Several searches merged into one list of hits with one set of facets (pure).

    hits      by the sort keys, which all searches share; otherwise by score times weight; equal
              ones by their rank in their own search, then in the order of the searches; without
              sort keys, pinned hits at their positions
    facets    counts of all values of a name are added up, then the buckets are chosen

Every search delivers the order of its first hits up to the end of the page, and counts all values
of its facets, so that sums are exact before any are left out. Only items of the page are read.
"""

from __future__ import annotations

import dataclasses
import heapq
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct, structs

from common.errors import InvalidRequest
from common.process.cooperative_scheduler import run_to_completion
from common.protocol.messages import RangeRequest
from coordinator.parameters.facet_specs import FacetSpec
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.bucket_selection import Bucket
from coordinator.read.facets.facet_result_types import FacetResult, FacetStats, RangeResult
from coordinator.read.facets.facet_value_collation import text_key
from coordinator.read.facets.range_merging import CountedKeys, added_up, finite
from coordinator.read.hit_merging import comparable
from coordinator.read.hit_rendering import add_members
from coordinator.read.pinned_hits import slots
from coordinator.read.search_results import SearchResult

_EVERY: Final = 1 << 31
"""A facet size that stands for all values."""
_UNSCORED: Final = 1.0
"""The score of an item without a query, as where a boost multiplies it."""


class Member(Struct, frozen=True):
    """One search of those that are merged."""

    index: str
    """Name of the index, as in the request."""
    weight: float
    """Factor of its scores."""
    parameters: SearchParameters
    """As requested."""


def mergeable(
    parameters: SearchParameters, num_hits: int, hides_zero: Mapping[str, bool]
) -> SearchParameters:
    """Return a search whose result can be merged: its first hits, and all buckets.

    Args:
        parameters: of the search, as requested.
        num_hits: on the merged page and those before it.
        hides_zero: whether values without hits are left out, by facet; from `zeros_hidden`.

    Raises:
        InvalidRequest: `invalid_merge`; it uses a feature that works on one index only.
    """
    specs = parameters.all_facets
    for is_used, name, reason in (
        (parameters.cursor is not None, "cursor", "a cursor is of one search"),
        (bool(parameters.trees), "trees", "trees are of one index"),
        (parameters.cube is not None, "facet_cube", "joint counts are of one index"),
        (
            any(one.summary.is_of_values or one.summary.fields for one in specs),
            "facets",
            "cardinality, percentiles and stats by value are of one index",
        ),
        (
            any(key.seed is not None or key.num_buckets for key in parameters.sort),
            "sort",
            "score buckets and random orders are of one index",
        ),
    ):
        if is_used:
            raise InvalidRequest(
                f"{name} cannot be merged: {reason}", code="invalid_merge", param=name
            )
    return structs.replace(
        parameters,
        page=1,
        per_page=num_hits,
        facets=tuple([_with_all_buckets(spec, hides_zero) for spec in parameters.facets]),
        field_facets=tuple([_with_all_buckets(spec, {}) for spec in parameters.field_facets]),
        keeps_order=True,
    )


def zeros_hidden(searches: Iterable[SearchParameters]) -> dict[str, bool]:
    """Return whether values without hits are left out, by facet: the first search with it says."""
    hides: dict[str, bool] = {}
    for parameters in searches:
        for spec in parameters.all_facets:
            hides.setdefault(spec.configuration.field, spec.configuration.hide_zero)
    return hides


def _with_all_buckets(spec: FacetSpec, hides_zero: Mapping[str, bool]) -> FacetSpec:
    configuration, order = spec.configuration, spec.order
    if not order.hides_chosen_zero:
        hides = hides_zero.get(configuration.field, configuration.hide_zero)
        configuration = dataclasses.replace(configuration, hide_zero=hides)
        order = structs.replace(order, hides_zero=hides)
    configuration = dataclasses.replace(configuration, size=_EVERY)
    return structs.replace(spec, configuration=configuration, order=order, offset=0)


def check_orders(members: Sequence[Member]) -> None:
    """Check that all searches sort alike.

    Raises:
        InvalidRequest: `invalid_merge`.
    """
    directions = [
        [
            (key.is_score, key.is_descending, key.is_missing_first, key.collation)
            for key in one.parameters.sort
        ]
        for one in members
    ]
    for position, one in enumerate(directions):
        if one != directions[0]:
            raise InvalidRequest(
                f"searches[{position}].sort must match that of the first search in directions "
                "and collations, key by key: hits are merged in this order",
                code="invalid_merge",
                param=f"searches[{position}].sort",
            )


def check_ranges(members: Sequence[Member]) -> None:
    """Check that the ranges of a field are the same in all searches that have them.

    Raises:
        InvalidRequest: `invalid_merge`.
    """
    known: dict[str, RangeRequest] = {}
    for position, one in enumerate(members):
        for requested in one.parameters.ranges:
            asked = structs.replace(requested, leaves_out_own=True, within=None)
            if known.setdefault(asked.field, asked) != asked:
                param = f"searches[{position}].facet_ranges.{asked.field}"
                raise InvalidRequest(
                    f"{param} must match that of the other searches: counts are added up",
                    code="invalid_merge",
                    param=param,
                )


def merged_hits(
    members: Sequence[Member], results: Sequence[SearchResult], page: int, per_page: int
) -> list[tuple[int, int]]:
    """Return the hits of a page of merged searches, as (search, rank).

    Args:
        members: the searches.
        results: of each, as `mergeable` asks for it.
        page: which page of all hits, from 1.
        per_page: hits on a page.
    """
    rows = [
        (member, rank)
        for member, one in enumerate(results)
        for rank, hit in enumerate(one.order)
        if hit.position is None
    ]
    rows.sort(key=lambda row: (row[1], row[0]))
    scores = [
        [(_UNSCORED if hit.score is None else hit.score) * one.weight for hit in result.order]
        for one, result in zip(members, results, strict=True)
    ]
    rows.sort(key=lambda row: scores[row[0]][row[1]], reverse=True)
    for i, key in reversed(list(enumerate(members[0].parameters.sort))):
        column = {
            (member, rank): scores[member][rank]
            if key.is_score
            else results[member].order[rank].sort_values[i]
            for member, rank in rows
        }
        rows.sort(
            key=lambda row, column=column, key=key: comparable(column[row], key),  # type: ignore[misc]
            reverse=key.is_descending,
        )
    return _with_pinned(rows, results)[(page - 1) * per_page : page * per_page]


def merged_result(
    members: Sequence[Member],
    results: Sequence[SearchResult],
    items: Iterable[tuple[int, bytes]],
    page: int,
    per_page: int,
) -> SearchResult:
    """Merge the results of searches.

    Args:
        members: the searches.
        results: of each, as `mergeable` asks for it.
        items: of the page, each with the search that found it.
        page: which page of all hits, from 1.
        per_page: hits on a page.
    """
    first = results[0]
    return SearchResult(
        page=page,
        per_page=per_page,
        total=sum([one.total for one in results]),
        items=[add_members(item, {"_index": members[member].index}) for member, item in items],
        facets=_merged_facets(members, results),
        ranges=_merged_ranges(results),
        seq=first.seq,
        ignored_words=[],
        shards=first.shards,
        timings=first.timings,
    )


def _with_pinned(
    rows: list[tuple[int, int]], results: Sequence[SearchResult]
) -> list[tuple[int, int]]:
    """Return the hits, as (search, rank), with the pinned ones of all searches at their positions.

    Each search delivers its first hits, in which pinned ones take no more places than here, so as
    many others as this list needs have come with them.
    """
    pinned = sorted(
        (hit.position, member, rank)
        for member, one in enumerate(results)
        for rank, hit in enumerate(one.order)
        if hit.position is not None
    )
    num_others = sum([one.total for one in results]) - len(pinned)
    places = slots([position for position, _, _ in pinned], num_others)
    for place, (_, *row) in zip(places, pinned, strict=True):
        rows.insert(place, (row[0], row[1]))
    return rows


def _merged_facets(members: Sequence[Member], results: Sequence[SearchResult]) -> list[FacetResult]:
    """Add up the counts of facets of the same name.

    The first search that has one says how to order its buckets, how many to show, and whether
    values without hits are among them.
    """
    specs: dict[str, FacetSpec] = {}
    parts: dict[str, list[FacetResult]] = {}
    for member, result in zip(members, results, strict=True):
        for spec in member.parameters.all_facets:
            specs.setdefault(spec.configuration.field, spec)
        for facet in result.facets:
            parts.setdefault(facet.field, []).append(facet)
    found = []
    for name in sorted(parts):
        spec, facets = specs[name], parts[name]
        counts: Counter[str] = Counter()
        selected: set[str] = set()
        for facet in facets:
            for bucket in facet.buckets:
                counts[bucket.key] += bucket.doc_count
                if bucket.is_selected:
                    selected.add(bucket.key)
        end = spec.offset + spec.configuration.size
        least = _least_of_page(counts, spec, end)
        buckets = [
            Bucket(key, count, key in selected)
            for key, count in counts.items()
            if count >= least or key in selected
        ]
        sort_key = text_key(spec.order.collation)
        buckets.sort(key=lambda one, sort_key=sort_key: sort_key(one.key))  # type: ignore[misc]
        columns: dict[str, Any] = {
            "key": lambda one, sort_key=sort_key: sort_key(one.key),
            "count": lambda one: one.doc_count,
            "selected": lambda one: one.is_selected,
        }
        for key, is_descending in reversed(spec.order.keys):
            buckets.sort(key=columns[key], reverse=is_descending)
        missing = [facet.missing for facet in facets if facet.missing is not None]
        stats = [one for facet in facets if (one := facet.stats) is not None]
        found.append(
            FacetResult(
                name,
                facets[0].title,
                facets[0].position,
                buckets[spec.offset : end],
                _merged_stats(stats) if stats else None,
                sum(missing) if missing else None,
            )
        )
    return found


def _least_of_page(counts: Counter[str], spec: FacetSpec, end: int) -> int:
    """Return the least count of the buckets up to the end of a page, but for selected ones.

    0 if counts do not decide, or hardly any bucket is beyond the end.
    """
    by_keys = [key for key in spec.order.keys if key[0] != "selected"]
    if by_keys[:1] != [("count", True)] or not 0 < end <= len(counts) // 4:
        return 0
    return heapq.nlargest(end, counts.values())[-1]


def _merged_stats(parts: Sequence[FacetStats]) -> FacetStats:
    """Add up statistics."""
    total = sum([_total(one) for one in parts], Fraction())
    count = sum([one.count for one in parts])
    return FacetStats(
        min=min([one.min for one in parts if one.min is not None], default=None),
        max=max([one.max for one in parts if one.max is not None], default=None),
        avg=_nearest(total / count) if count else None,
        sum=_nearest(total),
        count=count,
    )


def _total(part: FacetStats) -> Fraction:
    """Return the sum of one search; beyond all doubles only its mean tells it."""
    if part.avg is not None and abs(part.sum) == sys.float_info.max:
        return Fraction(part.avg) * part.count
    return Fraction(part.sum)


def _nearest(number: Fraction) -> float:
    """Return the nearest double."""
    try:
        return float(number)
    except OverflowError:
        return finite(float("inf") if number > 0 else float("-inf"))


def _merged_ranges(results: Sequence[SearchResult]) -> list[RangeResult]:
    """Add up the counts of ranges of the same field."""
    parts: dict[str, list[RangeResult]] = {}
    for result in results:
        for part in result.ranges:
            parts.setdefault(part.request.field, []).append(part)
    merged = []
    for same in parts.values():
        counted = [CountedKeys(one.keys, one.counts) for one in same]
        keys, counts = run_to_completion(added_up(same[0].request, counted))
        missing = sum([one.missing for one in same])
        merged.append(RangeResult(same[0].request, keys, counts, missing))
    return merged
