"""A key with a filter learns nothing of the items that the filter hides.

Two indexes hold the same visible items; one also holds hidden ones. Queries with a key that
has the filter, both must answer every question with the same bytes: hits, order, scores, totals,
ignored words, facet values, statistics, histograms, errors; on every page that a key with a filter
may read.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.cluster.test_against_oracle import WORDS, queries, stable
from tests.service import Client, Reply, Service

_numbers = itertools.count()
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
VISIBLE, HIDDEN = 7, 8
FACETS = ("f", "g")
HIDDEN_WORDS = [*WORDS, "searches", "greens", "milky", "chocolatier", "unheard", "secret", "séa"]
IDS = ("v0", "v1", "v2", "h1", "i1", "secret")
"""Of visible and hidden items, as `named` gives them."""
keys = st.sampled_from(["drama", "crime", "2000", "true", "é", "a/b", "a/c"])
values = keys | st.integers(-2, 3) | st.booleans()


def items_of(tenant: int, words: list[str], names: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return lists of a tenant's items; their values and fields may be its own."""
    return st.lists(
        st.fixed_dictionaries(
            {"tenant": st.just(tenant)},
            optional={
                "t": st.lists(st.sampled_from(words), max_size=6).map(" ".join),
                "u": st.sampled_from(words),
                **{name: values | st.lists(values, max_size=2) for name in names},
            },
        ),
        max_size=8,
    )


filters = st.dictionaries(
    st.sampled_from(["f", "g", "h"]),
    st.lists(values | st.just("hidden"), min_size=1, max_size=2)
    | st.fixed_dictionaries({"gte": st.integers(-2, 3)}),
    max_size=2,
)
searches: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"query": queries() | st.sampled_from(["secret sea", "séa", "unhea green", "milky"])},
    optional={
        "filters": filters,
        "filter": st.sampled_from(["h = 2", "NOT f = drama", "h EXISTS", "g IS NULL", "h > 1"]),
        "sort": st.sampled_from(
            ["f", "h:desc", "_score", "f:collation=de", "_score:buckets=3:desc"]
        ),
        "facet_ranges": st.sampled_from(
            [{"f": {"interval": 2}}, {"h": [{"from": 1}]}, {"h": {"ranges": [{}], "missing": True}}]
        ),
        "facet_fields": st.sampled_from([["f"], ["h", "i", "t"]]),
        "facets": st.sampled_from(
            [
                {"f": {"percentiles": [50], "cardinality": True, "missing": True}},
                {"g": {"stats": ["h"], "size": 2}},
                {"h": {"cardinality": True}, "i": {}},
                {"f": {"query": "h*"}, "t": {"size": 3}},
            ]
        ),
        "facet_cube": st.sampled_from(
            [{"field": "h", "interval": 1}, {"field": "i", "edges": [0, 1, 2]}]
        ),
        "facet_mode": st.just("strict"),
        "trees": st.sampled_from([["g"], {"g": {"size": 1, "open": ["a"]}}]),
        "boost": st.sampled_from([{"h": {"linear": 1}}, {"i": {"log": 1}}]),
        "rules": st.just(
            [
                {
                    "name": "all",
                    "pin": ["h1", "v1", {"id": "secret", "position": 2}],
                    "hide": ["v2", "i1"],
                    "boost": [{"filter": "f = hidden OR h > 1", "factor": 3}],
                    "bury": ["g = drama"],
                }
            ]
        ),
        "min_score": st.sampled_from([0.1, 1]),
        "infix": st.just(True),
        "snippet": st.just({"fields": ["t:3"]}),
        "match": st.sampled_from(["all", "any", "last", "50%", "auto"]),
        "prefix": st.sampled_from(["last", "none", "all"]),
        "typo": st.sampled_from(["auto", 0, 1, 2]),
        "show": st.just(["score", "score_details"]),
        "highlight": st.just(True),
        "distinct": st.sampled_from(
            [
                "f",
                "h",
                {"field": "f", "sizes": True, "hits": 2},
                {"field": "g", "facets_by": "groups"},
            ]
        ),
        "search_fields": st.sampled_from([["t"], ["u", "t^2"], ["h"]]),
        "per_page": st.integers(0, 20),
        "did_you_mean": st.booleans(),
    },
)
similar: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"similar_to": st.sampled_from(IDS)},
    optional={"filters": filters, "facet_fields": st.just(["f", "g"])},
)
restrictions: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "query": queries(),
        "filters": filters,
        "filter": st.sampled_from(["h = 2", "i EXISTS"]),
        "match": st.sampled_from(["any", "auto"]),
    },
)
algolia: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"query": queries(), "facets": st.just(["*"])},
    optional={
        "filters": st.sampled_from(["f:drama", "NOT f:hidden", "h > 1", "i = 1"]),
        "facetFilters": st.just([["f:drama", "f:hidden"], "g:-crime"]),
        "getRankingInfo": st.just(True),
        "hitsPerPage": st.integers(0, 5),
        "sumOrFiltersScores": st.just(False),
    },
)
typed = st.fixed_dictionaries(
    {
        "query": st.sampled_from(
            ["", "s", "se", "sea", "un", "secr", "serachi", "sea gre", "chocolt"]
        )
    },
    optional={"filters": filters, "size": st.integers(1, 30)},
)
facet_pages = st.fixed_dictionaries(
    {"name": st.sampled_from(FACETS)},
    optional={
        "query": st.sampled_from(["*", "d*", "hidden"]),
        "facet_query": st.sampled_from(["dra", "hid", "tru"]),
        "search_query": queries(),
        "filters": filters,
    },
)


