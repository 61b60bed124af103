"""Random indexes, writes and searches: the service against the naive model, on 1, 2, 3, 5 shards.

Every example configures one index on every cluster, applies the same writes and asks the same
questions. Three things are compared:

- with the oracle: what matches, totals, buckets, statistics, order by fields and insertion;
- over the numbers of shards: the whole answer, byte for byte (but times and request ids);
- single items by id: byte for byte what was stored.

Restarts (kill -9 of everything) come in `test_restart_changes_no_answer`, where every answer must
be the same bytes before and after.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.cluster.conftest import Index, Services
from tests.oracle.distinct import distinct_of, distinct_value, group_of
from tests.oracle.engine import Found, Oracle
from tests.oracle.items import Item, compact
from tests.oracle.orders import kind_and_value, sort_keys_of
from tests.service import Service

SHARD_COUNTS = (1, 2, 3, 5)
_numbers = itertools.count()
Model = TypeVar("Model", bound=Oracle)

# --- what is made up ------------------------------------------------------------------------------

WORDS = re.findall(
    r"\S+",
    """
    sea seal seals search searching green grene mile miles smile film films filmed a i 7 se7en
    iphone8 iphones iphone mode2 model 8 seagreen milesea half halflife 20000 20,000
    and 2 II two saint St. St
    chocolate chocolates chocolade straße strasse café cafe naïve don't half-life x1 X1 été
    東京 東京都 京都 京 トウキョウ 寺
    """,
)
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
keys = st.sampled_from(["drama", "Drama", "crime", "é", "ﬁ", "1", "1.0", "true", "", "a b", "京"])
numbers = st.integers(-3, 3) | st.sampled_from(
    [0.5, -0.0, 1.0, 1e21, 1e-7, 2**53, 2**53 + 1, 2**64 - 1, -(2**63), 0.1 + 0.2, 1e300]
)
scalars = st.none() | st.booleans() | numbers | keys
nested = st.lists(scalars, max_size=3) | st.dictionaries(
    st.sampled_from(["b", "c"]), scalars, max_size=2
)
values = st.one_of(scalars, scalars, nested, st.lists(scalars | nested, max_size=4))
objects = st.fixed_dictionaries({"b": values}) | values
ids = st.integers(0, 12) | st.integers(0, 12).map(str) | st.sampled_from(["x", "é", "a/b", "007"])
FIELDS = ("f", "g", "o", "t", "u")
SUMMARIES = ("cardinality", "percentiles", "missing")


@st.composite
def items(draw: st.DrawFn, *, has_id: bool | None = None) -> Item:
    item: Item = {}
    if draw(st.booleans()) if has_id is None else has_id:
        item["id"] = draw(ids)
    for name in draw(st.lists(st.sampled_from((*FIELDS, "o.b")), unique=True)):
        item[name] = draw(texts if name in ("t", "u") else objects if name == "o" else values)
    return item


facet_settings = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(1, 4),
        "conjunction": st.booleans(),
        "hide_zero_doc_count": st.booleans(),
        "chosen_filters_on_top": st.booleans(),
        "show_facet_stats": st.booleans(),
        "sort": st.sampled_from(
            ["count", "term", "key", ["selected", "key"], ["count:asc"], ["key:desc"]]
        ),
        "order": st.sampled_from(["asc", "desc"]),
    },
)
configurations: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"aggregations": st.dictionaries(st.sampled_from(["f", "g", "o.b", "t"]), facet_settings)},
    optional={
        "searchable_fields": st.sampled_from([["t"], ["t^3", "u"], ["f", "o.b"], ["t^3", "*"]]),
        "sorting_fields": st.sampled_from([["f"], ["t", "g"]]),
        "typo_lengths": st.sampled_from([[4, 8], [3, 5], [6, 100]]),
        "infix": st.sampled_from([True, ["t"], ["u", "f"]]),
        "field_typo_lengths": st.sampled_from([{"t": "none"}, {"t": [4, 6], "f": "none"}]),
        "synonyms": st.sampled_from(
            [
                [["sea", "film"], ["green mile", "iphone", "sea seal"]],
                {"green sea": ["smile"], "search": ["green mile", "model"], "mile": ["sea green"]},
            ]
        ),
        "collation": st.sampled_from(["de", "root+numeric"]),
        "field_collations": st.sampled_from([{"f": "none"}, {"t": "de+numeric", "g": "en"}]),
    },
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Words, cut off, misspelt, quoted, excluded."""
    pieces = []
    for _ in range(draw(st.integers(0, 3))):
        word = draw(st.sampled_from(WORDS))
        match draw(st.integers(0, 6)):
            case 0:
                word = word[: draw(st.integers(1, len(word)))]
            case 1:
                at = draw(st.integers(0, len(word) - 1))
                word = word[:at] + draw(st.sampled_from("aes")) + word[at + 1 :]
            case 2 if word.isascii():
                word = f'"{word} {draw(st.sampled_from(["sea", "green", "mile"]))}"'
            case 2:
                word = f'"{word}"'
            case 3 if word.isalnum():
                word = f"-{word}"
        pieces.append(word)
    return " ".join(pieces)


