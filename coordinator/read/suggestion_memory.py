"""Suggestions made before, for the newest state of one index: people begin with the same letters.

    "har", 10, no filters, no frequent searches  ──▶  harbour 31, Harvey 9, …

A write that is acknowledged moves the horizon, and everything is forgotten: a remembered list is
what the shards would say. Its bytes count in the budget that all indexes share (`cache_budget`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from common.protocol.messages import FilterClause
from common.query import Filter
from coordinator.parameters.typed import SuggestParameters
from coordinator.read.cache_budget import CacheBudget
from coordinator.read.results import Suggestion

_LIST_BYTES: Final = 1_500
"""Estimated size of a list and of its request, without filters;"""
_SUGGESTION_BYTES: Final = 200
"""of a suggestion without its text."""
SUGGESTIONS_REMEMBERED_MAX: Final = 100
"""In one list: a longer one is not remembered."""


class SuggestionKey(NamedTuple):
    """What a list depends on, besides the state of the index."""

    query: str
    size: int
    filters: tuple[FilterClause, ...]
    key_filter: Filter | None
    selected: frozenset[tuple[str, frozenset[str]]]
    searches: tuple[str, ...]
    """Frequent searches that may be in the list: these change without a write."""


def key_of(parameters: SuggestParameters, searches: Sequence[Suggestion]) -> SuggestionKey:
    """Return what the list depends on that a request asks for."""
    search = parameters.search
    return SuggestionKey(
        search.query,
        parameters.size,
        search.filters,
        search.key_filter,
        frozenset(search.selected.items()),
        tuple([one.text for one in searches]),
    )


class SuggestionMemory:
    """The lists of one index under one configuration.

    Args:
        budget: of all indexes.
    """

    def __init__(self, budget: CacheBudget) -> None:
        self._budget = budget
        self._lists: dict[SuggestionKey, Sequence[Suggestion]] = {}
        self._horizon = -1

    def known(self, horizon: int, key: SuggestionKey) -> Sequence[Suggestion] | None:
        """Return the list made at a horizon; None: there is none."""
        return self._lists.get(key) if horizon == self._horizon else None

    def remember(self, horizon: int, key: SuggestionKey, listed: Sequence[Suggestion]) -> None:
        """Keep a list, unless a newer state has been asked about."""
        if horizon < self._horizon or len(listed) > SUGGESTIONS_REMEMBERED_MAX:
            return
        if horizon > self._horizon:
            self.forget()
            self._horizon = horizon
        if key not in self._lists:
            self._lists[key] = listed
            self._budget.take(self, _bytes_of(key, listed))

    def forget(self) -> None:
        """Drop all lists."""
        self._lists.clear()
        self._budget.drop(self)


def _bytes_of(key: SuggestionKey, listed: Sequence[Suggestion]) -> int:
    num_bytes = _LIST_BYTES + 4 * len(key.query)
    if key.filters:
        num_bytes += 4 * len(repr(key.filters))
    texts = [*key.searches, *[one.text for one in listed]]
    return num_bytes + sum([_SUGGESTION_BYTES + 4 * len(text) for text in texts])
