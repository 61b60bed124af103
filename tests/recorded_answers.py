"""Recorded answers: the same requests to two services, compared byte for byte.

    python -m tests.recorded_answers record  http://localhost:8108 answers.ndjson
    python -m tests.recorded_answers compare http://localhost:8108 answers.ndjson

Recording loads made-up items into an index of its own, sends requests that use every parameter, and
writes each with its status and body. Comparing loads the same items into another service and sends
the requests of the file. Both follow from a seed. So a change that must not change answers (another
layout of the code, another kernel) is recorded before and compared after. Times, cursors, numbers
of groups and of shards, which differ from service to service, are blanked out.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.http.random_requests import RandomRequests

INDEX: Final = "recorded_answers"
NUM_ITEMS: Final = 3_000
NUM_REQUESTS: Final = 1_000
SEED: Final = 1

WORDS: Final = (
    *("sea", "star", "stare", "green", "mile", "night", "knight", "laser", "lasers", "printer"),
    *("blue", "moon", "moonlight", "river", "house", "garden", "gardener", "winter", "wind"),
    *("söderhamn", "naïve", "iphone", "14", "pro", "max", "2020", "smörgås", "北京", "東京都", "x"),
)
BRANDS: Final = tuple(f"brand {letter}" for letter in "abcdefghijkl")
TAGS: Final = tuple(f"tag{number}" for number in range(40))
TREES: Final = ("Home", "Home > Garden", "Home > Garden > Tools", "Home > Kitchen", "Sport > Ball")
SIZES: Final = ("S", "M", "L", "XL")
CONFIGURATION: Final[dict[str, Any]] = {
    "aggregations": {
        "brand": {"size": 5, "conjunction": False, "title": "Brand"},
        "tags": {"size": 10, "sort": ["selected", "count"]},
        "year": {"size": 8, "sort": "term", "show_facet_stats": True},
        "category": {"size": 10},
        "variants.size": {"size": 4, "conjunction": False},
    },
    "searchable_fields": ["title^3", "description", "brand"],
    "nested": ["variants"],
    "hierarchies": {"category": {"path": "category", "separator": " > "}},
    "synonyms": {"moonlight": ["moon light"], "phone": ["iphone"]},
    "stop_words": ["the", "of"],
}

_MOVING: Final = (
    (re.compile(rb'"(took_us|took_ms|took|seq)":[0-9.]+'), rb'"\1":0'),
    (re.compile(rb'"(timings|timings_us|timings_ms|shards)":\{[^}]*\}'), rb'"\1":{}'),
    (re.compile(rb'"(cursor|next_cursor|request_id)":"[^"]*"'), rb'"\1":""'),
)
"""What differs between services, and what stands for it."""


class Recorded(NamedTuple):
    """A request and the answer to it."""

    path: str
    body: Any
    """None: a GET."""
    status: int
    answer: str


class Requests:
    """Draws items and requests.

    Args:
        seed: of everything.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._mistakes = RandomRequests(seed)

    def items(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield items with ids from 0."""
        r = self._random
        for id in range(count):
            item: dict[str, Any] = {
                "id": id if id % 7 else f"item {id}",
                "title": self._text(2, 5),
                "description": f"the {self._text(4, 40)} of {self._text(1, 3)}",
                "brand": r.choice(BRANDS),
                "tags": r.sample(TAGS, r.randrange(5)),
                "price": round(r.lognormvariate(3, 1), 2),
                "year": r.randrange(1990, 2026),
                "released": f"{r.randrange(2015, 2026)}-{r.randrange(1, 13):02}-15",
                "in_stock": r.random() < 0.6,
                "category": r.choice(TREES),
                "variants": [
                    {"size": r.choice(SIZES), "price": r.randrange(5, 200)}
                    for _ in range(r.randrange(4))
                ],
            }
            if r.random() < 0.7:
                item["_geo"] = {"lat": r.uniform(47, 49), "lng": r.uniform(15, 17)}
            if r.random() < 0.8:
                item["popularity"] = r.randrange(10_000)
            yield item

    def requests(self, count: int) -> Iterator[tuple[str, Any]]:
        """Yield paths and bodies; every tenth request or so has a mistake in it."""
        r = self._random
        for _ in range(count):
            route, draw = r.choices(
                (
                    ("search", self.search),
                    ("facet", self.facet),
                    ("suggest", self.suggest),
                    ("explain", self.explain),
                ),
                (80, 10, 6, 4),
            )[0]
            body = draw()
            if r.random() < 0.1:
                body = self._mistakes.changed(body)
            if isinstance(body, dict):
                # A search that runs into its deadline is not the same twice.
                body["timeout_ms"] = r.choice((30_000, 60_000))
            if isinstance(body, dict) and r.random() < 0.2:
                texts = {
                    name: value if isinstance(value, str) else json.dumps(value)
                    for name, value in body.items()
                }
                yield f"/{INDEX}/{route}?{urlencode(texts, errors='surrogatepass')}", None
            else:
                yield f"/{INDEX}/{route}", body

    def search(self) -> dict[str, Any]:
        """Return the parameters of a search."""
        r = self._random
        chances: tuple[tuple[float, str, Any], ...] = (
            (0.6, "query", self._query),
            (0.2, "page", lambda: r.choice((1, 1, 2, 3, 20, 500))),
            (0.4, "per_page", lambda: r.choice((0, 1, 3, 20, 100, 1_000))),
            (0.3, "facet_fields", lambda: r.sample(list(CONFIGURATION["aggregations"]), 2)),
            (0.05, "sort_field", lambda: r.choice(("price", "year", "absent"))),
            (0.3, "sort", self._sort),
            (0.1, "fields", lambda: ["id", "title", "variants.price"]),
            (0.1, "exclude_fields", lambda: ["description", "variants.size"]),
            (0.1, "highlight", lambda: r.choice((True, {"fields": ["title"], "pre": "<b>"}))),
            (0.1, "snippet", lambda: {"fields": ["description:6"]}),
            (0.2, "facets", self._facet_options),
            (0.2, "facet_ranges", self._ranges),
            (0.1, "facet_cube", self._cube),
            (0.1, "trees", lambda: {"category": {"size": 3, "open": ["Home"]}}),
            (0.05, "cursor", lambda: "*"),
            (0.1, "distinct", self._distinct),
            (0.05, "similar_to", lambda: r.randrange(NUM_ITEMS)),
            (0.1, "did_you_mean", lambda: r.random() < 0.5),
            (0.1, "show", lambda: r.sample(("score", "score_details", "elements"), 2)),
            (0.05, "partial", lambda: "allow"),
        )
        drawn = self._drawn((*chances, *self._selecting()))
        if "sort" not in drawn and r.random() < 0.1:
            drawn["order"] = r.choice(("asc", "desc"))
        elif "sort" in drawn:
            drawn.pop("sort_field", None)
        return drawn

    def facet(self) -> dict[str, Any]:
        """Return the parameters of a page of a facet."""
        r = self._random
        chances: tuple[tuple[float, str, Any], ...] = (
            (1.0, "name", lambda: r.choice(("brand", "tags", "year", "category", "absent"))),
            (0.3, "page", lambda: r.choice((1, 2))),
            (0.3, "per_page", lambda: r.choice((3, 50))),
            (0.3, "search_query", self._query),
            (0.2, "query", lambda: r.choice(("*a*", "tag1*", "brand ?"))),
            (0.3, "facet_query", lambda: r.choice(("br", "tag", "hom", "gardn"))),
            (0.3, "hide_zero", lambda: r.random() < 0.5),
            (0.05, "partial", lambda: "allow"),
        )
        return self._drawn((*chances, *self._selecting()))

    def suggest(self) -> dict[str, Any]:
        """Return the parameters of suggestions."""
        r = self._random
        return self._drawn(
            (
                (1.0, "query", lambda: r.choice((self._query(), r.choice(WORDS)[:3]))),
                (0.3, "size", lambda: r.choice((1, 5, 20))),
                (0.3, "filters", self._filters),
                (0.1, "not_filters", lambda: {"brand": [r.choice(BRANDS)]}),
                (0.1, "filter", self._filter),
            )
        )

    def explain(self) -> dict[str, Any]:
        """Return the parameters of an explanation."""
        return {"id": self._random.randrange(NUM_ITEMS), **self.search()}

    def _selecting(self) -> tuple[tuple[float, str, Any], ...]:
        """Return the parameters that say which items are hits."""
        r = self._random
        return (
            (0.4, "filters", self._filters),
            (0.1, "not_filters", lambda: {"brand": [r.choice(BRANDS)]}),
            (0.1, "filter", self._filter),
            (0.3, "match", lambda: r.choice(("all", "any", "last", "50%", "auto"))),
            (0.2, "prefix", lambda: r.choice(("last", "none", "all"))),
            (0.3, "typo", lambda: r.choice(("auto", 0, 1, 2))),
            (0.1, "typo_lengths", lambda: r.choice(([4, 8], [3, 5]))),
            (0.1, "infix", lambda: r.choice((True, False))),
            (0.1, "search_fields", lambda: r.choice((["title"], ["title^2", "description"]))),
            (0.2, "boost", self._boost),
            (0.1, "rules", self._rules),
            (0.1, "min_score", lambda: r.choice((0, 0.5, 3, 1_000))),
            (0.1, "facet_mode", lambda: r.choice(("auto", "strict"))),
        )

    def _drawn(self, chances: tuple[tuple[float, str, Any], ...]) -> dict[str, Any]:
        return {name: draw() for chance, name, draw in chances if self._random.random() < chance}

    def _text(self, low: int, high: int) -> str:
        r = self._random
        # Few words are in most items, as in any language.
        weights = [1 / rank for rank in range(1, len(WORDS) + 1)]
        return " ".join(r.choices(WORDS, weights, k=r.randint(low, high)))

    def _query(self) -> str:
        r = self._random
        text = self._text(1, 3)
        return r.choice(
            (
                text,
                text[:-1],
                text.replace("a", "e", 1),
                f'"{text}"',
                f"{text} -{r.choice(WORDS)}",
                f'{r.choice(WORDS)} "{text}',
                text.replace(" ", ""),
                "the of",
                "",
            )
        )

    def _filters(self) -> dict[str, Any]:
        r = self._random
        choices: tuple[tuple[str, Any], ...] = (
            ("brand", r.sample(BRANDS, 2)),
            ("tags", {"any": r.sample(TAGS, 3), "none": [r.choice(TAGS)]}),
            ("tags", {"all": r.sample(TAGS[:6], 2)}),
            ("tags", {"count": {"gte": 2}}),
            ("price", {"gte": 10, "lt": r.choice((20, 50))}),
            ("year", {"exists": True}),
            ("in_stock", True),
            ("category", ["Home > Garden"]),
            ("variants", {"same": {"size": ["M"], "price": {"lt": 90}}}),
            ("_geo", {"radius": {"lat": 48.2, "lng": 16.4, "metres": 40_000}}),
            ("absent", ["x"]),
        )
        return dict(r.sample(choices, r.choice((1, 1, 2))))

    def _filter(self) -> str:
        return self._random.choice(
            (
                'year >= 2000 AND (tags = tag1 OR tags IN [tag2, "tag3"])',
                "NOT brand = 'brand a'",
                "variants{size = M AND price < 50}",
                "_count(tags) >= 2",
                "_geoBoundingBox([49, 17], [48, 16])",
                "year >=",
            )
        )

    def _sort(self) -> Any:
        return self._random.choice(
            (
                ["price:desc"],
                ["year", "price:desc"],
                ["popularity:desc:missing=first"],
                "title",
                ["_geo(48.2,16.4):asc"],
                ["_score:buckets=5:desc", "price"],
                ["variants.price:desc"],
                {"field": "year", "order": "desc"},
            )
        )

    def _facet_options(self) -> Any:
        return self._random.choice(
            (
                {"brand": {"size": 3, "stats": ["price"]}},
                {"price": {"size": 0, "percentiles": [50, 95]}},
                {"tags": {"size": 100, "missing": True, "cardinality": True}},
                {"released": {}},
            )
        )

    def _ranges(self) -> Any:
        return self._random.choice(
            (
                {"price": [{"to": 10}, {"from": 10, "to": 50}]},
                {"price": {"interval": 25}},
                {"released": {"calendar": "month"}},
                {"price": {"ranges": [{"to": 20}], "missing": True}},
                {"_geo": {"origin": {"lat": 48.2, "lng": 16.4}, "rings": [0, 10_000, 90_000]}},
                {"_geo": {"grid": 6}},
            )
        )

    def _cube(self) -> Any:
        return self._random.choice(
            (
                {"field": "price", "interval": 25},
                {"field": "year", "edges": [1990, 2000, 2010, 2026]},
            )
        )

    def _distinct(self) -> Any:
        return self._random.choice(
            (
                "brand",
                {"field": "year", "limit": 2},
                {"field": "brand", "limit": 1, "sizes": True, "hits": 2},
                {"field": "year", "facets_by": "groups"},
            )
        )

    def _boost(self) -> Any:
        return self._random.choice(
            (
                {"popularity": {"log": 0.3}},
                {"released": {"decay": "900d", "origin": "2025-01-01"}},
                {"_geo": {"decay": 2_000, "origin": {"lat": 48.2, "lng": 16.4}}},
            )
        )

    def _rules(self) -> Any:
        r = self._random
        rule = {
            "name": "sea week",
            "when": {"query": {"contains": "sea"}},
            "pin": [r.randrange(NUM_ITEMS), {"id": r.randrange(NUM_ITEMS), "position": 5}],
            "hide": [r.randrange(NUM_ITEMS)],
            "boost": [{"filter": "in_stock = true", "factor": 3}],
        }
        return r.choice(([], [rule], [{**rule, "when": {}, "bury": ["year < 2000"]}]))


class RecordedService:
    """The service that is asked.

    Args:
        url: its address.
    """

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, path: str, body: Any, method: str | None = None) -> tuple[int, str]:
        """Send a request; return status and body, without what differs from run to run."""
        encoded = None if body is None else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        self._connection.request(method, path, encoded, {"Content-Type": "application/json"})
        reply = self._connection.getresponse()
        content = reply.read()
        for moving, still in _MOVING:
            content = moving.sub(still, content)
        return reply.status, content.decode(errors="backslashreplace")

    def load(self, requests: Requests) -> None:
        """Recreate the index, with items that were updated and deleted, in several segments."""
        self.ask(f"/{INDEX}", None, "DELETE")
        items = list(requests.items(NUM_ITEMS))
        updates = [{**item, "year": 1989} for item in items[::50]]
        deletes = [item["id"] for item in items[::97]]
        self._surely(f"/{INDEX}/configuration", CONFIGURATION)
        for first in range(0, NUM_ITEMS, 400):
            self._surely(f"/{INDEX}/items", items[first : first + 400])
        self._surely(f"/{INDEX}/items", updates)
        self._surely(f"/{INDEX}/items/delete", {"ids": deletes})

    def _surely(self, path: str, body: Any) -> None:
        status, answer = self.ask(path, body)
        if status != 200:
            raise SystemExit(f"{path}: {status} {answer[:500]}")


def record(url: str, file: Path, count: int = NUM_REQUESTS, seed: int = SEED) -> int:
    """Record answers; return how many.

    Args:
        url: of the service.
        file: to write, one JSON object a line.
        count: number of requests.
        seed: of items and requests.
    """
    requests = Requests(seed)
    service = RecordedService(url)
    service.load(requests)
    with file.open("w") as lines:
        lines.write(json.dumps({"seed": seed}) + "\n")
        for path, body in requests.requests(count):
            recorded = Recorded(path, body, *service.ask(path, body))
            lines.write(json.dumps(recorded._asdict()) + "\n")
    service.close()
    return count


def compare(url: str, file: Path) -> list[str]:
    """Send recorded requests to another service; return how its answers differ.

    Args:
        url: of the service.
        file: that `record` wrote.
    """
    differences = []
    with file.open() as lines:
        seed = json.loads(next(lines))["seed"]
        service = RecordedService(url)
        service.load(Requests(seed))
        for line in lines:
            before = Recorded(**json.loads(line))
            status, answer = service.ask(before.path, before.body)
            if (status, answer) != (before.status, before.answer):
                pairs = enumerate(zip(before.answer, answer, strict=False))
                at = next((i for i, (old, new) in pairs if old != new), 0)
                differences.append(
                    f"{before.path} {json.dumps(before.body)}\n"
                    f"  before {before.status} …{before.answer[max(at - 80, 0) : at + 80]}…\n"
                    f"  after  {status} …{answer[max(at - 80, 0) : at + 80]}…"
                )
    service.close()
    return differences


def main(arguments: list[str]) -> int:
    """Run the command line; see the module."""
    if len(arguments) != 3 or arguments[0] not in ("record", "compare"):
        print(__doc__, file=sys.stderr)
        return 2
    command, url, name = arguments
    if command == "record":
        print(f"recorded {record(url, Path(name)):,} answers in {name}")
        return 0
    differences = compare(url, Path(name))
    for difference in differences[:20]:
        print(difference)
    print(f"{len(differences):,} answers differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
