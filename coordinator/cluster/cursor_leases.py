"""Leases keep the states of an index that cursors refer to, for a while after each page.

A cursor names a horizon. While a horizon counts as being read, the coordinator has the shards keep
its state (every write carries `Cluster.oldest_horizon`), so a lease is simply a read held open. All
cursors of one horizon share a lease, and each page renews it. It expires on its own: a client that
never comes back costs a minute. A lease whose cursors have all reached their last page stays as
long, because that page may be requested again, but makes room for others.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from common.errors import InvalidRequest, TooManyRequests
from common.limits import Limits
from coordinator.cluster.all_shards import Cluster

CURSORS_COUNTED_MAX: Final = 1_000
"""Cursors of one state that are counted; with more, its lease never makes room for others."""


@dataclass(slots=True)
class _Lease:
    """A lease of one state.

    Attributes:
        timer: ends it.
        num_begun: cursors that were begun, except those whose first page was the last.
        ended: the cursors whose page was the last.
    """

    timer: asyncio.TimerHandle
    num_begun: int = 0
    ended: set[str] = field(default_factory=set)

    @property
    def is_used(self) -> bool:
        """Whether some cursor may still have a next page."""
        return self.num_begun >= CURSORS_COUNTED_MAX or self.num_begun > len(self.ended)


class Leases:
    """The horizons that cursors keep alive."""

    def __init__(self, cluster: Cluster, limits: Limits) -> None:
        self._cluster = cluster
        self._limits = limits
        self._seconds = limits.cursor_lease_ms / 1000
        self._leases: dict[tuple[int, int], _Lease] = {}
        """By index and horizon; the one that ends next comes first."""

    def check_ours(self) -> None:
        """Check that cursors of this service are this coordinator's to read."""

    def begin(self, index: int) -> int:
        """Lease the newest state of an index; return its horizon.

        Raises:
            TooManyRequests: too many states are leased already.
        """
        horizon = self._cluster.horizon(index)
        if (index, horizon) not in self._leases:
            if len(self._leases) >= self._limits.cursor_states_max and not self._end_unused():
                raise TooManyRequests(
                    f"cursors keep {self._limits.shown('cursor_states_max')} states of indexes "
                    f"already; they end {self._seconds:g} s after their last page"
                )
            self._cluster.begin_read(index)
        self._extend(index, horizon)
        lease = self._leases[index, horizon]
        lease.num_begun = min(lease.num_begun + 1, CURSORS_COUNTED_MAX)
        return horizon

    def renew(self, index: int, horizon: int) -> None:
        """Renew the lease of a cursor.

        Raises:
            InvalidRequest: code invalid_cursor; the lease has expired.
        """
        if (index, horizon) not in self._leases:
            raise InvalidRequest(
                "the cursor has expired: the next page must be requested within "
                f'{self._limits.shown("cursor_lease_ms")} ms; begin again with "*"',
                code="invalid_cursor",
                param="cursor",
            )
        self._extend(index, horizon)

    def note_page(self, index: int, horizon: int, cursor: str | None, *, has_next: bool) -> None:
        """Note that a page was read.

        Args:
            index: of the cursor.
            horizon: of the cursor.
            cursor: that the page was requested with; None: it was the first page.
            has_next: whether the client got a cursor of a next page.
        """
        lease = self._leases.get((index, horizon))
        if has_next or lease is None or lease.num_begun >= CURSORS_COUNTED_MAX:
            return
        if cursor is None:
            lease.num_begun -= 1
        else:
            lease.ended.add(cursor)

    def _extend(self, index: int, horizon: int) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._seconds, self._end, index, horizon)
        lease = self._leases.pop((index, horizon), None)
        if lease is None:
            lease = _Lease(timer)
        else:
            lease.timer.cancel()
            lease.timer = timer
        self._leases[index, horizon] = lease

    def _end_unused(self) -> bool:
        """End the oldest lease that no cursor needs; return whether there was one."""
        for (index, horizon), lease in self._leases.items():
            if not lease.is_used:
                self._end(index, horizon)
                return True
        return False

    def _end(self, index: int, horizon: int) -> None:
        self._leases.pop((index, horizon)).timer.cancel()
        self._cluster.horizons.release(index, horizon)
