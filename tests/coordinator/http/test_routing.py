"""Paths to routes, and what else a path can be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import MethodNotAllowed, NotFound
from coordinator.http import endpoints_of_other_engines
from coordinator.http.api_description.route import Route
from coordinator.http.routing import Router
from coordinator.http.security.api_keys import Action
from coordinator.routes import ROUTES

ROUTER = Router(ROUTES)


def resolve(method: str, path: str) -> tuple[str, tuple[str, ...]]:
    route, arguments = ROUTER.resolve(method, path[1:].split("/"))
    return route.path, arguments


def test_every_route_finds_itself() -> None:
    for route in ROUTES:
        path = route.path.replace("{index}", "films").replace("{id}", "5").replace("{page}", "x")
        path = path.replace("{folder}", "views").replace("{file}", "a.js")
        found, _ = ROUTER.resolve(route.method, path[1:].split("/"))
        assert found is route


def test_a_route_must_name_the_schema_of_its_answer() -> None:
    with pytest.raises(AssertionError, match="GET /_new: document must name the schema"):
        Route("GET", "/_new", "New.", Action.SEARCH)


def test_what_changes_anything_is_subject_to_the_check_of_the_origin() -> None:
    for route in ROUTES:
        if route.method != "GET" and not route.is_change:
            assert route.action is Action.SEARCH, route.name


def test_arguments_in_order() -> None:
    assert resolve("GET", "/films/items/a b") == ("/{index}/items/{id}", ("films", "a b"))
    assert resolve("POST", "/films/items/7/update") == (
        "/{index}/items/{id}/update",
        ("films", "7"),
    )


def test_item_may_be_called_like_a_page() -> None:
    assert resolve("GET", "/films/items/delete")[0] == "/{index}/items/{id}"
    assert resolve("POST", "/films/items/delete")[0] == "/{index}/items/delete"
    assert resolve("POST", "/films/items/delete/update")[0] == "/{index}/items/{id}/update"


def test_system_paths_are_never_indexes() -> None:
    for path in ("/_nope/search", "/_health/search", "/dashboard/search/x", "/status/search"):
        with pytest.raises(NotFound):
            resolve("GET", path)


def test_wrong_method_names_the_right_ones() -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        resolve("PATCH", "/films/search")

    assert caught.value.details["allow"] == ["GET", "HEAD", "OPTIONS", "POST"]


@pytest.mark.parametrize(
    ("method", "path", "instead"),
    [
        ("POST", "/books/_search", "GET or POST /books/search finds items"),
        ("GET", "/books/_doc/7", "GET /books/items/{id} returns an item"),
        ("PUT", "/books/_doc/7", "PUT /books/items/{id} adds or replaces an item"),
        ("GET", "/_cat/indices", "GET /_indexes lists the indexes"),
        (
            "POST",
            "/_bulk",
            "POST /{index}/index loads newline-delimited JSON: items alone, one a line",
        ),
        ("PUT", "/books", "POST /books/configuration creates an index; {} is a configuration"),
        ("POST", "/indexes", "POST /{index}/configuration creates an index; {} is a"),
        ("POST", "/indexes/books/documents", "POST /books/items adds items, one or an array"),
        ("PUT", "/indexes/books/documents", "PATCH /books/items changes some fields of items"),
        ("PATCH", "/books/documents", "PATCH /books/items changes some fields of items"),
        ("PATCH", "/indexes/books/settings", "PATCH /books/configuration changes its settings"),
        ("PUT", "/indexes/books/settings/stop-words", "PATCH /books/configuration changes its"),
        ("POST", "/multi-search", "POST /_search takes several searches"),
        ("POST", "/collections/books/documents/import", "POST /books/index loads newline"),
        ("GET", "/collections/books/documents/search", "GET or POST /books/search finds items"),
        ("DELETE", "/books/items", "POST /books/items/delete removes items by ids or filters"),
        ("GET", "//books/search", "did you mean /books/search?"),
        ("GET", "/books//items", "did you mean /books/items?"),
        ("GET", "/solr/books/select", "GET or POST /books/search finds items"),
        ("POST", "/books/_update_by_query", "POST /books/items/update sets fields in what"),
        ("POST", "/books/_doc/7/_update", "PATCH /books/items/{id} changes some of its fields"),
        ("GET", "/_search", "GET or POST /{index}/search finds items of one index"),
        ("POST", "/_reindex", "POST /{index}/copy copies an index"),
        ("POST", "/_search/scroll", "GET /{index}/search?cursor=* begins to page"),
        ("GET", "/books/_explain/7", "GET /books/explain?id=7&query=sea says why"),
        ("PUT", "/books/_alias/b", "POST /_aliases sets aliases, GET /_aliases lists them"),
        ("POST", "/swap-indexes", "POST /_aliases points aliases at other indexes"),
        ("POST", "/indexes/books/similar", "GET /books/search?similar_to=7 finds items like"),
        ("PATCH", "/collections/books/documents", "POST /books/items/update sets fields in what"),
        ("PUT", "/collections/books/synonyms/x", "PATCH /books/configuration sets synonyms"),
        ("GET", "/solr/admin/cores", "GET /_indexes lists the indexes"),
        ("GET", "/solr/books/schema/fields", "GET /books says what an index has"),
        ("POST", "/books/documents", "POST /books/items adds items, one or an array"),
        ("PUT", "/books/settings", "PATCH /books/configuration changes its settings"),
        ("PUT", "/books/items", "POST /books/items adds items, one or an array"),
        ("POST", "/books/items/bulk", "POST /books/items adds items, one or an array"),
        ("POST", "/books/items/partial", "PATCH /books/items changes some fields of items"),
        ("POST", "/books/items/7", "PUT /books/items/{id} adds or replaces an item"),
        ("GET", "/books/count", "GET /books/search?per_page=0 has the number"),
        ("GET", "/books/facets", "GET /books/search counts the values of all facets"),
        ("GET", "/books/facet/author", "POST /books/facet finds values of a facet"),
        ("GET", "/books/schema", "GET /books says what an index has"),
        ("POST", "/books/query", "GET or POST /books/search finds items"),
        ("GET", "/books/autocomplete", "GET /books/suggest completes what is being typed"),
    ],
)
def test_pages_of_other_engines_are_answered_with_ours(
    method: str, path: str, instead: str
) -> None:
    with pytest.raises((NotFound, MethodNotAllowed)) as caught:
        resolve(method, path)
    assert f"; {instead}" in caught.value.message


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/books/serach", "did you mean /books/search?"),
        ("/books/Search", "did you mean /books/search?"),
        ("/books/SEARCH", "did you mean /books/search?"),
        ("/books/items/7/partail", "did you mean /books/items/7/partial?"),
        ("/_healht", "did you mean /_health?"),
        ("/books/xyzzy", "GET /_docs describes all pages"),
        ("/books/xyzzy/a/b/c", "GET /_docs describes all pages"),
    ],
)
def test_a_mistyped_page_is_answered_with_the_nearest(path: str, meant: str) -> None:
    with pytest.raises(NotFound) as caught:
        resolve("GET", path)
    assert caught.value.message.endswith(f"; {meant}")


@pytest.mark.parametrize("path", ["/*/search", "/_all/_search", "/*/_msearch"])
def test_all_indexes_are_searched_at_a_page_of_its_own(path: str) -> None:
    with pytest.raises(NotFound) as caught:
        resolve("POST", path)
    assert caught.value.message.endswith("; POST /_search takes several searches, each with the "
                                         "name of its index")  # fmt: skip


def test_what_is_named_instead_exists() -> None:
    known = {f"{route.method} {route.path}" for route in ROUTES}
    for page in endpoints_of_other_engines._PAGES:
        named = re.findall(r"(?:GET|POST|PUT|PATCH|DELETE) /[^\s?:;,]+", page.instead)
        assert named or "there is nothing to" in page.instead
        assert known.issuperset(named), page


def test_our_own_pages_are_not_taken_for_indexes_of_other_engines() -> None:
    for path in ("/_keys", "/status", "/dashboard", "/*"):
        with pytest.raises((NotFound, MethodNotAllowed)) as caught:
            resolve("PUT", path)
        assert "creates an index" not in caught.value.message


@given(
    st.sampled_from(["GET", "POST", "PUT", "", "get"]), st.lists(st.text(max_size=8), min_size=1)
)
def test_any_path_is_found_or_refused(method: str, segments: list[str]) -> None:
    try:
        route, _ = ROUTER.resolve(method, segments)
    except (NotFound, MethodNotAllowed):
        return
    assert method in (route.method, "HEAD")
