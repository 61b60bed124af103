"""Lists of suggestions are remembered for one state, within the budget of all indexes."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, Mock

from common.analysis.analyzer import Analyzer
from common.index_configuration_parser import parse_configuration
from common.limits import Limits
from common.protocol.messages import FilterClause
from common.query_syntax_tree import AnyOf
from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.parameters.parameter_table import SUGGEST_PARAMETERS
from coordinator.parameters.parsed_parameters import SearchParameters, SuggestParameters
from coordinator.read.fair_share import FairShare
from coordinator.read.suggest.suggestion_cache import Doubts, SuggestionCache, SuggestionKey, key_of
from coordinator.read.suggest.suggestion_results import Suggestion
from coordinator.read.suggestions import _NO_TEXTS, _NO_WORDS, Suggestions

FILTER = FilterClause(AnyOf("brand", ("a",)))
LIST = [Suggestion("harbour", "word", 31), Suggestion("Harvey", "facet", 9, "name")]


def key(query: str, *, size: int = 10, searches: tuple[str, ...] = ()) -> SuggestionKey:
    parameters = SuggestParameters(SearchParameters(query=query), size)
    return key_of(parameters, [Suggestion(text, "search", 1) for text in searches])


def test_a_list_is_of_its_state_and_request() -> None:
    budget = CacheBudget()
    cache = SuggestionCache(budget)
    cache.remember(7, key("har"), LIST)
    once = budget.num_bytes
    cache.remember(7, key("har"), LIST)

    assert budget.num_bytes == once > 0
    assert cache.known(7, key("har")) == LIST
    assert cache.known(8, key("har")) is None
    assert cache.known(7, key("harb")) is None
    assert cache.known(7, key("har", size=5)) is None
    assert cache.known(7, key("har", searches=("harbours",))) is None

    cache.remember(8, key("harb"), LIST[:1])
    cache.remember(7, key("har"), LIST)

    assert cache.known(8, key("harb")) == LIST[:1]
    assert cache.known(8, key("har")) is cache.known(7, key("har")) is None
    assert 0 < budget.num_bytes < once
    cache.forget()
    assert budget.num_bytes == 0


def test_lists_of_all_indexes_are_bounded_together() -> None:
    budget = CacheBudget(100_000)
    caches = [SuggestionCache(budget) for _ in range(20)]
    for number in range(50):
        for cache in caches:
            cache.remember(7, key(f"har{number}"), LIST)
            assert budget.num_bytes <= 100_000

    kept = [
        number
        for cache in caches
        for number in range(50)
        if cache.known(7, key(f"har{number}")) is not None
    ]
    assert 0 < len(kept) < 20 * 50


def test_long_lists_are_not_kept() -> None:
    budget = CacheBudget()
    cache = SuggestionCache(budget)

    cache.remember(7, key("har"), LIST * 51)

    assert cache.known(7, key("har")) is None
    assert budget.num_bytes == 0


def test_what_begins_no_value_begins_none_with_more_letters_or_words() -> None:
    budget = CacheBudget()
    cache = SuggestionCache(budget)
    cache.remember_no_values(7, (), ["gold", "ha"])
    taken = budget.num_bytes
    cache.remember_no_values(7, (), ["gold", "har"])

    assert budget.num_bytes == taken > 0
    assert cache.has_no_values(7, (), ["gold", "ha"])
    assert cache.has_no_values(7, (), ["gold", "harb"])
    assert cache.has_no_values(7, (), ["gold", "harb", "x"])
    for words in (["gold", "h"], ["golden", "ha"], ["ha"], ["ha", "gold"], ["gold"], []):
        assert not cache.has_no_values(7, (), words)
    assert not cache.has_no_values(8, (), ["gold", "ha"])
    assert not cache.has_no_values(7, (FILTER,), ["gold", "ha"])

    cache.remember_no_values(7, (FILTER,), ["z"])
    assert cache.has_no_values(7, (FILTER,), ["zz"])
    cache.remember(8, key("ha"), LIST)
    assert not cache.has_no_values(7, (), ["gold", "ha"])
    cache.forget()
    assert budget.num_bytes == 0


def test_scores_are_asked_for_where_they_are_often_needed() -> None:
    doubts = Doubts()
    for _ in range(8):
        doubts.note(is_doubtful=True)
        assert not doubts.are_frequent
    for _ in range(8):
        doubts.note(is_doubtful=True)
    assert doubts.are_frequent

    doubts = Doubts()
    for number in range(1_000):
        doubts.note(is_doubtful=number % 10 == 0)
        assert not doubts.are_frequent


class Reading:
    """A state that is read."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    def __enter__(self) -> int:
        return self.horizon

    def __exit__(self, *_: object) -> None:
        pass