@pytest.fixture(scope="module", params=[pytest.param(1, marks=pytest.mark.long), 2])
def tenant_clients(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Client, Client]]:
    """A client that may do everything, and one whose key has the filter."""
    folder = tmp_path_factory.mktemp("key-filters")
    with Service(folder / "data", request.param) as service:
        root, tenant = service.client(), service.client()
        actions = ["search", "write", "configure", "admin"]
        root.headers["x-api-key"] = root.post("/_keys", {"actions": actions}).json["key"]
        key: dict[str, Any] = {"actions": ["search"], "filter": f"tenant = {VISIBLE}"}
        tenant.headers["x-api-key"] = root.post("/_keys", key).json["key"]
        yield root, tenant
        root.close()
        tenant.close()


@pytest.mark.timeout(1_800)
@settings(max_examples=settings().max_examples // 6, phases=_PHASES, deadline=None)
@given(st.data())
def test_hidden_items_change_no_answer(
    tenant_clients: tuple[Client, Client], data: st.DataObject
) -> None:
    root, tenant = tenant_clients
    number = next(_numbers)
    configuration: dict[str, Any] = {
        "aggregations": {"f": {"conjunction": False, "show_facet_stats": True}, "g": {}},
        "language": "english",
        "synonyms": {"sea": ["unheard", "ocean"], "mile": ["green mile"]},
        "suggestions": {"fields": ["t", "u"], "popularity": "h", "searches": True},
        "hierarchies": {"g": {"path": "g", "separator": "/"}},
    }
    visible = data.draw(items_of(VISIBLE, WORDS, "fg"), "visible")
    hidden = data.draw(items_of(HIDDEN, HIDDEN_WORDS, "fghi"), "hidden")
    secret = {"tenant": HIDDEN, "f": "hidden", "g": ["hidden", 2], "h": [0, 2], "t": "secret"}
    alone = named(visible, "v")
    mixed = [*named(hidden, "h"), secret, *alone, *named(hidden, "i"), {**secret, "id": "secret"}]
    names = [f"alone-{number}", f"mixed-{number}"]
    for name, items in zip(names, (alone, mixed), strict=True):
        root.post(f"/{name}/configuration", configuration)
        if items:
            assert root.post(f"/{name}/items", items).status == 200
    try:
        for question in data.draw(st.lists(searches, min_size=1, max_size=8), "searches"):
            compare(tenant, names, "search", question)
        for page in data.draw(st.lists(facet_pages, min_size=1, max_size=4), "facet pages"):
            compare(tenant, names, "facet", page)
        for text in data.draw(st.lists(typed, min_size=1, max_size=4), "typed"):
            compare(tenant, names, "suggest", text)
        for question in data.draw(st.lists(similar, max_size=2), "similar"):
            compare(tenant, names, "search", question)
        for question in data.draw(st.lists(searches, max_size=3), "explained"):
            compare(tenant, names, "explain", {**question, "id": data.draw(st.sampled_from(IDS))})
        for question in data.draw(st.lists(algolia, max_size=3), "algolia"):
            for under in ("query", "browse", "facets/f/query"):
                compare(tenant, names, under, question, "/1/indexes")
        for id in IDS:
            same(tenant, names, lambda name, id=id: ("GET", f"/{name}/items/{id}", None))  # type: ignore[misc]
            same(tenant, names, lambda name, id=id: ("GET", f"/1/indexes/{name}/{id}", None))  # type: ignore[misc]
        for question in data.draw(st.lists(restrictions, max_size=3), "exported"):
            compare_exports(tenant, names, question)
        merged = data.draw(st.lists(searches, min_size=2, max_size=2), "merged")
        compare_several(tenant, names, merged, data.draw(st.booleans(), "are merged"))
    finally:
        for name in names:
            root.delete(f"/{name}")


def named(items: list[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    """Return items with ids; some have none."""
    return [{**one, "id": f"{prefix}{i}"} if i % 4 != 3 else one for i, one in enumerate(items)]


_VOLATILE = re.compile(
    rb'"(processingTimeMS|serverTimeMS)":[0-9]+|"processingTimingsMS":{[^}]*}|"cursor":"[^"]*"'
)
"""Times, and cursors, which name records, numbered over all items."""


def same(
    client: Client, names: list[str], request: Callable[[str], tuple[str, str, Any]]
) -> list[Reply]:
    """Ask both indexes for one thing; the answers must be the same."""
    answers = []
    for name in names:
        method, path, document = request(name)
        body = None if document is None else json.dumps(document).encode()
        answers.append(client.request(method, path, body, {"content-type": "application/json"}))
    alone, mixed = [
        _VOLATILE.sub(b"", stable(answer.body)).replace(name.encode(), b"index")
        for name, answer in zip(names, answers, strict=True)
    ]
    assert (answers[0].status, alone) == (answers[1].status, mixed), request(names[1])
    return answers


def compare(
    client: Client, names: list[str], page: str, question: dict[str, Any], under: str = ""
) -> None:
    """Ask a page of both indexes."""
    same(client, names, lambda name: ("POST", f"{under}/{name}/{page}", question))


def compare_exports(client: Client, names: list[str], question: dict[str, Any]) -> None:
    """Export both indexes, and walk through them by cursor."""
    wanted = urlencode(
        {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in question.items()
        }
    )
    same(client, names, lambda name: ("GET", f"/{name}/items?{wanted}", None))
    cursors = ["*", "*"]
    for _ in range(3):
        asked = dict(zip(names, cursors, strict=True))
        answers = same(
            client,
            names,
            lambda name, asked=asked: (  # type: ignore[misc]
                "POST",
                f"/{name}/search",
                {**question, "cursor": asked[name], "per_page": 2},
            ),
        )
        if answers[0].status != 200:
            return
        found = [answer.json["pagination"].get("cursor") for answer in answers]
        if found[0] is None:
            return
        cursors = found


def compare_several(
    client: Client, names: list[str], questions: list[dict[str, Any]], is_merged: bool
) -> None:
    """Ask both indexes for several searches at once."""
    more = {"merge": {"per_page": 5}} if is_merged else {}

    def request(name: str) -> tuple[str, str, Any]:
        return (
            "POST",
            "/_search",
            {"searches": [{"index": name, **one} for one in questions], **more},
        )

    same(client, names, request)


def test_word_cannot_be_spelled_out(tenant_clients: tuple[Client, Client]) -> None:
    root, tenant = tenant_clients
    root.post("/spelled/configuration", {"aggregations": {"code": {}}})
    items: list[dict[str, Any]] = [
        {"id": 1, "tenant": VISIBLE, "t": "green mile", "code": "ours"},
        {"id": 2, "tenant": HIDDEN, "t": "xylophone", "code": "theirs"},
    ]
    root.post("/spelled/items", items)

    def shown(query: str) -> tuple[Any, int]:
        answer = tenant.search("spelled", query=query)
        return answer["meta"]["ignored_words"], answer["pagination"]["total"]

    for parameters in ({"query": "green"}, {"filter": "code = theirs"}):
        reply = tenant.post("/spelled/explain", {"id": 2, **parameters})
        assert (reply.status, reply.json["error"]["code"]) == (404, "item_not_found")
    assert tenant.post("/spelled/search", {"similar_to": 2}).status == 404
    assert tenant.post("/spelled/explain", {"id": 1, "query": "green"}).json["data"]["is_hit"]
    hidden: dict[str, Any] = {
        "fields": ["secret"],
        "search_fields": ["secret"],
        "not_filters": {"secret": ["a"]},
    }
    for asked in hidden, {"search_fields": ["t", "secret"]}:
        assert "warnings" not in tenant.search("spelled", **asked)["meta"]
    assert shown("mile xylo") == (["xylo"], 1)
    assert shown("mile xyla") == (["xyla"], 1)
    for value in ("theirs", "nobodys"):
        answer = tenant.search("spelled", filters={"code": [value]})
        assert answer["data"]["aggregations"]["code"]["buckets"] == []
    answer = tenant.search("spelled", filters={"code": ["ours"]})
    assert [one["key"] for one in answer["data"]["aggregations"]["code"]["buckets"]] == ["ours"]


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("_geoRadius(48,16,2000)", "points of '_geo'; the geo_fields of the configuration are at"),
        ("NOT _geoRadius(48,16,2000)", "points of '_geo'"),
        ("NOT sizes{size = M}", "one element of 'sizes'; the nested fields"),
        ("NOT _count(sizes) >= 1", "counts the values of 'sizes'"),
    ],
)
def test_a_filter_that_an_index_does_not_support_lets_nothing_through(
    tenant_clients: tuple[Client, Client], condition: str, named: str
) -> None:
    """Of points of another field, NOT let everything through."""
    root, _ = tenant_clients
    root.post("/placed/configuration", {"geo_fields": ["at"]})
    root.post("/placed/items", [{"id": 1, "at": {"lat": 48, "lng": 16}}])
    key = root.post("/_keys", {"actions": ["search"], "filter": condition}).json["key"]
    client = root.__class__(root.port)
    client.headers["x-api-key"] = key
    search = {"index": "placed"}
    for reply in (
        client.get("/placed/search"),
        client.get("/placed/items/1"),
        client.get("/placed/items"),
        client.post("/_search", {"searches": [search]}),
        client.post("/1/indexes/placed/query", {}),
    ):
        assert reply.status == 403
        assert named in json.dumps(reply.json)
    allowed = {"actions": ["search"], "filter": "_geoRadius(at,48,16,2000)"}
    client.headers["x-api-key"] = root.post("/_keys", allowed).json["key"]
    assert client.search("placed")["pagination"]["total"] == 1
    client.close()


def test_a_tenants_change_is_not_wider_than_meant(tenant_clients: tuple[Client, Client]) -> None:
    """It is checked against the items of the tenant; fields that others have tell it nothing."""
    root, _ = tenant_clients
    root.post("/wide/configuration", {"aggregations": {"tenant": {}}})
    items = [{"id": i, "tenant": VISIBLE, "status": "a"} for i in range(3)]
    root.post("/wide/items", [*items, {"id": 9, "tenant": HIDDEN, "stauts": "a"}])
    writer = root.__class__(root.port)
    key: dict[str, Any] = {"actions": ["search", "write"], "filter": f"tenant = {VISIBLE}"}
    writer.headers["x-api-key"] = root.post("/_keys", key).json["key"]
    for field in ("stauts", "nowhere"):
        for chosen in (
            {"filter": f"{field} NOT EXISTS"},
            {"filter": f"NOT {field} = keep"},
            {"not_filters": {field: ["keep"]}},
        ):
            for reply in (
                writer.post("/wide/items/delete", chosen),
                writer.post("/wide/items/update", {**chosen, "fields": {"seen": True}}),
                writer.get("/wide/items", **chosen),
            ):
                error = reply.json["error"]
                assert (reply.status, error["code"]) == (400, "unknown_facet")
                assert error["message"].endswith(f"{field!r}, in which no item has a value")
    begun = {"filter": "seen NOT EXISTS", "fields": {"seen": True}}
    assert writer.post("/wide/items/update", begun).json["updated"] == 3
    assert writer.post("/wide/items/delete", {"filter": "nowhere EXISTS"}).json["deleted"] == 0
    assert writer.post("/wide/items/delete", {"filter": "NOT status = a"}).json["deleted"] == 0
    assert writer.post("/wide/items/delete", {"filter": "NOT status = b"}).json["deleted"] == 3
    writer.close()


def test_a_tenant_cannot_give_items_to_another(tenant_clients: tuple[Client, Client]) -> None:
    root, _ = tenant_clients
    root.post("/given/configuration", {"aggregations": {"tenant": {}}})
    items = [{"id": i, "tenant": VISIBLE if i % 2 else HIDDEN, "t": "a"} for i in range(6)]
    root.post("/given/items", items)
    writer = root.__class__(root.port)
    key: dict[str, Any] = {"actions": ["search", "write"], "filter": f"tenant = {VISIBLE}"}
    writer.headers["x-api-key"] = root.post("/_keys", key).json["key"]

    given = writer.post("/given/items/update", {"filter": "", "fields": {"tenant": HIDDEN}})
    changed = writer.post("/given/items/update", {"filter": "id IN [0, 1]", "fields": {"t": "b"}})
    deleted = writer.post("/given/items/delete", {"filter": "id IN [2, 3]"})
    by_algolia = writer.post("/1/indexes/given/deleteByQuery", {"filters": "id:4 OR id:5"})
    writer.close()

    assert (given.status, given.json["error"]["param"]) == (403, "fields.tenant")
    assert (changed.json["updated"], deleted.json["deleted"]) == (1, 1)
    assert by_algolia.status == 200
    left = [json.loads(line) for line in root.get("/given/items").body.splitlines()]
    assert {item["id"]: item["t"] for item in left} == {0: "a", 1: "b", 2: "a", 4: "a"}
