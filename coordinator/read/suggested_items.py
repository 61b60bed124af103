"""The best items for a text, and what the shards' responses say about all others.

`coordinator.read.suggest.prefix_narrowing` derives the best items of longer prefixes from these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from functools import partial
from itertools import pairwise

from msgspec import structs

from common.errors import InvalidRequest
from common.protocol.messages import SortKey, TermsRequest, TermsResponse
from common.search_option_parsers import SearchableField
from coordinator.catalog.catalog import Index
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.hit_merging import Hit
from coordinator.read.read_services import ReadServices
from coordinator.read.scatter import SearchOutcome
from coordinator.read.stored_items import page_items
from coordinator.read.suggest.prefix_narrowing import BestItems
from coordinator.read.suggest.typed_text import TypedText


class SuggestedItems:
    """Finds the best items for a text, and words along with them.

    Args:
        services: what all kinds of searches share.
    """

    def __init__(self, services: ReadServices) -> None:
        self._services = services

    async def find(
        self,
        state: SearchedState,
        parameters: SearchParameters,
        terms: TermsRequest | None = None,
        num_spare: int = 0,
    ) -> tuple[BestItems, list[TermsResponse]]:
        """Return the items of a search, and words that are listed along with it.

        Popularity usually decides alone; then the scores, which cost a round trip, do not matter.

        Args:
            state: the state to search.
            parameters: of the search.
            terms: asks for the words.
            num_spare: items beyond the page, for longer prefixes, if popularity decides.
        """
        doubts = self._services.caches.of(state.index).suggestions.doubts
        terms_found: list[TermsResponse] = []
        if parameters.sort and parameters.typo == 0 and not doubts.are_frequent:
            num_shown = parameters.per_page
            unscored = structs.replace(
                parameters, needs_scores=False, per_page=num_shown + num_spare
            )
            best, terms_found = await self._found(state, unscored, terms)
            is_doubtful = best.is_doubtful(num_shown)
            doubts.note(is_doubtful=is_doubtful and bool(best.items))
            if not is_doubtful:
                return best, terms_found
            terms = None
        best, others = await self._found(state, parameters, terms)
        return best, terms_found or others

    async def _found(
        self, state: SearchedState, parameters: SearchParameters, terms: TermsRequest | None
    ) -> tuple[BestItems, list[TermsResponse]]:
        """Run a search for items."""
        try:
            return await self._run(state, parameters, terms)
        except InvalidRequest as error:
            if error.code != "unknown_sort_field":
                raise
            # No item has the configured popularity yet.
            unsorted = structs.replace(parameters, sort=(), needs_scores=True)
            return await self._run(state, unsorted, terms)

    def _run(
        self, state: SearchedState, parameters: SearchParameters, terms: TermsRequest | None
    ) -> Awaitable[tuple[BestItems, list[TermsResponse]]]:
        found = partial(self._best_of_search, state, parameters, terms)
        return self._services.share.run(state.index.number, state.deadline, found)

    async def _best_of_search(
        self, state: SearchedState, parameters: SearchParameters, terms: TermsRequest | None
    ) -> tuple[BestItems, list[TermsResponse]]:
        outcome, hits = await self._services.paging.find(parameters, state, None, terms=terms)
        items = await page_items(self._services.cluster, outcome, hits)
        best = best_items(outcome, hits, items)
        return best, [one.terms for _, one in outcome.answers if one.terms is not None]


def narrowing(search: SearchParameters) -> SearchParameters:
    """Return a search for the items that count, without hits.

    An item counts for each value that it has, also where conditions on one element (`within`) are
    met by another of its elements.
    """
    return structs.replace(
        search,
        query="",
        per_page=0,
        facets=(),
        is_strict=True,
        within={},
        rules=(),
        boosts=(),
        did_you_mean=False,
    )


def search_for_items(
    index: Index, search: SearchParameters, typed: TypedText | None, size: int
) -> SearchParameters | None:
    """Return a search for the best items that have the words; None if no texts are suggested."""
    settings = index.configuration.suggestions
    if not settings.fields or (typed is None and search.query):
        return None
    if typed is None and settings.popularity is None:
        return None  # nothing is typed, and no item is better than another
    found = structs.replace(
        narrowing(search),
        query=search.query,
        match="all",
        typo=0,
        search_fields=tuple(SearchableField(name, 1.0) for name in settings.fields),
        per_page=size,
    )
    if settings.popularity is None:
        return found
    return structs.replace(found, sort=(SortKey(settings.popularity, True),))


def best_items(outcome: SearchOutcome, hits: Sequence[Hit], items: list[bytes]) -> BestItems:
    """Return the items of a first page, and what the shards' hits say about others.

    Args:
        outcome: the shards' responses.
        hits: of the page.
        items: of these hits.
    """
    if outcome.scored.num_words_cut:
        return BestItems(items)
    num_sent = [len(answer.places) >> 3 for _, answer in outcome.answers]
    return BestItems(
        items,
        are_all=sum(num_sent) == len(hits) and max(num_sent, default=0) < outcome.request.num_hits,
        num_by_value=_num_by_value(outcome, hits),
        has_made_up_scores=outcome.scored.has_made_up_weights,
    )


def _num_by_value(outcome: SearchOutcome, hits: Sequence[Hit]) -> int:
    """Return how many of the first hits of a page are ordered by the sort key alone.

    These have numbers, each different from that of the next hit, which may be after the page.
    """
    if len(outcome.request.sort) != 1:
        return 0
    values = [hit.sort_values[0] for hit in hits]
    count = 0
    for value, following in pairwise(values):
        if not isinstance(value, int | float) or value == following:
            return count
        count += 1
    if hits and isinstance(values[-1], int | float) and not _may_tie(outcome, hits):
        count += 1
    return count


def _may_tie(outcome: SearchOutcome, hits: Sequence[Hit]) -> bool:
    """Return whether a hit after the page may have the value of the last one."""
    last = hits[-1].sort_values[0]
    num_shown = Counter([hit.shard for hit in hits])
    for shard, answer in outcome.answers:
        column = answer.sort_column(0)
        if num_shown[shard] < len(column):
            if column[num_shown[shard]] == last:
                return True
        elif len(column) == outcome.request.num_hits and column[-1] == last:
            return True  # the next one was not sent
    return False
