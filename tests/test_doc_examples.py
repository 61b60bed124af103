"""Every request of docs/ is sent to a service with the demo's films, and every answer compared.

A fenced block `http` is a request: a line with method and target, and a JSON body if it has one. A
block `json` after it is what the answer holds at least: objects may have more members, lists more
elements after those shown, and the number of an index depends on how many were made before. A
request without one must be answered with 2xx.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coordinator.parameters.parameter_row import Parameter
from coordinator.parameters.parameter_table import (
    EXPLAIN_PARAMETERS,
    FACET_PARAMETERS,
    SEARCH_PARAMETERS,
    SUGGEST_PARAMETERS,
)
from tests.service import ROOT, Client, Service

PAGES = sorted((ROOT / "docs").rglob("*.md"))
NOT_COMPARED = "index_number"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A request of a page, and what is shown of its answer."""

    method: str
    target: str
    body: bytes | None
    shown: Any


def examples(page: Path) -> Iterator[Example]:
    """Yield the requests of a page, in order."""
    blocks = [match.groups() for match in BLOCK.finditer(page.read_text())]
    for i, (kind, text) in enumerate(blocks):
        if kind != "http":
            continue
        first, _, body = text.partition("\n")
        method, _, target = first.partition(" ")
        follows = blocks[i + 1] if i + 1 < len(blocks) else ("", "")
        shown = json.loads(follows[1]) if follows[0] == "json" else None
        yield Example(method, target, body.strip().encode() or None, shown)


def differences(shown: Any, found: Any, path: str = "answer") -> list[str]:
    """Return where an answer lacks what is shown of it."""
    if isinstance(shown, dict) and isinstance(found, dict):
        missing = [f"{path}.{name} is not there" for name in shown if name not in found]
        return missing + [
            line
            for name in shown
            if name in found and name != NOT_COMPARED
            for line in differences(shown[name], found[name], f"{path}.{name}")
        ]
    if isinstance(shown, list) and isinstance(found, list):
        if len(found) < len(shown):
            return [f"{path} has {len(found)} elements, {len(shown)} are shown"]
        return [
            line
            for i, one in enumerate(shown)
            for line in differences(one, found[i], f"{path}[{i}]")
        ]
    return [] if shown == found else [f"{path} is {found!r}, shown is {shown!r}"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Service(tmp_path_factory.mktemp("docs") / "data", 2) as service:
        films = service.client()
        films.make_films()
        yield films
        films.close()


def encoded(target: str) -> str:
    """Return a target as a client sends it: pages show it unescaped."""
    return target.replace(" ", "%20").replace('"', "%22").replace(">", "%3E").replace("<", "%3C")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_are_true(page: Path, client: Client) -> None:
    check(examples(page), client)


def test_the_shop_page_is_true_of_the_file_that_it_loads(client: Client) -> None:
    """Its first section offers four products in place of the file: both see the same answers."""
    folder = ROOT / "examples" / "shop"
    client.delete("/products")
    client.post("/products/configuration", json.loads((folder / "configuration.json").read_text()))
    client.post_text("/products/index", (folder / "products.ndjson").read_bytes())
    page = ROOT / "docs" / "guides" / "shop-page.md"
    sent = [one for one in examples(page) if one.target != "/products/items"]
    check(sent[1:], client)
    client.delete("/products")


def check(sent: Iterable[Example], client: Client) -> None:
    """Send requests and compare the answers with what is shown of them."""
    for example in sent:
        headers = {"Content-Type": "application/json"} if example.body else {}
        reply = client.request(example.method, encoded(example.target), example.body, headers)
        label = f"{example.method} {example.target}"
        if example.shown is None or "error" not in example.shown:
            assert reply.status < 300, f"{label}: {reply.body!r}"
        if example.shown is not None:
            assert differences(example.shown, reply.json) == [], label


@pytest.mark.parametrize(
    ("page", "parameters"),
    [
        ("search", SEARCH_PARAMETERS),
        ("facet", FACET_PARAMETERS),
        ("suggest", SUGGEST_PARAMETERS),
        ("explain", EXPLAIN_PARAMETERS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_example_of_each_parameter_is_accepted(
    page: str, parameters: tuple[Parameter, ...], client: Client
) -> None:
    # Not "places": a page makes an index of that name.
    places = {"hierarchies": {"place": {"levels": ["country", "language"]}}}
    if client.get("/placed").status == 404:
        assert client.post("/films/copy", {"to": "placed"}).status == 200
        configuration = client.get("/films/configuration").json
        assert client.post("/placed/configuration", configuration | places).status == 200
    needed = {one.name: one.example for one in parameters if one.is_required}
    for one in parameters:
        sent = {**needed, one.name: one.example}
        posted = client.post(f"/placed/{page}", sent)
        assert posted.status == 200, f"{one.name}: {posted.body!r}"
        assert not posted.json.get("meta", {}).get("warnings"), one.name
        assert client.get(f"/placed/{page}", **sent).json["data"] == posted.json["data"], one.name


def test_enough_is_shown() -> None:
    assert sum(len(list(examples(page))) for page in PAGES) > 12
