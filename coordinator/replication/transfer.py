"""A new host takes its data from another one, over the connection that both have to the log.

    new host                        a host that serves
    offer?   ───────────────────▶   the first one that answers
    copy     ───────────────────▶   makes a snapshot; ◀── position, list of files
    read     ───────────────────▶   ◀── half a mebibyte of a file at a time
    done     ───────────────────▶   removes the snapshot

The position is taken before the snapshot, so the snapshot may contain later entries: applying an
entry again changes nothing. The list of files has checksums, which a restore compares.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from common.deadline import Deadline
from common.errors import ServiceError
from common.process.logs import Log
from coordinator.cluster import snapshots
from coordinator.cluster.snapshot_maker import SnapshotMaker
from coordinator.cluster.snapshots import SNAPSHOT_FILE, ServiceSnapshot
from coordinator.replication.log_errors import LogAway
from coordinator.replication.position import Position, new_host
from coordinator.replication.stream import LogStream
from coordinator.replication.this_host import ThisHost

if TYPE_CHECKING:
    from nats.aio.msg import Msg

READ_BYTES: Final = 512 * 1024
READS_UNDER_WAY: Final = 4
COPY_SECONDS: Final = 3_600.0
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
    """Asks for some shards of a host, each index at one entry of the log."""

    shards: tuple[int, ...]
    horizons: dict[int, int]
    """By number of the index."""


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
_decode_wanted = msgspec.json.Decoder(tuple[int, ...] | CopyRequest).decode
_decode_read = msgspec.json.Decoder(ReadRequest).decode


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
        self._used_at: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

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
        await client.subscribe(f"{name}.peers.{host}.copy", cb=self._begin_copy)
        await client.subscribe(f"{name}.peers.{host}.read", cb=self._read)
        await client.subscribe(f"{name}.peers.{host}.done", cb=self._done)
        while True:
            await asyncio.sleep(IDLE_SECONDS / 10)
            for old in [
                k for k, at in self._used_at.items() if time.monotonic() - at > IDLE_SECONDS
            ]:
                await self._remove(old)

    async def _offer(self, message: Msg) -> None:
        if self._serving.can_give_data:
            offer = Offer(self._host.id, max(self._serving.shown_seq, 0), self._host.shards)
            await message.respond(_encode(offer))

    async def _begin_copy(self, message: Msg) -> None:
        task = asyncio.create_task(self._copy(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _copy(self, message: Msg) -> None:
        name = PREFIX + new_host()
        try:
            wanted = _decode_wanted(message.data) if message.data else None
            if isinstance(wanted, CopyRequest):
                newest = max(wanted.horizons.values(), default=0)
                await self._serving.wait_applied(newest, Deadline.after_ms(WAIT_MS))
                snapshot = await self._make(name, wanted.shards, wanted.horizons)
                position = self._serving.position
            else:
                position = self._serving.position
                snapshot = await self._make(name, wanted, None)
        except (ServiceError, msgspec.MsgspecError, KeyError) as error:
            await message.respond(_encode(CopyResult(error=str(error))))
            return
        self._used_at[name] = time.monotonic()
        last = self._folder / name / SNAPSHOT_FILE
        files = [CopiedFile(one.path, one.bytes) for one in snapshot.files]
        files.append(CopiedFile(SNAPSHOT_FILE, last.stat().st_size))
        _log.info("snapshot for another host", name=name, bytes=snapshot.num_bytes)
        await message.respond(
            _encode(CopyResult(name, position.seq, position.stored_at, tuple(files)))
        )

    async def _read(self, message: Msg) -> None:
        try:
            wanted = _decode_read(message.data)
        except msgspec.MsgspecError:
            return
        if wanted.name not in self._used_at or not snapshots.is_file_of_snapshot(wanted.path):
            return
        self._used_at[wanted.name] = time.monotonic()
        path = self._folder / wanted.name / wanted.path
        await message.respond(await asyncio.to_thread(_read_part, path, wanted.offset))

    async def _done(self, message: Msg) -> None:
        name = message.data.decode("ascii", "replace")
        if name in self._used_at:
            await self._remove(name)

    async def _remove(self, name: str) -> None:
        self._used_at.pop(name, None)
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
    answers = await stream.ask_all(f"{stream.name}.peers.offer", OFFER_SECONDS)
    return [_decode_offer(answer) for answer in answers]


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
    stream: LogStream,
    host: str,
    folder: Path,
    wanted: tuple[int, ...] | CopyRequest = (),
) -> Position:
    """Copy a snapshot of another host into a new folder.

    Args:
        stream: the connection to the log.
        host: names the other host's copy of the data.
        folder: new and empty.
        wanted: the shards to copy; empty: all that it has.

    Returns:
        From where on to follow the log.

    Raises:
        LogAway: the other host does not answer any more, or could not make a snapshot.
        OSError: no room.
    """
    peer = f"{stream.name}.peers.{host}"
    request = _encode(wanted) if wanted else b""
    answer = await stream.ask(f"{peer}.copy", request, COPY_SECONDS)
    copied = _decode_copied(answer.data)
    if copied.error:
        raise LogAway(f"the other host cannot give its data: {copied.error}")
    for file in copied.files:
        path = folder / file.path
        if not snapshots.is_file_of_snapshot(file.path):
            raise LogAway(f"the other host offers a file that no snapshot has: {file.path[:100]}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as target:
            offsets = range(0, file.bytes, READ_BYTES)
            for first in range(0, len(offsets), READS_UNDER_WAY):
                reading = [
                    stream.ask(
                        f"{peer}.read", _encode(ReadRequest(copied.name, file.path, offset)), 30.0
                    )
                    for offset in offsets[first : first + READS_UNDER_WAY]
                ]
                for part in await asyncio.gather(*reading):
                    await asyncio.to_thread(target.write, part.data)
    await stream.client().publish(f"{peer}.done", copied.name.encode())
    return Position(copied.seq, copied.stored_at)


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
