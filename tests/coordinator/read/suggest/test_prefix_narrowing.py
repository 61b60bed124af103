"""What is told of a longer prefix is what the shards would answer."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from common.analysis.analyzer import Analyzer
from common.index_configuration_parser import parse_configuration
from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.suggest.folded_words_cache import FoldedWordsCache
from coordinator.read.suggest.prefix_narrowing import (
    BestItems,
    CompletionContext,
    KnownPrefix,
    LastWord,
    best_from,
    completions_from,
    last_word,
)
from coordinator.read.suggest.suggestion_cache import SuggestionCache
from coordinator.read.text.completions_and_near_spellings import NearTerm
from coordinator.read.text.query_dictionary import QueryDictionary

ANALYZER = Analyzer()
FOLDED = FoldedWordsCache(ANALYZER)
TERMS = [NearTerm("hanks", 31, 0), NearTerm("hardy", 12, 0), NearTerm("hank", 3, 0)]


def items(*titles: Any) -> list[bytes]:
    return [orjson.dumps({"id": i, "title": title}) for i, title in enumerate(titles)]


def plain(text: str) -> LastWord:
    return LastWord(text, text, None, is_stemmed=False)


def found(
    shorter: dict[str, KnownPrefix],
    last: LastWord,
    completions: list[NearTerm] | None = None,
    size: int = 2,
) -> list[bytes] | None:
    best = best_from(shorter, last, completions, ("title",), size, FOLDED)
    return None if best is None else best.items


def test_completions_are_those_of_the_longest_known_prefix() -> None:
    known = KnownPrefix(TERMS, None)

    assert completions_from([KnownPrefix(None, None), known], "hank") == [TERMS[0], TERMS[2]]
    assert completions_from([known], "hax") == []
    assert completions_from([KnownPrefix(None, BestItems([]))], "ha") is None


def test_all_items_are_narrowed_to_those_with_a_word_that_begins_so() -> None:
    titles = items("Tom Hanks", ["Hardy", "x"], {"en": [{"a": "hank"}], "n": 7}, "hänk, x", None, 7)
    known = {"ha": KnownPrefix(None, BestItems(titles, are_all=True, num_by_value=len(titles)))}

    assert found(known, plain("hank")) == [titles[0], titles[2], titles[3]]
    assert found(known, plain("hax")) is None
    for best in (BestItems(titles, are_all=True), BestItems(titles, num_by_value=1)):
        assert found({"ha": KnownPrefix(None, best)}, plain("hank")) is None


def test_the_best_items_are_among_those_of_a_prefix_if_as_many_as_are_shown() -> None:
    titles = items("Tom Hanks", "Hardy", "hank", "hard", "hanks a lot", "hanks")
    decided, undecided = BestItems(titles, num_by_value=6), BestItems(titles, num_by_value=2)

    assert found({"ha": KnownPrefix(None, decided)}, plain("hank")) == [titles[0], titles[2]]
    assert found({"ha": KnownPrefix(None, decided)}, plain("hank"), size=4) == [
        *titles[0:3:2],
        *titles[4:],
    ]
    assert found({"ha": KnownPrefix(None, decided)}, plain("hank"), size=5) is None
    assert found({"ha": KnownPrefix(None, undecided)}, plain("hank")) is None
    # The order of the first two is by value, so they are known where both match.
    assert found({"h": KnownPrefix(None, undecided)}, plain("ha")) == titles[:2]
    tied = BestItems(titles, are_all=True, num_by_value=3)
    assert found({"ha": KnownPrefix(None, tied)}, plain("hank")) == [titles[0], titles[2]]
    assert found({"ha": KnownPrefix(None, tied)}, plain("hard")) is None


def test_fields_are_found_by_path() -> None:
    item = {"a.b": "one", "a": [{"b": {"c": "two"}, "bc": "no"}], "ab": "no", "b": "no"}
    known = {"t": KnownPrefix(None, BestItems([orjson.dumps(item)], are_all=True, num_by_value=1))}

    def has(last: str) -> bool:
        best = best_from(known, plain(last), None, ("a.b",), 10, FOLDED)
        return best is not None and bool(best.items)

    assert has("t")
    assert has("two")
    assert not has("tn")
    known = {"o": known["t"], "n": known["t"]}
    assert has("one")
    assert not has("no")


def test_the_same_completions_have_the_same_items() -> None:
    best = BestItems(items("a hanks", "hanks"), num_by_value=2)
    known = {"hank": KnownPrefix(TERMS[:1], best), "ha": KnownPrefix(TERMS, None)}

    assert found(known, plain("hanks"), TERMS[:1], size=3) == best.items
    assert found(known, plain("hanks"), TERMS[:2], size=3) is None
    assert found(known, plain("hanks"), size=3) is None
    stemmed = LastWord("hanks", "hanks", None, is_stemmed=True)
    assert found(known, stemmed, TERMS[:1], size=3) is None
    tied = {"hank": KnownPrefix(TERMS[:1], BestItems(best.items))}
    assert found(tied, plain("hanks"), TERMS[:1]) is None


def test_other_forms_of_a_word_are_among_those_of_a_prefix_that_they_share() -> None:
    titles = items("happy", "happily", "hape", "harpy")
    best = KnownPrefix(None, BestItems(titles, are_all=True, num_by_value=len(titles)))
    word = last_word("happi", SearchParameters(query="x"), *dictionary({"language": "english"}))

    assert word is not None
    assert word.prefix == "hap"
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


def test_prefixes_are_remembered_for_one_state_and_surroundings() -> None:
    budget = CacheBudget()
    cache = SuggestionCache(budget)
    tom, tim = CompletionContext(("tom",), (), None, 8), CompletionContext(("tim",), (), None, 8)
    short, long = KnownPrefix(TERMS, None), KnownPrefix(TERMS[:1], None)
    cache.remember_prefix(7, tom, "ha", short)
    cache.remember_prefix(7, tom, "hank", long)

    assert list(cache.shorter(7, tom, "hanks").items()) == [("hank", long), ("ha", short)]
    assert cache.shorter(7, tom, "han") == {"ha": short}
    assert cache.shorter(7, tom, "h") == cache.shorter(7, tim, "hanks") == {}
    assert cache.shorter(8, tom, "hanks") == {}
    assert budget.num_bytes > 0
    cache.remember_prefix(6, tom, "h", short)
    assert cache.shorter(7, tom, "h") == {}
    cache.remember_prefix(8, tim, "ha", short)
    assert cache.shorter(7, tom, "hanks") == {}
    cache.remember_prefix(8, tim, "hu", KnownPrefix(TERMS * 90, None))
    assert cache.shorter(8, tim, "hu") == {}
    cache.forget()
    assert budget.num_bytes == 0
