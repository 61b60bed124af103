"""A new host takes its data from another one, over the connection that both have to the log.

    new host                        a host that serves
    offer?   ───────────────────▶   the first one that answers
    copy     ───────────────────▶   makes a snapshot; ◀── not yet
    copy     ───────────────────▶   ◀── position, list of files
    read     ───────────────────▶   ◀── half a mebibyte of a file at a time
    done     ───────────────────▶   removes the snapshot

The position is taken before the snapshot, so the snapshot may contain later entries: applying an
entry again changes nothing. The list of files has checksums, which a restore compares.

Requests and responses may be lost with a connection. So a request can be sent again: the new host
names the snapshot, which is made once, and every response comes soon. A host that is silent for
long is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, field

from common.deadline import Deadline
from common.errors import ServiceError
from common.process.logs import Log
from common.undecodable import UNDECODABLE
from coordinator.cluster import snapshots
from coordinator.cluster.snapshot_maker import SnapshotMaker
from coordinator.cluster.snapshots import SNAPSHOT_FILE, ServiceSnapshot
from coordinator.replication.host.position import Position, new_host
from coordinator.replication.host.this_host import ThisHost
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.stream import LogStream

if TYPE_CHECKING:
    from nats.aio.msg import Msg

READ_BYTES: Final = 512 * 1024
READS_UNDER_WAY: Final = 4
COPY_SECONDS: Final = 3_600.0
"""Time for making a snapshot."""
ASK_SECONDS: Final = 5.0
"""A response that takes longer is taken for lost."""
ASK_PAUSE_SECONDS: Final = 0.2
"""Interval between two questions whether the snapshot is there."""
SILENCE_SECONDS: Final = 30.0
"""A host that has not answered for this long is taken for dead."""
WAIT_MS: Final = 5_000
"""Time for a host to apply an entry that is to be in its copy."""
IDLE_SECONDS: Final = 900.0
"""A snapshot that has not been read for this long is removed."""
OFFER_SECONDS: Final = 1.0
PREFIX: Final = "replica-"
"""Of the names of snapshots for other hosts; a start removes these."""

_log = Log("replica")


class Offer(Struct, frozen=True):
    """A host's offer to another that needs data."""

    host: str
    seq: int
    shards: tuple[int, ...] = ()
    """Those that it can give, where each host holds some; empty: all."""


class CopyRequest(Struct, frozen=True):
    """Asks for the data of a host, or whether they are there."""

    shards: tuple[int, ...] = ()
    """Empty: all that it has."""
    horizons: dict[int, int] | None = None
    """The entry of the log at which each index is copied, by its number; None: the newest one."""
    name: str = field(default_factory=lambda: PREFIX + new_host())
    """Of the snapshot, and so of the request: one that is sent again is the same."""


class CopiedFile(Struct, frozen=True):
    """A file to be read."""

    path: str
    bytes: int


class CopyResult(Struct, frozen=True):
    """A snapshot that was made for another host; or why not."""

    name: str = ""
    seq: int = 0
    stored_at: int = 0
    files: tuple[CopiedFile, ...] = ()
    error: str = ""
    is_pending: bool = False
    """It is being made: ask again."""


class ReadRequest(Struct, frozen=True):
    """Asks for a part of a file."""

    name: str
    path: str
    offset: int


MakeSnapshot = Callable[
    [str, tuple[int, ...] | None, Mapping[int, int] | None], Awaitable[ServiceSnapshot]
]
"""Makes a snapshot under a name: of some shards or of all, of some states or of the newest."""

_encode = msgspec.json.Encoder().encode
_decode_offer = msgspec.json.Decoder(Offer).decode
_decode_copied = msgspec.json.Decoder(CopyResult).decode
_decode_request = msgspec.json.Decoder(CopyRequest).decode
_decode_read = msgspec.json.Decoder(ReadRequest).decode


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
        host: ThisHost,
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
        await asyncio.to_thread(self._remove_all)
        while not self._stream.is_connected or not self._host.id:  # noqa: ASYNC110
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
        if not (request.name.startswith(PREFIX) and snapshots.NAME.fullmatch(request.name)):
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
            snapshot = await self._make(name, request.shards or None, horizons)
            last = await asyncio.to_thread((self._folder / name / SNAPSHOT_FILE).stat)
        except (ServiceError, OSError, KeyError) as error:
            return CopyResult(name, error=str(error))
        except Exception as error:
            _log.error("making a snapshot for another host failed", cause=error)
            return CopyResult(name, error="an internal error; the log of its host has details")
        files = [CopiedFile(one.path, one.bytes) for one in snapshot.files]
        files.append(CopiedFile(SNAPSHOT_FILE, last.st_size))
        _log.info("snapshot for another host", name=name, bytes=snapshot.num_bytes)
        return CopyResult(name, position.seq, position.stored_at, tuple(files))

    async def _read(self, message: Msg) -> None:
        try:
            wanted = _decode_read(message.data)
        except UNDECODABLE:
            return
        copy = self._copies.get(wanted.name)
        if copy is None or copy.result is None or not snapshots.is_file_of_snapshot(wanted.path):
            return
        copy.used_at = time.monotonic()
        path = self._folder / wanted.name / wanted.path
        await message.respond(await asyncio.to_thread(_read_part, path, wanted.offset))

    async def _done(self, message: Msg) -> None:
        await self._remove(message.data.decode("ascii", "replace"))

    async def _remove(self, name: str) -> None:
        """Remove a snapshot, unless it is still being made, or was removed meanwhile."""
        copy = self._copies.get(name)
        if copy is not None and copy.result is not None:
            del self._copies[name]
            await asyncio.to_thread(shutil.rmtree, self._folder / name, ignore_errors=True)

    def _remove_all(self) -> None:
        """Remove the leftovers of an earlier process."""
        if self._folder.is_dir():
            for folder in self._folder.glob(PREFIX + "*"):
                shutil.rmtree(folder, ignore_errors=True)