wanted_values = st.lists(keys | numbers | st.booleans(), max_size=3)
conditions = wanted_values | st.one_of(
    st.fixed_dictionaries({"gte": numbers}, optional={"lt": numbers}),
    st.fixed_dictionaries({"gt": keys.filter(bool)}, optional={"lte": keys.filter(bool)}),
    st.fixed_dictionaries({}, optional={"any": wanted_values, "all": wanted_values,
                                        "none": wanted_values, "exists": st.booleans()}),
)  # fmt: skip


boosts = st.dictionaries(
    st.sampled_from(["f", "g", "o.b"]),
    st.sampled_from(
        [{"linear": 2}, {"log": 0.5}, {"saturation": 2, "weight": 3}, {"decay": 2, "origin": 1}]
    ),
    max_size=2,
)


facet_options = st.dictionaries(
    st.sampled_from(["f", "g", "o.b", "o.c", "u"]),
    st.fixed_dictionaries(
        {},
        optional={
            "stats": st.lists(st.sampled_from(["f", "g", "o.b"]), min_size=1, unique=True),
            "collation": st.sampled_from(["none", "fr", "root+numeric"]),
            "cardinality": st.booleans(),
            "percentiles": st.lists(st.integers(0, 100), min_size=1, max_size=3, unique=True),
            "missing": st.booleans(),
        },
    ),
    max_size=2,
)


pins = ids | st.fixed_dictionaries({"id": ids, "position": st.integers(1, 6)})
rules = st.fixed_dictionaries(
    {},
    optional={
        "pin": st.lists(
            pins,
            min_size=1,
            max_size=3,
            unique_by=lambda pin: str(pin["id"] if isinstance(pin, dict) else pin),
        ),
        "hide": st.lists(ids, min_size=1, max_size=2),
        "when": st.sampled_from(
            [
                {},
                {"query": {"contains": "sea"}},
                {"query": "film"},
                {"until": "2020-01-01"},
                {"filters": {"f": "drama"}},
                {"filters": {"f": ["crime"], "g": [1]}},
                {"filters": {"f": True}, "query": {"contains": "sea"}},
            ]
        ),
    },
).filter(lambda rule: "pin" in rule or "hide" in rule)


sort_keys = st.lists(
    st.builds(
        "".join,
        st.tuples(
            st.sampled_from(["f", "g", "t", "o.b"]),
            st.sampled_from(["", ":asc", ":desc"]),
            st.sampled_from(["", "", ":missing=first"]),
        ),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def searches(draw: st.DrawFn, facets: tuple[str, ...]) -> dict[str, Any]:
    filterable = st.sampled_from([*facets, "f", "g"])
    parameters: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {"query": queries()},
            optional={
                "filters": st.dictionaries(filterable, conditions, max_size=2),
                "not_filters": st.dictionaries(filterable, wanted_values, max_size=1),
                "sort_field": st.sampled_from(["f", "g", "t", "o.b"]),
                "order": st.sampled_from(["asc", "desc"]),
                "page": st.integers(1, 3),
                "per_page": st.integers(0, 5),
                "facet_fields": st.lists(st.sampled_from(["f", "g", "nope"]), unique=True),
                "match": st.sampled_from(["all", "any", "last", "auto", "50%", "75%"]),
                "prefix": st.sampled_from(["last", "none", "all"]),
                "typo": st.sampled_from(["auto", 0, 1, 2]),
                "typo_lengths": st.sampled_from([[4, 8], [3, 5]]),
                "infix": st.booleans(),
                "boost": boosts,
                "facets": facet_options,
                "distinct": st.fixed_dictionaries(
                    {"field": st.sampled_from(["f", "g", "t", "o.b"])},
                    optional={
                        "limit": st.integers(1, 3),
                        "sizes": st.booleans(),
                        "facets_by": st.sampled_from(["items", "groups"]),
                    },
                )
                | st.fixed_dictionaries(
                    {
                        "field": st.sampled_from(["f", "g", "o.b"]),
                        "hits": st.integers(1, 4),
                    },
                    optional={"facets_by": st.just("groups")},
                ),
            },
        )
    )
    if "sort_field" not in parameters and draw(st.booleans()):
        parameters.pop("order", None)
        parameters["sort"] = draw(sort_keys)
        if is_text(parameters["query"]):
            parameters["show"] = ["score"]
    if "facets" in parameters and draw(st.booleans()):
        # Of few hits, hardly any facet has numbers.
        parameters["query"] = ""
        parameters.pop("facet_fields", None)
    if "distinct" not in parameters and draw(st.booleans()):
        parameters["rules"] = draw(st.lists(rules, max_size=2))
    if parameters.get("boost") and not is_text(parameters["query"]) and draw(st.booleans()):
        parameters["min_score"] = draw(st.sampled_from([1.2345, 2.3456]))
    return parameters


