"""The first host of a new log makes its stream, and notes in DATA/replica.json that it did."""

from __future__ import annotations

import asyncio
from typing import Final

from common.process.logs import Log
from coordinator.replication.applying.entry_applying import ReplicaStopped
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.log_watch import LogWatch
from coordinator.replication.host.replica_file import REPLICA_FORMAT, ReplicaFile, new_host
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_durability import metadata_of
from coordinator.replication.log.log_errors import LogAway

CREATE_SECONDS: Final = 0.5
"""Pause before a failed attempt to make the log, or to note that, is repeated."""

_log = Log("replica")


async def create_log(host: HostContext, watch: LogWatch, seq_max: int) -> None:
    """Create the stream; its first entry gets the number after all that this host has.

    Args:
        host: this one.
        watch: told of the stream.
        seq_max: the newest group on the shards of this host.

    Raises:
        ReplicaStopped: another host was faster.
    """
    info = await _created_stream(host, seq_max)
    if info.origin != seq_max + 1:
        raise ReplicaStopped(
            "another host has made the log from other data: empty this directory and start "
            "again without log_create"
        )
    watch.info = info
    settings = host.settings
    shards = settings.own_shards if settings.has_placed_shards else ()
    replica = ReplicaFile(
        REPLICA_FORMAT, info.cluster, new_host(), seq_max, 0, shards=shards, configured=shards
    )
    while True:
        try:
            await host.progress.begin(replica)
            return
        except OSError as error:
            _log.warning("replica.json cannot be written", reason=error.strerror)
        await asyncio.sleep(CREATE_SECONDS)


async def _created_stream(host: HostContext, seq_max: int) -> StreamInfo:
    """Return the stream; create it unless another host is faster."""
    settings, stream = host.settings, host.stream
    while True:
        try:
            info = await stream.info()
            if info is None:
                metadata = metadata_of(settings.limits, seq_max + 1, settings.shards_of)
                await stream.create(settings.log_replicas, seq_max + 1, metadata)
                info = await stream.info()
                _log.info("log made", stream=stream.name, replicas=settings.log_replicas)
            if info is not None:
                return info
        except LogAway as error:
            _log.warning("the log cannot be made", reason=str(error))
        await asyncio.sleep(CREATE_SECONDS)
