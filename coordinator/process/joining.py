"""Checks before a host of several starts: the log must be safe, and fit the data directory.

    directory             log            what happens
    empty                 none           log_create: the log is made; else refused
    empty                 with entries   takes a snapshot of another host, or follows from the start
    of this log           goes on        follows from where it was
    of this log           has trimmed    refused: empty it
    of another log        any            refused
    with data of its own  none           log_create: the log begins with them; else refused

Where each host holds some shards, the same applies to each shard: an empty host takes its shards
from hosts that have them, and so does a host that has been given another shard. If they were copied
at different moments, the host follows the log from the earliest; applying an entry again changes
nothing. A log of such hosts begins empty, or with the data of a host that holds all shards.

A host that has data starts even while the log is away: reads go on without it.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from common import data_directory
from common.data_directory import DataDirectoryError
from common.process.logs import Log
from common.settings import SettingError
from coordinator.cluster.placed_shards import shown_shards
from coordinator.cluster.snapshots import SnapshotError
from coordinator.http.security import UnsafeAddress, unsafe_address
from coordinator.process import maintenance
from coordinator.replication.host.position import (
    REPLICA_FORMAT,
    Position,
    ReplicaFile,
    held_shards,
    host_name,
    new_host,
    read_replica,
    write_replica,
)
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.log_safety import (
    dangers_of_servers,
    dangers_of_stream,
    monitors_of,
    refusal,
)
from coordinator.replication.log.stream import LogStream
from coordinator.replication.log.stream_state import StreamInfo
from coordinator.replication.placement.placement_table import TableStore
from coordinator.replication.startup.transfer import (
    CopyRequest,
    Offer,
    find_offer,
    find_offers,
    take_snapshot,
)
from coordinator.settings import Settings

NAME_SECONDS: Final = 3.0
"""Time to look up the address of a server of the log."""
CONNECT_SECONDS_MAX: Final = 30.0
"""How long an empty host waits for the log, and for another host to copy from."""

_log = Log("replica")


class CannotJoin(Exception):
    """This host cannot follow the log as things are; the message says what to do."""


def join(settings: Settings) -> int:
    """Check the log and fit the directory to it; return the exit status: 0 if it may start."""
    try:
        servers = _stream(settings).servers
        Thread(target=_warn_of_unknown_names, args=(servers,), daemon=True).start()
        asyncio.run(_join(settings))
    except (CannotJoin, DataDirectoryError, SettingError, SnapshotError, UnsafeAddress) as error:
        print(f"facetd: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        refused = data_directory.refusal_explained(settings.data_dir, error)
        print(f"facetd: {refused}", file=sys.stderr)
        return 1
    return 0


def _stream(settings: Settings) -> LogStream:
    """Return the log's stream, not connected yet.

    Raises:
        SettingError: an address is malformed, or the credentials are not a file.
    """
    return LogStream(settings.log_url, settings.log_stream, settings.log_credentials)


def _warn_of_unknown_names(servers: list[str]) -> None:
    """Name the servers of the log that have no address: no error shows them while others answer.

    Each look-up runs on a thread that is left behind after `NAME_SECONDS`: it cannot be cancelled.
    The start does not wait for any of them: a resolver may be silent about a server that is gone.
    """

    def warn(server: str, reason: str) -> None:
        _log.warning("a server in --log has no address; is it spelled right?",
                     server=urlsplit(server).hostname or server, reason=reason)  # fmt: skip

    def look_up(server: str) -> None:
        address = urlsplit(server)
        try:
            socket.getaddrinfo(address.hostname, address.port)
        except (OSError, ValueError) as error:
            warn(server, str(error))

    threads = [Thread(target=look_up, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    give_up_at = time.monotonic() + NAME_SECONDS
    for server, thread in zip(servers, threads, strict=True):
        thread.join(max(0.0, give_up_at - time.monotonic()))
        if thread.is_alive():
            warn(server, f"no answer within {NAME_SECONDS:.0f} s")


async def _join(settings: Settings) -> None:
    """Check and fit."""
    data = settings.data_dir
    replica = read_replica(data)
    has_data = data_directory.read_manifest(data) is not None
    stream = _stream(settings)
    try:
        try:
            info = await _info(stream, 0.0 if replica else CONNECT_SECONDS_MAX)
        except LogAway as error:
            if replica is None:
                raise CannotJoin(f"{error}; an empty host cannot start without the log") from error
            if missing_shards(replica, settings):
                raise CannotJoin(f"{error}; a host cannot get new shards without it") from error
            _log.warning("starting without the log", reason=str(error))
            if settings.has_placed_shards:
                _note_shards(data, replica, settings)
            return
        await _check_safe(stream, info, settings)
        if info is None:
            _check_may_create(settings, replica, has_data)
            if settings.is_exposed and not has_data:  # no key comes with the log
                raise unsafe_address(settings)
        elif replica is not None:
            _check_fits(info, replica, data)
            if settings.has_placed_shards:
                await _fit_shards(stream, info, replica, settings)
        elif has_data:
            raise CannotJoin(
                f"{data} has its own data, and the log has other data: empty the directory, "
                "and this host copies its data from another one"
            )
        elif settings.has_placed_shards:
            await _fill_shards(stream, info, settings)
        else:
            await _fill(stream, info, settings)
    finally:
        await stream.close()


async def _info(stream: LogStream, patience: float) -> StreamInfo | None:
    """Connect and ask; retry for a while."""
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
    if settings.has_placed_shards and has_data and len(settings.own_shards) < settings.all_shards:
        raise CannotJoin(
            f"{settings.data_dir} has its own data: a log of hosts that hold some shards each can "
            "begin with it only on a host that, for now, holds all of them: start with "
            f"--shards-here {shown_shards(range(settings.all_shards))}, then the other hosts, "
            "empty; once these serve, start this one with its own shards again"
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
                    position = await take_snapshot(stream, offer.host, taken)
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


# --- shards placed over hosts


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


async def _fill_shards(stream: LogStream, info: StreamInfo, settings: Settings) -> None:
    """Fill an empty directory with the shards of this host; empty if the log has everything."""
    data = settings.data_dir.absolute()
    maintenance.check_vacant(data)
    has_everything = info.origin == 1 and info.first_seq <= 1
    work = data.with_name(f"{data.name}.joining")
    position = Position(0, 0)
    wanted = await _shards_in_table(stream, settings)
    try:
        taken = await _copy_shards(stream, data, wanted, is_needed=not has_everything)
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
            data_directory.make_folder(work)
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
        data_directory.sync_folder(data.parent)
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


async def _fit_shards(
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
    _note_shards(data, replica, settings, position)


def _note_shards(
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
    data_directory.make_folder(taken)
    position = await take_snapshot(stream, offer.host, taken, CopyRequest(shards))
    work = data.with_name(f"{data.name}.taken-{shards[0]}")
    await asyncio.to_thread(maintenance.restore, taken, work)
    return _CopiedShards(position, work, shards)


def _move_shards(taken: _CopiedShards, data: Path) -> None:
    """Move the folders of shards into a data directory."""
    for shard in taken.shards:
        target = data_directory.shard_folder(data, shard)
        shutil.rmtree(target, ignore_errors=True)
        data_directory.shard_folder(taken.folder, shard).rename(target)
    data_directory.sync_folder(data)


def _remove_taken(data: Path) -> None:
    for folder in data.parent.glob(f"{data.name}.taken*"):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(data.with_name(f"{data.name}.joining"), ignore_errors=True)