@dataclass(frozen=True)
class Write:
    """One write request."""

    kind: str
    items: tuple[Item, ...] = ()
    id: Any = None


batches = st.lists(items(), min_size=1, max_size=8)
writes = st.one_of(
    batches.map(lambda batch: Write("put", tuple(batch))),
    batches.map(lambda batch: Write("load", tuple(batch))),
    st.builds(lambda key, item: Write("replace", (item,), key), ids, items(has_id=False)),
    st.builds(lambda key, item: Write("merge", (item,), key), ids, items(has_id=False)),
    st.lists(
        st.builds(lambda key, item: {"id": key, **item}, ids, items(has_id=False)),
        min_size=1,
        max_size=5,
    ).map(lambda batch: Write("merge many", tuple(batch))),
    st.builds(lambda key: Write("delete", (), key), ids),
)

# --- what is compared -----------------------------------------------------------------------------

_VOLATILE = re.compile(
    rb'"timings":\{[^}]*\}|"request_id":"[^"]*"|"took_us":[0-9]+|"shards":\{[^}]*\}|"seq":[0-9]+'
)


def stable(body: bytes) -> bytes:
    """Return an answer without what may differ between two runs of one question."""
    return _VOLATILE.sub(b"", body)


def dump(item: Item) -> bytes:
    return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()


def send(index: Index, write: Write) -> int:
    """Send a write; return the status."""
    path = "items/" + quote(str(write.id), safe="")
    match write.kind:
        case "put":
            body = b"[" + b",".join(map(dump, write.items)) + b"]"
            return index.client.request(
                "POST", f"{index.path}/items", body, {"content-type": "application/json"}
            ).status
        case "load":
            return index.load(b"\n".join(map(dump, write.items))).status
        case "replace":
            return index.post(f"{path}/update", write.items[0]).status
        case "merge":
            return index.post(f"{path}/partial", write.items[0]).status
        case "merge many":
            body = b"[" + b",".join(map(dump, write.items)) + b"]"
            json_type = {"content-type": "application/json"}
            reply = index.client.request("PATCH", f"{index.path}/items", body, json_type)
            assert reply.json["updated"] + reply.json["rejected"] == len(write.items)
            return reply.status
        case _:
            return index.client.delete(f"{index.path}/{path}").status


def apply(oracle: Oracle, write: Write) -> int:
    """Apply a write to the model; return the status that the service must answer."""
    match write.kind:
        case "put" | "load":
            oracle.put(write.items)
            return 200
        case "replace":
            return 200 if oracle.replace(write.id, write.items[0]) else 404
        case "merge":
            return 200 if oracle.merge(write.id, write.items[0]) else 404
        case "merge many":
            for item in write.items:
                fields = {name: value for name, value in item.items() if name != "id"}
                oracle.merge(item["id"], fields)
            return 200
        case _:
            return 200 if oracle.delete(write.id) else 404


