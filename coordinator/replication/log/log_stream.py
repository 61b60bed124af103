"""The stream that is the log: publish to it, read it, query its state (NATS JetStream).

    publish ──▶ server ──▶ quorum (fsync) ──▶ acknowledgement: the entry's number
    follow  ◀── consumer ◀── every message after a position, in order

`gapless_message_reader` follows it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson

from coordinator.replication.log.jetstream_info import RaftGroup, StreamInfo
from coordinator.replication.log.log_errors import JetStreamError, LogAway, LogBroken
from coordinator.replication.log.nats_connection import REQUEST_SECONDS, LogConnection

PUBLISH_SECONDS: Final = 0.6
"""Time for a confirmation, and additional time for long messages; then a message is sent again."""
PUBLISH_BYTES_PER_SECOND: Final = 1 << 20
DUPLICATES_SECONDS: Final = 600
"""How long the log recognises an entry that is published again."""

_NO_STREAM: Final = 10059
_NO_MESSAGE: Final = 10037


class StreamMessage(NamedTuple):
    """One message of the log."""

    seq: int
    stored_at: int
    content: bytes


class LogStream(LogConnection):
    """The log's stream, over a connection of its own.

    Args:
        urls: of the servers, with commas between.
        name: of the stream.
        credentials: file of NATS credentials, or empty.

    Attributes:
        doubted: called when the log does not answer its follower.
    """

    def __init__(self, urls: str, name: str, credentials: str = "") -> None:
        super().__init__(urls, credentials)
        self.name = name
        self.subject = f"{name}.log"
        self.doubted: Callable[[], None] = lambda: None
        self._account = ""

    async def api(
        self,
        what: str,
        document: dict[str, Any] | None = None,
        seconds: float = REQUEST_SECONDS,
        *,
        is_read: bool = False,
    ) -> dict[str, Any]:
        """Call JetStream.

        Args:
            what: to call.
            document: content of the request.
            seconds: to wait.
            is_read: the request changes nothing, so it may be sent several times.

        Raises:
            LogAway: it does not answer, or refuses.
        """
        content = b"" if document is None else orjson.dumps(document)
        ask = self.ask_repeatedly if is_read else self.ask
        answer = orjson.loads((await ask(f"$JS.API.{what}", content, seconds)).data)
        if "error" in answer:
            raise JetStreamError(answer["error"])
        return answer  # type: ignore[no-any-return]

    async def info(self, seconds: float = REQUEST_SECONDS) -> StreamInfo | None:
        """Return the leader's state of the stream; None if there is no such stream.

        Args:
            seconds: to wait for it.

        Raises:
            LogAway: there is no leader.
        """
        try:
            answer = await self.api(f"STREAM.INFO.{self.name}", seconds=seconds, is_read=True)
        except JetStreamError as error:
            if error.code == _NO_STREAM:
                return None
            raise
        info = StreamInfo.read(answer)
        if info.servers and not info.leader:
            # A server that has had no leader for long answers for itself, and counts as current.
            raise LogAway("the log has no leader")
        return info

    async def create(self, num_replicas: int, first_seq: int, metadata: dict[str, str]) -> None:
        """Make the stream.

        Raises:
            LogAway: JetStream refuses or does not answer.
        """
        await self.api(
            f"STREAM.CREATE.{self.name}",
            {
                "name": self.name,
                "subjects": [self.subject],
                "storage": "file",
                "retention": "limits",
                "discard": "new",
                "num_replicas": num_replicas,
                "duplicate_window": DUPLICATES_SECONDS * 10**9,
                "deny_delete": True,
                "first_seq": first_seq,
                "metadata": metadata,
            },
        )

    async def publish(self, id: str, content: bytes) -> int:
        """Publish a message; return its number, even if it had been published before.

        A new leader of the log does not know the requests to the old one, so we soon repeat ours.

        Raises:
            LogAway: it is not known whether the log has it.
        """
        seconds = PUBLISH_SECONDS + len(content) / PUBLISH_BYTES_PER_SECOND
        headers = {"Nats-Msg-Id": id, "Nats-Expected-Stream": self.name}
        answer = await self.request(self.subject, content, seconds, headers)
        document = orjson.loads(answer.data)
        if "error" in document:
            raise JetStreamError(document["error"])
        return int(document["seq"])

    async def get(self, seq: int) -> bytes:
        """Return one message.

        Raises:
            LogAway: no answer.
            LogBroken: the log does not have it any more.
        """
        found = await self.entry(seq, REQUEST_SECONDS)
        if found is None:
            raise LogBroken(f"the log no longer has entry {seq}")
        return found.content

    async def first_seq_since(self, timestamp: float) -> int:
        """Return the number of the first entry stored at a time (Unix, seconds) or later."""
        name = f"since-{int(timestamp)}"
        start = datetime.fromtimestamp(timestamp, UTC).isoformat()
        made = await self.api(
            f"CONSUMER.CREATE.{self.name}.{name}",
            {
                "stream_name": self.name,
                "config": {
                    "name": name,
                    "deliver_policy": "by_start_time",
                    "opt_start_time": start,
                    "ack_policy": "none",
                    "mem_storage": True,
                    "num_replicas": 1,
                    "inactive_threshold": 10**9,
                },
            },
        )
        return int(made["delivered"]["stream_seq"]) + 1

    async def trim(self, before: int) -> None:
        """Remove all entries before one."""
        await self.api(f"STREAM.PURGE.{self.name}", {"seq": before})

    async def entry(self, seq: int, seconds: float) -> StreamMessage | None:
        """Return an entry; None if the log does not have it.

        Raises:
            LogAway: no answer.
        """
        try:
            what = f"STREAM.MSG.GET.{self.name}"
            answer = await self.api(what, {"seq": seq}, seconds, is_read=True)
        except JetStreamError as error:
            if error.code == _NO_MESSAGE:
                return None
            raise
        message = answer["message"]
        content = base64.b64decode(message.get("data", ""))
        return StreamMessage(seq, _nanoseconds_of(message["time"]), content)

    async def group(self, info: StreamInfo) -> RaftGroup | None:
        """Return the group that elects the leader of the stream; None if it is not known.

        Args:
            info: of the stream.
        """
        if not info.group:
            return None
        if not self._account:
            try:
                answer = orjson.loads((await self.ask("$SYS.REQ.USER.INFO")).data)
                self._account = answer["data"]["account"]
            except (LogAway, ValueError, KeyError):
                return None
        return RaftGroup(info.group, self._account, info.traffic)


def _nanoseconds_of(timestamp: str) -> int:
    """Return nanoseconds since 1970 of a moment as NATS writes it (RFC 3339, UTC)."""
    whole, _, fraction = timestamp.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 10**9 + int(fraction.ljust(9, "0"))
