"""Facets of fields that are not configured as facets: counted for one request.

Shards have no common numbers for their values, so counts come by facet key (`RangeRequest` with
`is_of_values`), and are numbered here for the time of one response. Values without hits are not
known.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np
from msgspec import structs

from common.analysis.analyzer import Analyzer
from common.key_arena import KeyArena
from common.protocol.messages import RangeRequest
from common.protocol.packed_counts import EVERY
from coordinator.cluster.shard_responses import ShardResponses
from coordinator.parameters.facet_specs import FacetSpec
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.facets.bucket_selection import listed_buckets
from coordinator.read.facets.facet_result_assembly import facet_result
from coordinator.read.facets.facet_result_types import FacetResult
from coordinator.read.facets.facet_statistics import summaries
from coordinator.read.facets.facet_value_search import accept_keys
from coordinator.read.facets.global_ordinals import FacetValues
from coordinator.read.facets.summed_counts import MergedCounts

_STEP_KEYS: Final = 1_000
"""Keys that are numbered in a step, 0.4 µs each."""


def field_requests(parameters: SearchParameters) -> list[RangeRequest]:
    """Return the requests to the shards.

    Of each field the counts, and those within the hits, if the first leave out its own filter and
    summaries are wanted.
    """
    requests = []
    for spec in parameters.field_facets:
        leaves_out_own = _leaves_out_own(parameters, spec)
        requests.append(
            RangeRequest(
                spec.configuration.field,
                leaves_out_own=leaves_out_own,
                is_of_values=True,
                wants_missing=spec.summary.missing,
            )
        )
        if leaves_out_own and spec.is_summed_up:
            requests.append(structs.replace(requests[-1], leaves_out_own=False))
    return requests


def _leaves_out_own(parameters: SearchParameters, spec: FacetSpec) -> bool:
    """Return whether the counts leave out what `filters` says of the field."""
    if spec.configuration.conjunction or parameters.is_strict:
        return False
    return any(clause.facet == spec.configuration.field for clause in parameters.filters)


def field_results(
    parameters: SearchParameters, first: int, answers: ShardResponses, analyzer: Analyzer
) -> Generator[None, None, list[FacetResult]]:
    """Merge the counts of fields that are not configured as facets; yield regularly.

    Args:
        parameters: of the search.
        first: index of the first of `field_requests` among the ranges of each response.
        answers: pairs (shard ordinal, response).
        analyzer: folds keys.

    Returns:
        The facets, by field.
    """
    results = []
    for spec in parameters.field_facets:
        values, counts, missing = yield from _merged(answers, first)
        first += 1
        within_hits = (values, counts)
        if _leaves_out_own(parameters, spec) and spec.is_summed_up:
            within_hits = (yield from _merged(answers, first))[:2]
            first += 1
        accepts = accept_keys(values, analyzer, None, spec.key_query, typos=spec.key_typos)
        results.append(
            facet_result(
                spec,
                listed_buckets(spec, parameters, values, counts, accepts),
                missing if spec.summary.missing else None,
                summaries(spec, *within_hits),
            )
        )
    return sorted(results, key=lambda one: one.field)


def _merged(
    answers: ShardResponses, position: int
) -> Generator[None, None, tuple[FacetValues, MergedCounts, int]]:
    """Add up one range by key over the shards.

    Returns:
        (the numbering, the counts, the documents without a value).
    """
    values = FacetValues(len(answers))
    counts = np.zeros(0, np.int64)
    missing = 0
    for shard, (_, answer) in enumerate(answers):
        part = answer.ranges[position]
        keys = part.listed_keys
        for start in range(0, len(keys), _STEP_KEYS):
            step = KeyArena.of(map(str, keys[start : start + _STEP_KEYS]))
            values.extend(shard, 0, start, step)
            yield
        summed = np.zeros(len(values), np.int64)
        summed[: len(counts)] = counts
        added = np.frombuffer(part.counts, np.uint32)
        np.add.at(summed, values.numbering.to_number[shard, : len(keys)], added)
        counts = summed
        missing += part.num_missing
    return values, MergedCounts(counts, np.zeros(0, np.uint32), EVERY, lambda: None), missing
