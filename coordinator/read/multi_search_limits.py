"""Several searches in one request: bounds of their total cost, and of the items that they read.

A request of a few kilobytes may ask for 64 searches, each with hundreds of words or with facets of
ten thousand values. Their cost follows from the parameters alone, so it is added up and checked
before any shard is called. How many run at a time: `multi_search_concurrency`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from common.analysis.analyzer import Analyzer
from common.errors import InvalidRequest, PayloadTooLarge
from common.hits_page_byte_limit import PAGE_BYTES_MAX, is_too_large
from common.limits import Limits
from coordinator.parameters.parsed_parameters import SearchParameters

TYPO_FACTOR: Final = 4
"""Cost factor of a word that may have typos: it is matched against the whole vocabulary."""

COUNTS_PER_BUCKET: Final = 8
"""Number of joint counts that cost as much as a bucket."""

_analyzer: Final = Analyzer()


class CostSum:
    """Adds up the cost of one request's searches."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._num_words = 0
        self._num_buckets = 0

    def add(self, search: SearchParameters) -> None:
        """Add a search.

        Raises:
            InvalidRequest: `searches_too_costly`; the searches so far cost too much together.
        """
        limits = self._limits
        factor = 1 if search.typo == 0 else TYPO_FACTOR
        num_words = _analyzer.count_words(search.query)
        self._num_words += factor * min(num_words, limits.query_words_max)
        num_buckets = search.num_buckets_max
        self._num_buckets += num_buckets
        if search.cube is not None:
            num_bins = len(search.cube.edges) or limits.facet_cube_bins_max
            num_counts = min(num_buckets * num_bins, limits.facet_cube_counts_max)
            self._num_buckets += num_counts // COUNTS_PER_BUCKET
        if self._num_words > limits.searches_words_max:
            raise InvalidRequest(
                f"the queries of all searches together have more than "
                f"{limits.shown('searches_words_max')} words, each counted {TYPO_FACTOR} times "
                "where typos are allowed; send fewer searches, fewer words, or typo: 0",
                code="searches_too_costly",
                param="query",
            )
        if self._num_buckets > limits.searches_buckets_max:
            raise InvalidRequest(
                f"the facets of all searches together may have more than "
                f"{limits.shown('searches_buckets_max')} buckets; send fewer searches, name the "
                "facets that are needed in facet_fields, or ask for them page by page",
                code="searches_too_costly",
                param="facet_fields",
            )


class ItemSum:
    """Adds up the items that a request reads by several searches: they share the bound of one page.

    Otherwise searches of a few kilobytes would hold gigabytes of items.
    """

    def __init__(self) -> None:
        self._num_items = 0
        self._num_bytes = 0

    def add(self, items: Sequence[bytes]) -> None:
        """Add the items of a search.

        Raises:
            PayloadTooLarge: all of them together are too large.
        """
        self._num_items += len(items)
        self._num_bytes += sum(map(len, items))
        if is_too_large(self._num_items, self._num_bytes):
            raise PayloadTooLarge(
                f"the items of this request take more than {PAGE_BYTES_MAX >> 20} MiB together; "
                "ask for fewer at a time",
                advice="GET /{index}/items streams all items that match",
            )
