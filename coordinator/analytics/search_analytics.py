"""Frequent searches, searches without hits, slow searches and clicks, by day, in bounded memory.

    search ──▶ pending ──▶ the client's last text, for some seconds ──▶ today's counts ──▶ a file
              many at a time   ("st", "star": only the final text counts)     every minute
                                                                         analytics/<day>.json

Counts are of texts as people type them, without case and repeated spaces. `FrequentKeys` holds the
most frequent ones (`heavy_hitters`). So each count is a lower bound, and with `missed` an upper
one:

    count <= true number <= count + missed

Days are those of the wall clock, which may be set forward and back: a search counts for the day on
which it came, and a clock that runs ahead does not make days too old.

Nothing about people is stored: no addresses, no keys. Cost: 2 µs a search: most searches only join
the pending ones, and every `PENDING_MAX`-th counts them all.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from common.disk_errors import explaining_disk_failure
from common.durable_files import make_folder, sync_folder, write_atomically
from common.process.logs import Log
from common.process.thread_pool import to_the_end
from coordinator.analytics.daily_search_counts import CountedSearch, Day, SlowSearch
from coordinator.analytics.heavy_hitters import Values
from coordinator.cluster.read_only_cluster_and_catalog import OwnerOnly

QUERY_CHARS_MAX: Final = 200
"""Longer texts are cut."""
TYPING_SECONDS: Final = 5.0
"""A search that continues the text of the same client's search so recently replaces it."""
TYPING_MAX: Final = 10_000
"""Clients whose last search may still be replaced."""
PENDING_MAX: Final = 100
"""Searches that are counted together."""
SAVE_SECONDS: Final = 60.0
LIST_SECONDS: Final = 60.0
"""How long a list of searches for suggestions is used."""
LISTS_MAX: Final = 64
"""Indexes whose list of searches is cached."""
_DAY_SECONDS: Final = 86_400
_FILES: Final = f"{'[0-9]' * 4}-{'[0-9]' * 2}-{'[0-9]' * 2}.json"
"""Pattern of the files' names; there may be others, such as an operator's copy."""

_log = Log("analytics")


PendingSearch: TypeAlias = tuple[float, Hashable, str, str, int, int]
"""A search that has not been counted yet: when it was answered (in seconds since 1970), its client,
the name of the index, the text as typed but cut to a maximum length, hits, microseconds."""


class _SearchList(NamedTuple):
    """The searches of an index that have found something."""

    at: float
    """When they were listed, on the monotonic clock."""
    popular: list[str]
    """Most frequent first."""
    texts: list[str]
    """In alphabetical order."""
    places: list[int]
    """Of these texts among the most frequent ones."""

    def starting_with(self, prefix: str) -> list[str]:
        """Return those that begin with a text, most frequent first."""
        if not prefix:
            return self.popular
        first = bisect_left(self.texts, prefix)
        last = bisect_left(self.texts, prefix + chr(0x10FFFF), first)
        return [self.popular[place] for place in sorted(self.places[first:last])]


