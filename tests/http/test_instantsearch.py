"""The InstantSearch client, run by node against the real service, asked as the library asks it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from coordinator.instantsearch import INSTANTSEARCH
from tests.facetd.scripted import serving
from tests.http.conftest import Web
from tests.http.raw_requests import request
from tests.node_process import Ask, node_process
from tests.service import Service

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")

PROGRAM = """
import { createInterface } from "node:readline";
import { createSearchClient } from "./instantsearch.mjs";
for await (const line of createInterface({ input: process.stdin })) {
  const { url, method, requests } = JSON.parse(line);
  const asked = [];
  const client = createSearchClient({
    url,
    fetch: (url, options) => {
      asked.push({ path: new URL(url).pathname, body: JSON.parse(options.body) });
      return fetch(url, options);
    },
  });
  let answer;
  try {
    const isWrapped = requests.length === 1 && requests[0].requests;
    answer = await client[method](isWrapped ? requests[0] : requests);
  } catch (error) {
    answer = { error: error.message, code: error.code, status: error.status };
  }
  console.log(JSON.stringify({ answer, asked }));
}
"""


class Page(NamedTuple):
    """A page with the client on it."""

    run: Ask
    url: str

    def ask(self, method: str, *requests: Any) -> tuple[Any, list[dict[str, Any]]]:
        """Return the client's answer, and what it asked the service."""
        told = self.run({"url": self.url, "method": method, "requests": requests})
        return told["answer"], told["asked"]

    def search(self, *requests: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        answer, asked = self.ask("search", *requests)
        assert "results" in answer, answer
        return answer["results"], asked


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("instantsearch")
    (folder / "page.mjs").write_text(PROGRAM)
    with Service(folder / "data", 2) as service:
        client = service.client()
        facets: dict[str, Any] = {"brand": {}, "size": {}, "price": {}, "dash": {}}
        assert client.post("/shop/configuration", {"aggregations": facets}).status == 200
        items = [
            {
                "id": i,
                "name": f"Lamp <b>{i}</b> & Son",
                "brand": "ABC"[i % 3],
                "size": ["S", "L"][: i % 3],
                "price": i,
                "dash": "-x",
                "deep": {"text": ["lamp one", "two"]},
            }
            for i in range(30)
        ]
        assert client.post("/shop/items", items).status == 200
        served = client.get("/_instantsearch.js")
        (folder / "instantsearch.mjs").write_bytes(served.body)
        client.close()
        with node_process(folder / "page.mjs") as run:
            yield Page(run, f"http://127.0.0.1:{service.port}")


def query(**params: Any) -> dict[str, Any]:
    return {"indexName": "shop", "params": params}


@needs_node
def test_answer_has_the_form_that_widgets_read(page: Page) -> None:
    (result,), asked = page.search(
        query(
            query="lamp",
            page=1,
            hitsPerPage=4,
            facets=["brand", "price"],
            highlightPreTag="__ais-highlight__",
            highlightPostTag="__/ais-highlight__",
        )
    )

    assert len(asked) == 1
    assert (result["nbHits"], result["page"], result["nbPages"], result["hitsPerPage"]) == (
        *(30, 1, 8),
        4,
    )
    assert result["facets"]["brand"] == {"A": 10, "B": 10, "C": 10}
    assert result["facets_stats"]["price"] == {"min": 0, "max": 29, "avg": 14.5, "sum": 435}
    assert result["index"] == "shop"
    assert len(result["hits"]) == 4
    hit = result["hits"][0]
    number = hit["id"]
    assert hit["objectID"] == str(number)
    assert hit["_highlightResult"]["name"] == {
        "value": f"__ais-highlight__Lamp__/ais-highlight__ <b>{number}</b> & Son",
        "matchLevel": "full",
        "fullyHighlighted": False,
        "matchedWords": ["lamp"],
    }
    assert hit["_highlightResult"]["brand"]["matchLevel"] == "none"
    marked = hit["_highlightResult"]["deep"]["text"]
    assert [one["matchLevel"] for one in marked] == ["full", "none"]


@needs_node
def test_queries_of_disjunctive_facets_are_folded_into_the_search(page: Page) -> None:
    brands, sizes = ["brand:A", "brand:B"], ["size:L"]
    counts = {"query": "", "hitsPerPage": 0, "page": 0, "analytics": False}
    results, asked = page.search(
        query(query="", facets=["brand", "size"], facetFilters=[brands, sizes]),
        query(facets="brand", facetFilters=[sizes], **counts),
        query(facets="size", facetFilters=[brands], **counts),
    )

    assert [one["path"] for one in asked] == ["/1/indexes/*/queries"]
    main, of_brand, of_size = results
    assert main["nbHits"] == sum(1 for i in range(30) if i % 3 in (0, 1) and i % 3 > 1) == 0
    assert of_brand["facets"] == {"brand": {"C": 10}}
    assert of_size["facets"] == {"size": {"S": 10}}
    assert of_brand["hits"] == of_size["hits"] == []


@needs_node
def test_folded_answers_are_those_of_separate_queries(page: Page) -> None:
    brands = ["brand:B", "brand:C"]
    main = query(query="lamp", facets=["brand", "size"], facetFilters=[brands, "size:S"])
    counts = query(
        query="lamp", hitsPerPage=0, facets=["brand"], facetFilters=["size:S"], analytics=False
    )
    together, asked = page.search(main, counts)
    first, _ = page.search(main)
    second, _ = page.search(counts)

    assert len(asked) == 1
    assert together[0]["hits"] == first[0]["hits"]
    assert together[0]["nbHits"] == first[0]["nbHits"] == 20
    assert together[1]["facets"] == second[0]["facets"] == {"brand": {"B": 10, "C": 10}}
    assert together[0]["facets"]["size"] == first[0]["facets"]["size"] == {"S": 20, "L": 10}


@needs_node
def test_a_query_of_a_list_is_answered_as_if_it_were_alone(page: Page) -> None:
    """A page may show "20 of 30": only what is marked as no user's search is folded."""
    main = query(query="", facets=["brand"], facetFilters=[["brand:B", "brand:C"]])
    rest = query(query="", hitsPerPage=0, facets=["brand"])
    together, _ = page.search(main, rest)
    alone = [page.search(one)[0][0] for one in (main, rest)]

    for one in (*together, *alone):
        for name in ("processingTimeMS", "serverTimeMS", "processingTimingsMS"):
            del one[name]
    assert [one["nbHits"] for one in together] == [20, 30]
    assert together == alone


@needs_node
@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("shop:price:desc", [29, 28, 27]),
        ("shop:price:asc", [0, 1, 2]),
        ("shop:brand:desc:price:asc", [2, 5, 8]),
    ],
)
def test_index_in_an_order_is_the_index_sorted(page: Page, name: str, first: list[int]) -> None:
    """What the widget that sorts switches to; there is no index of that name."""
    main = query(facets=["brand"], facetFilters=[["brand:A", "brand:B", "brand:C"]], hitsPerPage=3)
    counts = query(facets="brand", hitsPerPage=0)
    results, asked = page.search({**main, "indexName": name}, {**counts, "indexName": name})

    assert len(asked) == 1
    assert [hit["id"] for hit in results[0]["hits"]] == first
    assert results[0]["index"] == name
    (facet,), _ = page.ask(
        "searchForFacetValues", {"indexName": name, "params": {"facetName": "brand"}}
    )
    assert len(facet["facetHits"]) == 3