def read_services(cache: SuggestionCache, reading: Reading) -> Any:
    """Return the services of searches without shards, over indexes without rules."""
    caches = Mock(of=lambda _: Mock(suggestions=cache, narrowing_rules=()))
    cluster = Mock(reading=lambda _: reading)
    return Mock(
        cluster=cluster, analyzer=Analyzer(), caches=caches, share=FairShare(), limits=Limits()
    )


async def test_a_prefix_is_looked_up_once_for_each_state(monkeypatch: Any) -> None:
    reading = Reading(3)
    cache = SuggestionCache(CacheBudget())
    suggestions = Suggestions(read_services(cache, reading), Mock(is_on=False))
    asked = []

    async def made(_: Suggestions, request: Any, *__: Any) -> Any:
        asked.append((request.state.horizon, request.search.query))
        return LIST

    monkeypatch.setattr(Suggestions, "_made", made)

    async def suggest(query: str, timeout_ms: int = 1_000) -> None:
        typed = SearchParameters(query=query, timeout_ms=timeout_ms)
        page = await suggestions.suggest(Mock(number=1), SuggestParameters(typed))
        assert page.suggestions == LIST
        assert page.seq == reading.horizon

    await suggest("ha")
    await suggest("har")
    await suggest("ha", timeout_ms=50)
    reading.horizon = 4
    await suggest("ha")
    await suggest("ha")

    assert asked == [(3, "ha"), (3, "har"), (4, "ha")]


def test_a_list_is_of_everything_that_a_request_can_ask_for() -> None:
    """A new parameter of the route needs its place in the key."""
    names = {one.name for one in SUGGEST_PARAMETERS}
    in_key = {"query", "size", "filters", "not_filters", "filter"}

    assert names - in_key == {"timeout_ms"}


async def test_facet_values_of_a_mistyped_text_are_counted_once(monkeypatch: Any) -> None:
    cache = SuggestionCache(CacheBudget())
    counts = Mock()
    services = read_services(cache, Reading(3))
    services.scatter.search = AsyncMock(return_value=counts)
    services.facet_listing.listed = listed = AsyncMock(return_value=[])
    suggestions = Suggestions(services, Mock(is_on=False))
    monkeypatch.setattr(
        Suggestions, "_texts_and_words", AsyncMock(return_value=(_NO_TEXTS, _NO_WORDS))
    )
    configuration, _ = parse_configuration({"aggregations": {"brand": {}}})
    index = Mock(number=1, configuration=configuration)

    async def typos_asked(query: str) -> list[str]:
        listed.reset_mock()
        await suggestions.suggest(index, SuggestParameters(SearchParameters(query=query)))
        assert all(call.args[1] is counts.counted for call in listed.await_args_list)
        return [call.args[0].facets[0].key_typos for call in listed.await_args_list]

    assert await typos_asked("laesr") == ["never", "unless_typed"]
    assert services.scatter.search.await_count == 1
    # No value begins like this as typed: there is no need to look.
    assert await typos_asked("laesrs") == ["unless_typed"]
    assert await typos_asked("laes") == ["never", "unless_typed"]
    assert services.scatter.search.await_count == 3
