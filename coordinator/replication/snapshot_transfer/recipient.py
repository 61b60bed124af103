"""A new host takes its data from another one, over the connection that both have to the log.

This is its side, and the messages; the other side is `donor`.

    new host                        a host that serves
    offer?   ───────────────────▶   the first one that answers
    copy     ───────────────────▶   makes a snapshot; ◀── not yet
    copy     ───────────────────▶   ◀── position, size of snapshot.json
    read     ───────────────────▶   ◀── half a mebibyte of a file at a time: snapshot.json, then
    done     ───────────────────▶   removes the snapshot                     what it lists

The position is taken before the snapshot, so the snapshot may contain later entries: applying an
entry again changes nothing. The list of files has checksums, which a restore compares.

Requests and responses may be lost with a connection. So a request can be sent again: the new host
names the snapshot, which is made once, and every response comes soon. A host that is silent for
long is given up: for how long depends on who waits, and on what else is known of that host.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field

from common.decode_errors import UNDECODABLE
from common.process.logs import Log
from coordinator.replication.host.replica_file import Position, new_host
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.log_stream import LogStream
from coordinator.snapshots import snapshots_on_disk
from coordinator.snapshots.snapshots_on_disk import SnapshotError

READ_BYTES: Final = 512 * 1024
READS_UNDER_WAY: Final = 4
COPY_SECONDS: Final = 3_600.0
"""Time for making a snapshot."""
ASK_SECONDS: Final = 5.0
"""A response that takes longer is taken for lost."""
ASK_PAUSE_SECONDS: Final = 0.2
"""Interval between two questions whether the snapshot is there."""
SILENCE_SECONDS: Final = 30.0
"""A host that has not answered for this long is taken for dead, unless who asks says otherwise."""
OFFER_SECONDS: Final = 1.0
PREFIX: Final = "replica-"
"""Of the names of snapshots for other hosts."""

Patience = Callable[[], float]
"""Returns for how many seconds a host may be silent, as far as is known now."""

T = TypeVar("T")

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
    """The last one is snapshot.json, which lists the others."""
    error: str = ""
    is_pending: bool = False
    """It is being made: ask again."""


class ReadRequest(Struct, frozen=True):
    """Asks for a part of a file."""

    name: str
    path: str
    offset: int


_encode = msgspec.json.Encoder().encode
_decode_offer = msgspec.json.Decoder(Offer).decode
_decode_copied = msgspec.json.Decoder(CopyResult).decode


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
        LogAway: the log is, or the offer cannot be read.
    """
    stream.client()
    try:
        answer = await stream.ask(f"{stream.name}.peers.offer", seconds=OFFER_SECONDS)
    except LogAway:
        stream.client()
        return None
    return _decoded(_decode_offer, answer.data)


def _decoded(decode: Callable[[bytes], T], answer: bytes) -> T:
    """Return what another host has answered.

    Raises:
        LogAway: it cannot be read, as that of another version.
    """
    try:
        return decode(answer)
    except UNDECODABLE as error:
        raise LogAway(f"the answer of another host cannot be read: {error}") from error


async def take_snapshot(
    stream: LogStream,
    host: str,
    folder: Path,
    request: CopyRequest | None = None,
    patience: Patience = lambda: SILENCE_SECONDS,
) -> Position:
    """Copy a snapshot of another host into a new folder.

    Args:
        stream: the connection to the log.
        host: names the other host's copy of the data.
        folder: new and empty.
        request: what to copy; None: all that the host has.
        patience: for how long the host may be silent.

    Returns:
        From where on to follow the log.

    Raises:
        LogAway: the other host does not answer any more, or could not make a snapshot.
        OSError: no room.
    """
    donor = _Donor(stream, f"{stream.name}.peers.{host}", patience)
    copied = await _made(donor, request or CopyRequest())

    async def take(file: CopiedFile) -> None:
        await _take_file(donor, copied.name, file, folder)

    if copied.files:
        await take(copied.files[-1])
    try:
        snapshot = await asyncio.to_thread(snapshots_on_disk.read_snapshot, folder)
    except SnapshotError as error:
        raise LogAway(f"the other host does not say which files there are: {error}") from error
    for one in snapshot.files:
        await take(CopiedFile(one.path, one.bytes))
    with contextlib.suppress(LogAway):  # what is copied is whole; unread, it will be removed there
        await stream.tell(f"{donor.subject}.done", copied.name.encode())
    return Position(copied.seq, copied.stored_at)


@dataclass(frozen=True, slots=True)
class _Donor:
    """The host that gives its data, as seen from here.

    Args:
        stream: the connection to the log.
        subject: before the names of requests to it.
        patience: for how long it may be silent.
    """

    stream: LogStream
    subject: str
    patience: Patience

    async def ask(self, request: str, content: bytes) -> bytes:
        """Send a request until it is answered, one at a time: responses are long.

        Raises:
            LogAway: there was no answer for long.
        """
        subject = f"{self.subject}.{request}"
        asked_at = time.monotonic()
        while True:
            try:
                return (await self.stream.ask(subject, content, ASK_SECONDS)).data
            except LogAway as error:
                seconds = time.monotonic() - asked_at
                if seconds > self.patience():
                    who = "the host" if self.stream.is_connected else "the log"
                    raise LogAway(f"{who} has not answered for {seconds:.0f} s") from error
            await asyncio.sleep(ASK_PAUSE_SECONDS)


async def _take_file(donor: _Donor, name: str, file: CopiedFile, folder: Path) -> None:
    """Copy a file of another host's snapshot.

    Args:
        donor: the other host.
        name: of the snapshot.
        file: to copy.
        folder: of all files.

    Raises:
        LogAway: the other host does not answer any more.
        OSError: no room.
    """
    if not snapshots_on_disk.is_file_of_snapshot(file.path):
        raise LogAway(f"the other host offers a file that no snapshot has: {file.path[:100]}")
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as target:
        offsets = range(0, file.bytes, READ_BYTES)
        for first in range(0, len(offsets), READS_UNDER_WAY):
            reading = [
                donor.ask("read", _encode(ReadRequest(name, file.path, offset)))
                for offset in offsets[first : first + READS_UNDER_WAY]
            ]
            for part in await asyncio.gather(*reading):
                await asyncio.to_thread(target.write, part)


async def _made(donor: _Donor, request: CopyRequest) -> CopyResult:
    """Have another host make a snapshot; return it once it is there.

    Raises:
        LogAway: it does not answer any more, or could not make it.
    """
    give_up_at = time.monotonic() + COPY_SECONDS
    content = _encode(request)
    while True:
        result = _decoded(_decode_copied, await donor.ask("copy", content))
        if result.error:
            raise LogAway(f"the other host cannot give its data: {result.error}")
        if not result.is_pending:
            return result
        if time.monotonic() > give_up_at:
            raise LogAway("the other host takes too long to copy its data")
        await asyncio.sleep(ASK_PAUSE_SECONDS)
