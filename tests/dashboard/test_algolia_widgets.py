"""Widgets of Algolia's own packages on a page, with the service as their host, in Chromium."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.algolia.conftest import bundled
from tests.dashboard.conftest import Service

ROOT = Path(__file__).resolve().parents[2]
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
# The widget draws on Google's map, whose script cannot be loaded here: this keeps what it is told.
GOOGLE = """
const listenTo = (handlers, name, act) => (handlers[name] ??= []).push(act);
const plain = (point) => point.toJSON?.() ?? point;
class LatLng {
  constructor(point) { this.point = plain(point); }
  toJSON() { return this.point; }
}
class LatLngBounds {
  constructor(low, high) { this.points = [low, high].filter(Boolean).map(plain); }
  extend(point) { this.points.push(plain(point)); return this; }
  corner(best) {
    const side = (name) => best(...this.points.map((point) => point[name]));
    return new LatLng({ lat: side("lat"), lng: side("lng") });
  }
  getNorthEast() { return this.corner(Math.max); }
  getSouthWest() { return this.corner(Math.min); }
}
window.markers = new Set();
class Marker {
  constructor({ position, __id }) { Object.assign(this, { position, __id }); markers.add(this); }
  setMap() { markers.delete(this); }
  getPosition() { return new LatLng(this.position); }
}
class Map {
  constructor() { this.handlers = {}; window.map = this; }
  addListener(name, act) { listenTo(this.handlers, name, act); }
  tell(name) { for (const act of this.handlers[name] ?? []) act(); }
  fitBounds(bounds) { this.bounds = bounds; }
  getBounds() { return this.bounds; }
  setCenter() {}
  setZoom() {}
  userMovesTo(low, high) {
    this.bounds = new LatLngBounds(low, high);
    this.tell("center_changed");
    this.tell("idle");
  }
}
const google = { maps: {
  Map, Marker, LatLng, LatLngBounds, OverlayView: class {}, ControlPosition: {},
  event: { addListenerOnce: (map, name, act) => act() },
} };
"""
PLACES = """
import instantsearch from "instantsearch.js";
import { configure, geoSearch, hierarchicalMenu, stats } from "instantsearch.js/es/widgets";
for (const id of ["map", "menu", "total"])
  document.querySelector("#root").append(Object.assign(document.createElement("div"), { id }));
const search = instantsearch({ indexName: "towns", searchClient });
window.around = (parameters) => search.addWidgets([configure(parameters)]);
search.addWidgets([
  configure({ hitsPerPage: 100 }),
  geoSearch({ container: "#map", googleReference: google }),
  hierarchicalMenu({ container: "#menu", attributes: ["kind.lvl0", "kind.lvl1"] }),
  stats({ container: "#total", templates: { text: ({ nbHits }) => String(nbHits) } }),
]);
search.start();
"""
SEVERAL = """
import instantsearch from "instantsearch.js";
import {
  dynamicWidgets, hits, index, menu, queryRuleCustomData, refinementList, searchBox,
} from "instantsearch.js/es/widgets";
for (const id of ["box", "countries", "kinds", "banner", "films", "words"])
  document.querySelector("#root").append(Object.assign(document.createElement("div"), { id }));
const search = instantsearch({ indexName: "films", searchClient });
const item = (hit, { html }) => html`<b>${hit.name}</b>`;
search.addWidgets([
  searchBox({ container: "#box" }),
  refinementList({ container: "#countries", attribute: "country", limit: 3 }),
  queryRuleCustomData({
    container: "#banner",
    templates: { default: ({ items }) => items.map((one) => one.text).join() },
  }),
  dynamicWidgets({
    container: "#kinds",
    widgets: [],
    fallbackWidget: ({ container, attribute }) => menu({ container, attribute, limit: 2 }),
  }),
  hits({ container: "#films", templates: { item } }),
  index({ indexName: "words" }).addWidgets([hits({ container: "#words", templates: { item } })]),
]);
search.start();
"""
CLICKED = """
import instantsearch from "instantsearch.js";
import { configure, hits } from "instantsearch.js/es/widgets";
const search = instantsearch({ indexName: "films:year:desc", searchClient, insights: {
  INSIGHTS
} });
const item = (hit, { html, sendEvent }) =>
  html`<b onClick=${() => sendEvent("click", hit, "Hit")}>${hit.name}</b>`;
