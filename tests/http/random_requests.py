"""Random requests: items of strange values, searches that look at them, documents changed.

The catalogue has the requests that we thought of; this has others. Everything is drawn from few
names and few values, so that items, configurations and searches meet.
"""

from __future__ import annotations

import random
from typing import Any, Final

FIELDS: Final = (
    *("a", "b", "a.b", "tags", "n", "é", "x y", "__proto__", "date", "a^2", "a:b", "*"),
)
TEXTS: Final = (
    *(
        "",
        "a",
        "A",
        "star wars",
        "ß",
        "İstanbul",
        "\u202e",
        "\U0001f3ac",
        "e\u0301",
        "\0",
        "\ufeff",
    ),
    *(
        "x" * 700,
        "2020-01-31",
        "2020-02",
        "1",
        "1.0",
        "01",
        "-0",
        "true",
        "null",
        "a b c d",
        "ab\nc",
    ),
    *(
        "“q”",
        "日本語 テスト",
        "กขค",
        "\ud7ff",
        "foo-bar_baz",
        "<b>&amp;</b>",
        "ﬁ",
        "Ⅷ",
        "1e999",
        " ",
    ),
    *(
        "\u0301",
        "don't",
        "C++",
        "a@b.c",
        "year:desc",
        "NOT a = 1",
        '"',
        "tags IN [a",
        "_score",
        "^1",
    ),
)
NUMBERS: Final = (
    *(0, 1, -1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, -0.0, 1e-320),
    *(1e308, -1e308, 5e-324, 1.7976931348623157e308, 1e22, 123456789012345678, 0.1, 1e300, 7),
)
PARAMETERS: Final = (
    *("query", "filters", "not_filters", "filter", "sort", "sort_field", "order", "facets"),
    *("facet_fields", "facet_ranges", "facet_mode", "cursor", "distinct", "highlight", "snippet"),
    *("show", "partial", "per_page", "page", "match", "prefix", "typo", "search_fields", "fields"),
    *("name", "facet_query", "search_query", "searches", "index", "ids", "id", "aggregations"),
    *("searchable_fields", "synonyms", "stop_words", "language", "ranking", "gte", "lt", "any"),
    *("none", "all", "exists", "field", "limit", "interval", "from", "to", "size", "stats"),
)
INDEX: Final = "chance"


