"""What holds for all routes: bodies, parameters, addresses, errors for browsers and programs."""

from __future__ import annotations

import pytest

from coordinator.http.api_description.route import Body
from coordinator.http.routing import ServedRoute
from coordinator.routes import ROUTES
from tests.http.conftest import MakeWeb, Web
from tests.http.raw_requests import request


async def test_merged_searches_read_only_the_items_of_the_page(make_web: MakeWeb) -> None:
    """Each of 64 searches may have ten thousand hits up to the end of the page."""
    web = await make_web()
    merge = {"page": 4, "per_page": 2}

    reply = await web.post("/_search", {"searches": [{"index": "films"}] * 3, "merge": merge})

    assert [item["_index"] for item in reply.json["data"]["items"]] == ["films"] * 2
    assert web.search.ranks_read == [2, 2]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "items"),
        ("POST", "items/delete"),
        ("POST", "items/update"),
        ("POST", "items/7/update"),
        ("PUT", "items/7"),
        ("PATCH", "items/7"),
        ("PATCH", "items"),
        ("DELETE", "items/7"),
        ("POST", "index"),
    ],
)
async def test_writes_refuse_what_they_would_ignore(web: Web, method: str, path: str) -> None:
    body = None if method == "DELETE" else b'{"id":7}'

    refused = await web.send(request(method, f"/films/{path}?anything=1", body))

    assert (refused.status, refused.code) == (400, "unknown_parameter")
    assert refused.json["error"]["param"] == "anything"


@pytest.mark.parametrize(
    "route", [one for one in ROUTES if one.refuses_ignored], ids=lambda route: route.name
)
async def test_no_page_ignores_parameters_or_a_body(web: Web, route: ServedRoute) -> None:
    """`DELETE /films?query=x` would delete everything, a search whose body is ignored find it."""
    target = route.path.replace("{index}", "films").replace("{id}", "7")
    body = b'{"filters":{"year":1}}'

    if not route.parameters:
        sent = None if route.body is Body.NONE else b"{}"
        answer = await web.send(request(route.method, f"{target}?query=sea", sent))
        assert (answer.status, answer.code) == (400, "unknown_parameter"), answer
    if route.body is Body.NONE:
        answer = await web.send(request(route.method, target, body))
        assert (answer.status, answer.code) == (400, "invalid_body"), answer
        assert "takes no body" in answer.json["error"]["message"]
    assert "films" in web.services.catalog.indexes


@pytest.mark.parametrize("body", [b"", b" \n", b"{}"])
async def test_a_body_that_says_nothing_is_accepted_everywhere(web: Web, body: bytes) -> None:
    assert (await web.send(request("GET", "/films/search", body))).status == 200
    assert (await web.send(request("POST", "/films/reset", body))).status == 200


async def test_a_search_with_a_body_is_told_to_post_it(web: Web) -> None:
    searched = await web.send(request("GET", "/films/search", b'{"query":"sea"}'))
    exported = await web.send(request("GET", "/films/items", b'{"query":"sea"}'))

    assert searched.json["error"]["message"] == (
        "GET /{index}/search takes no body; send it with POST, or the parameters in the query "
        "string"
    )
    assert "POST" not in exported.json["error"]["message"]


async def test_algolias_deletion_may_have_a_query_string(web: Web) -> None:
    target = "/1/indexes/films/deleteByQuery?x-algolia-agent=any"

    reply = await web.post(target, {"filters": "year = 1"})

    assert (reply.status, list(reply.json)) == (200, ["taskID", "updatedAt"])


async def test_a_name_that_no_index_has_is_told(web: Web) -> None:
    for path in ("/_x/search", "/_x/items", "/_x/configuration"):
        reply = await web.get(path)

        assert (reply.status, reply.code) == (404, "not_found")
        assert "no index has a name that begins with _" in reply.json["error"]["message"]
    assert "index" not in (await web.get("/_x")).json["error"]["message"]


@pytest.mark.parametrize(
    ("target", "root"),
    [("/_nothing", ""), ("/dashboard/films/nothing?q=a/b", "../../"), ("/a/b/", "../../")],
)
async def test_a_browser_is_led_back_from_a_page_that_does_not_exist(
    web: Web, target: str, root: str
) -> None:
    reply = await web.send(request("GET", target, None, "Accept: text/html,*/*;q=0.8"))

    assert (reply.status, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert f'href="{root}dashboard">dashboard</a>' in reply.body.decode()
    assert f'href="{root}_docs"' in reply.body.decode()


async def test_programs_get_the_error_as_json(web: Web) -> None:
    for accept in ("*/*", "application/json"):
        asked = request("GET", "/dashboard/films/nothing", None, f"Accept: {accept}")
        reply = await web.send(asked)

        assert (reply.status, reply.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("/dashboard/", "../dashboard"),
        ("/dashboard/films/?q=a", "../films?q=a"),
        ("/_docs/", "../_docs"),
    ],
)
async def test_addresses_that_end_with_a_slash_lead_to_the_page(
    web: Web, target: str, location: str
) -> None:
    """What a page refers to is relative to its address: below a slash it would not be found."""
    reply = await web.get(target)

    assert (reply.status, reply.headers["location"]) == (302, location)
    assert (await web.get(target.replace("/?", "?").removesuffix("/"))).status == 200
