"""Bodies of responses: results of searches as the exact JSON of the API.

One shape for all searches. Stored items are spliced in as the bytes that they are: nothing parses
them on the way out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from common.process.cooperative_scheduler import run_to_completion
from coordinator.read.facets.range_merging import listed_buckets

if TYPE_CHECKING:
    from coordinator.read.facets.facet_result_types import FacetResult, RangeResult
    from coordinator.read.search_results import (
        ExplainedItem,
        FacetPage,
        SearchResult,
        ShardSummary,
        Timings,
    )
    from coordinator.read.suggest.suggestion_results import SuggestionPage

BUCKETS_FAST_MAX: Final = 4_000
"""If a response has more, its facets are encoded one by one: each in less than 1 ms."""

_encode: Final = msgspec.json.Encoder().encode


def aggregations(facets: Iterable[FacetResult]) -> dict[str, FacetResult]:
    """Return the facets of a response by field, in the order given (alphabetical)."""
    return {facet.field: facet for facet in facets}


def facet_member(facet: FacetResult) -> bytes:
    """Return a facet as a JSON member of `aggregations`."""
    return b"%b:%b" % (orjson.dumps(facet.field), _encode(facet))


def range_pieces(results: Iterable[RangeResult]) -> Generator[None, None, list[bytes]]:
    """Return the counts of `facet_ranges` as pieces of the JSON object `ranges`; yield regularly.

    All pieces of a long response are copied once, with the rest of it.
    """
    pieces = []
    separator = b"{"
    for result in results:
        pieces.append(separator + orjson.dumps(result.request.field) + b":")
        separator = b"["
        for buckets in listed_buckets(result):
            pieces.append(separator + orjson.dumps(buckets)[1:-1])
            separator = b","
            yield
        pieces.append(b"[]" if separator == b"[" else b"]")
        separator = b","
    pieces.append(b"}" if pieces else b"{}")
    return pieces


def timings_ms(timings: Timings, total_us: int) -> dict[str, int]:
    """Return the phases in whole milliseconds, as the specification requires."""
    sort_ms = timings.sort_us // 1000
    return {
        "total": total_us // 1000,
        "search": timings.search_us // 1000,
        "facets": timings.facets_us // 1000,
        "sort": sort_ms,
        "sorting": sort_ms,
    }


def server_timing(timings: Timings, total_us: int) -> bytes:
    """Return the Server-Timing header line: the phases in fractions of a millisecond."""
    return b"Server-Timing: total;dur=%.3f, search;dur=%.3f, facets;dur=%.3f, sort;dur=%.3f\r\n" % (
        total_us / 1000,
        timings.search_us / 1000,
        timings.facets_us / 1000,
        timings.sort_us / 1000,
    )


def shards_meta(shards: ShardSummary) -> dict[str, int]:
    """Return how many shards responded."""
    return {"total": shards.total, "ok": shards.ok, "failed": shards.total - shards.ok}


def search_body(
    result: SearchResult,
    request_id: str,
    total_us: int,
    shows_timings: bool,
    facets: Sequence[bytes] | None = None,
    ranges: Sequence[bytes] | None = None,
) -> bytes:
    """Return the JSON of a search response.

    Args:
        result: of the search.
        request_id: of this request.
        total_us: microseconds since the request was read.
        shows_timings: whether `meta` also has the phases in microseconds.
        facets: the JSON of each member of `aggregations`, if already encoded. A long response is
            copied once.
        ranges: the pieces of `ranges`, if already encoded.
    """
    dumps = orjson.dumps
    timings, shards = result.timings, result.shards
    begin = _SEARCH_BEGIN % (
        result.per_page,
        result.page,
        result.total,
        b"" if result.cursor is None else b',"cursor":' + dumps(result.cursor),
        total_us // 1000,
        timings.search_us // 1000,
        timings.facets_us // 1000,
        timings.sort_us // 1000,
        timings.sort_us // 1000,
        b",".join(result.items),
    )
    counted: list[bytes] = []
    if result.ranges:
        if ranges is None:
            ranges = run_to_completion(range_pieces(result.ranges))
        counted = [b',"ranges":', *ranges]
    if result.trees:
        counted += b',"trees":', dumps(result.trees)
    if result.cube is not None:
        counted += b',"facet_cube":', _encode(result.cube)
    end = _SEARCH_END % (
        dumps(request_id),
        result.seq,
        total_us,
        dumps(result.ignored_words),
        shards.total,
        shards.ok,
        shards.total - shards.ok,
        _more_meta(result, total_us, shows_timings),
    )
    if facets is not None:
        return b"".join((begin, b"{", *separated(facets), b"}", *counted, end))
    counts = _encode(aggregations(result.facets)) if result.facets else b"{}"
    return b"".join((begin, counts, *counted, end))


_SEARCH_BEGIN: Final = (
    b'{"pagination":{"per_page":%d,"page":%d,"total":%d%b},'
    b'"timings":{"total":%d,"search":%d,"facets":%d,"sort":%d,"sorting":%d},'
    b'"data":{"items":[%b],"aggregations":'
)
_SEARCH_END: Final = (
    b'},"meta":{"request_id":%b,"seq":%d,"took_us":%d,"ignored_words":%b,'
    b'"shards":{"total":%d,"ok":%d,"failed":%d}%b}}'
)
"""The body of a search before and after its facets: a fifth of the time of encoding dicts."""


def _more_meta(result: SearchResult, total_us: int, shows_timings: bool) -> bytes:
    """Return the members of `meta` that few responses have, each after a comma."""
    more: dict[str, Any] = {}
    if result.rules:
        more["rules"] = result.rules
    if result.rule_data:
        more["rule_data"] = result.rule_data
    if result.match is not None:
        more["match"] = result.match
    if result.dropped_words:
        more["dropped_words"] = result.dropped_words
    if result.num_words_cut:
        more["words_cut"] = result.num_words_cut
    if result.did_you_mean is not None:
        more["did_you_mean"] = result.did_you_mean
    if result.warnings:
        more["warnings"] = result.warnings
    if shows_timings:
        timings = result.timings
        more["timings_us"] = {
            "total": total_us,
            "search": timings.search_us,
            "facets": timings.facets_us,
            "sort": timings.sort_us,
        }
    return b"," + orjson.dumps(more)[1:-1] if more else b""


def facet_members(facets: Iterable[FacetResult]) -> Generator[None, None, list[bytes]]:
    """Return facets as JSON members of `aggregations`; yield after each."""
    members = []
    for facet in facets:
        members.append(facet_member(facet))
        yield
    return members


def separated(members: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the members of a JSON array or object, and the commas between them."""
    for i, member in enumerate(members):
        if i:
            yield b","
        yield member


