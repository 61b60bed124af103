"""Publishes entries until the log has them, in pieces where they are long.

Publishing again is safe while the log remembers the entry's id; we give up long before it forgets.
How long that is, the clock of the log's leader says: ours stands still while this machine is
suspended, and the leader's may be set. So we ask for its time before we publish an entry again.

A change that was given up may still be carried out: its outcome is unknown, unless no server was
ever sent the entry, or a piece of it was given up, without which nothing names the others.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from common.errors import StorageFull, Unavailable
from common.process.logs import Log
from coordinator.replication.applying.entry_applying import Applier
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.log_watch import ANSWER_SECONDS, LogWatch
from coordinator.replication.host.replica_file import new_host
from coordinator.replication.log.log_entries import (
    CONTENT_BYTES_MAX,
    Kind,
    LogEntry,
    checksum_of,
    encode_entry,
)
from coordinator.replication.log.log_errors import LogAway, NotConnected, NotPublished

GIVE_UP_SECONDS: Final = 8.0
"""How long publishing a change is retried: less than a request's deadline by default, and far less
than the log remembers its id."""
GIVE_UP_AWAY_SECONDS: Final = 5.0
"""The same while the log's leader does not answer either."""
PAUSE_SECONDS: Final = 0.1
"""Pause before an entry is published again."""
REPEAT_SECONDS_MAX: Final = 30.0
"""An entry that was sent this long ago, by the clock of the log's leader, is not sent again: half
of the shortest time for which a log recognises it (`log_durability.DUPLICATES_SECONDS_MIN`)."""
DOUBT_SECONDS: Final = 0.25
"""An entry that is not confirmed within this time makes us ask whether the log has a leader."""

_log = Log("log")


class Publisher:
    """Publishes the entries of this host.

    Args:
        host: this one.
        watch: knows whether the log is up.
        applier: knows what keeps this host from applying.
    """

    def __init__(self, host: HostContext, watch: LogWatch, applier: Applier) -> None:
        self._cluster = host.cluster
        self._stream = host.stream
        self._watch = watch
        self._applier = applier
        self._num_published = 0
        self._prefix = new_host()

    def check_writable(self) -> None:
        """Refuse a change that could not be carried out now.

        Raises:
            Unavailable: nothing was changed.
            StorageFull: this host has no room.
        """
        self._cluster.check_serving()
        if self._applier.blocked is not None:
            raise StorageFull(
                f"this host cannot apply what is written: {self._applier.blocked.message}"
            )
        if not self._watch.is_up:
            raise Unavailable(
                "the log is away, or has no majority: nothing was written, reads go on; try again "
                "shortly",
                code="log_unavailable",
            )
        if not self._watch.has_caught_up:
            raise Unavailable(
                "this host has just started and still catches up with the log: nothing was "
                "written, reads go on; try again shortly, or another host",
                code="starting",
            )
        failed = self._cluster.failed_shards()
        if failed:
            raise Unavailable(f"shard {failed[0]} is away; nothing was written; try again shortly")

    def next_id(self) -> str:
        """Return the id of a new entry; no other host gives the same."""
        self._num_published += 1
        return f"{self._prefix}-{self._num_published}"

    async def append(
        self, kind: Kind, id: str, packed: bytes, applied: asyncio.Future[bool]
    ) -> int:
        """Publish an entry, in pieces if it is long.

        Returns:
            Its number; 0 if `applied` was done first: it was applied, or this host has stopped.

        Raises:
            NotPublished: it was given up, and will not be carried out.
            LogAway: it was given up.
        """
        parts = [
            packed[first : first + CONTENT_BYTES_MAX]
            for first in range(0, len(packed), CONTENT_BYTES_MAX)
        ] or [b""]
        try:
            pieces = await asyncio.gather(
                *(
                    self._publish(
                        f"{id}.{number}",
                        encode_entry(LogEntry(Kind.PIECE, f"{id}.{number}", content)),
                        applied,
                    )
                    for number, content in enumerate(parts[:-1])
                )
            )
        except LogAway as error:
            raise NotPublished(str(error)) from error
        if applied.done():  # this host has stopped: of some pieces it does not know the numbers
            return 0
        entry = LogEntry(kind, id, parts[-1], checksum_of(packed), tuple(pieces))
        return await self._publish(id, encode_entry(entry), applied)

    async def _publish(self, id: str, message: bytes, applied: asyncio.Future[bool]) -> int:
        """Publish a message until the log has it; return its number, or 0 as `append` does.

        Raises:
            NotPublished: it was given up, and no server was sent it.
            LogAway: it was given up.
        """
        begun_at = time.monotonic()
        sent_at: float | None = None
        may_be_stored = False
        while True:
            if not may_be_stored:
                sent_at = None if self._watch.info is None else self._watch.info.answered_at
                sending = self._stream.publish(id, message)
            else:
                sending = self._publish_again(id, message, sent_at)
            publishing = asyncio.ensure_future(sending)
            await self._until_confirmed(publishing, applied)
            if not publishing.done():
                publishing.add_done_callback(lambda one: one.cancelled() or one.exception())
                if applied.done():  # so the log has it
                    return 0
                publishing.cancel()  # a new leader does not know what the old one was sent
                may_be_stored = True
                continue
            try:
                return publishing.result()
            except _TooLate:
                raise
            except LogAway as error:
                may_be_stored = may_be_stored or not isinstance(error, NotConnected)
                self._watch.doubt()
                _log.debug("not confirmed yet", id=id, reason=str(error))
                if applied.done():
                    return 0
                now = time.monotonic()
                is_silent = now - max(begun_at, self._watch.heard_at) >= GIVE_UP_AWAY_SECONDS
                if is_silent or now - begun_at >= GIVE_UP_SECONDS:
                    if may_be_stored:
                        raise
                    raise NotPublished(str(error)) from error
            await asyncio.sleep(PAUSE_SECONDS)

    async def _until_confirmed(
        self, publishing: asyncio.Future[int], applied: asyncio.Future[bool]
    ) -> None:
        """Return when an attempt has ended, when it is not needed any more, or at a new leader."""
        waited = (publishing, applied)
        try:
            done, _ = await asyncio.wait(
                waited, timeout=DOUBT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                self._watch.doubt()
                elected = self._watch.elected
                await asyncio.wait((*waited, elected), return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            publishing.cancel()
            raise

    async def _publish_again(self, id: str, message: bytes, sent_at: float | None) -> int:
        """Publish a message that the log may have, unless the log may have forgotten its id.

        Args:
            id: of the message.
            message: the same as before.
            sent_at: when it was first sent, or a little earlier, by the clock of the log's leader;
                None: the leader does not say.

        Raises:
            _TooLate: the log might store it a second time.
            LogAway: it is not known whether the log has it.
        """
        if sent_at is not None:
            info = await self._stream.info(ANSWER_SECONDS)
            now = None if info is None else info.answered_at
            if now is not None and now - sent_at > REPEAT_SECONDS_MAX:
                raise _TooLate(
                    f"an entry was sent to the log {now - sent_at:.0f} s ago, by the log's clock"
                )
        return await self._stream.publish(id, message)


class _TooLate(LogAway):
    """An entry was first sent too long ago to be sent again."""


def not_confirmed(error: LogAway) -> str:
    """Say that an entry was given up, and what that means for its change."""
    if isinstance(error, NotPublished):
        return f"{error}: nothing was written; try again shortly"
    return (
        f"{error}: the change was not confirmed, and may still be carried out; sending it again is "
        "safe where items have ids"
    )