search.addWidgets([
  configure({ query: "godfather", hitsPerPage: 3 }),
  hits({ container: "#root", templates: { item } }),
]);
search.start();
"""
TOWNS = [
    {
        "id": n,
        "name": f"Town {n}",
        "_geo": {"lat": n * 37 % 170 - 85, "lng": n * 101 % 350 - 175},
        "kind": {
            "lvl0": "City" if n % 3 else "Village",
            "lvl1": f"City > {n % 4}" if n % 3 else None,
        },
    }
    for n in range(60)
]
MARKERS = "() => [...markers].map((marker) => Number(marker.__id)).sort((a, b) => a - b)"


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


def test_widgets_of_several_indexes(page: Any, service: Service, tmp_path: Path) -> None:
    """Widgets at the top concern the index below as well, whose items lack their fields."""
    service.make_films()
    service.make_index("words", {}, [{"id": 1, "name": "godfather"}, {"id": 2, "name": "casino"}])
    content = {"facetOrdering": {"facets": {"order": ["genres"]}}}
    service.call("PUT", "/1/indexes/films/settings", {"renderingContent": content,
                 "userData": {"text": "not this"}})  # fmt: skip
    rule = {"conditions": [{"pattern": "godfather", "anchoring": "is"}],
            "consequence": {"userData": {"text": "an offer"}}}  # fmt: skip
    service.call("PUT", "/1/indexes/films/rules/offer", rule)
    open_page(page, tmp_path, SEVERAL)
    wait_until(page, texts("#words b"), ["godfather", "casino"])
    wait_until(page, texts("#kinds .ais-DynamicWidgets-widget .ais-Menu-item:first-child "
                           ".ais-Menu-label"), ["Action"])  # fmt: skip
    wait_until(page, texts("#banner .ais-QueryRuleCustomData"), [""])

    page.locator("#box input").fill("godfather")
    wait_until(page, texts("#banner .ais-QueryRuleCustomData"), ["an offer"])
    wait_until(page, texts("#words b"), ["godfather"])
    page.locator("#countries label").first.click()
    wait_until(page, texts("#words b"), [])
    asked = {"query": "godfather", "filters": {"country": ["United States"]}, "per_page": 20}
    answer = service.call("POST", "/films/search", asked)
    wait_until(page, texts("#films b"), [item["name"] for item in answer["data"]["items"]])


def test_clicks_are_counted_as_documented(page: Any, service: Service, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "migrate" / "algolia.md").read_text()
    handler = text.partition("insights: {")[2].partition("\n    },\n")[0]
    handler = handler.replace("https://search.example.org", "").replace("fk_…", "key")
    service.make_films()
    service.call("DELETE", "/_analytics?index=films")
    open_page(page, tmp_path, CLICKED.replace("INSIGHTS", handler))
    page.locator("b").nth(1).wait_for()
    name = page.locator("b").nth(1).text_content()
    with page.expect_response("**/_analytics/clicks") as answered:
        page.locator("b").nth(1).click()
    assert answered.value.json() == {"status": "counted", "counted": 1}
    (clicked,) = service.call("GET", "/_analytics?index=films")["clicked"]
    assert clicked["position"] == 2
    assert service.call("GET", f"/films/items/{clicked['id']}")["name"] == name


def found(service: Service, **request: Any) -> list[int]:
    """Return the ids of the towns that a search of facetd's own finds."""
    answer = service.call("POST", "/towns/search", {**request, "per_page": 100})
    return sorted(item["id"] for item in answer["data"]["items"])


def test_geo_search_and_hierarchical_menu(page: Any, service: Service, tmp_path: Path) -> None:
    facets: dict[str, Any] = {"kind.lvl0": {}, "kind.lvl1": {}}
    service.make_index("towns", {"aggregations": facets}, TOWNS)
    open_page(page, tmp_path, GOOGLE + PLACES)
    wait_until(page, MARKERS, list(range(60)))

    # The map is moved: the widget asks for what is in view.
    page.evaluate("map.userMovesTo({ lat: -10, lng: -60 }, { lat: 60, lng: 120 })")
    corners = {"top_right": {"lat": 60, "lng": 120}, "bottom_left": {"lat": -10, "lng": -60}}
    in_view = found(service, filters={"_geo": {"box": corners}})
    assert 5 < len(in_view) < 55
    wait_until(page, MARKERS, in_view)

    # A branch of the menu opens, and narrows the map as well.
    page.locator(".ais-HierarchicalMenu-link", has_text="City").click()
    cities = found(service, filters={"_geo": {"box": corners}, "kind.lvl0": ["City"]})
    wait_until(page, MARKERS, cities)
    lists = page.locator(".ais-HierarchicalMenu-list--child .ais-HierarchicalMenu-label")
    lists.first.wait_for()
    below = lists.all_text_contents()
    counts = page.locator(
        ".ais-HierarchicalMenu-list--child .ais-HierarchicalMenu-count"
    ).all_text_contents()
    for name, number in zip(below, counts, strict=True):
        chosen = {"_geo": {"box": corners}, "kind.lvl1": [f"City > {name}"]}
        assert int(number) == len(found(service, filters=chosen))
    page.locator(".ais-HierarchicalMenu-link", has_text=below[0]).last.click()
    chosen = {"_geo": {"box": corners}, "kind.lvl1": [f"City > {below[0]}"]}
    wait_until(page, MARKERS, found(service, filters=chosen))
    page.locator(".ais-GeoSearch-reset").click()
    wait_until(page, MARKERS, found(service, filters={"kind.lvl1": [f"City > {below[0]}"]}))

    # Around a point.
    page.evaluate("around({ aroundLatLng: '10, 20', aroundRadius: 5000000 })")
    radius = {"lat": 10, "lng": 20, "metres": 5_000_000}
    chosen = {"_geo": {"radius": radius}, "kind.lvl1": [f"City > {below[0]}"]}
    near = found(service, filters=chosen)
    assert near
    wait_until(page, MARKERS, near)
    wait_until(page, texts(".ais-Stats-text"), [str(len(near))])
