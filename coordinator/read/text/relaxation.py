"""`match: auto`: ways to match a query, tried in order until one has hits (pure).

    the hobbit by tolkien    all words                      0 items
                             hobbit tolkien                 without function words, if it has others
                             hobbit                         without the last words, if it is short
                             the, hobbit, by or tolkien     any word; the rarest count most

Function words go first because they tell no item from another; what is found without them is all
that the query means, so totals and facets stay as narrow as they are with all words. People type
the words of a short query in the order of what they want, so the last ones go next, as in Algolia,
Meilisearch and Typesense. A sentence has no such order, and its first word alone says little: any
word suffices, and BM25 ranks the items that have the most telling ones first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from common.analysis.analyzer import Analyzer
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.text.query_dictionary import QueryDictionary
from coordinator.read.text.query_parser import dropped_words

SHORT_QUERY_WORDS: Final = 5
"""A longer query counts as a sentence, and accepts any word instead of losing its last ones."""


def relaxed(
    parameters: SearchParameters,
    dictionary: QueryDictionary,
    analyzer: Analyzer,
    words_max: int,
) -> Iterator[SearchParameters]:
    """Yield the searches to try, in order, until one has hits.

    Args:
        parameters: of the search, with `match: auto`.
        dictionary: of the index.
        analyzer: splits query texts into words.
        words_max: limit of words of a query.
    """
    of_all = msgspec.structs.replace(parameters, match="all")
    yield of_all
    num_words = analyzer.count_words(parameters.query)
    if num_words < 2:
        return
    has_dropped = bool(dropped_words(parameters.query, dictionary, analyzer, words_max))
    if has_dropped:
        yield msgspec.structs.replace(of_all, drops_function_words=True)
    if num_words <= SHORT_QUERY_WORDS:
        yield msgspec.structs.replace(of_all, match="last", drops_function_words=has_dropped)
    yield msgspec.structs.replace(of_all, match="any")
