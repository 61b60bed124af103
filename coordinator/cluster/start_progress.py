"""Startup progress: collected from the shards, reported to clients that arrive early.

    shard 0: 3 of 4 indexes, 120,000 of 400,000 items ─┐
    shard 1: 4 of 4 indexes                            ─┴▶ share 0.65, about 12 s more

Most starts finish before any client asks. Slow ones re-index stored items (after a kill, or for a
new format) or open very many indexes. The share is of work done, not of time: items if any have to
be re-indexed, else indexes. The time left is extrapolated from the time so far.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from common.errors import ServiceError
from common.process.logs import Log
from common.protocol.messages import OpeningStatistics
from common.protocol.methods import OPENING

if TYPE_CHECKING:
    from coordinator.cluster.shard_client import ShardClient

ASK_SECONDS: Final = 0.25
ASK_TIMEOUT_MS: Final = 1_000
LOG_SECONDS: Final = 5.0
SHARE_MIN: Final = 0.02
"""Below this share, the time left cannot be estimated."""

_log = Log("cluster")


class StartProgress:
    """The start of one service.

    Args:
        shards: all of which have to serve.
    """

    def __init__(self, shards: Sequence[ShardClient]) -> None:
        self._shards = shards
        self._started = time.monotonic()
        self._heard: dict[int, OpeningStatistics] = {}

    async def watch(self, is_over: asyncio.Event) -> None:
        """Poll the shards' progress until all serve."""
        clock = asyncio.get_running_loop().time
        next_log = clock() + LOG_SECONDS
        while not is_over.is_set():
            await asyncio.gather(*(self._ask(shard) for shard in self._shards))
            if clock() >= next_log:
                next_log = clock() + LOG_SECONDS
                _log.info("starting", progress=self.logged())
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    await is_over.wait()
            except TimeoutError:
                continue

    async def _ask(self, shard: ShardClient) -> None:
        try:
            answer = await shard.call_opening(OPENING, None, ASK_TIMEOUT_MS)
        except ServiceError:
            return  # not up yet, or busy; its last report still holds
        self.note(shard.shard, answer)

    def note(self, shard: int, heard: OpeningStatistics) -> None:
        """Record a shard's report."""
        self._heard[shard] = heard

    def shown(self) -> dict[str, Any]:
        """Return the progress as clients see it."""
        heard = self._heard.values()
        num_records = sum(one.num_records for one in heard)
        num_built = sum(one.num_built for one in heard)
        num_indexes = sum(one.num_indexes for one in heard)
        num_open = sum(one.num_open for one in heard)
        done, total = (num_built, num_records) if num_records else (num_open, num_indexes)
        # A shard that has not reported yet has all its work ahead.
        share = done / total * len(self._heard) / len(self._shards) if total else 0.0
        seconds = time.monotonic() - self._started
        return {
            "share": round(min(share, 1.0), 4),
            "seconds": round(seconds, 1),
            "seconds_left": round(seconds * (1 - share) / share, 1)
            if SHARE_MIN <= share <= 1.0
            else None,
            "indexes": {"done": num_open, "total": num_indexes},
            "items": {"done": num_built, "total": num_records},
            "shards": {"heard": len(self._heard), "total": len(self._shards)},
        }

    def message(self) -> str:
        """Return the progress as a sentence to clients."""
        how_far = f" ({', '.join(parts)})" if (parts := self._parts()) else ""
        return f"the service is starting{how_far}; try again shortly"

    def logged(self) -> str:
        """Return the progress as operators read it: with the shards that have not reported."""
        silent = [
            f"shard {shard.shard}" for shard in self._shards if shard.shard not in self._heard
        ]
        missing = [f"nothing heard yet of {', '.join(silent)}"] if silent else []
        return ", ".join([*self._parts(), *missing]) or "all shards have reported"

    def _parts(self) -> list[str]:
        """Return what is done and left, as far as anything is known."""
        shown = self.shown()
        parts = []
        if shown["items"]["total"]:
            parts.append("{done:,} of {total:,} items are indexed again".format(**shown["items"]))
        if shown["indexes"]["total"]:
            parts.append("{done:,} of {total:,} index parts are open".format(**shown["indexes"]))
        if shown["seconds_left"]:
            parts.append(f"about {shown['seconds_left']:.0f} s more")
        return parts
