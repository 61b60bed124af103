"""The InstantSearch widgets themselves, in Chromium: they show what the interface answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.conftest import Service

PACKAGE = "instantsearch.js@4.118.1"
MEMBER = "package/dist/instantsearch.production.min.js"
PER_PAGE = 8
SETTLE_SECONDS = 10.0
PAGE = """
<!doctype html><meta charset="utf-8"><title>films</title>
<div id="box"></div><div id="sort"></div><div id="stats"></div>
<div id="genres"></div><div id="country"></div><div id="hits"></div><div id="pages"></div>
<script src="/instantsearch.production.min.js"></script>
<script type="module">
  import { createSearchClient } from "/_instantsearch.js";
  const { configure, hits, pagination, refinementList, searchBox, sortBy, stats } =
    instantsearch.widgets;
  const search = instantsearch({ indexName: "films", searchClient: createSearchClient() });
  search.addWidgets([
    configure({ hitsPerPage: PER_PAGE, maxValuesPerFacet: 50 }),
    searchBox({ container: "#box" }),
    sortBy({
      container: "#sort",
      items: [
        { value: "films", label: "best" },
        { value: "films:year:desc:name:asc", label: "newest" },
      ],
    }),
    stats({
      container: "#stats",
      templates: { text: ({ nbHits, page, nbPages }) => `${nbHits} ${page + 1} ${nbPages}` },
    }),
    refinementList({ container: "#genres", attribute: "genres", operator: "and", limit: 50 }),
    refinementList({
      container: "#country", attribute: "country", operator: "or", limit: 50, searchable: true,
    }),
    hits({
      container: "#hits",
      templates: {
        item: (hit, { html, components: { Highlight } }) =>
          html`<p data-id="${hit.objectID}">${Highlight({ hit, attribute: "name" })}</p>`,
      },
    }),
    pagination({ container: "#pages" }),
  ]);
  search.start();
</script>
""".replace("PER_PAGE", str(PER_PAGE))
READ = """() => {
  const list = (id) => Object.fromEntries(
    [...document.querySelectorAll(`#${id} .ais-RefinementList-item`)].map((item) => [
      item.querySelector(".ais-RefinementList-labelText").textContent,
      Number(item.querySelector(".ais-RefinementList-count").textContent),
    ]));
  const chosen = (id) => [...document.querySelectorAll(`#${id} .ais-RefinementList-item--selected`)]
    .map((item) => item.querySelector(".ais-RefinementList-labelText").textContent).sort();
  return {
    stats: document.querySelector("#stats .ais-Stats-text")?.textContent.trim(),
    genres: list("genres"),
    country: list("country"),
    chosen: [chosen("genres"), chosen("country")],
    hits: [...document.querySelectorAll("#hits [data-id]")].map((hit) => hit.dataset.id),
  };
}"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library as its package has it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    command = [npm, "pack", PACKAGE, "--silent", "--fetch-retries=0", "--fetch-timeout=20000"]
    environment = {**os.environ, "npm_config_cache": str(folder / "cache")}
    try:
        packed = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"the package registry did not give {PACKAGE} within a minute")
    archives = list(Path(folder).glob("*.tgz"))
    if packed.returncode != 0 or not archives:
        pytest.skip(f"the package registry did not give {PACKAGE}: {packed.stderr[-200:]!r}")
    with tarfile.open(archives[0]) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None
        return member.read().decode()


def expected(
    service: Service,
    *,
    query: str = "",
    genres: list[str] | None = None,
    country: list[str] | None = None,
    number: int = 1,
    sort: list[str] | None = None,
) -> dict[str, Any]:
    """Return what the page has to show, as the interface itself answers."""
    chosen = {"genres": sorted(genres or []), "country": sorted(country or [])}
    answer = service.call(
        "POST",
        "/films/search",
        {
            "query": query,
            "page": number,
            "per_page": PER_PAGE,
            "filters": {name: values for name, values in chosen.items() if values},
            "facet_fields": ["genres", "country"],
            "facets": {
                "genres": {"conjunction": True, "size": 50, "hide_zero": True},
                "country": {"conjunction": False, "size": 50, "hide_zero": True},
            },
            **({"sort": sort} if sort else {}),
        },
    )
    total = answer["pagination"]["total"]
    counts = {
        name: {bucket["key"]: bucket["doc_count"] for bucket in facet["buckets"]}
        for name, facet in answer["data"]["aggregations"].items()
    }
    return {
        "stats": f"{total} {number} {-(-total // PER_PAGE)}",
        **counts,
        "chosen": [chosen["genres"], chosen["country"]],
        "hits": [str(item["id"]) for item in answer["data"]["items"]],
    }


