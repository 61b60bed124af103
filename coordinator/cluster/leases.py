"""Leases keep the states of an index that cursors refer to, for a while after each page.

A cursor names a horizon. While a horizon counts as being read, the coordinator has the shards keep
its state (every write carries `Cluster.oldest_horizon`), so a lease is simply a read held open. All
cursors of one horizon share a lease, and each page renews it. It expires on its own: a client that
never comes back costs a minute.
"""

from __future__ import annotations

import asyncio

from common.errors import InvalidRequest, TooManyRequests
from common.limits import Limits
from coordinator.cluster.cluster import Cluster


class Leases:
    """The horizons that cursors keep alive."""

    def __init__(self, cluster: Cluster, limits: Limits) -> None:
        self._cluster = cluster
        self._limits = limits
        self._seconds = limits.cursor_lease_ms / 1000
        self._timers: dict[tuple[int, int], asyncio.TimerHandle] = {}

    def check_ours(self) -> None:
        """Check that cursors of this service are this coordinator's to read."""

    def begin(self, index: int) -> int:
        """Lease the newest state of an index; return its horizon.

        Raises:
            TooManyRequests: too many states are leased already.
        """
        horizon = self._cluster.horizon(index)
        if (index, horizon) not in self._timers:
            if len(self._timers) >= self._limits.cursor_states_max:
                raise TooManyRequests(
                    f"cursors keep {self._limits.shown('cursor_states_max')} states of indexes "
                    f"already; they end {self._seconds:g} s after their last page"
                )
            self._cluster.begin_read(index)
        self._renew(index, horizon)
        return horizon

    def go_on(self, index: int, horizon: int) -> None:
        """Renew the lease of a cursor.

        Raises:
            InvalidRequest: code invalid_cursor; the lease has expired.
        """
        if (index, horizon) not in self._timers:
            raise InvalidRequest(
                "the cursor has expired: the next page must be requested within "
                f'{self._limits.shown("cursor_lease_ms")} ms; begin again with "*"',
                code="invalid_cursor",
                param="cursor",
            )
        self._renew(index, horizon)

    def _renew(self, index: int, horizon: int) -> None:
        timer = self._timers.pop((index, horizon), None)
        if timer is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[index, horizon] = loop.call_later(self._seconds, self._end, index, horizon)

    def _end(self, index: int, horizon: int) -> None:
        del self._timers[index, horizon]
        self._cluster.horizons.release(index, horizon)
