"""The JSON of answers, member for member."""

from __future__ import annotations

import json

import numpy as np

from common.errors import InvalidRequest, Unavailable
from common.protocol.messages import RangeRequest
from coordinator.http.responses import error_body, error_response, header
from coordinator.http.result_bodies import facet_body, search_body
from coordinator.read.facets.bucket_selection import Bucket
from coordinator.read.facets.facet_result_types import FacetResult, FacetStats, RangeResult
from coordinator.read.search_results import FacetPage, SearchResult, ShardSummary, Timings

TIMINGS = Timings(total_us=4_100, search_us=1_999, facets_us=1_000, sort_us=50)
TAGS = FacetResult("tags", "Tags", 1, [Bucket("drama", 68, True), Bucket("é\n", 0, False)])


def result(**changes: object) -> SearchResult:
    values: dict[str, object] = {
        "page": 1,
        "per_page": 10,
        "total": 250,
        "items": [b'{"id": 1 , "name":"caf\\u00e9"}', b'{"a":1.50}'],
        "facets": [TAGS],
        "ranges": [],
        "seq": 7,
        "ignored_words": ["qwx"],
        "shards": ShardSummary(3, 2),
        "timings": TIMINGS,
    }
    return SearchResult(**(values | changes))  # type: ignore[arg-type]


def test_search_answer_is_the_specified_one() -> None:
    body = search_body(result(), "r-1", 4_321, False)

    assert json.loads(body) == {
        "pagination": {"per_page": 10, "page": 1, "total": 250},
        "timings": {"total": 4, "search": 1, "facets": 1, "sort": 0, "sorting": 0},
        "data": {
            "items": [{"id": 1, "name": "café"}, {"a": 1.5}],
            "aggregations": {
                "tags": {
                    "name": "tags",
                    "title": "Tags",
                    "position": 1,
                    "buckets": [
                        {"key": "drama", "doc_count": 68, "selected": True},
                        {"key": "é\n", "doc_count": 0, "selected": False},
                    ],
                }
            },
        },
        "meta": {
            "request_id": "r-1",
            "seq": 7,
            "took_us": 4_321,
            "ignored_words": ["qwx"],
            "shards": {"total": 3, "ok": 2, "failed": 1},
        },
    }


def test_items_are_spliced_in_byte_for_byte() -> None:
    assert b'[{"id": 1 , "name":"caf\\u00e9"},{"a":1.50}]' in search_body(result(), "r", 1, False)


def test_members_that_are_only_there_when_asked_for() -> None:
    stats = FacetStats(1.0, 9.0, 5.0, 10.0, 2)
    facet = FacetResult("year", "Year", 2, [], stats)
    ranges = [RangeResult(RangeRequest("price", bounds=((1, 2),)), np.array([0]), np.array([5]))]

    document = json.loads(
        search_body(result(cursor="c", facets=[facet], ranges=ranges, items=[]), "r", 9, True)
    )

    assert document["pagination"]["cursor"] == "c"
    assert document["data"]["items"] == []
    assert document["data"]["ranges"] == {
        "price": [{"key": "1-2", "from": 1, "to": 2, "doc_count": 5}]
    }
    assert document["data"]["aggregations"]["year"]["facet_stats"] == {
        "min": 1.0,
        "max": 9.0,
        "avg": 5.0,
        "sum": 10.0,
        "count": 2,
    }
    assert document["meta"]["timings_us"] == {
        "total": 9,
        "search": 1_999,
        "facets": 1_000,
        "sort": 50,
    }


def test_facet_answer() -> None:
    page = FacetPage(2, 5, TAGS, 17, 7, ShardSummary(1, 1), TIMINGS)

    document = json.loads(facet_body(page, "r", 2_000))

    assert document["pagination"] == {"per_page": 5, "page": 2, "total": 17}
    assert document["data"]["name"] == "tags"
    assert document["data"]["buckets"][0] == {"key": "drama", "doc_count": 68, "selected": True}
    assert document["timings"]["total"] == 2


def test_error_envelope() -> None:
    error = InvalidRequest(
        "page must be an integer", code="invalid_page", param="page", details={"errors": [1]}
    )

    assert json.loads(error_body(error, "r-9")) == {
        "error": {
            "code": "invalid_page",
            "message": "page must be an integer",
            "status": 400,
            "param": "page",
            "request_id": "r-9",
            "errors": [1],
        }
    }


def test_error_never_fails_on_what_it_carries() -> None:
    strange = InvalidRequest("x" * 100_000, code="c", details={"number": 2**70, "code": "other"})

    members = json.loads(error_body(strange, "r"))["error"]

    assert members["code"] == "c"
    assert len(members["message"]) == 2_000


def test_temporary_errors_say_when_to_come_back() -> None:
    answer = error_response(Unavailable("busy", code="overloaded"), "r")

    assert (answer.status, b"Retry-After: 1\r\n" in answer.headers) == (503, True)


def test_header_values_cannot_end_their_line() -> None:
    assert header("X", "a\r\nSet-Cookie: b\nc") == b"X: a  Set-Cookie: b c\r\n"