@needs_node
def test_queries_are_taken_in_every_form_that_clients_send(page: Page) -> None:
    """algoliasearch v5 and Autocomplete: `{requests}`, and parameters beside the index."""
    beside = {"indexName": "shop", "query": "lamp 7", "hitsPerPage": 3}
    mixed = {"indexName": "shop", "query": "lamp 7", "params": {"hitsPerPage": 3}}
    in_a_text = {"indexName": "shop", "params": "query=lamp%207&hitsPerPage=3"}
    results, _ = page.search(beside, mixed, in_a_text)
    as_object, _ = page.ask("search", {"requests": [beside]})

    assert {tuple(hit["id"] for hit in one["hits"]) for one in results} == {(7,)}
    assert as_object["results"][0]["hits"] == results[0]["hits"]


@needs_node
def test_what_only_algolia_has_is_refused(page: Page) -> None:
    answer, asked = page.ask("getRecommendations", {"indexName": "shop", "model": "x"})

    assert (answer["error"], asked) == ("facetd has no recommendations", [])


@needs_node
@pytest.mark.parametrize(
    ("params", "number"),
    [
        ({"facetFilters": ["brand:A", ["size:S", "size:L"]]}, 0),
        ({"facetFilters": ["brand:-A"]}, 20),
        ({"facetFilters": [["brand:A", "size:L"]]}, 20),
        ({"facetFilters": "brand:A"}, 10),
        ({"facetFilters": ["dash:\\-x"]}, 30),
        ({"facetFilters": ["dash:-x"]}, 30),
        ({"numericFilters": ["price>=10", "price<20"]}, 10),
        ({"numericFilters": [["price<3", "price>26"]]}, 6),
        ({"numericFilters": ["price:5 TO 9"]}, 5),
        ({"numericFilters": ["price!=5"]}, 29),
        ({"filters": 'brand:A AND NOT (price > 10 OR "price":3)'}, 3),
        ({"filters": "price:5 TO 9 OR price = 20"}, 6),
        ({"filters": "brand:'B'", "facetFilters": ["size:S"]}, 10),
        ({"query": "absent"}, 0),
        ({}, 30),
    ],
)
def test_restrictions_are_translated(page: Page, params: dict[str, Any], number: int) -> None:
    (result,), _ = page.search(query(hitsPerPage=0, **params))

    assert result["nbHits"] == number