def check_screen(page: Any, wanted: dict[str, Any]) -> None:
    """Wait until the page shows what it has to."""
    give_up_at = time.monotonic() + SETTLE_SECONDS
    while (shown := page.evaluate(READ)) != wanted and time.monotonic() < give_up_at:
        page.wait_for_timeout(20)
    assert shown == wanted, json.dumps([shown, wanted])


@pytest.mark.own_tab
def test_widgets_show_what_the_interface_answers(page: Any, service: Service, library: str) -> None:
    service.make_films()
    page.route("**/shop.html", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    page.route(
        "**/instantsearch.production.min.js",
        lambda route: route.fulfill(body=library, content_type="text/javascript"),
    )
    asked: list[int] = []

    def note(request: Any) -> None:
        if request.url.endswith("/1/indexes/*/queries"):
            asked.append(len(request.post_data_json["requests"]))

    page.on("request", note)
    page.goto("/shop.html")
    check_screen(page, expected(service))

    def choose(facet: str, value: str) -> None:
        label = page.locator(f"#{facet} .ais-RefinementList-label")
        label.filter(has=page.get_by_text(value, exact=True)).click()

    # two values of a facet whose values are ANDed, two of one whose values are ORed
    choose("genres", "Drama")
    check_screen(page, expected(service, genres=["Drama"]))
    choose("country", "France")
    check_screen(page, expected(service, genres=["Drama"], country=["France"]))
    choose("country", "Italy")
    both = ["France", "Italy"]
    check_screen(page, expected(service, genres=["Drama"], country=both))
    choose("genres", "Romance")
    narrowed: dict[str, Any] = {"genres": ["Drama", "Romance"], "country": both}
    check_screen(page, expected(service, **narrowed))
    choose("genres", "Romance")
    narrowed = {"genres": ["Drama"], "country": both}
    check_screen(page, expected(service, **narrowed))
    assert max(asked) > 1, "disjunctive facets have queries of their own, in one request"

    # pages, and an order
    page.locator("#pages .ais-Pagination-item--page a", has_text="2").click()
    check_screen(page, expected(service, **narrowed, number=2))
    page.locator("#sort select").select_option(label="newest")
    newest = ["year:desc", "name:asc"]
    check_screen(page, expected(service, **narrowed, sort=newest))
    page.locator("#sort select").select_option(label="best")
    check_screen(page, expected(service, **narrowed))

    # text, as it is typed, with marks; and the search box of a facet
    page.locator("#box input[type=search]").press_sequentially("lov")
    check_screen(page, expected(service, **narrowed, query="lov"))
    choose("genres", "Drama")
    check_screen(page, expected(service, country=both, query="lov"))
    choose("country", "France")
    check_screen(page, expected(service, country=["Italy"], query="lov"))
    choose("country", "Italy")
    check_screen(page, expected(service, query="lov"))
    page.locator("#box input[type=search]").fill("godfathr")
    check_screen(page, expected(service, query="godfathr"))
    assert "Godfather" in page.locator("#hits .ais-Highlight-highlighted").all_text_contents()
    page.locator("#box input[type=search]").fill("")
    check_screen(page, expected(service))
    page.locator("#country .ais-SearchBox-input").fill("united")
    united = {
        name: count
        for name, count in expected(service)["country"].items()
        if name.startswith("United")
    }
    assert len(united) > 1
    give_up_at = time.monotonic() + SETTLE_SECONDS
    while (shown := page.evaluate(READ)["country"]) != united and time.monotonic() < give_up_at:
        page.wait_for_timeout(20)
    assert shown == united