class Analytics:
    """Counts searches and clicks; keeps them in files.

    Args:
        folder: of the files.
        days: that are kept; 0: nothing is counted.
        num_max: texts, and clicked items, of a day that are kept.
    """

    def __init__(self, folder: Path, days: int, num_max: int) -> None:
        self.is_on = days > 0
        self._folder = folder
        self._days = days
        self._num_max = num_max
        self._pending: list[PendingSearch] = []
        self._typing: OrderedDict[Hashable, CountedSearch] = OrderedDict()
        self._finished: list[Day] = []
        self._listed: dict[str, _SearchList] = {}
        self._changed: set[int] = set()
        self._saving = asyncio.Lock()
        self._started_at = (time.time(), time.monotonic())
        number = _day_of(time.time())
        self._today = (self._read(number) if self.is_on else None) or Day(number, num_max)

    # --- count

    def record(self, client: Hashable, index: str, query: str, num_hits: int, took_us: int) -> None:
        """Count a search for its first page.

        Args:
            client: distinguishes the searches of clients; forgotten after seconds.
            index: name.
            query: as typed; may be empty.
            num_hits: total.
            took_us: microseconds.
        """
        pending = self._pending
        pending.append((time.time(), client, index, query[:QUERY_CHARS_MAX], num_hits, took_us))
        if len(pending) >= PENDING_MAX:
            self._count_pending()

    def record_all(self, pending: Iterable[PendingSearch]) -> None:
        """Record searches of another coordinator."""
        self._pending += pending
        if len(self._pending) >= PENDING_MAX:
            self._count_pending()

    def _count_pending(self) -> None:
        """Count the pending searches, except the last of each client: it may still be typing."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        typing = self._typing
        finished: list[CountedSearch] = []
        for at, client, index, query, num_hits, took_us in pending:
            text = query.casefold()
            if not text.isalnum():
                text = " ".join(text.split())
            last = typing.pop(client, None)
            typing[client] = (at, index, text, num_hits, took_us)
            if last is None:
                continue
            last_at, last_index, last_text, _, _ = last
            is_continued = (
                last_text
                and text
                and (text.startswith(last_text) or last_text.startswith(text))
                and last_index == index
                and abs(at - last_at) < TYPING_SECONDS
            )
            if not is_continued:
                finished.append(last)
        while typing and (
            len(typing) > TYPING_MAX or at - next(iter(typing.values()))[0] > TYPING_SECONDS
        ):
            finished.append(typing.popitem(last=False)[1])
        self._count(finished)

    def click(self, client: Hashable, index: str, query: str, id: str, position: int) -> bool:
        """Count a click on a hit; return False if its search is not among the counted ones.

        Args:
            client: as in `record`.
            index: name.
            query: that the hit was found by; may be empty.
            id: of the item.
            position: of the hit, from 1.
        """
        text = " ".join(query[:QUERY_CHARS_MAX].casefold().split())
        if not self._has_counted(index, text):
            self._finish_typing(client)
        if not self._has_counted(index, text):
            self._flush()  # another client's search: clicks may be sent from elsewhere
        if not self._has_counted(index, text):
            return False
        values = self._today.queries.get((index, text))
        if values is not None:
            values[4] += 1
            values[5] += position
        clicked = self._today.clicked.at((index, id))
        clicked[0] += 1
        clicked[1] += position
        self._changed.add(self._today.number)
        return True

    def _count(self, finished: Iterable[CountedSearch]) -> None:
        """Count searches for the days on which they came."""
        for number, searches in groupby(finished, _day_of_search):
            day = self._today if number == self._today.number else self._other_day(number)
            day.add(searches)
            self._changed.add(number)

    def _other_day(self, number: int) -> Day:
        """Return a day that is not the one counted last: a new one, or one that is over.

        The latter where a search came right before midnight, or the clock was set back.
        """
        for day in self._finished:
            if day.number == number:
                break
        else:
            day = self._read(number) or Day(number, self._num_max)
            self._finished.append(day)
        if number > self._today.number or self._today.number > _day_of(time.time()):
            self._finished.remove(day)
            self._finished.append(self._today)
            self._today = day
        return day

    def _has_counted(self, index: str, text: str) -> bool:
        """Return whether a search for a text was counted today; empty: any search of the index."""
        if text:
            return self._today.queries.get((index, text)) is not None
        return index in self._today.totals

    def _finish_typing(self, client: Hashable) -> None:
        """Count the last search of a client now: it has found what it was looking for."""
        self._count_pending()
        last = self._typing.pop(client, None)
        if last is not None:
            self._count([last])

    def _flush(self) -> None:
        """Count all searches, including those that a client may still be typing."""
        self._count_pending()
        self._count(self._typing.values())
        self._typing.clear()

    # --- reports

    async def report(self, index: str | None, days: int, size: int) -> dict[str, Any]:
        """Return the counts.

        Args:
            index: of this index only.
            days: today and the days before.
            size: entries of each list.
        """
        self._flush()
        today = _day_of(time.time())
        numbers = range(today - min(days, self._days) + 1, today + 1)
        in_memory = {day.number: day for day in (*self._finished, self._today)}
        return await asyncio.to_thread(self._report, index, numbers, size, in_memory)

    def _report(
        self, index: str | None, numbers: Iterable[int], size: int, in_memory: dict[int, Day]
    ) -> dict[str, Any]:
        """Add up the days, in a thread."""
        by_day = []
        slow: list[SlowSearch] = []
        queries: dict[tuple[str, str], Values] = {}
        clicked: dict[tuple[str, str], Values] = {}
        for number in numbers:
            day = in_memory.get(number) or self._read(number)
            if day is None:
                continue
            by_day.append(_day_row(day, index))
            slow += [one for one in list(day.slow) if index in (None, one.name)]
            for counter, merged in ((day.queries, queries), (day.clicked, clicked)):
                _merge(merged, (row for row in counter.rows() if index in (None, row[0][0])))
        popular = sorted(queries.items(), key=lambda one: (-one[1][0], one[0]))
        missed = sorted((one for one in popular if one[1][1]), key=lambda one: (-one[1][1], one[0]))
        items = sorted(clicked.items(), key=lambda one: (-one[1][0], one[0]))
        return {
            "days": by_day,
            "searches": sum(day["searches"] for day in by_day),
            "no_hits": sum(day["no_hits"] for day in by_day),
            "popular": [_query_row(*one) for one in popular[:size]],
            "without_hits": [_query_row(*one) for one in missed[:size]],
            "slow": [_slow_row(one) for one in _slowest(slow)[:size]],
            "clicked": [_clicked_row(*one) for one in items[:size]],
        }

    async def searches_with(self, index: str, prefix: str) -> list[str]:
        """Return the searches that begin with a text and have found something, most frequent first.

        The list that they are looked up in is at most a minute old.

        Args:
            index: name.
            prefix: folded as `record` does; empty: all.
        """
        listed = self._listed.get(index)
        if listed is None or time.monotonic() - listed.at > LIST_SECONDS:
            report = await self.report(index, self._days, self._num_max)
            popular = [
                row["query"] for row in report["popular"] if row["searches"] > row["no_hits"]
            ]
            places = sorted(range(len(popular)), key=popular.__getitem__)
            if len(self._listed) >= LISTS_MAX:
                self._listed.clear()
            texts = [popular[place] for place in places]
            listed = self._listed[index] = _SearchList(time.monotonic(), popular, texts, places)
        return listed.starting_with(prefix)

    async def forget(self, index: str | None) -> None:
        """Forget an index, or everything, on disk too.

        Raises:
            StorageFull: no room.
            InternalError: the disk failed. In both cases, some of it may be there after a restart.
        """
        self._flush()
        self._listed.clear()
        in_memory = (*self._finished, self._today)
        for day in in_memory:
            day.forget(index)
            self._changed.add(day.number)
        with explaining_disk_failure("not everything is forgotten"):
            async with self._saving:  # else what is being written would come back
                numbers = {day.number for day in in_memory}
                await to_the_end(self._forget_files, index, numbers)
            await self._save()

    # --- files

    async def save_periodically(self) -> None:
        """Save every minute, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            if self._changed or self._pending or self._typing:
                await self.save()

    async def save(self) -> None:
        """Write the counts, and remove days that are too old; if that fails, it is tried again."""
        try:
            await self._save()
        except Exception as error:  # such as no memory, or counted meanwhile
            _log.warning("analytics are not saved", reason=str(error) or type(error).__name__)

    async def _save(self) -> None:
        if not self.is_on:
            return
        async with self._saving:
            self._flush()
            days = [*self._finished, self._today]
            changed, self._changed = self._changed, set()
            try:
                await to_the_end(self._write, days)
            except BaseException:
                self._changed |= changed
                raise
            self._finished = [
                day
                for day in self._finished
                if day not in days or day.number in self._changed  # counted meanwhile
            ]

    def _path(self, number: int) -> Path:
        return self._folder / f"{Day(number, 1).name}.json"

    def _read(self, number: int) -> Day | None:
        """Read a day's file; None if it is missing or unreadable."""
        try:
            return Day.decode(number, self._path(number).read_bytes(), self._num_max)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.warning("a day of analytics cannot be read", day=number, reason=str(error))
            return None

    def _write(self, days: Iterable[Day]) -> None:
        make_folder(self._folder)
        for day in days:
            write_atomically(self._path(day.number), day.encode())
        oldest = self._path(self._sure_today() - self._days + 1).name
        for path in (*self._folder.glob(_FILES), *self._folder.glob("*.tmp")):
            if path.name < oldest:
                path.unlink(missing_ok=True)

    def _sure_today(self) -> int:
        """Return today's number; where the clock was set forward, that of the day without it."""
        clock, monotonic = self._started_at
        return _day_of(min(time.time(), clock + time.monotonic() - monotonic))

    def _forget_files(self, index: str | None, in_memory: set[int]) -> None:
        paths = list(self._folder.glob(_FILES))
        if index is None and paths:
            for path in paths:
                path.unlink(missing_ok=True)
            sync_folder(self._folder)  # or a power loss brings them back
            return
        for path in paths:
            try:
                number = (date.fromisoformat(path.stem) - date(1970, 1, 1)).days
            except ValueError:
                continue  # digits that are not a date: not a file of ours
            day = None if number in in_memory else self._read(number)
            if day is not None:
                day.forget(index)
                self._write([day])


