"""A host that holds some shards takes those that it lacks from hosts that have them.

If they were copied at different moments, the host follows the log from the earliest, with the
oldest catalog: applying an entry again changes nothing.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from common import data_directory
from common.durable_files import make_folder, sync_folder
from common.process.logs import Log
from coordinator.cluster.shard_copies import shown_shards
from coordinator.process import offline_commands
from coordinator.process.joining.log_checks import CannotJoin
from coordinator.process.joining.snapshot_bootstrap import CONNECT_SECONDS_MAX
from coordinator.replication.host.replica_file import (
    REPLICA_FORMAT,
    Position,
    ReplicaFile,
    held_shards,
    host_name,
    new_host,
    write_replica,
)
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.log_stream import LogStream
from coordinator.replication.placement.placement_table import TableStore
from coordinator.replication.snapshot_transfer.recipient import (
    CopyRequest,
    Offer,
    find_offers,
    take_snapshot,
)
from coordinator.settings import Settings

_log = Log("replica")


def missing_shards(replica: ReplicaFile, settings: Settings) -> tuple[int, ...]:
    """Return the shards that a host is to hold and does not have."""
    if not settings.has_placed_shards:
        return ()
    return tuple(one for one in held_shards(settings, replica) if one not in replica.shards)


class _CopiedShards(NamedTuple):
    """Shards that were taken from another host."""

    position: Position
    """All entries up to it are in them."""
    folder: Path
    """A data directory with these shards alone."""
    shards: tuple[int, ...]


async def fill_shards(stream: LogStream, info: StreamInfo, settings: Settings) -> None:
    """Fill an empty directory with the shards of this host; empty if the log has everything."""
    data = settings.data_dir.absolute()
    offline_commands.check_place(data)
    work = data.with_name(f"{data.name}.joining")
    position = Position(0, 0)
    wanted = await _shards_in_table(stream, settings)
    try:
        taken = await _copy_shards(stream, data, wanted, is_needed=not info.is_complete)
        shutil.rmtree(work, ignore_errors=True)
        if taken:
            # With the oldest catalog, every change since is applied again, to all shards.
            first = min(taken, key=lambda one: one.position.seq)
            first.folder.rename(work)
            for one in taken:
                if one is not first:
                    _move_shards(one, work)
            position = first.position
        else:
            make_folder(work)
        replica = ReplicaFile(
            REPLICA_FORMAT,
            info.cluster,
            new_host(),
            position.seq,
            position.stored_at,
            shards=wanted,
            configured=settings.own_shards,
        )
        write_replica(work, replica)
        work.rename(data)
        sync_folder(data.parent)
    finally:
        _remove_taken(data)


async def _shards_in_table(stream: LogStream, settings: Settings) -> tuple[int, ...]:
    """Return the shards of an emptied host: those that it held, or that were moved to it.

    Raises:
        CannotJoin: the table cannot be read.
    """
    store = TableStore(stream, settings.all_shards, settings.log_replicas, None)
    give_up_at = time.monotonic() + CONNECT_SECONDS_MAX
    while True:
        try:
            table = await store.read()
            break
        except LogAway as error:
            if time.monotonic() >= give_up_at:
                raise CannotJoin(str(error)) from error
        await asyncio.sleep(0.5)
    former = [table.hosts[one] for one in table.addresses_of(host_name(settings))]
    if len(former) != 1 or former[0].configured != settings.own_shards:
        return settings.own_shards
    return tuple(sorted(former[0].target))


async def fit_shards(
    stream: LogStream, info: StreamInfo, replica: ReplicaFile, settings: Settings
) -> None:
    """Give a host the shards that it lacks; note which ones it no longer holds."""
    data = settings.data_dir.absolute()
    missing = missing_shards(replica, settings)
    followed = [one for one in missing if replica.left.get(one, -1) + 1 >= info.first_seq]
    position = Position(replica.seq, replica.stored_at)
    for one in followed:
        if replica.left[one] < position.seq:
            position = Position(replica.left[one], 0)
    try:
        wanted = tuple(one for one in missing if one not in followed)
        for taken in await _copy_shards(stream, data, wanted, is_needed=True):
            _move_shards(taken, data)
            position = min(position, taken.position)
    finally:
        _remove_taken(data)
    note_shards(data, replica, settings, position)


def note_shards(
    data: Path, replica: ReplicaFile, settings: Settings, position: Position | None = None
) -> None:
    """Note which shards a host holds, and how far it has followed the log with those that leave.

    Without it, one that comes back would count as followed all the time.

    Args:
        data: the directory.
        replica: as it was before.
        settings: name the shards.
        position: after which to follow the log; None: as before.
    """
    own = held_shards(settings, replica)
    leaving = [one for one in replica.shards if one not in own]
    for shard in leaving:
        _log.info("a shard is no longer of this host; its folder stays", shard=shard)
    left = {**replica.left, **dict.fromkeys(leaving, replica.seq)}
    seq, stored_at = position or (replica.seq, replica.stored_at)
    fitted = msgspec.structs.replace(
        replica,
        seq=seq,
        stored_at=stored_at,
        shards=own,
        left={shard: seq for shard, seq in left.items() if shard not in own},
        arriving={shard: seq for shard, seq in replica.arriving.items() if shard not in own},
        configured=settings.own_shards,
    )
    if fitted != replica:
        write_replica(data, fitted)


async def _copy_shards(
    stream: LogStream, data: Path, wanted: tuple[int, ...], *, is_needed: bool
) -> list[_CopiedShards]:
    """Take shards from hosts that have them, each into a folder next to the directory.

    Args:
        stream: the connection to the log.
        data: the directory.
        wanted: the shards.
        is_needed: whether to wait for hosts that have them; else nothing is taken if no serving
            host has one of them.

    Raises:
        CannotJoin: no host offers them.
    """
    if not wanted:
        return []
    give_up_at = time.monotonic() + CONNECT_SECONDS_MAX
    while True:
        _remove_taken(data)
        try:
            offers = await find_offers(stream)
            missing = set(wanted)
            chosen: list[tuple[Offer, tuple[int, ...]]] = []
            while missing:
                best = max(offers, key=lambda one: len(missing & set(one.shards)), default=None)
                given = missing & set(best.shards) if best is not None else set()
                if best is None or not given:
                    raise LogAway(f"no serving host has shards {shown_shards(sorted(missing))}")
                chosen.append((best, tuple(sorted(given))))
                missing -= given
            return [await _copy_shards_of(stream, data, offer, shards) for offer, shards in chosen]
        except LogAway as error:
            reason = str(error)
        if not is_needed:
            return []
        if time.monotonic() >= give_up_at:
            raise CannotJoin(
                f"this host must take shards {shown_shards(wanted)} from others: {reason}; start a "
                "host that has them"
            )
        await asyncio.sleep(0.5)


async def _copy_shards_of(
    stream: LogStream, data: Path, offer: Offer, shards: tuple[int, ...]
) -> _CopiedShards:
    """Take shards of one host."""
    _log.info("taking shards", host=offer.host, shards=shown_shards(shards), seq=offer.seq)
    taken = data.with_name(f"{data.name}.taken")
    shutil.rmtree(taken, ignore_errors=True)
    make_folder(taken)
    position = await take_snapshot(stream, offer.host, taken, CopyRequest(shards))
    work = data.with_name(f"{data.name}.taken-{shards[0]}")
    await asyncio.to_thread(offline_commands.restore, taken, work)
    return _CopiedShards(position, work, shards)


def _move_shards(taken: _CopiedShards, data: Path) -> None:
    """Move the folders of shards into a data directory."""
    for shard in taken.shards:
        target = data_directory.shard_folder(data, shard)
        shutil.rmtree(target, ignore_errors=True)
        data_directory.shard_folder(taken.folder, shard).rename(target)
    sync_folder(data)


def _remove_taken(data: Path) -> None:
    for folder in data.parent.glob(f"{data.name}.taken*"):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(data.with_name(f"{data.name}.joining"), ignore_errors=True)
