"""A host that serves gives its data to others that need them; `recipient` draws both sides."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from common.deadline import Deadline
from common.decode_errors import UNDECODABLE
from common.errors import ServiceError
from common.process.logs import Log
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.snapshot_transfer.recipient import (
    COPY_SECONDS,
    OFFER_SECONDS,
    PREFIX,
    READ_BYTES,
    CopiedFile,
    CopyRequest,
    CopyResult,
    Offer,
    ReadRequest,
)
from coordinator.snapshots import snapshots_on_disk
from coordinator.snapshots.snapshot_maker import SnapshotMaker
from coordinator.snapshots.snapshots_on_disk import SNAPSHOT_FILE, ServiceSnapshot

if TYPE_CHECKING:
    from nats.aio.msg import Msg

WAIT_MS: Final = 5_000
"""Time for this host to apply an entry that is to be in a copy."""
IDLE_SECONDS: Final = 900.0
"""A snapshot that has not been read for this long is removed."""
FILES_LISTED_MAX: Final = 5_000
"""Snapshots with more files are taken by hosts of this version only: older ones do not read
snapshot.json, and all names together would be longer than a message may be."""

MakeSnapshot = Callable[
    [str, tuple[int, ...] | None, Mapping[int, int] | None], Awaitable[ServiceSnapshot]
]
"""Makes a snapshot under a name: of some shards or of all, of some states or of the newest."""

_log = Log("replica")
_encode = msgspec.json.Encoder().encode
_decode_request = msgspec.json.Decoder(CopyRequest).decode
_decode_read = msgspec.json.Decoder(ReadRequest).decode


def folder_name(host: str, name: str) -> str:
    """Return the name of a folder for another host's snapshot: one that no client can name.

    Args:
        host: that makes it; hosts may have one folder of snapshots on a disk of the network.
        name: of the snapshot.
    """
    return f".{host}-{name}"


@dataclass(slots=True)
class _Copy:
    """A snapshot for another host, which may be in the making."""

    task: asyncio.Task[CopyResult]
    used_at: float

    @property
    def result(self) -> CopyResult | None:
        """The result, or None: it is being made."""
        return self.task.result() if self.task.done() else None


class Donor:
    """Gives snapshots of this host to others.

    Args:
        host: this one.
        make: makes a snapshot under a name, of some shards or of all.
    """

    def __init__(
        self,
        host: HostContext,
        make: MakeSnapshot,
    ) -> None:
        self._host = host
        self._serving = host.serving
        self._stream = host.stream
        self._folder = host.settings.snapshot_folder
        self._make = make
        self._copies: dict[str, _Copy] = {}

    async def run(self) -> None:
        """Answer other hosts for as long as this one runs."""
        while not self._host.id:  # noqa: ASYNC110
            await asyncio.sleep(OFFER_SECONDS / 2)
        await asyncio.to_thread(self._remove_all)
        while not self._stream.is_connected:  # noqa: ASYNC110
            await asyncio.sleep(OFFER_SECONDS / 2)
        client = self._stream.client()
        host = self._host.id
        name = self._stream.name
        # The subscriptions outlive a connection: the client renews them.
        await client.subscribe(f"{name}.peers.offer", cb=self._offer)
        await client.subscribe(f"{name}.peers.{host}.copy", cb=self._copy)
        await client.subscribe(f"{name}.peers.{host}.read", cb=self._read)
        await client.subscribe(f"{name}.peers.{host}.done", cb=self._done)
        try:
            while True:
                await asyncio.sleep(IDLE_SECONDS / 10)
                used_before = time.monotonic() - IDLE_SECONDS
                old = [one for one, copy in self._copies.items() if copy.used_at < used_before]
                for copied in old:
                    await self._remove(copied)
        finally:
            for copy in self._copies.values():
                copy.task.cancel()

    async def _offer(self, message: Msg) -> None:
        if self._serving.can_give_data:
            offer = Offer(self._host.id, max(self._serving.shown_seq, 0), self._host.shards)
            await message.respond(_encode(offer))

    async def _copy(self, message: Msg) -> None:
        """Answer with a snapshot; begin it, if this is the first request for it."""
        try:
            request = _decode_request(message.data)
        except UNDECODABLE as error:
            await message.respond(_encode(CopyResult(error=f"invalid request: {error}")))
            return
        if not (request.name.startswith(PREFIX) and snapshots_on_disk.NAME.fullmatch(request.name)):
            await message.respond(_encode(CopyResult(error="invalid name of a snapshot")))
            return
        copy = self._copies.get(request.name)
        if copy is None:
            task = asyncio.create_task(self._copied(request))
            copy = self._copies[request.name] = _Copy(task, 0.0)
        copy.used_at = time.monotonic()
        await message.respond(_encode(copy.result or CopyResult(request.name, is_pending=True)))

    async def _copied(self, request: CopyRequest) -> CopyResult:
        """Make a snapshot; return it, or why there is none."""
        name, horizons = request.name, request.horizons
        try:
            if horizons:
                await self._serving.wait_applied(max(horizons.values()), Deadline.after_ms(WAIT_MS))
            position = self._serving.position
            snapshot = await self._make(
                self._folder_of(name).name, request.shards or None, horizons
            )
            last = await asyncio.to_thread((self._folder_of(name) / SNAPSHOT_FILE).stat)
        except (ServiceError, OSError, KeyError) as error:
            return CopyResult(name, error=str(error))
        except Exception as error:
            _log.error("making a snapshot for another host failed", cause=error)
            return CopyResult(name, error="an internal error; the log of its host has details")
        files = [CopiedFile(SNAPSHOT_FILE, last.st_size)]
        if len(snapshot.files) <= FILES_LISTED_MAX:
            files = [*(CopiedFile(one.path, one.bytes) for one in snapshot.files), *files]
        _log.info("snapshot for another host", name=name, bytes=snapshot.num_bytes)
        return CopyResult(name, position.seq, position.stored_at, tuple(files))

    async def _read(self, message: Msg) -> None:
        try:
            wanted = _decode_read(message.data)
        except UNDECODABLE:
            return
        copy = self._copies.get(wanted.name)
        if (
            copy is None
            or copy.result is None
            or not snapshots_on_disk.is_file_of_snapshot(wanted.path)
        ):
            return
        copy.used_at = time.monotonic()
        path = self._folder_of(wanted.name) / wanted.path
        await message.respond(await asyncio.to_thread(_read_part, path, wanted.offset))

    async def _done(self, message: Msg) -> None:
        await self._remove(message.data.decode("ascii", "replace"))

    async def _remove(self, name: str) -> None:
        """Remove a snapshot, unless it is still being made, or was removed meanwhile."""
        copy = self._copies.get(name)
        if copy is not None and copy.result is not None:
            del self._copies[name]
            await asyncio.to_thread(shutil.rmtree, self._folder_of(name), ignore_errors=True)

    def _folder_of(self, name: str) -> Path:
        return self._folder / folder_name(self._host.id, name)

    def _remove_all(self) -> None:
        """Remove what an earlier process of this host has left, if the folder can be read now."""
        try:
            if self._folder.is_dir():
                for folder in self._folder.glob(folder_name(self._host.id, f"{PREFIX}*")):
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:  # of another machine, as may be, which does not answer
            _log.warning("copies for other hosts are not removed", reason=error.strerror)


def _read_part(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(READ_BYTES)


def maker(
    while_unchanged: Callable[[Callable[[], Any], Deadline], Awaitable[Any]],
    here: SnapshotMaker,
) -> MakeSnapshot:
    """Return a function that makes a snapshot under a name while no index changes."""

    async def make(
        name: str, shards: tuple[int, ...] | None, horizons: Mapping[int, int] | None
    ) -> ServiceSnapshot:
        deadline = Deadline.after_ms(int(COPY_SECONDS * 1000))
        work = partial(here.make, name, shards, horizons)
        made: ServiceSnapshot = await while_unchanged(work, deadline)
        return made

    return make