class ReaderAnalytics(Analytics):
    """Keeps the searches of a reader until the owner among the coordinators counts them."""

    def record(self, client: Hashable, index: str, query: str, num_hits: int, took_us: int) -> None:
        """Keep a search for the owner."""
        query = query[:QUERY_CHARS_MAX]
        self._pending.append((time.time(), client, index, query, num_hits, took_us))

    def take_pending(self) -> list[PendingSearch]:
        """Return the searches recorded since the last call."""
        pending, self._pending = self._pending, []
        return pending

    async def searches_with(self, index: str, prefix: str) -> list[str]:
        """Leave it to the owner."""
        raise OwnerOnly


def _day_of_search(search: CountedSearch) -> int:
    return _day_of(search[0])


def _day_of(at: float) -> int:
    """Return the number of a day, given seconds since 1970."""
    return int(at) // _DAY_SECONDS


def _merge(
    merged: dict[tuple[str, str], Values], rows: Iterable[tuple[tuple[str, str], Values]]
) -> None:
    """Add up rows by key."""
    for key, values in rows:
        known = merged.get(key)
        merged[key] = (
            list(values) if known is None else [a + b for a, b in zip(known, values, strict=True)]
        )


def _day_row(day: Day, index: str | None) -> dict[str, Any]:
    """Return the totals of a day as they are shown: of one index, or of all (None)."""
    totals = [one for name, one in list(day.totals.items()) if index in (None, name)]
    searches, no_hits, took_us = (sum(one[i] for one in totals) for i in range(3))
    return {
        "date": day.name,
        "searches": searches,
        "no_hits": no_hits,
        "took_us": took_us // max(searches, 1),
    }


