"""Did you mean: the query in another spelling (`query_respelling`), which has hits, or many more.

The corrected query is sent as a search before it is shown. All of that runs only if a search found
nothing, a word is in no item, or the request says so.
"""

from __future__ import annotations

import msgspec

from common.analysis.analyzer import Analyzer
from common.errors import Unavailable
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.search_results import RunSearch
from coordinator.read.text.completions_and_near_spellings import Scope
from coordinator.read.text.query_pieces import typed_words
from coordinator.read.text.query_respelling import WORDS_MAX, Spelling, respelt
from coordinator.read.text.query_weighting import is_long_text


class DidYouMean:
    """Proposes another spelling of a query.

    Args:
        spelling: corrects words.
        search: counts the hits of a corrected query.
        analyzer: splits query texts into words.
    """

    def __init__(self, spelling: Spelling, search: RunSearch, analyzer: Analyzer) -> None:
        self._spelling = spelling
        self._search = search
        self._analyzer = analyzer

    async def propose(
        self,
        requested: SearchParameters,
        scope: Scope,
        num_hits: int | None,
        stop_words: frozenset[str],
    ) -> str | None:
        """Return the query in another spelling that has hits, or None if there is none.

        It is a hint: if a shard or time is lacking, the search is answered without it.

        Args:
            requested: the search as requested.
            scope: the items that pass its filters.
            num_hits: of the search as requested; None: only pinned ones.
            stop_words: of the index.
        """
        # (Splitting a long text would hold up the event loop, and it has too many words.)
        if is_long_text(requested.query) or requested.only_ids or requested.page != 1:
            return None
        typed = typed_words(requested.query, self._analyzer, WORDS_MAX + 1)
        if typed is None:
            return None
        tokens, is_open = typed
        state = scope.state
        try:
            found = await self._spelling.corrected(
                scope,
                [token.text for token in tokens],
                is_last_open=is_open and requested.prefix != "none",
                stop_words=stop_words,
                num_hits=num_hits,
            )
            if found is None:
                return None
            text = respelt(requested.query, tokens, found.words)
            counted = msgspec.structs.replace(
                requested.without_additions(),
                query=text,
                match="all" if requested.match == "auto" else requested.match,
                drops_function_words=requested.match == "auto",
                per_page=0,
                sort=(),
                distinct=None,
                timeout_ms=state.deadline.remaining_ms,
            )
            result = await self._search(state.index, counted, state.horizon)
        except Unavailable:
            return None
        return text if result.total >= found.num_hits_min else None