class RandomRequests:
    """Draws requests.

    Args:
        seed: of everything.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._facets: list[str] = []

    # --- items and searches that are right

    def item(self) -> dict[str, Any]:
        """Return an item with one of few ids."""
        r = self._random
        names = r.sample(FIELDS, r.randrange(len(FIELDS)))
        return {**{name: self._value() for name in names}, "id": r.randrange(200)}

    def configuration(self) -> dict[str, Any]:
        """Return a configuration; searches ask for its facets from now on."""
        r = self._random
        self._facets = r.sample(FIELDS, 4)
        return {
            "aggregations": {
                name: {
                    "conjunction": r.random() < 0.5,
                    "size": r.choice((1, 10)),
                    "show_facet_stats": r.random() < 0.5,
                    "sort": r.choice(("count", "term", ["selected", "count"])),
                }
                for name in self._facets
            },
            "hierarchies": {
                "tree": {"path": self._facets[0], "separator": r.choice((" ", "a", " > "))},
                "steps": {"levels": self._facets[1:3]},
            },
            "searchable_fields": r.choice((["*"], r.sample(FIELDS[:5], 3))),
        }

    def search(self) -> dict[str, Any]:
        """Return a search, which may be refused for what it says of fields."""
        r = self._random
        chances: tuple[tuple[float, str, Any], ...] = (
            (0.6, "query", lambda: " ".join(self._term() for _ in range(r.randrange(1, 4)))),
            (0.4, "filters", lambda: {self._field(): self._condition(), **self._nodes()}),
            (0.2, "not_filters", lambda: {self._field(): self._condition()}),
            (0.3, "sort", lambda: [self._field() + r.choice(("", ":desc", ":asc:missing=first"))]),
            (0.3, "facet_fields", lambda: r.sample(self._facets, 2)),
            (0.3, "facet_ranges", lambda: {self._field(): self._ranges()}),
            (0.2, "distinct", lambda: {"field": self._field(), "limit": 2}),
            (0.2, "highlight", lambda: {"fields": [self._field()]}),
            (0.2, "snippet", lambda: {"fields": [self._field() + ":3"]}),
            (0.2, "show", lambda: ["score_details"]),
            (0.2, "match", lambda: r.choice(("all", "any", "2", "50%"))),
            (0.2, "typo", lambda: r.choice((0, 1, 2))),
            (0.2, "facet_mode", lambda: "strict"),
            (0.4, "trees", lambda: {"tree": {"open": [self._node()]}, "steps": {}}),
            (0.1, "facet_cube", lambda: {"field": self._field(), "edges": [-1, 0, 1e300]}),
            (0.1, "boost", lambda: {self._field(): {"log": 0.3}}),
            (0.1, "min_score", lambda: r.choice((0, 1, 1e11))),
            (0.3, "per_page", lambda: r.choice((0, 1, 1000))),
            (0.2, "page", lambda: r.choice((1, 2, 9_999_999))),
        )
        return {name: draw() for chance, name, draw in chances if r.random() < chance}

    def facet(self) -> dict[str, Any]:
        """Return a request for a page of a facet."""
        r = self._random
        texts = {"facet_query": r.choice(TEXTS)[:50], "search_query": r.choice(TEXTS)[:50]}
        return {"name": r.choice(self._facets), **texts}

    # --- what is wrong somewhere

    def changed(self, document: Any) -> Any:
        """Return a document with something in it, at any depth, put in, left out or replaced."""
        r = self._random
        if isinstance(document, dict) and document and r.random() < 0.75:
            result = dict(document)
            name = r.choice(list(result))
            chance = r.random()
            if chance < 0.6:
                result[name] = self.changed(result[name])
            elif chance < 0.7:
                del result[name]
            else:
                result[r.choice(PARAMETERS)] = self._value()
            return result
        if isinstance(document, list) and document and r.random() < 0.75:
            at = r.randrange(len(document))
            return [*document[:at], self.changed(document[at]), *document[at:]]
        return self._value()

    # --- pieces

    def _value(self, depth: int = 0) -> Any:
        r = self._random
        chance = r.random()
        if chance < 0.35:
            return r.choice(TEXTS)
        if chance < 0.65 or depth == 3:
            return r.choice(NUMBERS)
        if chance < 0.72:
            return r.choice((True, False, None))
        if chance < 0.88:
            return [self._value(depth + 1) for _ in range(r.choice((0, 1, 2, 3, 20)))]
        names = r.sample((*FIELDS, *PARAMETERS), r.randrange(4))
        return {name: self._value(depth + 1) for name in names}

    def _field(self) -> str:
        return self._random.choice((*FIELDS, "id", "absent"))

    def _term(self) -> str:
        text = self._random.choice(TEXTS)
        return self._random.choice((text, f'"{text}"', f"-{text}", text[:2]))

    def _condition(self) -> Any:
        r = self._random
        return r.choice(
            (
                [r.choice(TEXTS), r.choice(NUMBERS)],
                {"gte": r.choice((*NUMBERS, *TEXTS[:8]))},
                {"lt": r.choice(NUMBERS), "gte": r.choice(NUMBERS)},
                {"exists": r.random() < 0.5},
                {"any": [r.choice(TEXTS)], "none": [r.choice(NUMBERS)]},
            )
        )

    def _nodes(self) -> dict[str, Any]:
        """Return chosen nodes of a tree, by its name."""
        r = self._random
        return {r.choice(("tree", "steps")): [self._node()]} if r.random() < 0.5 else {}

    def _node(self) -> str:
        r = self._random
        return r.choice(("", "a", " a", "star wars", r.choice(TEXTS)[:300]))

    def _ranges(self) -> Any:
        r = self._random
        return r.choice(
            (
                {"interval": r.choice((1, 0.1, 1e-320, 1e299, 1e-300, 2**53))},
                {"calendar": r.choice(("year", "month", "day"))},
                [{"from": r.choice(NUMBERS)}, {"to": r.choice(NUMBERS)}],
            )
        )
