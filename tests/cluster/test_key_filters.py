"""A key with a filter learns nothing of the items that the filter hides.

Two indexes hold the same visible items; one also holds hidden ones. Queries with a key that
has the filter, both must answer every question with the same bytes: hits, order, scores, totals,
ignored words, facet values, statistics, histograms, errors.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.cluster.test_against_oracle import WORDS, queries, stable
from tests.service import Client, Service

_numbers = itertools.count()
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
VISIBLE, HIDDEN = 7, 8
FACETS = ("f", "g")
HIDDEN_WORDS = [*WORDS, "searches", "greens", "milky", "chocolatier", "unheard", "secret", "séa"]
keys = st.sampled_from(["drama", "crime", "2000", "true", "é"])
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
searches = st.fixed_dictionaries(
    {"query": queries() | st.sampled_from(["secret sea", "séa", "unhea green", "milky"])},
    optional={
        "filters": filters,
        "filter": st.sampled_from(["h = 2", "NOT f = drama", "h EXISTS", "g IS NULL", "h > 1"]),
        "sort": st.sampled_from(["f", "h:desc", "_score"]),
        "facet_ranges": st.sampled_from([{"f": {"interval": 2}}, {"h": [{"from": 1}]}]),
        "match": st.sampled_from(["all", "any", "last", "50%"]),
        "prefix": st.sampled_from(["last", "none", "all"]),
        "typo": st.sampled_from(["auto", 0, 1, 2]),
        "show": st.just(["score", "score_details"]),
        "highlight": st.just(True),
        "distinct": st.sampled_from(["f", "h"]),
        "search_fields": st.sampled_from([["t"], ["u", "t^2"], ["h"]]),
        "per_page": st.integers(0, 20),
        "did_you_mean": st.booleans(),
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


@pytest.fixture(scope="module", params=[1, 2])
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
@settings(max_examples=settings().max_examples // 2, phases=_PHASES, deadline=None)
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
    }
    visible = data.draw(items_of(VISIBLE, WORDS, "fg"), "visible")
    hidden = data.draw(items_of(HIDDEN, HIDDEN_WORDS, "fghi"), "hidden")
    hidden.append({"tenant": HIDDEN, "f": "hidden", "g": ["hidden", 2], "h": 2, "t": "secret"})
    names = [f"alone-{number}", f"mixed-{number}"]
    for name, items in zip(names, (visible, [*hidden, *visible, *hidden]), strict=True):
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
    finally:
        for name in names:
            root.delete(f"/{name}")


def compare(client: Client, names: list[str], page: str, question: dict[str, Any]) -> None:
    """Ask both indexes; the answers must be the same."""
    answers = [client.post(f"/{name}/{page}", question) for name in names]
    alone, mixed = [
        stable(answer.body).replace(name.encode(), b"index")
        for name, answer in zip(names, answers, strict=True)
    ]
    assert (answers[0].status, alone) == (answers[1].status, mixed), json.dumps(question)


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