def check(answer: Any, found: Found, parameters: dict[str, Any]) -> None:
    """Compare an answer with what the model found."""
    assert answer["pagination"]["total"] == found.total
    page = answer["data"]["items"]
    scores = [item.pop("_score", None) for item in page]
    check_groups(page, found, parameters)
    if parameters["query"] and found.total and is_text(parameters["query"]):
        # Relevance is not modelled: the right number of items, all of which match.
        check_order(page, scores, found, parameters)
        matching = [compact(item) for item in found.matching]
        assert len(page) == len(found.items)
        assert all(compact(item) in matching for item in page)
        if "distinct" in parameters:
            assert distinct_of(page, **parameters["distinct"]) == page
    else:
        assert page == found.items
    shown = {
        name: [(one["key"], one["doc_count"], one["selected"]) for one in facet["buckets"]]
        for name, facet in answer["data"]["aggregations"].items()
    }
    assert shown == found.facets
    for name, by_key in found.by_value.items():
        buckets = answer["data"]["aggregations"][name]["buckets"]
        assert {one["key"]: one["stats"] for one in buckets} == by_key
    for name, summary in found.summaries.items():
        facet = answer["data"]["aggregations"][name]
        assert {one: facet[one] for one in SUMMARIES if one in facet} == summary
    for name, stats in found.stats.items():
        facet_stats = answer["data"]["aggregations"][name].get("facet_stats")
        if stats is None:
            assert not facet_stats or facet_stats["count"] == 0
        else:
            assert facet_stats == pytest.approx(stats)


def check_order(
    page: list[Item], scores: list[float | None], found: Found, parameters: dict[str, Any]
) -> None:
    """Compare the values that hits are sorted by; scores, and then insertion, break ties."""
    names = [key.name for key in sort_keys_of(parameters)]
    orders = [[kind_and_value(item, name) for name in names] for item in page]
    assert orders == [[kind_and_value(item, name) for name in names] for item in found.items]
    places: dict[str, list[int]] = {}
    for place, item in enumerate(found.matching):
        places.setdefault(compact(item), []).append(place)
    rows = zip(orders, scores, [places[compact(item)] for item in page], strict=True)
    for (order, score, some), (next_order, next_score, others) in itertools.pairwise(rows):
        if order == next_order and score is not None and next_score is not None:
            assert score >= next_score
            assert score > next_score or min(some) < max(others)


def check_groups(page: list[Item], found: Found, parameters: dict[str, Any]) -> None:
    """Compare the groups of the items of a page, and take them away."""
    distinct = parameters.get("distinct") or {}
    wants_hits = distinct.get("hits", 0)
    for item in page:
        group = item.pop("_group", None)
        if not (wants_hits or distinct.get("sizes")):
            assert group is None
            continue
        for one in group.get("items", ()):
            one.pop("_score", None)
        same = group_of(found.matching, item, distinct["field"])
        assert group["size"] == len(same)
        if not wants_hits:
            assert "items" not in group
        elif is_text(parameters["query"]):
            shown = [compact(one) for one in group["items"]]
            assert shown[0] == compact(item)
            assert len(shown) == min(wants_hits, len(same))
            assert not Counter(shown) - Counter(map(compact, same))
        else:
            assert group["items"] == same[:wants_hits]


def is_text(query: str) -> bool:
    return any(character.isalnum() for character in query)


def asked(index: Index, parameters: dict[str, Any]) -> bytes:
    """Return the body of the answer to a search."""
    reply = index.post("search", parameters)
    if reply.status == 400:
        # A field that no item has a value in cannot be filtered, sorted or boosted by.
        codes = (
            *("unknown_facet", "unknown_sort_field", "invalid_distinct", "invalid_facets"),
            "invalid_boost",
        )
        assert reply.json["error"]["code"] in codes, reply.body
    else:
        assert reply.status == 200, reply.body
    return reply.body


def walked(index: Index, parameters: dict[str, Any]) -> list[Item]:
    """Return all hits of a search, page by page with cursors."""
    parameters = {**parameters, "cursor": "*", "per_page": 2}
    parameters.pop("page", None)
    found = []
    while parameters["cursor"] is not None:
        answer = index.search(**parameters)
        for item in answer["data"]["items"]:
            item.pop("_group", None)
            item.pop("_score", None)
            found.append(item)
        parameters["cursor"] = answer["pagination"].get("cursor")
    return found


class TwinIndexes(Generic[Model]):
    """The same index on clusters of different numbers of shards, and its model."""

    def __init__(self, services: Services, oracle: Model, configuration: dict[str, Any]) -> None:
        name = f"oracle-{next(_numbers)}"
        self.indexes = [Index(services(count).client(), name) for count in SHARD_COUNTS]
        self.oracle = oracle
        for index in self.indexes:
            assert index.configure(configuration).status == 200

    def close(self) -> None:
        for index in self.indexes:
            index.client.delete(index.path)
            index.client.close()

    def write(self, write: Write) -> None:
        status = apply(self.oracle, write)
        assert [send(index, write) for index in self.indexes] == [status] * len(self.indexes)


