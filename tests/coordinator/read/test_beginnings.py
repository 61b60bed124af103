"""What is told of a longer beginning is what the shards would answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.analysis.analyzer import Analyzer
from common.configuration_parser import parse_configuration
from common.protocol.messages import SearchResponse, SortKey
from coordinator.parameters.typed import SearchParameters
from coordinator.read.beginnings import (
    Beginning,
    BestItems,
    LastWord,
    Surroundings,
    best_from,
    best_items,
    completions_from,
    last_word,
)
from coordinator.read.cache_budget import CacheBudget
from coordinator.read.merge import merge_hits
from coordinator.read.near_terms import NearTerm
from coordinator.read.query_parser import QueryDictionary
from coordinator.read.suggestion_memory import SuggestionMemory

ANALYZER = Analyzer()
TERMS = [NearTerm("hanks", 31, 0), NearTerm("hardy", 12, 0), NearTerm("hank", 3, 0)]
SORT = (SortKey("sold", True),)


def items(*titles: Any) -> list[bytes]:
    return [orjson.dumps({"id": i, "title": title}) for i, title in enumerate(titles)]


def plain(text: str) -> LastWord:
    return LastWord(text, text, None, is_stemmed=False)


def found(
    shorter: dict[str, Beginning], last: LastWord, completions: list[NearTerm] | None = None
) -> list[bytes] | None:
    best = best_from(shorter, last, completions, ["title"], ANALYZER)
    return None if best is None else best.items


def test_completions_are_those_of_the_longest_known_beginning() -> None:
    known = Beginning(TERMS, None)

    assert completions_from([Beginning(None, None), known], "hank") == [TERMS[0], TERMS[2]]
    assert completions_from([known], "hax") == []
    assert completions_from([Beginning(None, BestItems([]))], "ha") is None


def test_all_items_are_narrowed_to_those_with_a_word_that_begins_so() -> None:
    titles = items("Tom Hanks", ["Hardy", "x"], {"en": [{"a": "hank"}], "n": 7}, "hänk, x", None, 7)
    known = {"ha": Beginning(None, BestItems(titles, are_all=True, is_by_value=True))}

    assert found(known, plain("hank")) == [titles[0], titles[2], titles[3]]
    assert found(known, plain("hax")) is None
    for best in (BestItems(titles, are_all=True), BestItems(titles, is_by_value=True)):
        assert found({"ha": Beginning(None, best)}, plain("hank")) is None


def test_fields_are_found_by_path() -> None:
    item = {"a.b": "one", "a": [{"b": {"c": "two"}, "bc": "no"}], "ab": "no", "b": "no"}
    known = {"t": Beginning(None, BestItems([orjson.dumps(item)], are_all=True, is_by_value=True))}

    def has(last: str) -> bool:
        best = best_from(known, plain(last), None, ["a.b"], ANALYZER)
        return best is not None and bool(best.items)

    assert has("t")
    assert has("two")
    assert not has("tn")
    known = {"o": known["t"], "n": known["t"]}
    assert has("one")
    assert not has("no")


def test_the_same_completions_have_the_same_items() -> None:
    best = BestItems(items("a hanks", "hanks"), is_by_value=True)
    known = {"hank": Beginning(TERMS[:1], best), "ha": Beginning(TERMS, None)}

    assert found(known, plain("hanks"), TERMS[:1]) == best.items
    assert found(known, plain("hanks"), TERMS[:2]) is None
    assert found(known, plain("hanks")) is None
    assert found(known, LastWord("hanks", "hanks", None, is_stemmed=True), TERMS[:1]) is None
    tied = {"hank": Beginning(TERMS[:1], BestItems(best.items))}
    assert found(tied, plain("hanks"), TERMS[:1]) is None


def test_other_forms_of_a_word_are_among_those_of_a_beginning_that_they_share() -> None:
    titles = items("happy", "happily", "hape", "harpy")
    best = Beginning(None, BestItems(titles, are_all=True, is_by_value=True))
    word = last_word("happi", SearchParameters(query="x"), *dictionary({"language": "english"}))

    assert word is not None
    assert word.beginning == "hap"
    assert found({"happ": best}, word) is None
    assert found({"happ": best, "ha": best}, word) == titles[:2]


def dictionary(configuration: dict[str, Any]) -> tuple[QueryDictionary, Any]:
    parsed, _ = parse_configuration(configuration)
    return QueryDictionary(parsed, ANALYZER), parsed


@pytest.mark.parametrize(
    ("text", "search", "configuration"),
    [
        ("ha", {"prefix": "none"}, {}),
        ("ha", {"infix": 2}, {}),
        ("ha", {}, {"synonyms": {"new york": ["nyc"]}}),
        ("the", {}, {"stop_words": ["the"]}),
        ("ha", {}, {"field_languages": {"title": "german"}}),
        ("三", {}, {}),
    ],
)
def test_words_that_match_more_than_they_begin_are_left_to_the_shards(
    text: str, search: dict[str, Any], configuration: dict[str, Any]
) -> None:
    assert last_word(text, SearchParameters(**search), *dictionary(configuration)) is None
    assert last_word("xa", SearchParameters(), *dictionary({})) == plain("xa")


def response(values: Sequence[int | None], places: Sequence[int], num: int) -> SearchResponse:
    """The best `num` hits of a shard that has hits with these values and places."""
    order = sorted(
        range(len(values)),
        key=lambda i: (values[i] is None, -(values[i] or 0), places[i]),
    )[:num]
    return SearchResponse(
        len(values),
        np.array([places[i] for i in order], np.uint64).tobytes(),
        np.ones(len(order)).tobytes(),
        np.array(order, np.uint64).tobytes(),
        (tuple([values[i] for i in order]),),
        (),
        (),
        (),
        (),
        (0, 0, 0),
    )


@given(
    st.lists(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=6), min_size=1, max_size=3),
    st.integers(1, 4),
)
def test_popularity_decides_only_where_no_hit_has_the_same(
    shards: list[list[int | None]], size: int
) -> None:
    places = iter(range(100))
    answers = [
        (shard, response(values, [next(places) for _ in values], size))
        for shard, values in enumerate(shards)
    ]
    hits = merge_hits(answers, SORT, False, 0, size, None)
    outcome = Mock(answers=answers)
    outcome.scored.num_words_cut = 0
    outcome.request.num_hits, outcome.request.sort = size, SORT

    best = best_items(outcome, hits, [b"{}"] * len(hits))

    everything = [value for values in shards for value in values]
    page = [hit.sort_values[0] for hit in hits]
    is_decided = None not in page and all(everything.count(value) == 1 for value in page)
    if best.are_all:
        assert len(everything) == len(hits)
    if best.is_by_value:
        assert is_decided or (best.are_all and len(hits) < 2)
    if is_decided and page and len(everything) > len(page):
        # It may not be known if the last one shown is the last that its shard has sent.
        ranks = {hit.shard: hit.rank for hit in hits}
        last = hits[-1]
        assert best.is_by_value or None in everything or ranks[last.shard] == size - 1


def test_a_text_that_was_cut_tells_nothing() -> None:
    outcome = Mock(answers=[(0, response([1], [1], 5))])
    outcome.request.num_hits, outcome.request.sort = 5, SORT
    outcome.scored.num_words_cut = 1
    hits = merge_hits(outcome.answers, SORT, False, 0, 5, None)

    assert best_items(outcome, hits, [b"{}"]) == BestItems([b"{}"])


def test_beginnings_are_remembered_for_one_state_and_surroundings() -> None:
    budget = CacheBudget()
    memory = SuggestionMemory(budget)
    tom, tim = Surroundings(("tom",), (), None, 8), Surroundings(("tim",), (), None, 8)
    short, long = Beginning(TERMS, None), Beginning(TERMS[:1], None)
    memory.remember_beginning(7, tom, "ha", short)
    memory.remember_beginning(7, tom, "hank", long)

    assert list(memory.shorter(7, tom, "hanks").items()) == [("hank", long), ("ha", short)]
    assert memory.shorter(7, tom, "han") == {"ha": short}
    assert memory.shorter(7, tom, "h") == memory.shorter(7, tim, "hanks") == {}
    assert memory.shorter(8, tom, "hanks") == {}
    assert budget.num_bytes > 0
    memory.remember_beginning(6, tom, "h", short)
    assert memory.shorter(7, tom, "h") == {}
    memory.remember_beginning(8, tim, "ha", short)
    assert memory.shorter(7, tom, "hanks") == {}
    memory.remember_beginning(8, tim, "hu", Beginning(TERMS * 90, None))
    assert memory.shorter(8, tim, "hu") == {}
    memory.forget()
    assert budget.num_bytes == 0
