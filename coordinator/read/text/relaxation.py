"""`match: auto`: ways to match a query, tried in order until one has hits (pure).

    the hobbit by tolkien    all words                      0 items
                             hobbit tolkien                 without function words, if it has others
                             the, hobbit, by or tolkien     any word; the rarest count most

Function words go first because they tell no item from another; what is found without them is all
that the query means, so totals and facets stay as narrow as they are with all words. Beyond that no
order of dropping is safe. The last word of an English query is often the thing itself (`red leather
sofa`), and the most frequent one may be; so any word suffices, and BM25 ranks the items that have
the most telling ones first.
"""

from __future__ import annotations

import msgspec

from common.analysis.analyzer import Analyzer
from coordinator.parameters.typed import SearchParameters
from coordinator.read.text.query_parser import QueryDictionary, dropped_words


def relaxed(
    parameters: SearchParameters, dictionary: QueryDictionary, analyzer: Analyzer
) -> tuple[SearchParameters, ...]:
    """Return the searches to try, in order, until one has hits.

    Args:
        parameters: of the search, with `match: auto`.
        dictionary: of the index.
        analyzer: splits query texts into words.
    """
    of_all = msgspec.structs.replace(parameters, match="all")
    if len(analyzer.tokenize(parameters.query)) < 2:
        return (of_all,)
    of_any = msgspec.structs.replace(parameters, match="any")
    if not dropped_words(parameters.query, dictionary, analyzer):
        return of_all, of_any
    return of_all, msgspec.structs.replace(of_all, drops_function_words=True), of_any