@needs_node
def test_facet_values_are_searched(page: Page) -> None:
    asked_for = {**query(facetName="brand", facetQuery="b", facetFilters=["price:4"])}
    answer, asked = page.ask("searchForFacetValues", asked_for)

    assert asked[0]["path"] == "/1/indexes/*/queries"
    assert answer[0]["facetHits"] == [{"value": "B", "highlighted": "<em>B</em>", "count": 1}]
    mixed, _ = page.search(query(hitsPerPage=1), {**asked_for, "type": "facet"})
    assert mixed[0]["nbHits"] == 30
    assert mixed[1]["facetHits"] == answer[0]["facetHits"]


@needs_node
def test_mistake_is_an_error_with_its_code(page: Page) -> None:
    answer, _ = page.ask("search", query(hitsPerPage=100_000))

    assert (answer["status"], answer["code"]) == (400, "invalid_per_page")
    assert "per_page" in answer["error"]


@needs_node
@pytest.mark.parametrize(
    ("status", "message"), [(502, "the service answered 502"), (200, "is not facetd")]
)
def test_another_server_is_an_error_with_its_status(page: Page, status: int, message: str) -> None:
    with serving((status, b"<html>")) as server:
        answer, _ = page._replace(url=server.url).ask("search", query())

    assert answer["status"] == status
    assert message in answer["error"]


@needs_node
def test_many_queries_are_several_requests(page: Page) -> None:
    results, asked = page.search(*(query(query=f"lamp {i}", hitsPerPage=2) for i in range(70)))

    assert len(results) == 70
    assert [len(one["body"]["requests"]) for one in asked] == [64, 6]


async def test_module_is_served_with_its_type_and_tag(web: Web) -> None:
    reply = await web.get("/_instantsearch.js")
    tag = reply.headers["etag"]
    again = await web.send(request("GET", "/_instantsearch.js", None, f"If-None-Match: {tag}"))

    assert reply.status == 200
    assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.body == INSTANTSEARCH
    assert again.status == 304