def merged_body(
    merged: SearchResult,
    ranges: Sequence[bytes],
    results: Iterable[tuple[str, SearchResult]],
    request_id: str,
    total_us: int,
) -> bytes:
    """Return the JSON of searches that were merged.

    Args:
        merged: hits and facets of all.
        ranges: its `range_pieces`; none without ranges.
        results: name of the index and result of each search.
        request_id: of this request.
        total_us: microseconds since the request was read.
    """
    meta = {
        "request_id": request_id,
        "took_us": total_us,
        "searches": [
            {
                "index": name,
                "total": one.total,
                "seq": one.seq,
                "ignored_words": one.ignored_words,
                "shards": shards_meta(one.shards),
                **({"warnings": one.warnings} if one.warnings else {}),
            }
            for name, one in results
        ],
    }
    pagination = {"per_page": merged.per_page, "page": merged.page, "total": merged.total}
    return b'{"pagination":%b,"data":{"items":[%b],"aggregations":%b%b},"meta":%b}' % (
        orjson.dumps(pagination),
        b",".join(merged.items),
        _encode(aggregations(merged.facets)),
        b"".join((b',"ranges":', *ranges)) if ranges else b"",
        orjson.dumps(meta),
    )


def facet_body(page: FacetPage, request_id: str, total_us: int) -> bytes:
    """Return the JSON of the facet route: pagination, and one page of the facet's buckets."""
    return _encode(
        {
            "pagination": {"per_page": page.per_page, "page": page.page, "total": page.total},
            "timings": timings_ms(page.timings, total_us),
            "data": page.facet,
            "meta": {
                "request_id": request_id,
                "seq": page.seq,
                "took_us": total_us,
                "shards": shards_meta(page.shards),
                **({"warnings": page.warnings} if page.warnings else {}),
            },
        }
    )


def explanation_body(explained: ExplainedItem, request_id: str, total_us: int) -> bytes:
    """Return the JSON of the explanation of an item."""
    data: dict[str, Any] = {
        "id": explained.id,
        "is_hit": explained.is_hit,
        "reasons": explained.reasons,
    }
    if explained.score is not None:
        data["score"] = explained.score
        data["score_details"] = explained.score_details
    meta = {"request_id": request_id, "seq": explained.seq, "took_us": total_us}
    return orjson.dumps({"data": data, "meta": meta})


def suggestions_body(page: SuggestionPage, request_id: str, total_us: int) -> bytes:
    """Return the JSON of the route of suggestions."""
    return _encode(
        {
            "data": {"suggestions": page.suggestions},
            "meta": {"request_id": request_id, "seq": page.seq, "took_us": total_us},
        }
    )
