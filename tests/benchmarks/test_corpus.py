"""The corpus has the promised shape, and the brute-force results about it are right."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus import FACETS, Shape, generate, lines, words, write
from benchmarks.queries import CLASSES, Query, make_queries
from benchmarks.truth import Answer, TruthTeller, TypoRule, differences, edits

SHAPE = Shape(num_words=2_000, num_brands=40, num_categories=12, num_tags=60, num_countries=8)
NUM_ITEMS = 400


@pytest.fixture(scope="module")
def items() -> list[dict[str, Any]]:
    return [json.loads(line) for part in generate(SHAPE, NUM_ITEMS) for line in lines(SHAPE, part)]


@pytest.fixture(scope="module")
def queries() -> dict[str, list[Query]]:
    return make_queries(SHAPE, NUM_ITEMS, count=8)


def test_a_smaller_corpus_is_a_prefix_of_a_larger_one(items: list[dict[str, Any]]) -> None:
    fewer = [line for part in generate(SHAPE, 7) for line in lines(SHAPE, part)]
    assert [json.loads(line) for line in fewer] == items[:7]


def test_no_word_is_a_prefix_of_another() -> None:
    ordered = sorted(words(SHAPE))
    assert len(set(ordered)) == SHAPE.num_words
    assert not any(b.startswith(a) for a, b in itertools.pairwise(ordered))


def test_items_have_all_fields_and_no_repeated_tags(items: list[dict[str, Any]]) -> None:
    assert [item["id"] for item in items] == list(range(1, NUM_ITEMS + 1))
    for item in items:
        assert 3 <= len(item["title"].split()) <= 8
        assert 20 <= len(item["description"].split()) <= 60
        assert len(set(item["tags"])) == len(item["tags"]) >= 1
        assert {"brand", "category", "country", "price", "year", "in_stock"} <= set(item)


def naive(query: Query, items: list[dict[str, Any]], rule: TypoRule | None = None) -> Answer:
    """Answer from the JSON, with loops: shares no line with `TruthTeller`."""
    known = {word for item in items for word in f"{item['title']} {item['description']}".split()}

    def has_word(item: dict[str, Any], word: str, *, is_last: bool) -> bool:
        meant = {word}
        if query.num_typos:
            meant |= edits(word, transposes=True) & known
            if rule is not None and rule.keeps_first_letter and word in known:
                meant = {one for one in meant if one[0] == word[0]}
        has = set(f"{item['title']} {item['description']}".split())
        if query.is_prefix and is_last:
            return any(w.startswith(word) for w in has)
        return bool(meant & has)

    def values(item: dict[str, Any], name: str) -> list[str]:
        return list(item[name]) if name == "tags" else [item[name]]

    def passes(item: dict[str, Any], without: str | None = None) -> bool:
        typed = query.text.split()
        if query.is_phrase:
            fields = (item["title"], item["description"])
            has_text = any(f" {query.text} " in f" {text} " for text in fields)
        else:
            has_text = all(
                has_word(item, w, is_last=i == len(typed) - 1) for i, w in enumerate(typed)
            )
        in_range = all(low <= item[n] <= high for n, (low, high) in query.ranges.items())
        return (has_text and in_range) and all(
            set(values(item, name)) & set(wanted)
            for name, wanted in query.filters.items()
            if name != without
        )

    def count(name: str) -> list[tuple[str, int]]:
        counts: dict[str, int] = {}
        for item in items:
            if passes(item, name if query.is_disjunctive else None):
                for value in values(item, name):
                    counts[value] = counts.get(value, 0) + 1
        return sorted(counts.items(), key=lambda bucket: -bucket[1])[:10]

    if query.item_id is not None:
        return Answer(ids=[item["id"] for item in items if item["id"] == query.item_id])
    hits = [item for item in items if passes(item)]
    if query.sort:
        key = query.sort
        hits.sort(key=lambda item: -float(item[key]))
    if query.distinct:
        hits = list({item[query.distinct]: item for item in reversed(hits)}.values())
        hits.sort(key=lambda item: -float(item[key]))
    start = (query.page - 1) * query.per_page
    page = hits[start : start + query.per_page]
    return Answer(
        total=len(hits),
        facets={name: count(name) for name in query.facets},
        ids=[item["id"] for item in page],
        prices=[item["price"] for item in page],
    )


@pytest.mark.parametrize("class_name", CLASSES)
def test_the_truth_is_what_loops_over_the_json_find(
    class_name: str, items: list[dict[str, Any]], queries: dict[str, list[Query]]
) -> None:
    teller = TruthTeller(SHAPE, NUM_ITEMS)
    assert queries[class_name]
    for query in queries[class_name][:8]:
        assert differences(query, teller.answer(query), naive(query, items)) == []


def test_an_engine_may_keep_the_first_letter_of_known_words(items: list[dict[str, Any]]) -> None:
    teller, rule = TruthTeller(SHAPE, NUM_ITEMS), TypoRule(keeps_first_letter=True)
    known = {word for item in items for word in item["title"].split()}
    near = {
        word
        for word in known
        if any(other[0] != word[0] for other in edits(word, transposes=True) & known)
    }
    assert near
    for word in sorted(near)[:4]:
        query = Query(text=word, num_typos=1)
        assert differences(query, teller.answer(query, rule), naive(query, items, rule)) == []
        assert differences(query, teller.answer(query, rule), naive(query, items)) != []


def test_wrong_answers_are_noticed(items: list[dict[str, Any]]) -> None:
    teller = TruthTeller(SHAPE, NUM_ITEMS)
    query = Query(facets=FACETS, sort="price")
    truth, right = teller.answer(query), naive(query, items)
    assert differences(query, truth, right) == []
    assert differences(query, truth, replace(right, total=3))
    assert differences(query, truth, replace(right, ids=right.ids[1:]))
    assert differences(query, truth, replace(right, prices=right.prices[::-1]))
    key, count = right.facets["tags"][0]
    wrong = {**right.facets, "tags": [(key, count - 1), *right.facets["tags"][1:]]}
    assert differences(query, truth, replace(right, facets=wrong))
    assert differences(query, truth, replace(right, facets={}))


def test_a_file_is_written_once(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus" / "few.ndjson", SHAPE, 3)
    assert len(path.read_text().splitlines()) == 3
    path.write_text("mine")
    assert write(path, SHAPE, 3).read_text() == "mine"
