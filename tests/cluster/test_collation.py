"""Texts in the order of a language, over shards: sort, cursors, facets, another configuration."""

from __future__ import annotations

import random
import unicodedata
from typing import Any

import pytest

from common.analysis.collation import collator
from tests.cluster.conftest import Index

SWEDISH = ["Ann 2", "Ann 10", "ann 10", "Zorn", "zon", "Åberg", "Ängel", "ängel", "Örn"]
ORDERED = ["Ann 2", "ann 10", "Ann 10", "zon", "Zorn", "Åberg", "ängel", "Ängel", "Örn"]


def names(answer: Any) -> list[str]:
    return [item["name"] for item in answer["data"]["items"]]


def names_by_cursor(index: Index, **parameters: Any) -> list[str]:
    """Return the names of all pages of a search."""
    found: list[str] = []
    cursor: str | None = "*"
    while cursor is not None:
        answer = index.search(cursor=cursor, **parameters)
        found += names(answer)
        cursor = answer["pagination"].get("cursor")
    return found


def keys(answer: Any) -> list[str]:
    return [one["key"] for one in answer["data"]["aggregations"]["tag"]["buckets"]]


def test_texts_are_in_the_order_of_a_language(index: Index) -> None:
    assert index.configure({}).status == 200
    assert index.put([{"name": name} for name in SWEDISH]).status < 300

    # As the request says, and by code points; of several segments, and of new values.
    assert names(index.search(sort="name:collation=sv+numeric")) == ORDERED
    assert names(index.search(sort="name")) == sorted(SWEDISH)
    assert index.put([{"name": "Ann 9"}, {"name": "öl"}]).status < 300
    grown = [ORDERED[0], "Ann 9", *ORDERED[1:-1], "öl", ORDERED[-1]]
    assert names(index.search(sort="name:desc:collation=sv+numeric", per_page=20)) == grown[::-1]

    # Configured: the field is a facet now; cursors go on.
    document = {
        "collation": "sv",
        "field_collations": {"name": "sv+numeric"},
        "aggregations": {"name": {"sort": "term", "size": 20}, "tag": {}},
    }
    assert index.configure(document).status == 200
    assert names_by_cursor(index, sort_field="name", per_page=2) == grown
    assert [key for key, _ in index.buckets("name")] == grown
    assert index.get("configuration", effective="true").json["collation"] == "sv"


def test_long_texts_are_in_the_order_of_a_language(index: Index) -> None:
    """They are ordered on threads, by shards and coordinator."""
    assert index.configure({}).status == 200
    start = "a" * 32_000
    ordered = [f"{start}{last}" for last in ("y", "Z", "å", "Ä", "ö")] + ["b"]
    assert index.put([{"name": name} for name in (*ordered[::2], *ordered[1::2])]).status < 300
    assert index.put([{"name": "A"}]).status < 300
    ordered.insert(0, "A")
    for order, expected in (("asc", ordered), ("desc", ordered[::-1])):
        found: list[str] = []
        for page in (1, 2, 3):
            sort = f"name:{order}:collation=sv"
            found += names(index.search(sort=sort, per_page=3, page=page))
        assert found == expected


def test_values_of_a_facet_are_in_the_order_of_a_language(index: Index) -> None:
    assert index.configure({"aggregations": {"tag": {"size": 9}}, "collation": "de"}).status == 200
    assert index.put([{"tag": [tag]} for tag in ("Öl", "Ofen", "ölig", "Zug", "Å")]).status < 300

    german, swedish = ["Å", "Ofen", "Öl", "ölig", "Zug"], ["Ofen", "Zug", "Å", "Öl", "ölig"]
    assert keys(index.search()) == german  # all counts are equal
    assert keys(index.search(facets={"tag": {"collation": "sv"}})) == swedish
    assert keys(index.search(facets={"tag": {"collation": "none"}})) == sorted(german)
    descending = {"sort": "term", "order": "desc", "collation": "sv", "size": 2}
    assert keys(index.search(facets={"tag": descending})) == ["ölig", "Öl"]
    assert index.put([{"tag": "Ohr"}]).status < 300
    assert keys(index.search()) == ["Å", "Ofen", "Ohr", "Öl", "ölig", "Zug"]
    wrong = index.post("search", {"facets": {"tag": {"collation": "xx"}}})
    assert wrong.status == 400
    assert b"de-phonebook" in wrong.body


@pytest.mark.parametrize("collation", ["de", "vi+numeric", "cs+numeric", "es-traditional"])
def test_the_order_of_a_language_survives_updates(index: Index, collation: str) -> None:
    """Random texts, composed and not, written, replaced and deleted, against the order of keys."""
    rng = random.Random(collation)
    key_of = collator(collation).key_of
    words = ["Ärzte", "arzt", "Ậ", "ân", "ắc", "chata", "hora", "čaj", "llama", "luz", "chico", "ö"]

    def text() -> str:
        typed = f"{rng.choice(words)}{rng.choice(['', ' ', '-'])}{rng.choice(['', 2, 10, '010'])}"
        return unicodedata.normalize(rng.choice(["NFC", "NFD"]), typed)

    index.configure({"collation": collation, "aggregations": {"tag": {"sort": "term", "size": 99}}})
    texts: dict[int, str] = {}
    for _ in range(4):
        new = {rng.randrange(40): text() for _ in range(15)}
        assert (
            index.put([{"id": i, "name": one, "tag": [one]} for i, one in new.items()]).status < 300
        )
        gone = rng.choice(sorted(new))
        assert index.client.delete(f"{index.path}/items/{gone}").status == 200
        texts = {i: one for i, one in (texts | new).items() if i != gone}
        ordered = sorted(texts.values(), key=key_of)
        assert names(index.search(sort="name", per_page=99)) == ordered
        assert names(index.search(sort="name:desc", per_page=99)) == ordered[::-1]
        assert names_by_cursor(index, sort="name", per_page=4) == ordered
        present = [key for key, count in index.buckets("tag") if count]
        assert present == sorted(set(texts.values()), key=key_of)


def test_merged_searches_need_one_collation(index: Index) -> None:
    assert index.configure({}).status == 200
    assert index.put([{"name": name} for name in SWEDISH]).status < 300

    def merged(*sorts: str) -> Any:
        searches = [{"index": index.name, "sort": sort} for sort in sorts]
        return index.client.post("/_search", {"searches": searches, "merge": {"per_page": 20}})

    alike = merged("name:collation=sv+numeric", "name:collation=sv+numeric")
    assert alike.status == 200
    assert names(alike.json)[::2] == ORDERED
    assert merged("name:collation=sv", "name").status == 400
