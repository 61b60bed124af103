"""Before a host of several starts: is the log safe, and does its directory fit it?

    directory             log            what happens
    empty                 none           log_create: the log is made; else refused
    empty                 with entries   takes a snapshot of another host, or follows from the start
    of this log           goes on        follows from where it was
    of this log           has trimmed    refused: empty it
    of another log        any            refused
    with data of its own  none           log_create: the log begins with them; else refused

A log that is away does not keep a host from starting that has data: reads go on without it.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from common import data_directory
from common.data_directory import DataDirectoryError
from common.process.logs import Log
from common.settings import SettingError
from coordinator.cluster.snapshots import SnapshotError
from coordinator.process import maintenance
from coordinator.replication.position import (
    REPLICA_FORMAT,
    ReplicaFile,
    new_host,
    read_replica,
    write_replica,
)
from coordinator.replication.safety import (
    dangers_of_servers,
    dangers_of_stream,
    monitors_of,
    refusal,
)
from coordinator.replication.stream import LogAway, LogStream, Position, StreamInfo
from coordinator.replication.transfer import find_offer, take_snapshot
from coordinator.settings import Settings

CONNECT_SECONDS_MAX: Final = 30.0
"""How long an empty host waits for the log, and for another host to take its data from."""

_log = Log("replica")


class CannotJoin(Exception):
    """This host cannot follow the log as things are; the message says what to do."""


def join(settings: Settings) -> int:
    """Check the log and fit the directory to it; return the exit status: 0 if it may start."""
    try:
        asyncio.run(_join(settings))
    except (CannotJoin, DataDirectoryError, SettingError, SnapshotError) as error:
        print(f"facetd: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        refused = data_directory.refusal_explained(settings.data_dir, error)
        print(f"facetd: {refused}", file=sys.stderr)
        return 1
    return 0


async def _join(settings: Settings) -> None:
    """Check and fit."""
    data = settings.data_dir
    replica = read_replica(data)
    has_data = data_directory.read_manifest(data) is not None
    stream = LogStream(settings.log_url, settings.log_stream, settings.log_credentials)
    try:
        try:
            info = await _info(stream, 0.0 if replica else CONNECT_SECONDS_MAX)
        except LogAway as error:
            if replica is None:
                raise CannotJoin(f"{error}; an empty host cannot start without the log") from error
            _log.warning("starting without the log", reason=str(error))
            return
        await _check_safe(stream, info, settings)
        if info is None:
            _check_may_create(settings, replica, has_data)
        elif replica is not None:
            _check_fits(info, replica, data)
        elif has_data:
            raise CannotJoin(
                f"{data} has data of its own, and the log has others: empty the directory, and "
                "this host takes its data from another one"
            )
        else:
            await _fill(stream, info, settings)
    finally:
        await stream.close()


async def _info(stream: LogStream, patience: float) -> StreamInfo | None:
    """Connect and ask; try again for a while."""
    give_up_at = time.monotonic() + patience
    while True:
        try:
            if not stream.is_connected:
                await stream.connect()
            return await stream.info()
        except LogAway:
            if time.monotonic() >= give_up_at:
                raise
        await asyncio.sleep(0.2)


async def _check_safe(stream: LogStream, info: StreamInfo | None, settings: Settings) -> None:
    """Refuse a log that is not facetd's, or that may lose what it has confirmed."""
    if info is not None:
        reason = refusal(info, settings)
        if reason is not None:
            raise CannotJoin(reason)
    monitors = monitors_of(settings, stream.servers)
    num_servers = max(len(stream.servers), stream.num_known_servers)
    dangers = await dangers_of_servers(monitors)
    if info is not None:
        dangers += dangers_of_stream(info, num_servers)
    elif num_servers > 1 and settings.log_replicas < min(num_servers, 3):
        dangers.append(f"log_replicas is {settings.log_replicas} with {num_servers} servers")
    if not dangers:
        return
    if not settings.log_unsafe:
        raise CannotJoin(
            f"the log may lose what it has confirmed: {'; '.join(dangers)}; or start with "
            "--log-unsafe"
        )
    _log.warning("the log is unsafe", dangers="; ".join(dangers))


def _check_may_create(settings: Settings, replica: ReplicaFile | None, has_data: bool) -> None:
    if replica is not None:
        raise CannotJoin(
            f"the log has no stream {settings.log_stream!r}, though {settings.data_dir} followed "
            "it: bring its servers back with their data; the guide says what to do if these are "
            "lost"
        )
    if not settings.log_create:
        what = "the data here" if has_data else "nothing"
        raise CannotJoin(
            f"the log has no stream {settings.log_stream!r}: start one host, once, with "
            f"--log-create, which makes it from {what}"
        )


def _check_fits(info: StreamInfo, replica: ReplicaFile, data: Path) -> None:
    if info.cluster != replica.cluster:
        raise CannotJoin(
            f"{data} followed another log than the one that is there: name that one, or empty the "
            "directory"
        )
    if info.first_seq > replica.seq + 1:
        raise CannotJoin(
            f"{data} ends at entry {replica.seq}, the log begins at {info.first_seq}: this host "
            "was away for too long; empty the directory, and it takes its data from another one"
        )


async def _fill(stream: LogStream, info: StreamInfo, settings: Settings) -> None:
    """Fill an empty directory from another host; or leave it empty if the log has everything."""
    data = settings.data_dir.absolute()
    maintenance.check_vacant(data)
    has_everything = info.origin == 1 and info.first_seq == 1
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
                    data_directory.make_folder(taken)
                    position = await take_snapshot(stream, offer, taken)
                    await asyncio.to_thread(_put_in_place, taken, work, settings.shards)
                    break
                if has_everything:
                    data_directory.make_folder(work)
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
        data_directory.sync_folder(data.parent)
    finally:
        for folder in (work, taken):
            shutil.rmtree(folder, ignore_errors=True)


def _put_in_place(taken: Path, work: Path, num_shards: int) -> None:
    """Make a data directory of a snapshot, for the number of shards of this host."""
    snapshot = maintenance.restore(taken, work)
    if snapshot.shards != num_shards and maintenance.reshard(work, num_shards) != 0:
        raise CannotJoin(f"the data taken cannot be spread over {num_shards} shards")