def _read_part(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(READ_BYTES)


async def find_offers(stream: LogStream) -> list[Offer]:
    """Return the offers of all hosts that serve and answer soon.

    Raises:
        LogAway: the log is.
    """
    offers = []
    for answer in await stream.ask_all(f"{stream.name}.peers.offer", OFFER_SECONDS):
        try:
            offers.append(_decode_offer(answer))
        except UNDECODABLE as error:
            _log.warning("the offer of another host cannot be read", reason=str(error))
    return offers


async def find_offer(stream: LogStream) -> Offer | None:
    """Return the offer of a host that serves; None if none does.

    Raises:
        LogAway: the log is.
    """
    stream.client()
    try:
        answer = await stream.ask(f"{stream.name}.peers.offer", seconds=OFFER_SECONDS)
    except LogAway:
        stream.client()
        return None
    return _decode_offer(answer.data)


async def take_snapshot(
    stream: LogStream, host: str, folder: Path, request: CopyRequest | None = None
) -> Position:
    """Copy a snapshot of another host into a new folder.

    Args:
        stream: the connection to the log.
        host: names the other host's copy of the data.
        folder: new and empty.
        request: what to copy; None: all that the host has.

    Returns:
        From where on to follow the log.

    Raises:
        LogAway: the other host does not answer any more, or could not make a snapshot.
        OSError: no room.
    """
    peer = f"{stream.name}.peers.{host}"
    copied = await _made(stream, peer, request or CopyRequest())
    for file in copied.files:
        path = folder / file.path
        if not snapshots.is_file_of_snapshot(file.path):
            raise LogAway(f"the other host offers a file that no snapshot has: {file.path[:100]}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as target:
            offsets = range(0, file.bytes, READ_BYTES)
            for first in range(0, len(offsets), READS_UNDER_WAY):
                reading = [
                    _ask_again(
                        stream, f"{peer}.read", _encode(ReadRequest(copied.name, file.path, offset))
                    )
                    for offset in offsets[first : first + READS_UNDER_WAY]
                ]
                for part in await asyncio.gather(*reading):
                    await asyncio.to_thread(target.write, part)
    with contextlib.suppress(LogAway):  # what is copied is whole; unread, it will be removed there
        await stream.tell(f"{peer}.done", copied.name.encode())
    return Position(copied.seq, copied.stored_at)


async def _made(stream: LogStream, peer: str, request: CopyRequest) -> CopyResult:
    """Have another host make a snapshot; return it once it is there.

    Raises:
        LogAway: it does not answer any more, or could not make it.
    """
    give_up_at = time.monotonic() + COPY_SECONDS
    content = _encode(request)
    while True:
        result = _decode_copied(await _ask_again(stream, f"{peer}.copy", content))
        if result.error:
            raise LogAway(f"the other host cannot give its data: {result.error}")
        if not result.is_pending:
            return result
        if time.monotonic() > give_up_at:
            raise LogAway("the other host takes too long to copy its data")
        await asyncio.sleep(ASK_PAUSE_SECONDS)


async def _ask_again(stream: LogStream, subject: str, content: bytes) -> bytes:
    """Send a request until it is answered, one at a time: responses are long.

    Raises:
        LogAway: there was no answer for long.
    """
    give_up_at = time.monotonic() + SILENCE_SECONDS
    while True:
        try:
            return (await stream.ask(subject, content, ASK_SECONDS)).data
        except LogAway:
            if time.monotonic() > give_up_at:
                raise
        await asyncio.sleep(ASK_PAUSE_SECONDS)


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
