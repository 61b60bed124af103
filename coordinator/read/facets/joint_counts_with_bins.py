"""Joint counts of the bins of a field with everything else that a response counts (pure).

search          the facets, ranges and trees of the response; with an interval also the
                histogram of the field, whose first and last buckets are the ends of the bins
second search   without what `filters` says of the field: counts by value and bin on each shard
here            sums over shards, then up to each edge, so that two of them give any range
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from common.errors import InvalidRequest
from common.limits import Limits
from common.protocol.messages import (
    CubeCounts,
    CubeFacet,
    CubeRange,
    CubeRequest,
    RangeRequest,
    SearchRequest,
    SearchResponse,
)
from coordinator.cluster.shard_responses import ShardResponses
from coordinator.parameters.facet_specs import CubeSpec
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.facet_count_plan import value_request
from coordinator.read.facets.facet_result_types import CubeResult, FacetResult
from coordinator.read.facets.range_merging import edge_of, range_buckets

if TYPE_CHECKING:
    from numpy.typing import NDArray


def histogram_requests(spec: CubeSpec | None) -> tuple[RangeRequest, ...]:
    """Return the ranges that the search counts in addition, to know the ends of the bins."""
    if spec is None or spec.interval is None:
        return ()
    return (RangeRequest(spec.field, interval=spec.interval),)


def edges_of(spec: CubeSpec, answers: ShardResponses, limits: Limits) -> tuple[int | float, ...]:
    """Return the edges of the bins; none if no hit has a number.

    Args:
        spec: the field, and its bins.
        answers: pairs (shard ordinal, response); their last range is that of `histogram_requests`.
        limits: on the number of bins.

    Raises:
        InvalidRequest: `invalid_facet_cube`; there are too many, or no double lies between two.
    """
    if spec.interval is None:
        return spec.edges
    buckets: list[Any] = [key for _, answer in answers for key in answer.ranges[-1].listed_keys]
    if not buckets:
        return ()
    first, last = min(buckets), max(buckets)
    if last - first >= limits.facet_cube_bins_max:
        raise InvalidRequest(
            f"facet_cube.interval {spec.interval:g} gives more than "
            f"{limits.shown('facet_cube_bins_max')} bins: choose a wider one",
            code="invalid_facet_cube",
            param="facet_cube.interval",
        )
    edges = [edge_of(first + i, spec.interval) for i in range(int(last - first) + 2)]
    if len(set(edges)) < len(edges):
        raise InvalidRequest(
            f"facet_cube.interval {spec.interval:g} is too small for the values of {spec.field!r}",
            code="invalid_facet_cube",
            param="facet_cube.interval",
        )
    return tuple(edges)


def cube_request(
    spec: CubeSpec,
    edges: tuple[int | float, ...],
    parameters: SearchParameters,
    search: SearchRequest,
    facets: Sequence[FacetResult],
    limits: Limits,
) -> SearchRequest:
    """Return the second search.

    Args:
        spec: the field, and its bins.
        edges: of the bins.
        parameters: of the search.
        search: the first one, without its own results.
        facets: its facets, with the buckets that are listed.
        limits: on the number of counts.
    """
    specs = {one.configuration.field: one for one in parameters.all_facets}
    cube = CubeRequest(
        spec.field,
        edges,
        tuple(
            [
                CubeFacet(
                    value_request(parameters, specs[one.field]),
                    tuple([bucket.key for bucket in one.buckets]),
                )
                for one in facets
                if one.field != spec.field
            ]
        ),
        tuple(_ranges(spec, parameters)),
        limits.facet_cube_counts_max,
    )
    return structs.replace(
        search,
        filters=tuple([one for one in search.filters if one.facet != spec.field]),
        cube=cube,
    )


def _ranges(spec: CubeSpec, parameters: SearchParameters) -> Iterator[RangeRequest]:
    """Yield the ranges that are counted by bin, those of trees last."""
    for one in parameters.ranges:
        if one.field != spec.field:
            yield one
    for tree in parameters.trees:
        for one in tree.requests:
            yield structs.replace(one, parents=None)


def cube_result(
    request: CubeRequest,
    parameters: SearchParameters,
    answers: Sequence[SearchResponse],
) -> CubeResult:
    """Add up the shards' counts.

    Raises:
        InvalidRequest: `invalid_facet_cube`; there are more counts than allowed.
    """
    parts = [answer.cube for answer in answers if answer.cube is not None]
    num_bins = request.num_bins
    facets = {
        one.facet.field: [
            {"key": key, "counts": counts}
            for key, counts in zip(
                one.keys,
                _up_to_edges(_added([part.facets[i] for part in parts], len(one.keys), num_bins)),
                strict=True,
            )
        ]
        for i, one in enumerate(request.facets)
    }
    num_rows = sum([len(one.keys) for one in request.facets])
    merged = []
    for i in range(len(request.ranges)):
        merged.append(_merged(parts, i, num_bins))
        num_rows += len(merged[-1])
    if num_rows * num_bins > request.counts_max:
        raise request.too_many_counts()
    listed = [one for one in parameters.ranges if one.field != request.field]
    ranges = {
        one.field: _listed_range(one, merged[i], [part.ranges[i] for part in parts], num_bins)
        for i, one in enumerate(listed)
    }
    trees = {}
    at = len(listed)
    for tree in parameters.trees:
        nodes: dict[str, NDArray[np.int64]] = {}
        for level in range(len(tree.requests)):
            nodes |= {path: one for path, one in merged[at].items() if tree.has_node(path, level)}
            at += 1
        trees[tree.name] = [
            {"path": path, "counts": _sums(nodes[path])}
            for path in sorted(nodes)
            if nodes[path].any()
        ]
    (total,) = _up_to_edges(_added([part.total for part in parts], 1, num_bins))
    return CubeResult(request.field, request.edges, total, facets, ranges, trees)


def empty_cube(field: str) -> CubeResult:
    """Return the joint counts of a search none of whose hits has a number to count by."""
    return CubeResult(field, (), (), {}, {}, {})


def _listed_range(
    request: RangeRequest,
    rows: dict[Any, NDArray[np.int64]],
    parts: Sequence[CubeRange],
    num_bins: int,
) -> list[dict[str, Any]]:
    """Return the intervals of a range, as `facet_ranges` names them, with their counts."""
    is_given = bool(request.bounds or request.rings)
    sums = {key: _sums(rows[key]) for key in sorted(rows) if is_given or rows[key].any()}
    listed = [
        {**bucket, "counts": sums[key]}
        for key, bucket in zip(sums, range_buckets(request, list(sums)), strict=True)
    ]
    if request.wants_missing:
        (counts,) = _up_to_edges(_added([part.missing for part in parts], 1, num_bins))
        listed.append({"key": "missing", "missing": True, "counts": counts})
    return listed


def _merged(parts: Sequence[CubeCounts], at: int, num_bins: int) -> dict[Any, NDArray[np.int64]]:
    """Add up the counts of one range over the shards, by key."""
    rows: dict[Any, NDArray[np.int64]] = {}
    for part in parts:
        one = part.ranges[at]
        counts = _added([one.counts], len(one.keys), num_bins)
        for key, row in zip(one.keys, counts, strict=True):
            rows[key] = rows[key] + row if key in rows else row
    return rows


def _added(parts: Sequence[bytes], num_rows: int, num_bins: int) -> NDArray[np.int64]:
    """Add up counts of several shards: by row and bin."""
    total = np.zeros((num_rows, num_bins), np.int64)
    for part in parts:
        total += np.frombuffer(part, np.uint32).reshape(num_rows, num_bins)
    return total


def _up_to_edges(counts: NDArray[np.int64]) -> list[list[int]]:
    """Return, for each row, the sums up to each edge."""
    sums = np.zeros((counts.shape[0], counts.shape[1] + 1), np.int64)
    np.cumsum(counts, axis=1, out=sums[:, 1:])
    listed: list[list[int]] = sums.tolist()
    return listed


def _sums(row: NDArray[np.int64]) -> list[int]:
    return [0, *accumulate(row.tolist())]
