"""Boosting: factors on scores, from numbers and dates of the items (see common/boosts.py).

    value of the field ─▶ function ─▶ factor, a multiple of 2^-20 ─▶ score × factor, a multiple of
                                                                     2^-32

The arithmetic, which is the same on every machine, is in `boost_functions`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.boosts import FUNCTIONS, Boost
from shard.caches.lru_cache import COLUMN_CACHE
from shard.query.filters import filter_bitsets
from shard.query.matches import Matches
from shard.query.scoring.boost_functions import (
    pick_factors,
    raise_scores,
    read_moments,
    read_numbers,
    write_factors,
    write_rule_factors,
)
from shard.segment.columns.cached_date_seconds import date_seconds_by_rank, has_date_seconds
from shard.segment.columns.geo_columns import geo_column
from shard.segment.columns.sort_columns import SortColumn, needs_column, sort_column
from shard.segment.doc_sets import has_bit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.protocol.messages import FilterFactor, SearchRequest
    from shard.segment.snapshot import SegmentView, Snapshot

_TEXTS_FAST_MAX: Final = 4_096
"""Up to this many distinct dates are parsed within a search; more are parsed off the event loop."""
_READ_SHARE: Final = 8
"""From one of this many documents on, a search computes the factors of all, which are kept."""
_FACTOR_BYTES: Final = 8
_BASE_SCORE: Final = 1.0
"""Score of every item in a search without words."""
_NO_SECONDS: Final = np.zeros(0, np.float64)


def boosted(snapshot: Snapshot, matches: Matches, request: SearchRequest) -> Matches:
    """Return matches with their scores multiplied by all factors of a search.

    Args:
        snapshot: to search.
        matches: with exact scores, or without scores: then every score is 1.
        request: the search.
    """
    view, docs, scores = matches.view, matches.docs, matches.scores
    for boost in request.boosts:
        by_doc = _factors_by_doc(snapshot, view, boost, len(docs), len(request.boosts))
        if by_doc is None:
            by = factors(snapshot, view, boost, docs, request.timestamp)
        elif matches.is_everything:
            by = by_doc
        else:
            by = np.empty(len(docs))
            pick_factors(by_doc, docs, by)
        scores = by if scores is None else raised(scores, by)  # a score of 1 times its factor
    for rule in request.factors:
        bitset = filter_bitsets.resolve(snapshot, view, rule.filter)
        by = np.empty(len(docs))
        write_rule_factors(bitset, docs, rule.factor if scores is not None else _once(rule), by)
        scores = by if scores is None else raised(scores, by)
    return Matches(view, docs=docs, scores=scores)


def _once(rule: FilterFactor) -> float:
    """Return a score of 1 times the factor of a rule."""
    return float(raised(np.array([_BASE_SCORE]), np.array([rule.factor]))[0])


def _factors_by_doc(
    snapshot: Snapshot, view: SegmentView, boost: Boost, num_read: int, num_boosts: int
) -> NDArray[np.float64] | None:
    """Return the factor of every document of a segment; cached.

    Args:
        snapshot: to search.
        view: the segment.
        boost: gives the factors.
        num_read: documents whose factors are read.
        num_boosts: of the search, whose factors should all be cached.

    Returns:
        None if the factors depend on the time of the search or on a point, or if they are not
        cached, and the cache has no room or so few documents need theirs that computing those takes
        less time.
    """
    field = snapshot.registry.number(boost.field)
    if field is None or boost.point is not None or _is_age(boost):
        return None
    segment = view.segment
    # Texts that are read from documents lack those that are deleted by then, but not earlier.
    texts = sort_column(snapshot, view, field).texts
    key = ("factors", segment.uid, field, boost, None if texts is None else texts.identity)
    has_room = COLUMN_CACHE.takes(_FACTOR_BYTES * segment.num_docs * num_boosts)
    if num_read * _READ_SHARE < segment.num_docs or not has_room:
        cached: NDArray[np.float64] | None = COLUMN_CACHE.get(key)
        return cached

    def make() -> NDArray[np.float64]:
        docs = np.arange(segment.num_docs, dtype=np.uint32)
        return factors(snapshot, view, boost, docs, timestamp=0)

    return COLUMN_CACHE.get_or_make(key, make, lambda made: made.nbytes, segment)


def _is_age(boost: Boost) -> bool:
    """Return whether a boost is by the age of items at the time of the search."""
    return boost.is_time and boost.origin is None


def raised(scores: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores times factors, rounded to whole score units."""
    higher = np.empty(len(scores))
    raise_scores(scores, by, higher)
    return higher


