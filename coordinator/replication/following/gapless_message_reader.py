"""Reads the log: every message after a position, in order, without gaps.

A follower starts *at* the last entry that it has, not after it, and compares the time at which the
log stored it. So a log that has lost or replaced entries (restored from an old copy, or emptied) is
noticed, and no host applies other entries under numbers that were given before.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from common.process.logs import Log
from coordinator.replication.host.replica_file import Position
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_errors import LogAway, LogBroken
from coordinator.replication.log.log_stream import LogStream, StreamMessage
from coordinator.replication.log.nats_connection import client_errors_as_log_away

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

HEARTBEAT_SECONDS: Final = 0.25
SILENT_SECONDS: Final = 1.0
"""A consumer that has not sent even a heartbeat for this long is replaced."""
QUIET_SECONDS: Final = 0.35
"""Silence after which entries are fetched one by one, until this consumer or another one sends
again."""
POLL_SECONDS: Final = 0.05
"""Between two attempts to fetch the next entry."""
LEADERLESS_SECONDS: Final = 4.0
"""How long we wait for a leader before we start over."""
FOLLOW_SECONDS: Final = 0.5
FOLLOW_SECONDS_MAX: Final = 4.0
"""Time for the log to answer a new follower: on the first try, and after many. A new leader does
not know the requests to the old one."""
RETRY_SECONDS: Final = 0.1
FORGOTTEN_SECONDS: Final = 30.0
"""A log that lacks entries may be a server that is still starting; past this time it has lost
them."""

_log = Log("log")


async def follow(stream: LogStream, position: Position) -> AsyncGenerator[StreamMessage, None]:
    """Yield every message after a position, in order; wait for new ones.

    The caller must close it: until then the log keeps sending.

    Raises:
        LogBroken: the log lacks entries that it had, or the next one.
    """
    forgotten_since: float | None = None
    last_reason = ""
    seconds = FOLLOW_SECONDS
    while True:
        try:
            info = await stream.info(seconds)
            if info is None or info.last_seq < position.seq:
                now = time.monotonic()
                forgotten_since = now if forgotten_since is None else forgotten_since
                if now - forgotten_since > FORGOTTEN_SECONDS:
                    raise LogBroken(_forgotten(info, position))
                raise LogAway("the log lacks entries that it had")
            forgotten_since = None
            if info.first_seq > position.seq + 1:
                raise LogBroken(
                    f"the log begins at entry {info.first_seq}, this host needs "
                    f"{position.seq + 1}: it was away for too long"
                )
            consumed = _consume(stream, position, info.first_seq, seconds)
            async with contextlib.aclosing(consumed) as messages:
                async for message in messages:
                    position = Position(message.seq, message.stored_at)
                    last_reason = ""
                    seconds = FOLLOW_SECONDS
                    yield message
        except LogAway as error:
            stream.doubted()
            seconds = min(1.5 * seconds, FOLLOW_SECONDS_MAX)
            if str(error) != last_reason:
                last_reason = str(error)
                _log.warning("log is away", reason=last_reason, seq=position.seq)
        await asyncio.sleep(RETRY_SECONDS)


def _forgotten(info: StreamInfo | None, position: Position) -> str:
    if info is None:
        return "the log has no such stream any more"
    return (
        f"the log ends at entry {info.last_seq}, this host has applied {position.seq}: "
        "the log has lost entries that it had confirmed"
    )


async def _consume(
    stream: LogStream, position: Position, first_seq: int, seconds: float
) -> AsyncGenerator[StreamMessage, None]:
    """Yield messages of one consumer until it falls silent or misses one.

    Until the consumer sends, entries are fetched one by one: its server may be dead, and a new
    consumer takes a while, since it needs a leader of its own besides the stream's. From its
    first message on it sends many times as fast.

    Args:
        stream: the log.
        position: after which to begin.
        first_seq: of the log.
        seconds: within which the consumer must be created.
    """
    order = EntryOrder(position, first_seq)
    consumer = _Consumer(stream.client())
    await consumer.subscribe()
    making = asyncio.ensure_future(_make_consumer(stream, consumer.inbox, order.seq + 1, seconds))
    try:
        while True:
            message = await consumer.next_message()
            if message is not None:
                entry = await consumer.entry_of(message)
                if entry is not None and order.takes(entry):
                    yield entry
                continue
            try:
                while consumer.has_none and (found := await _next_entry(stream, order)):
                    if order.takes(found):
                        yield found
            except LogAway:
                stream.doubted()
                if consumer.silent_seconds < LEADERLESS_SECONDS:
                    continue  # a new leader may be elected
                raise
            if making.done():
                making.result()
                # What was sent while this process had no core has arrived before that answer.
                if consumer.silent_seconds > SILENT_SECONDS:
                    raise LogAway("the log is silent")
    finally:
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        await consumer.unsubscribe()


class _Consumer:
    """What the log sends to one consumer, without gaps.

    Args:
        client: the connection.

    Attributes:
        inbox: the subject to which the log is to send.
    """

    def __init__(self, client: Client) -> None:
        self.inbox = client.new_inbox()
        self._client = client
        self._subscription: Subscription | None = None
        self._arrived: asyncio.Queue[Msg] = asyncio.Queue()
        self._num_delivered = 0
        self._heard_at = time.monotonic()
        self._is_silent = True  # the consumer before may have ended because its server died

    async def subscribe(self) -> None:
        """Begin to receive."""

        async def take(message: Msg) -> None:
            self._heard_at = time.monotonic()
            self._arrived.put_nowait(message)

        with client_errors_as_log_away():
            self._subscription = await self._client.subscribe(
                self.inbox, cb=take, pending_msgs_limit=0, pending_bytes_limit=0
            )
        self._heard_at = time.monotonic()

    async def unsubscribe(self) -> None:
        """Stop receiving."""
        if self._subscription is not None:
            with contextlib.suppress(Exception):
                await self._subscription.unsubscribe()

    @property
    def has_none(self) -> bool:
        """Whether no message waits."""
        return self._arrived.empty()

    @property
    def silent_seconds(self) -> float:
        """Time since the last message arrived, or since it began."""
        return time.monotonic() - self._heard_at

    async def next_message(self) -> Msg | None:
        """Return the next message; None if none comes for a while."""
        try:
            async with asyncio.timeout(POLL_SECONDS if self._is_silent else QUIET_SECONDS):
                message = await self._arrived.get()
        except TimeoutError:
            self._is_silent = True
            return None
        self._is_silent = False
        return message

    async def entry_of(self, message: Msg) -> StreamMessage | None:
        """Return the entry in a message; None if it is about the consumer.

        Raises:
            LogAway: a message was lost, the log has ended the consumer, or the response to its flow
                control cannot be sent.
        """
        headers = message.headers or {}
        status = headers.get("Status")
        if status is not None:
            # Flow control waits until we have taken all earlier messages.
            reply = message.reply or headers.get("Nats-Consumer-Stalled")
            if reply:
                with client_errors_as_log_away():
                    await self._client.publish(reply)
            if int(headers.get("Nats-Last-Consumer", self._num_delivered)) != self._num_delivered:
                raise LogAway("a message was lost on the way")
            if status != "100":
                raise LogAway(f"the log has ended our consumer ({status})")
            return None
        # $JS.ACK.[domain.account.]stream.consumer.times.seq.delivered.time.pending[.token]
        words = message.reply.split(".")
        seq, delivered, stored_at = map(int, words[5 if len(words) == 9 else 7 :][:3])
        self._num_delivered += 1
        if delivered != self._num_delivered:
            raise LogAway("a message was lost on the way")
        return StreamMessage(seq, stored_at, message.data)


async def _make_consumer(stream: LogStream, inbox: str, seq: int, seconds: float) -> None:
    """Have the log send everything from an entry on.

    Raises:
        LogAway: it was not made in time.
    """
    await stream.api(
        f"CONSUMER.CREATE.{stream.name}",
        {
            "stream_name": stream.name,
            "config": {
                "deliver_subject": inbox,
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": seq,
                "ack_policy": "none",
                "flow_control": True,
                "idle_heartbeat": int(HEARTBEAT_SECONDS * 1e9),
                "max_deliver": 1,
                "mem_storage": True,
                "num_replicas": 1,
                "inactive_threshold": 10 * 10**9,
            },
        },
        seconds,
    )


async def _next_entry(stream: LogStream, order: EntryOrder) -> StreamMessage | None:
    """Return the entry after the last one; None if there is none yet.

    Raises:
        LogAway: no answer.
        LogBroken: the last entry is not the one that the log has.
    """
    found = await stream.entry(order.seq + 1, QUIET_SECONDS)
    if found is not None and order.stored_at:
        last = await stream.entry(order.seq, QUIET_SECONDS)
        if last is None:
            raise LogAway("the log lacks an entry that it had")
        order.compare(last)
    return found


class EntryOrder:
    """Passes each entry once, in order, provided that they continue from the host's position.

    Args:
        position: of the host.
        first_seq: of the log.

    Attributes:
        seq: of the last entry.
        stored_at: of the last entry; 0: not known.
    """

    def __init__(self, position: Position, first_seq: int) -> None:
        self._expected = 0
        """When the next entry was stored, if the host has that one already."""
        self.seq, self.stored_at = position
        if position.stored_at != 0 and position.seq >= first_seq:
            self._expected = position.stored_at
            self.seq, self.stored_at = position.seq - 1, 0

    def takes(self, entry: StreamMessage) -> bool:
        """Return whether the host lacks an entry.

        Raises:
            LogBroken: the log lacks earlier entries, or is another one.
        """
        if entry.seq <= self.seq:
            return False
        if entry.seq != self.seq + 1:
            raise LogBroken(
                f"the log has no entry {self.seq + 1}; after {self.seq} comes {entry.seq}"
            )
        is_known = self._expected != 0
        self.seq, self.stored_at = entry.seq, self._expected or entry.stored_at
        self._expected = 0
        if is_known:
            self.compare(entry)
        return not is_known

    def compare(self, entry: StreamMessage) -> None:
        """Compare the last entry with the log's.

        Raises:
            LogBroken: it is another one.
        """
        if entry.stored_at != self.stored_at:
            raise LogBroken(
                f"entry {entry.seq} of the log is not the one that this host has applied: "
                "the log was replaced, or has lost entries"
            )
