"""Paths to routes, and what else a path can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import MethodNotAllowed, NotFound
from coordinator.http.api_keys import Action
from coordinator.http.routing import Router
from coordinator.routes import ROUTES

ROUTER = Router(ROUTES)


def resolve(method: str, path: str) -> tuple[str, list[str]]:
    route, arguments = ROUTER.resolve(method, path[1:].split("/"))
    return route.path, arguments


def test_every_route_finds_itself() -> None:
    for route in ROUTES:
        path = route.path.replace("{index}", "films").replace("{id}", "5").replace("{page}", "x")
        path = path.replace("{folder}", "views").replace("{file}", "a.js")
        found, _ = ROUTER.resolve(route.method, path[1:].split("/"))
        assert found is route


def test_what_changes_anything_is_subject_to_the_check_of_the_origin() -> None:
    for route in ROUTES:
        if route.method != "GET" and not route.is_change:
            assert route.action is Action.SEARCH, route.name


def test_arguments_in_order() -> None:
    assert resolve("GET", "/films/items/a b") == ("/{index}/items/{id}", ["films", "a b"])
    assert resolve("POST", "/films/items/7/update") == (
        "/{index}/items/{id}/update",
        ["films", "7"],
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


@given(
    st.sampled_from(["GET", "POST", "PUT", "", "get"]), st.lists(st.text(max_size=8), min_size=1)
)
def test_any_path_is_found_or_refused(method: str, segments: list[str]) -> None:
    try:
        route, _ = ROUTER.resolve(method, segments)
    except (NotFound, MethodNotAllowed):
        return
    assert method in (route.method, "HEAD")