def explain_boosts(
    snapshot: Snapshot,
    view: SegmentView,
    doc: int,
    request: SearchRequest,
    explanation: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the parts of a score, including those of boosts and rules.

    Args:
        snapshot: that was searched.
        view: the segment of the document.
        doc: its ordinal.
        request: the search.
        explanation: of the score without boosts; None where the search has no words.
    """
    parts: list[dict[str, Any]] = [{"kind": "base", "score": _BASE_SCORE}]
    score = _BASE_SCORE
    if explanation is not None:
        parts, score = list(explanation["parts"]), explanation["score"]
    docs = np.array([doc], np.uint32)
    # Apply the factors in the order of `boosted`; each part is what its factor adds.
    for boost in request.boosts:
        factor = float(factors(snapshot, view, boost, docs, request.timestamp)[0])
        value = _boosting_value(snapshot, view, boost, docs)
        details = {"field": boost.field, "function": boost.function, "value": value}
        score = _explain_factor(parts, score, factor, "boost", details)
    for rule in request.factors:
        if rule.factor != 1.0 and has_bit(filter_bitsets.resolve(snapshot, view, rule.filter), doc):
            score = _explain_factor(parts, score, rule.factor, "rule", {"rule": rule.rule})
    return {"score": score, "parts": parts}


def _explain_factor(
    parts: list[dict[str, Any]], score: float, factor: float, kind: str, details: dict[str, Any]
) -> float:
    """Append the part that a factor adds to a score; return the score with it."""
    higher = float(raised(np.array([score]), np.array([factor]))[0])
    parts.append({"kind": kind, "score": higher - score, **details, "factor": factor})
    return higher


def _boosting_value(
    snapshot: Snapshot, view: SegmentView, boost: Boost, docs: NDArray[np.uint32]
) -> Any:
    """Return the value of a single document that decides a boost's factor; None if it has none.

    Where the boost is by distance from a point, that is the distance in whole metres.
    """
    field = snapshot.registry.number(boost.field)
    if field is None:
        return None
    if boost.point is None:
        return sort_column(snapshot, view, field).values(docs)[0]
    metres = float(_distances(view, field, boost.point, docs)[0])
    return None if math.isnan(metres) else round(metres)


def is_slow(snapshot: Snapshot, view: SegmentView, boost: Boost) -> bool:
    """Return whether a boost's values are not cached yet and would take milliseconds to compute."""
    field = snapshot.registry.number(boost.field)
    if field is None or boost.point is not None:
        return False
    if needs_column(snapshot, view, field):
        return True
    texts = sort_column(snapshot, view, field).texts if boost.is_time else None
    return (
        texts is not None
        and texts.num_values > _TEXTS_FAST_MAX
        and not has_date_seconds(view.segment, field, texts)
    )


def factors(
    snapshot: Snapshot, view: SegmentView, boost: Boost, docs: NDArray[np.uint32], timestamp: int
) -> NDArray[np.float64]:
    """Return the factor of each of some documents; 1 where the field has no usable value."""
    field = snapshot.registry.number(boost.field)
    if field is None:
        return np.ones(len(docs))
    if boost.point is not None:
        values = _distances(view, field, boost.point, docs)
    else:
        column = sort_column(snapshot, view, field)
        values = _moments(view, field, column, docs) if boost.is_time else _numbers(column, docs)
    is_age = _is_age(boost)
    origin = float(timestamp) if is_age else boost.origin or 0.0
    by = np.empty(len(docs))
    write_factors(
        values, FUNCTIONS.index(boost.function), boost.weight, boost.scale, origin, is_age, by
    )
    return by


def _distances(
    view: SegmentView, field: int, point: tuple[float, float], docs: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """Return the metres from a point to the nearest one of each document; NaN without one."""
    column = geo_column(view.segment, field)
    return np.full(len(docs), np.nan) if column is None else column.nearest(docs, *point)


def _numbers(column: SortColumn, docs: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Return the numbers of documents (true is 1, false 0); NaN where a document has no number."""
    values = np.empty(len(docs))
    read_numbers(column.keys(docs, is_descending=False, is_missing_first=False), values)
    return values


def _moments(
    view: SegmentView, field: int, column: SortColumn, docs: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """Return the moments of some documents, from ISO dates or numbers, in seconds since 1970."""
    keys = column.keys(docs, is_descending=False, is_missing_first=False)
    texts = column.texts
    by_rank = _NO_SECONDS if texts is None else date_seconds_by_rank(view.segment, field, texts)
    values = np.empty(len(docs))
    read_moments(keys, by_rank, values)
    return values