class Twins(TwinIndexes[Oracle]):
    """With searches over all that the model knows, and changes of the configuration."""

    def __init__(self, services: Services, configuration: dict[str, Any]) -> None:
        super().__init__(services, Oracle(configuration), configuration)

    def configure(self, configuration: dict[str, Any]) -> None:
        self.oracle.configure(configuration)
        for index in self.indexes:
            assert index.configure(configuration).status == 200

    def search(self, parameters: dict[str, Any]) -> None:
        bodies = [asked(index, parameters) for index in self.indexes]
        assert len({stable(body) for body in bodies}) == 1, [stable(body) for body in bodies]
        answer = json.loads(bodies[0])
        found = self.oracle.search(**parameters)
        field = parameters.get("distinct", {}).get("field")
        if "error" not in answer:
            check(answer, found, parameters)
            if field is not None and not is_text(parameters["query"]):
                for index in self.indexes:
                    assert walked(index, parameters) == found.left
        elif answer["error"]["code"] == "invalid_distinct" and not (
            parameters["distinct"].get("facets_by") == "groups"
            and set(parameters.get("facets", ())) - set(self.oracle.facet_settings)
        ):
            # A field that only has empty texts has no value yet.
            found_values = set().union(
                *(distinct_value(item, field) for item in self.oracle.items.values())
            )
            assert found_values <= {("str", "")}

    def facet(self, name: str, parameters: dict[str, Any]) -> None:
        replies = [index.post("facet", {"name": name, **parameters}) for index in self.indexes]
        assert len({stable(reply.body) for reply in replies}) == 1
        assert replies[0].status == 200, replies[0].body
        total, buckets = self.oracle.facet(name, **parameters)
        answer = replies[0].json
        shown = [(b["key"], b["doc_count"], b["selected"]) for b in answer["data"]["buckets"]]
        assert (answer["pagination"]["total"], shown) == (total, buckets)

    def get(self, key: Any) -> None:
        item = self.oracle.items.get(str(key))
        for index in self.indexes:
            reply = index.get("items/" + quote(str(key), safe=""))
            assert reply.status == (404 if item is None else 200)
            assert item is None or reply.json == item