def _slowest(searches: Iterable[SlowSearch]) -> list[SlowSearch]:
    """Return the slowest search of each text in each index, slowest first."""
    slowest: dict[tuple[str, str], SlowSearch] = {}
    for one in sorted(searches, reverse=True):
        slowest.setdefault((one.name, one.query), one)
    return list(slowest.values())


def _slow_row(search: SlowSearch) -> dict[str, Any]:
    """Return a slow search as it is shown."""
    return {
        "index": search.name,
        "query": search.query,
        "took_us": search.took_us,
        "at": datetime.fromtimestamp(search.at, UTC).isoformat(timespec="seconds"),
    }


def _clicked_row(key: tuple[str, str], values: Values) -> dict[str, Any]:
    """Return an item's clicks as they are shown; `position` is their mean."""
    clicks, positions = values[:2]
    return {
        "index": key[0],
        "id": key[1],
        "clicks": clicks,
        "position": round(positions / max(clicks, 1), 1),
    }


def _query_row(key: tuple[str, str], values: Values) -> dict[str, Any]:
    """Return a text as it is shown."""
    searches, no_hits, took_us, _, clicks, positions, missed = values
    row: dict[str, Any] = {
        "index": key[0],
        "query": key[1],
        "searches": searches,
        "no_hits": no_hits,
        "took_us": took_us // max(searches, 1),
        "clicks": clicks,
    }
    if missed:
        row["searches_max"] = searches + missed
    if clicks:
        row["position"] = round(positions / clicks, 1)
    return row
