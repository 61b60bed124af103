"""The start of a host: when it may serve; the first makes the log before (`log_stream_creation`).

    the log answers              once everything that the log has now is applied
    it is away, we have data     at once: what our shards have without doubt
    it is away, we have none     once it answers

`coordinator/process/joining` has checked the log and filled the directory before.
"""

from __future__ import annotations

import asyncio
from typing import Final

from common.errors import ServiceError
from common.process.logs import Log
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.log_watch import LogWatch
from coordinator.replication.startup.log_stream_creation import create_log
from coordinator.replication.startup.state_without_log import LocalState, local_state

PAUSE_SECONDS: Final = 0.1
"""Interval between two checks whether the log answers."""
CHECKS_MAX: Final = 30
"""After this many checks, a host that has data serves them without the log."""

_log = Log("replica")


class FirstServing:
    """Begins to follow the log.

    Args:
        host: this one.
        watch: knows whether the log is up.
    """

    def __init__(self, host: HostContext, watch: LogWatch) -> None:
        self._host = host
        self._progress = host.progress
        self._watch = watch

    async def run(self) -> int:
        """Return the entry from which on this host may serve; its shards are ready.

        Raises:
            ReplicaStopped: another host has made the log from other data.
        """
        cluster, watch = self._host.cluster, self._watch
        if self._progress.replica is None:
            await create_log(self._host, watch, cluster.seq)
        for _ in range(CHECKS_MAX):
            if watch.is_up:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        if not watch.is_up and (state := await self._own_state()) is not None:
            _log.warning("serving without the log", seq=state.seq)
            self._take_up(state)
            return state.seq if cluster.placed is None else 0  # other hosts may have less
        if watch.info is None:
            _log.warning("waiting for the log: this host has no data without it")
        while watch.info is None:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_SECONDS)
        self._take_up(LocalState(self._progress.position.seq, {}))
        return max(cluster.seq, watch.info.last_seq)

    def _take_up(self, state: LocalState) -> None:
        """Let searches begin with a state."""
        self._progress.found_seq = state.seq
        if self._host.cluster.placed is None:
            horizons = self._host.cluster.horizons
            horizons.begin(self._progress.applied_seq)
            for index, horizon in state.horizons.items():
                horizons.advance(index, horizon)

    async def _own_state(self) -> LocalState | None:
        """Return what this host has without doubt; None if that is nothing, or not known."""
        cluster, catalog = self._host.cluster, self._host.catalog
        seq = self._progress.position.seq
        if not seq and not cluster.seq and not catalog.state.revision:
            return None  # it has not followed the log yet
        if seq >= cluster.seq and cluster.placed is None:
            return LocalState(cluster.seq, {})
        while True:
            try:
                return await local_state(cluster, seq)
            except ServiceError as error:
                _log.warning("a shard does not say what it has", reason=error.message)
            await asyncio.sleep(PAUSE_SECONDS)
            await cluster.wait_ready()