# Shrinking takes as long as a test may; the drawn data says enough.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.timeout(3_600)
@settings(max_examples=settings().max_examples // 6, phases=_PHASES)
@given(st.data())
def test_service_says_what_the_oracle_says(
    services_of_all_ways: Services, data: st.DataObject
) -> None:
    configuration = data.draw(configurations)
    twins = Twins(services_of_all_ways, configuration)
    try:
        for _ in range(data.draw(st.integers(1, 4), "rounds")):
            for write in data.draw(st.lists(writes, min_size=1, max_size=5), "writes"):
                twins.write(write)
            if data.draw(st.integers(0, 3)) == 0:
                configuration = data.draw(configurations, "new configuration")
                twins.configure(configuration)
            facets = tuple(configuration["aggregations"])
            for parameters in data.draw(st.lists(searches(facets), min_size=1, max_size=5)):
                note(f"search {parameters}")
                twins.search(parameters)
            for name in facets:
                twins.facet(name, data.draw(facet_pages, "facet page"))
            twins.get(data.draw(ids))
    finally:
        twins.close()


POOLS: tuple[tuple[Any, ...], ...] = (
    ("drama", "Drama", "crime", "é", "a b"),
    (0, 1, 2, -3, 0.5),
    (2**53, 2**53 + 1, 2**64 - 1, -(2**63), 1),
    (True, False),
    (1, "1", 1.0, True, "true", "", -0.0, 0),
    ("drama", ["crime", "drama"], [], ["é"], None),
)
"""What the items of an index have in one field: values that are alike, or of all kinds."""
WORDS_OF_MANY = ("sea", "seal", "green", "mile", "film", "i", "iphone8", "2", "café", "chocolate")


def many_items(chance: random.Random) -> list[Item]:
    """Return so many items that a page shows few of them."""
    pools = {name: chance.choice(POOLS) for name in ("f", "g", "b")}
    items = []
    for number in range(60):
        words = chance.choices(WORDS_OF_MANY, k=chance.randint(0, 6))
        item: Item = {"id": number, "t": " ".join(words)}
        item |= {name: chance.choice(pools[name]) for name in ("f", "g") if chance.random() < 0.9}
        items.append(item | {"o": {"b": chance.choice(pools["b"])}})
    return items


def search_of_many(chance: random.Random) -> dict[str, Any]:
    """Return a search whose ways depend on how many hits it has."""
    words = chance.choices((*WORDS_OF_MANY, "smile"), k=chance.choice((0, 1, 2, 3, 4, 5)))
    parameters: dict[str, Any] = {
        "query": " ".join(words),
        "match": chance.choice(("any", "any", "50%", "75%", "last", "all")),
        "typo": chance.choice((0, "auto")),
        "prefix": chance.choice(("none", "last")),
        "per_page": chance.randint(1, 4),
    }
    directions = ("", ":desc", ":missing=first", ":desc:missing=first")
    names = chance.sample(("f", "g", "o.b"), chance.randint(1, 3))
    choices: tuple[tuple[float, dict[str, Any]], ...] = (
        (0.2, {"page": 2}),
        (0.6, {"sort": [name + chance.choice(directions) for name in names]}),
        (0.5, {"show": ["score"]} if words else {}),
        (0.2, {"filters": {"g": chance.choice(([1, "1"], ["drama"], [True, 2]))}}),
        (0.2, {"distinct": {"field": chance.choice(names), "facets_by": "groups"}}),
        (0.1, {"distinct": {"field": chance.choice(names), "limit": 2}}),
        (0.3, {"facets": {"g": {"missing": True}, "f": {"cardinality": True, "missing": True}}}),
    )
    for probability, more in choices:
        if chance.random() < probability:
            parameters |= more
    return parameters


@pytest.mark.timeout(3_600)
@settings(max_examples=settings().max_examples // 8, phases=_PHASES)
@given(st.data(), st.randoms(use_true_random=True))
def test_pages_show_few_of_many_items(
    services_of_all_ways: Services, data: st.DataObject, chance: random.Random
) -> None:
    items = many_items(chance)
    twins = Twins(services_of_all_ways, data.draw(configurations))
    try:
        for first in range(0, len(items), 20):
            twins.write(Write("load", tuple(items[first : first + 20])))
        has_updates = data.draw(st.booleans(), "updates")
        for number in chance.sample(range(len(items)), 6):
            again = {**chance.choice(items), "id": number}
            is_updated = has_updates and number % 2
            twins.write(Write("put", (again,)) if is_updated else Write("delete", (), number))
        for _ in range(20):
            parameters = search_of_many(chance)
            note(f"search {parameters}")
            twins.search(parameters)
    finally:
        twins.close()


facet_pages = st.fixed_dictionaries(
    {},
    optional={
        "page": st.integers(1, 2),
        "per_page": st.integers(1, 5),
        "query": st.sampled_from(
            [
                "*",
                "d*",
                "*a",
                "DRAMA",
                "*r*m*",
                "true",
                "é",
                "a *",
                "d *",
                "* b",
                "* a",
                "* *",
                "a * b",
            ]
        ),
        "facet_query": st.sampled_from(["dra", "cri", "b", "drana", "1"]),
        "search_query": queries(),
    },
)


@settings(max_examples=2, phases=_PHASES)
@given(st.data())
def test_restart_changes_no_answer(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Kill everything at any time: the same command brings every answer back, byte for byte."""
    configuration = data.draw(configurations)
    questions = data.draw(st.lists(searches(tuple(configuration["aggregations"])), max_size=6))
    folder = tmp_path_factory.mktemp("restart")
    with Service(folder / "data", 2) as service:
        index = Index(service.client(), "kept")
        oracle = Oracle(configuration)
        index.configure(configuration)
        for _ in range(2):
            for write in data.draw(st.lists(writes, min_size=3, max_size=12)):
                assert send(index, write) == apply(oracle, write)
            before = [stable(asked(index, parameters)) for parameters in questions]
            index.client.close()
            service.restart()
            index = Index(service.client(), "kept")
            after = [stable(asked(index, parameters)) for parameters in questions]
            assert after == before
            for parameters in questions:
                answer = json.loads(asked(index, parameters))
                if "error" not in answer:
                    check(answer, oracle.search(**parameters), parameters)
        index.client.close()
