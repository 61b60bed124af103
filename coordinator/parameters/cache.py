"""Parameters of recent search requests: people and pages ask the same things again and again.

The key has everything of a request that parsing looks at, and number and revision of its index;
parsing is pure, so nothing can go stale. One memo a service: another one numbers its indexes anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coordinator.cluster.catalog import Index
    from coordinator.parameters.typed import SearchParameters

PARSED_MAX: Final = 2_048
PARSED_BYTES_MAX: Final = 2_048
"""Requests longer than this are not remembered."""


class ParsedRequests:
    """The memo."""

    def __init__(self) -> None:
        self._searches: dict[tuple[int, int, str, bytes], SearchParameters] = {}

    def search(self, index: Index, query_string: str, body: bytes) -> SearchParameters | None:
        """Return the parameters of a search request, if it came before."""
        return self._searches.get((index.number, index.revision, query_string, body))

    def remember(
        self, index: Index, query_string: str, body: bytes, parameters: SearchParameters
    ) -> None:
        """Remember the parameters of a search request, unless it is long."""
        if len(body) + len(query_string) > PARSED_BYTES_MAX:
            return
        if len(self._searches) >= PARSED_MAX:
            self._searches.clear()
        self._searches[index.number, index.revision, query_string, body] = parameters
