"""Counts of one day of searches and clicks, in bounded memory."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Final, NamedTuple, TypeAlias

import msgspec
import orjson

from common.decode_errors import UNDECODABLE
from coordinator.analytics.heavy_hitters import FrequentKeys, Values

SLOW_MAX: Final = 100
"""Slowest searches kept of a day."""
ROWS_AT_ONCE: Final = 1_000


CountedSearch: TypeAlias = tuple[float, str, str, int, int]
"""A search: when it was answered (in seconds since 1970), the name of the index, the text, hits,
microseconds."""


class SlowSearch(NamedTuple):
    """One slow search."""

    took_us: int
    at: float
    name: str
    """Of the index."""
    query: str


class Day:
    """The counts of one day.

    Args:
        number: days since 1970.
        num_max: texts, and clicked items, that are kept.

    Attributes:
        totals: by index: searches, those without hits, microseconds.
        queries: by index and text: searches, those without hits, microseconds, hits of the last
            one, clicks, sum of their positions.
        clicked: by index and id: clicks, sum of their positions.
        slow: the slowest, as a heap.
    """

    def __init__(self, number: int, num_max: int) -> None:
        self.number = number
        self.totals: dict[str, Values] = {}
        self.queries: FrequentKeys[tuple[str, str]] = FrequentKeys(num_max, 6)
        self.clicked: FrequentKeys[tuple[str, str]] = FrequentKeys(num_max, 2)
        self.slow: list[SlowSearch] = []

    @property
    def name(self) -> str:
        """The date."""
        return (date(1970, 1, 1) + timedelta(days=self.number)).isoformat()

    def add(self, searches: Iterable[CountedSearch]) -> None:
        """Count searches."""
        slow = self.slow
        for at, index, query, num_hits, took_us in searches:
            total = self.totals.get(index)
            if total is None:
                total = self.totals[index] = [0, 0, 0]
            total[0] += 1
            total[2] += took_us
            if not num_hits:
                total[1] += 1
            if query:
                values = self.queries.at((index, query))
                values[0] += 1
                values[2] += took_us
                values[3] = num_hits
                if not num_hits:
                    values[1] += 1
            if len(slow) < SLOW_MAX:
                heapq.heappush(slow, SlowSearch(took_us, at, index, query))
            elif took_us > slow[0].took_us:
                heapq.heapreplace(slow, SlowSearch(took_us, at, index, query))

    def forget(self, index: str | None) -> None:
        """Forget an index, or everything."""
        if index is None:
            self.totals.clear()
        else:
            self.totals.pop(index, None)
        for counter in (self.queries, self.clicked):
            counter.discard(lambda key: index is None or key[0] == index)
        self.slow = [one for one in self.slow if index is not None and one.name != index]
        heapq.heapify(self.slow)

    def encode(self) -> bytes:
        """Return the day as JSON; made in parts, between which other threads run."""
        parts = [
            b'{"totals":%b,"floors":%b,"slow":%b'
            % (
                orjson.dumps(dict(self.totals)),
                orjson.dumps([self.queries.floor, self.clicked.floor]),
                orjson.dumps([list(one) for one in tuple(self.slow)]),
            )
        ]
        for name, counter in (("queries", self.queries), ("clicked", self.clicked)):
            rows = [[*key, *values] for key, values in counter.rows()]
            encoded = []
            for first in range(0, len(rows), ROWS_AT_ONCE):
                encoded.append(orjson.dumps(rows[first : first + ROWS_AT_ONCE])[1:-1])
                time.sleep(0)
            parts.append(b',"%b":[%b]' % (name.encode(), b",".join(encoded)))
        return b"".join(parts) + b"}"

    @classmethod
    def decode(cls, number: int, text: bytes, num_max: int) -> Day:
        """Read a day.

        Raises:
            ValueError: it is not one.
        """
        day = cls(number, num_max)
        try:
            stored = _decode(text)
        except UNDECODABLE as error:
            raise ValueError(f"no counts of a day: {error}") from error
        for name, totals in stored.totals.items():
            day.totals[name] = list(totals)
        day.queries.floor, day.clicked.floor = stored.floors
        day.slow = stored.slow
        heapq.heapify(day.slow)
        for index, query, *values in stored.queries:
            day.queries.put((index, query), values)
        for index, id, *values in stored.clicked:
            day.clicked.put((index, id), values)
        return day


class _StoredDay(msgspec.Struct):
    """The content of a file."""

    totals: dict[str, tuple[int, int, int]]
    floors: tuple[int, int]
    slow: list[SlowSearch]
    queries: list[tuple[str, str, int, int, int, int, int, int, int]]
    clicked: list[tuple[str, str, int, int, int]]


# Created at import: two threads that use such a class for the first time together would crash.
_decode = msgspec.json.Decoder(_StoredDay).decode
