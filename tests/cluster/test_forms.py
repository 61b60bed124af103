"""Another form of a word counts less where the form was chosen, on any number of shards."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import Index, Services, answers_by_shards

ENGLISH = {"language": "english", "searchable_fields": ["name"]}
NAMES = ["red case", "blue cases", "case lamp", "tidy cases", "green lamp"]
ITEMS = [{"id": i, "name": NAMES[i % len(NAMES)]} for i in range(40)]


def matches(index: Index, query: str, **options: Any) -> dict[str, tuple[str, float]]:
    """Return, by word of the items, how it matches the word case, and how much that counts."""
    shown = {"show": ["score_details"], "per_page": len(ITEMS), "match": "any", **options}
    found: dict[str, tuple[str, float]] = {}
    for item in index.search(query=query, **shown)["data"]["items"]:
        for part in item["_score_details"]["parts"]:
            for one in part.get("occurrences", []):
                found[one["term"]] = (one["match"], one["gain"])
    typed = max(gain for _, gain in found.values())
    return {term: (match, gain / typed) for term, (match, gain) in found.items()}


def test_in_a_query_of_one_or_two_words_other_forms_count_less(index: Index) -> None:
    assert index.configure(ENGLISH).status == 200
    assert index.put(ITEMS).status < 300
    # All names have two words, so gains differ by the factors of the forms alone.
    chosen = {"cases": ("exact", 1.0), "case": ("stem", pytest.approx(0.4))}
    assert matches(index, "cases") == chosen
    assert matches(index, "nothing cases") == chosen  # words that no item has were typed as well
    in_a_sentence = {"cases": ("exact", 1.0), "case": ("stem", pytest.approx(0.75))}
    assert matches(index, "all the cases") == in_a_sentence
    assert matches(index, '"all the" cases') == in_a_sentence
    assert matches(index, "cases -all -the") == chosen


def test_a_form_that_the_last_word_may_still_become_counts_as_ever(index: Index) -> None:
    assert index.configure(ENGLISH).status == 200
    assert index.put(ITEMS).status < 300
    open_word = {"case": ("exact", 1.0), "cases": ("completion stem", pytest.approx(0.75))}
    assert matches(index, "case") == open_word
    assert matches(index, "all the case") == open_word
    closed = {"case": ("exact", 1.0), "cases": ("stem", pytest.approx(0.4))}
    assert matches(index, "case!") == closed
    assert matches(index, "case", prefix="none") == closed


def test_the_typed_form_comes_first_and_all_forms_are_found_and_marked(index: Index) -> None:
    assert index.configure(ENGLISH).status == 200
    items = [{"id": 1, "name": "case case tidy"}, {"id": 2, "name": "tidy green cases"}]
    assert index.put(items).status < 300
    assert index.ids(query="tidy cases") == [2, 1]
    reply = index.search(query="case", highlight={"fields": ["name"]})
    marked = {item["id"]: item["_highlight"]["name"] for item in reply["data"]["items"]}
    assert marked == {
        1: "<em>case</em> <em>case</em> tidy",
        2: "tidy green <em>cases</em>",
    }


def test_answers_do_not_depend_on_the_number_of_shards(services: Services) -> None:
    answers = answers_by_shards(
        services,
        "forms",
        ENGLISH,
        ITEMS,
        [
            {"query": query, "match": "any", "show": ["score_details"], "per_page": 40}
            for query in ("case", "cases", "lamp case!", "a lamp case", "lamps cas")
        ],
    )
    assert all(answers[0])
    assert answers[0] == answers[1] == answers[2] == answers[3]
