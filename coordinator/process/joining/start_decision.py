"""Lets a host of several start only with a log that is safe and fits its data directory.

    directory             log            what happens
    empty                 none           log_create: the log is made; else refused
    empty                 with entries   takes a snapshot of another host, or follows from the start
    of this log           goes on        follows from where it was
    of this log           has trimmed    refused: empty it
    of another log        any            refused
    with data of its own  none           log_create: the log begins with them; else refused

Where each host holds some shards, the same applies to each shard: an empty host takes its shards
from hosts that have them, and so does a host that has been given another shard. A log of such hosts
begins empty, or with the data of a host that holds all shards.

A host that has data starts even while the log is away: reads go on without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from common import data_directory
from common.data_directory import DataDirectoryError
from common.process.logs import Log
from common.setting_conversion import SettingError
from coordinator.catalog.catalog_file import holds_data
from coordinator.http.security.listening_without_api_keys import UnsafeAddress, unsafe_address
from coordinator.process.joining.log_checks import (
    CannotJoin,
    check_fits,
    check_may_create,
    check_safe,
    other_data,
)
from coordinator.process.joining.missing_shard_recovery import (
    fill_shards,
    fit_shards,
    missing_shards,
    note_shards,
)
from coordinator.process.joining.snapshot_bootstrap import CONNECT_SECONDS_MAX, fill
from coordinator.process.joining.unresolved_log_servers import warn_of_unknown_names
from coordinator.replication.host.replica_file import read_replica
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.log_stream import LogStream
from coordinator.replication.placement.tls_between_hosts import tls_contexts
from coordinator.settings import Settings
from coordinator.snapshots.snapshots_on_disk import SnapshotError

_log = Log("replica")


def join(settings: Settings) -> int:
    """Check the log and fit the directory to it; return the exit status: 0 if it may start."""
    try:
        servers = _stream(settings).servers
        tls_contexts(settings)  # it can be made: its files are there
        with _owned(settings.data_dir):
            Thread(target=warn_of_unknown_names, args=(servers,), daemon=True).start()
            asyncio.run(_join(settings))
    except (CannotJoin, DataDirectoryError, SettingError, SnapshotError, UnsafeAddress) as error:
        print(f"facetd: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        refused = data_directory.refusal_explained(settings.data_dir, error)
        print(f"facetd: {refused}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def _owned(data: Path) -> Iterator[None]:
    """Own a directory that has data: those of a running service must stay as they are.

    Raises:
        DataDirectoryError: another process owns it.
    """
    if not data_directory.replica_path(data).exists():
        yield  # it is empty, or is refused
        return
    lock = data_directory.acquire_lock(data)
    try:
        yield
    finally:
        os.close(lock)


def _stream(settings: Settings) -> LogStream:
    """Return the log's stream, not connected yet.

    Raises:
        SettingError: an address is malformed, or the credentials are not a file.
    """
    return LogStream(settings.log_url, settings.log_stream, settings.log_credentials)


async def _join(settings: Settings) -> None:
    """Check the log, and fit the directory to it.

    Raises:
        CannotJoin: the host must not start.
    """
    data = settings.data_dir
    replica = read_replica(data)
    has_data = holds_data(data)
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
                note_shards(data, replica, settings)
            return
        await check_safe(stream, info, settings)
        if info is None:
            check_may_create(settings, replica, has_data)
            if settings.is_exposed and not has_data:  # no key comes with the log
                raise unsafe_address(settings)
        elif replica is not None:
            check_fits(info, replica, data)
            if settings.has_placed_shards:
                await fit_shards(stream, info, replica, settings)
        elif has_data:
            raise other_data(info, settings)
        elif settings.has_placed_shards:
            await fill_shards(stream, info, settings)
        else:
            await fill(stream, info, settings)
    finally:
        await stream.close()


async def _info(stream: LogStream, seconds: float) -> StreamInfo | None:
    """Connect, and return the state of the log; retry for some seconds.

    Raises:
        LogAway: it has not answered.
    """
    give_up_at = time.monotonic() + seconds
    while True:
        try:
            if not stream.is_connected:
                await stream.connect()
            return await stream.info()
        except LogAway:
            if time.monotonic() >= give_up_at:
                raise
        await asyncio.sleep(0.2)
