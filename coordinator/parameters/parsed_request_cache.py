"""Cache of parsed search requests: users and pages keep sending the same ones.

The key holds everything of a request that parsing reads, plus number and revision of its index.
Parsing is pure, so nothing can go stale. One cache per service: each numbers its own indexes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coordinator.catalog.catalog import Index
    from coordinator.parameters.parsed_parameters import SearchParameters

PARSED_MAX: Final = 2_048
PARSED_BYTES_MAX: Final = 2_048
"""Longer requests are not cached."""


class ParsedRequests:
    """The cache of parsed searches, cleared when full."""

    def __init__(self) -> None:
        self._searches: dict[tuple[int, int, str, bytes], SearchParameters] = {}

    def search(self, index: Index, query_string: str, body: bytes) -> SearchParameters | None:
        """Return the parameters of a search request, if cached."""
        return self._searches.get((index.number, index.revision, query_string, body))

    def remember(
        self, index: Index, query_string: str, body: bytes, parameters: SearchParameters
    ) -> None:
        """Cache the parameters of a search request, unless it is long."""
        if len(body) + len(query_string) > PARSED_BYTES_MAX:
            return
        if len(self._searches) >= PARSED_MAX:
            self._searches.clear()
        self._searches[index.number, index.revision, query_string, body] = parameters
