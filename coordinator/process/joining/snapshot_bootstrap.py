"""An empty host takes all data of another one, or follows the log from its first entry."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Final

from common.durable_files import make_folder, sync_folder
from common.process.logs import Log
from coordinator.process import offline_commands
from coordinator.process.joining.log_checks import CannotJoin
from coordinator.replication.host.replica_file import (
    REPLICA_FORMAT,
    Position,
    ReplicaFile,
    new_host,
    write_replica,
)
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.log_stream import LogStream
from coordinator.replication.snapshot_transfer.recipient import find_offer, take_snapshot
from coordinator.settings import Settings

CONNECT_SECONDS_MAX: Final = 30.0
"""How long an empty host waits for the log, and for another host to copy from."""

_log = Log("replica")


async def fill(stream: LogStream, info: StreamInfo, settings: Settings) -> None:
    """Fill an empty directory from another host; or leave it empty if the log has everything."""
    data = settings.data_dir.absolute()
    offline_commands.check_place(data)
    give_up_at = time.monotonic() + CONNECT_SECONDS_MAX
    work = data.with_name(f"{data.name}.joining")
    taken = data.with_name(f"{data.name}.taken")
    position = Position(0, 0)
    try:
        while True:
            for folder in (work, taken):
                shutil.rmtree(folder, ignore_errors=True)
            try:
                offer = await find_offer(stream)
                if offer is not None:
                    _log.info("taking data of another host", host=offer.host, seq=offer.seq)
                    make_folder(taken)
                    position = await take_snapshot(stream, offer.host, taken)
                    await asyncio.to_thread(_put_in_place, taken, work, settings.shards)
                    break
                if info.is_complete:
                    make_folder(work)
                    break
                reason = "no host serves"
            except LogAway as error:
                reason = str(error)
            if time.monotonic() >= give_up_at:
                raise CannotJoin(
                    f"this host is empty and must take its data from another one: {reason}; start "
                    "a host that has them"
                )
            await asyncio.sleep(0.5)
        replica = ReplicaFile(
            REPLICA_FORMAT, info.cluster, new_host(), position.seq, position.stored_at
        )
        write_replica(work, replica)
        work.rename(data)
        sync_folder(data.parent)
    finally:
        for folder in (work, taken):
            shutil.rmtree(folder, ignore_errors=True)


def _put_in_place(taken: Path, work: Path, num_shards: int) -> None:
    """Make a data directory of a snapshot, for the number of shards of this host."""
    snapshot = offline_commands.restore(taken, work)
    if snapshot.shards != num_shards and offline_commands.reshard(work, num_shards) != 0:
        raise CannotJoin(f"the data taken cannot be spread over {num_shards} shards")
