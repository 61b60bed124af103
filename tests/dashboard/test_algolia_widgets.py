"""Widgets of Algolia's own packages on a page, with the service as their host, in Chromium."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.algolia.conftest import bundled
from tests.dashboard.conftest import Service

SETTLE_SECONDS = 10.0
CLIENT = """
import { liteClient } from "algoliasearch/lite";
const host = { url: location.host, accept: "readWrite", protocol: "http" };
const searchClient = liteClient("app", "key", { hosts: [host] });
"""
REACT = """
import { createRoot } from "react-dom/client";
import {
  InstantSearch, SearchBox, Hits, Highlight, RefinementList, Stats,
} from "react-instantsearch";
createRoot(document.querySelector("#root")).render(
  <InstantSearch indexName="films" searchClient={searchClient}>
    <SearchBox />
    <Stats translations={{ rootElementText: ({ nbHits }) => String(nbHits) }} />
    <RefinementList attribute="genres" />
    <Hits hitComponent={({ hit }) => <p><Highlight attribute="name" hit={hit} /></p>} />
  </InstantSearch>
);
"""
AUTOCOMPLETE = """
import { autocomplete, getAlgoliaResults } from "@algolia/autocomplete-js";
autocomplete({
  detachedMediaQuery: "none",
  container: "#root",
  getSources: ({ query }) => [{
    sourceId: "films",
    getItems: () => getAlgoliaResults({
      searchClient, queries: [{ indexName: "films", params: { query, hitsPerPage: 3 } }],
    }),
    templates: {
      item: ({ item, components, html }) =>
        html`<b class="found">${components.Highlight({ hit: item, attribute: "name" })}</b>`,
    },
  }],
});
"""
DOCSEARCH = """
import docsearch from "@docsearch/js";
docsearch({
  container: "#root", appId: "app", apiKey: "key", indexName: "pages", indices: ["pages"],
  transformSearchClient: (client) => ({ ...client, search: searchClient.search }),
});
"""


def open_page(page: Any, folder: Path, program: str) -> None:
    """Open a page on the service's own origin with a program on it."""
    script = bundled(CLIENT + program, folder)
    page.route(
        "**/shop.html",
        lambda route: route.fulfill(
            body='<!doctype html><meta charset="utf-8"><title>shop</title><div id="root"></div>'
            '<script src="/shop.js"></script>',
            content_type="text/html",
        ),
    )
    page.route(
        "**/shop.js", lambda route: route.fulfill(body=script, content_type="text/javascript")
    )
    page.goto("/shop.html")


def wait_until(page: Any, read: str, wanted: Any) -> None:
    """Wait until the page shows what it has to."""
    give_up_at = time.monotonic() + SETTLE_SECONDS
    while (shown := page.evaluate(read)) != wanted and time.monotonic() < give_up_at:
        page.wait_for_timeout(20)
    assert shown == wanted


def texts(selector: str) -> str:
    return f"() => [...document.querySelectorAll('{selector}')].map((one) => one.textContent)"


def test_react_instantsearch(page: Any, service: Service, tmp_path: Path) -> None:
    service.make_films()
    open_page(page, tmp_path, REACT)
    wait_until(page, texts(".ais-Stats-text"), ["314"])
    page.locator(".ais-SearchBox-input").press_sequentially("godfathr")
    found = service.call("POST", "/films/search", {"query": "godfathr", "per_page": 20})
    names = [item["name"] for item in found["data"]["items"]]
    wait_until(page, texts(".ais-Hits-item p"), names)
    assert "Godfather" in page.locator(".ais-Highlight-highlighted").all_text_contents()

    page.locator(".ais-SearchBox-input").fill("")
    page.locator(".ais-RefinementList-label", has_text="Comedy").click()
    asked = {"filters": {"genres": ["Comedy"]}, "per_page": 0}
    total = service.call("POST", "/films/search", asked)["pagination"]["total"]
    wait_until(page, texts(".ais-Stats-text"), [str(total)])


def test_autocomplete(page: Any, service: Service, tmp_path: Path) -> None:
    service.make_films()
    open_page(page, tmp_path, AUTOCOMPLETE)
    for typed in ("god", "casa"):
        page.locator("#root input").fill(typed)
        found = service.call("POST", "/films/search", {"query": typed, "per_page": 3})
        wait_until(page, texts(".found"), [item["name"] for item in found["data"]["items"]])


def test_docsearch(page: Any, service: Service, tmp_path: Path) -> None:
    pages = [
        {
            "id": i,
            "type": "lvl1",
            "url": f"/page-{i}",
            "url_without_anchor": f"/page-{i}",
            "hierarchy": {"lvl0": "Guide", "lvl1": name, "lvl2": None},
            "content": None,
        }
        for i, name in enumerate(("Install it", "Search it", "Searching fast"))
    ]
    service.make_index("pages", {}, pages)
    open_page(page, tmp_path, DOCSEARCH)
    page.locator(".DocSearch-Button").click()
    page.locator(".DocSearch-Input").press_sequentially("search")
    wait_until(page, texts(".DocSearch-Hit-title"), ["Search it", "Searching fast"])
