"""The log of slow searches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from common.process.logs import Log

if TYPE_CHECKING:
    from coordinator.read.search_results import SearchResult

SLOW_QUERIES_KEPT: Final = 100
REQUEST_BYTES_LOGGED: Final = 2_000

_log = Log("slow")


class SlowQueries:
    """Logs searches slower than the setting, and keeps the latest.

    Args:
        threshold_ms: 0 disables it.
    """

    def __init__(self, threshold_ms: int) -> None:
        self.threshold_us = threshold_ms * 1000
        self.latest: deque[dict[str, Any]] = deque(maxlen=SLOW_QUERIES_KEPT)

    def is_slow(self, total_us: int) -> bool:
        """Return whether a search that took this many microseconds is slow."""
        return 0 < self.threshold_us <= total_us

    def take_latest(self) -> list[dict[str, Any]]:
        """Return the latest, and forget them."""
        latest = list(self.latest)
        self.latest.clear()
        return latest

    def note(
        self,
        index: str,
        request: Mapping[str, Any],
        request_id: str,
        total_us: int,
        result: SearchResult,
    ) -> None:
        """Record one slow search.

        Args:
            index: the index searched.
            request: its parameters, as sent.
            request_id: of the request.
            total_us: microseconds of the whole request.
            result: its phases and total.
        """
        timings = result.timings
        event = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "index": index,
            "took_ms": total_us / 1000,
            "phases_ms": {
                "search": timings.search_us / 1000,
                "facets": timings.facets_us / 1000,
                "sort": timings.sort_us / 1000,
            },
            "total": result.total,
            "request_id": request_id,
            "request": dict(request),
        }
        self.latest.append(event)
        text = orjson.dumps(event["request"], default=str)[:REQUEST_BYTES_LOGGED]
        _log.warning("slow query", **{**event, "request": text.decode("utf-8", "replace")})
