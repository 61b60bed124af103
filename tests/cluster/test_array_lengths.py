"""An array's texts count together for length, one by one for phrases and for being the query."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import Index, Services, around, index_of_set, lines_of_set

SHARD_COUNTS = (1, 2, 3, 5)
WORDS = ["sea", "star", "rain", "tea", "lamp"]
PLAIN = {"prefix": "none", "typo": 0}


def made_items() -> list[dict[str, Any]]:
    """Items whose names are a text, texts, or texts of objects; some texts have no word."""
    rng = random.Random(9)

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.choice([0, 1, 1, 2, 3, 5])))

    def names() -> Any:
        texts = [text() for _ in range(rng.choice([1, 2, 3, 12]))]
        return rng.choice([text(), texts, [{"full": one} for one in texts]])

    return [{"id": number, "names": names()} for number in range(400)]


ITEMS = made_items()


def occurrences(item: dict[str, Any], word: str) -> set[tuple[str, int, int]]:
    """Return field, frequency and length of each field that has a word."""
    values = item["names"] if isinstance(item["names"], list) else [item["names"]]
    fields: dict[str, list[str]] = {}
    for value in values:
        path, text = ("names.full", value["full"]) if isinstance(value, dict) else ("names", value)
        fields.setdefault(path, []).extend(text.split())
    return {
        (path, words.count(word), len(words)) for path, words in fields.items() if word in words
    }


@pytest.fixture(scope="module")
def indexes(services: Services) -> Iterator[list[Index]]:
    """The same items on 1, 2, 3 and 5 shards, written in pieces of several sizes."""
    made = [Index(services(count).client(), "array-lengths") for count in SHARD_COUNTS]
    for number, index in enumerate(made):
        assert index.configure({"searchable_fields": ["names"]}).status == 200
        size = 50 + 40 * number
        for start in range(0, len(ITEMS), size):
            assert index.put(ITEMS[start : start + size]).status == 200
        assert index.put([{"id": "gone", "names": ["sea"] * 50}]).status == 200
        assert index.client.delete(f"{index.path}/items/gone").status == 200
    yield made
    for index in made:
        index.client.delete(index.path)
        index.client.close()


@pytest.mark.parametrize("word", WORDS)
def test_an_array_is_as_long_as_its_texts_together(indexes: list[Index], word: str) -> None:
    answers = []
    for index in indexes:
        hits = index.search(query=word, per_page=500, show=["score_details"], **PLAIN)
        answers.append([(hit["id"], hit["_score"]) for hit in hits["data"]["items"]])
        for hit in hits["data"]["items"]:
            (part,) = (one for one in hit["_score_details"]["parts"] if one["kind"] == "word")
            assert {
                (one["field"], one["frequency"], one["length"]) for one in part["occurrences"]
            } == occurrences(ITEMS[hit["id"]], word)
    assert len(answers[0]) == sum(bool(occurrences(item, word)) for item in ITEMS)
    assert all(answer == answers[0] for answer in answers[1:])


def test_only_the_one_text_of_a_field_is_taken_for_the_query(index: Index) -> None:
    index.configure({"searchable_fields": ["names"]})
    names: list[Any] = ["green mile", ["green mile"], ["green mile", ""], ["green mile", "x"]]
    names += [["green", "mile"], ["green mile house", "x"]]
    index.put([{"id": number, "names": one} for number, one in enumerate(names)])
    rewarded = {
        hit["id"]
        for hit in index.search(query="green mile", show=["score_details"])["data"]["items"]
        if any(part["kind"] == "whole field" for part in hit["_score_details"]["parts"])
    }
    assert rewarded == {0, 1, 2}


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_large_city_of_many_names_is_found_by_its_own(services: Services, is_whole: bool) -> None:
    """Small towns have the name among few alternate ones; nothing but the texts decides."""
    searched = {"searchable_fields": ["name", "alternate_names"]}
    queries = ("sao paulo", "São Paulo")
    lines = lines_of_set("geonames-cities")
    if not is_whole:
        lines = around(lines, lambda line: b"Sao Paulo" in line or "São Paulo".encode() in line)
    for cities in index_of_set(services, "geonames-cities", "array-cities", searched, lines):
        for query in queries:
            (first,) = cities.search(query=query, per_page=1)["data"]["items"]
            assert (first["name"], first["population"]) == ("São Paulo", 12_400_232)


def test_a_list_of_a_hundred_keywords_does_not_outrank_a_name(services: Services) -> None:
    searched = {"searchable_fields": ["name", "description", "keywords"], "language": "english"}
    for libraries in index_of_set(services, "cdnjs-libraries", "array-libraries", searched):
        for query in ("react", "jquery", "chart"):
            items = libraries.search(query=query, per_page=5)["data"]["items"]
            assert all(query in item["name"].lower() for item in items)
            assert all(item["keyword_count"] <= 10 for item in items)
