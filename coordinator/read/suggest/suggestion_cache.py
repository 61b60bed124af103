"""Cached suggestions for the newest state of one index: people begin with the same letters.

    "har", 10, no filters, no frequent searches  ──▶  harbour 31, Harvey 9, …

    "hax"  ──▶  no facet value has a word with this prefix; nor has any for "haxe", or "haxe b"

    "tom" before "ha"  ──▶  completions and best items, for longer words (`prefix_narrowing`)

An acknowledged write moves the horizon, and everything is dropped: a cached list is what the
shards would answer. Its bytes count in the budget that all indexes share
(`coordinator.cluster.cache_budget_across_indexes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from common.protocol.messages import FilterClause
from common.query_syntax_tree import Filter
from coordinator.cluster.cache_budget_across_indexes import CacheBudget
from coordinator.parameters.parsed_parameters import SuggestParameters
from coordinator.read.suggest.prefix_narrowing import CompletionContext, KnownPrefix
from coordinator.read.suggest.suggestion_results import Suggestion

_LIST_BYTES: Final = 1_500
"""Estimated size of a list and of its request, without filters and suggestions."""
_SUGGESTION_BYTES: Final = 200
"""Estimated size of a suggestion without its text."""
_WORDS_BYTES: Final = 500
"""Estimated size of words without values, without filters."""
_PREFIX_BYTES: Final = 2_000
"""Estimated size of what is known of a prefix, without filters, completions and items."""
_COMPLETION_BYTES: Final = 200
"""Estimated size of a completion, and of the object that holds an item."""
SUGGESTIONS_REMEMBERED_MAX: Final = 100
"""Longer lists are not cached."""
COMPLETIONS_REMEMBERED_MAX: Final = 256
"""Longer lists of completions are not cached."""
ITEMS_BYTES_REMEMBERED_MAX: Final = 1 << 16
"""Nor are larger items: a few of them would displace everything else."""


_DOUBTFUL_SHARE: Final = 8
_DOUBTS_MIN: Final = 8
"""Scores are requested once one search in this many would be in doubt, not counting a few."""

_Narrowed: TypeAlias = tuple[tuple[FilterClause, ...], tuple[str, ...]]
"""Filters, and folded words."""


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
    """Return the key of the list that a request asks for."""
    search = parameters.search
    return SuggestionKey(
        search.query,
        parameters.size,
        search.filters,
        search.key_filter,
        frozenset(search.selected.items()),
        tuple([one.text for one in searches]),
    )


class Doubts:
    """How often popularity alone did not decide which items are the best."""

    __slots__ = ("_num", "_num_searches")

    def __init__(self) -> None:
        self._num = self._num_searches = 0

    @property
    def are_frequent(self) -> bool:
        """Whether that is so for one search in eight, not counting a few."""
        return _DOUBTFUL_SHARE * self._num > self._num_searches + _DOUBTS_MIN * _DOUBTFUL_SHARE

    def note(self, *, is_doubtful: bool) -> None:
        """Count a search."""
        self._num_searches += 1
        self._num += is_doubtful


class SuggestionCache:
    """The lists of one index under one configuration.

    Args:
        budget: of all indexes.
    """

    def __init__(self, budget: CacheBudget) -> None:
        self._budget = budget
        self._lists: dict[SuggestionKey, Sequence[Suggestion]] = {}
        self._without_values: set[_Narrowed] = set()
        self._prefixes: dict[CompletionContext, dict[str, KnownPrefix]] = {}
        self._horizon = -1
        self.doubts = Doubts()

    def known(self, horizon: int, key: SuggestionKey) -> Sequence[Suggestion] | None:
        """Return the list made at a horizon, or None."""
        return self._lists.get(key) if horizon == self._horizon else None

    def remember(self, horizon: int, key: SuggestionKey, listed: Sequence[Suggestion]) -> None:
        """Cache a list, unless a newer state has been searched."""
        if not self._is_newest(horizon) or len(listed) > SUGGESTIONS_REMEMBERED_MAX:
            return
        if key not in self._lists:
            self._lists[key] = listed
            self._budget.take(self, _bytes_of(key, listed))

    def has_no_values(
        self, horizon: int, filters: tuple[FilterClause, ...], words: Sequence[str]
    ) -> bool:
        """Return whether no facet value of the items has words that begin with these, as typed."""
        if horizon != self._horizon or not self._without_values:
            return False
        for place, word in enumerate(words):
            before = tuple(words[:place])
            for end in range(1, len(word) + 1):
                if (filters, (*before, word[:end])) in self._without_values:
                    return True
        return False

    def remember_no_values(
        self, horizon: int, filters: tuple[FilterClause, ...], words: Sequence[str]
    ) -> None:
        """Cache that no facet value has words that begin with these."""
        if not self._is_newest(horizon) or self.has_no_values(horizon, filters, words):
            return
        self._without_values.add((filters, tuple(words)))
        self._budget.take(
            self, _WORDS_BYTES + 4 * sum(map(len, words)) + _bytes_of_filters(filters)
        )

    def shorter(
        self, horizon: int, context: CompletionContext, last: str
    ) -> dict[str, KnownPrefix]:
        """Return what is known of the prefixes of a last word, the longest first."""
        prefixes = self._prefixes.get(context) if horizon == self._horizon else None
        if prefixes is None:
            return {}
        texts = [last[:end] for end in range(len(last), 0, -1)]
        return {text: prefixes[text] for text in texts if text in prefixes}

    def remember_prefix(
        self, horizon: int, context: CompletionContext, last: str, known: KnownPrefix
    ) -> None:
        """Cache what the shards have answered about a last word."""
        completions = known.completions or ()
        items = () if known.best is None else known.best.items
        num_bytes = sum(map(len, items))
        if (
            max(len(completions), len(items)) > COMPLETIONS_REMEMBERED_MAX
            or num_bytes > ITEMS_BYTES_REMEMBERED_MAX
        ):
            return
        if self._is_newest(horizon):
            self._prefixes.setdefault(context, {})[last] = known
            self._budget.take(
                self,
                _PREFIX_BYTES
                + _bytes_of_filters(context.filters)
                + _COMPLETION_BYTES * (len(completions) + len(items))
                + num_bytes,
            )

    def _is_newest(self, horizon: int) -> bool:
        """Return whether nothing newer has been searched; drop what is older."""
        if horizon > self._horizon:
            self.forget()
            self._horizon = horizon
        return horizon == self._horizon

    def forget(self) -> None:
        """Drop everything."""
        self._lists.clear()
        self._without_values.clear()
        self._prefixes.clear()
        self._budget.drop(self)


def _bytes_of(key: SuggestionKey, listed: Sequence[Suggestion]) -> int:
    num_bytes = _LIST_BYTES + 4 * len(key.query) + _bytes_of_filters(key.filters)
    texts = [*key.searches, *[one.text for one in listed]]
    return num_bytes + sum([_SUGGESTION_BYTES + 4 * len(text) for text in texts])


def _bytes_of_filters(filters: tuple[FilterClause, ...]) -> int:
    return 4 * len(repr(filters)) if filters else 0
