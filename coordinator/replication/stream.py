"""The stream that is the log: publish to it, follow it, query its state (NATS JetStream).

    publish ──▶ server ──▶ quorum (fsync) ──▶ acknowledgement: the entry's number
    follow  ◀── consumer ◀── every message after a position, in order, without gaps

A follower starts *at* the last entry that it has, not after it, and compares the time at which the
log stored it. So a log that has lost or replaced entries (restored from an old copy, or emptied) is
noticed, and no host applies other entries under numbers that were given before.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from common.process.logs import Log
from common.settings import SettingError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

REQUEST_SECONDS: Final = 2.0
PUBLISH_SECONDS: Final = 0.6
"""Time for a confirmation, and additional time for long messages; then a message is sent again."""
PUBLISH_BYTES_PER_SECOND: Final = 1 << 20
CONNECT_SECONDS: Final = 2.0
HEARTBEAT_SECONDS: Final = 0.25
SILENT_SECONDS: Final = 1.0
"""A consumer that has not sent even a heartbeat for so long is replaced."""
QUIET_SECONDS: Final = 0.35
"""Silence after which entries are fetched one by one, until this consumer or another one sends
again."""
POLL_SECONDS: Final = 0.05
"""Between two attempts to fetch the next entry."""
REPEAT_SECONDS: Final = 0.1
"""After which a read that is not answered is sent again: a new leader does not know the requests
to the old one."""
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
DUPLICATES_SECONDS: Final = 600
"""How long the log recognises an entry that is published again."""
ORIGIN_KEY: Final = "facetd-origin"
CLUSTER_KEY: Final = "facetd-cluster"
FORMAT_KEY: Final = "facetd-format"
LIMITS_KEY: Final = "facetd-limits"
SHARDS_KEY: Final = "facetd-shards"
"""Number of shards of all hosts together, where each host holds some."""

_log = Log("log")


class LogAway(Exception):
    """The log cannot be reached, or has no majority; it may be back later."""


class LogBroken(Exception):
    """The log has lost or replaced entries; a host that follows it would differ from the others."""


class Position(NamedTuple):
    """How far a host has applied the log."""

    seq: int
    """Number of the last entry."""
    stored_at: int
    """When the log stored it, in nanoseconds since 1970; 0: not known, nothing is compared."""


class StreamMessage(NamedTuple):
    """One message of the log."""

    seq: int
    stored_at: int
    content: bytes


class RaftGroup(NamedTuple):
    """A group of servers that elects a leader."""

    name: str
    account: str
    """The account to which it belongs."""
    traffic: str
    """The account in which its servers talk to each other."""


class ServerState(NamedTuple):
    """A server that stores the log."""

    name: str
    is_leader: bool
    is_current: bool
    """Whether it has the whole log."""
    num_missing: int
    """Entries that it still lacks."""


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """State of the stream, from its leader.

    Attributes:
        first_seq: the oldest entry that is kept.
        last_seq: the newest entry.
        num_replicas: servers that store it.
        num_current: of these the ones that have all of it.
        leader: name of the server that leads; empty for a server without a cluster.
        servers: that store it; empty for a server without a cluster.
        num_bytes: on each of them.
        group: name of the group that elects the leader; empty if the system account knows none.
        traffic: the account in which the group's servers talk to each other.
        metadata: that facetd wrote when it created the stream.
        config: as JetStream has it.
    """

    first_seq: int
    last_seq: int
    num_replicas: int
    num_current: int
    leader: str
    servers: tuple[ServerState, ...]
    num_bytes: int
    group: str
    traffic: str
    metadata: dict[str, str]
    config: dict[str, Any]

    @property
    def cluster(self) -> str:
        """Names the log: a stream that is created again under the same name is another log."""
        return self.metadata.get(CLUSTER_KEY, "")

    @property
    def origin(self) -> int:
        """Number that the first entry was given; 1 unless the log began with existing data."""
        return int(self.metadata.get(ORIGIN_KEY, "1"))

    @classmethod
    def read(cls, answer: dict[str, Any]) -> StreamInfo:
        """Read a response of JetStream."""
        state, config = answer["state"], answer["config"]
        cluster = answer.get("cluster") or {}
        followers = cluster.get("replicas") or []
        leader = cluster.get("leader", "")
        return cls(
            first_seq=state["first_seq"],
            last_seq=state["last_seq"],
            num_replicas=config["num_replicas"],
            num_current=1 + sum(map(_is_current, followers)),
            leader=leader,
            servers=(
                *((ServerState(leader, True, True, 0),) if leader else ()),
                *(
                    ServerState(one["name"], False, _is_current(one), int(one.get("lag", 0)))
                    for one in followers
                ),
            ),
            num_bytes=state.get("bytes", 0),
            group=cluster.get("raft_group", "") if cluster.get("system_account") else "",
            traffic=cluster.get("traffic_account", ""),
            metadata=config.get("metadata") or {},
            config=config,
        )


def _is_current(follower: dict[str, Any]) -> bool:
    return bool(follower["current"]) and not follower.get("offline")


def without_user(address: str) -> str:
    """Return an address without its user and password."""
    scheme, between, rest = address.strip().rpartition("://")
    return f"{scheme}{between}{rest.rpartition('@')[2]}"


def connect_options(
    urls: str, credentials: str, user: str = "", password: str = ""
) -> dict[str, Any]:
    """Return the options of a connection.

    Raises:
        SettingError: an address is malformed.
    """
    servers = [url.strip() for url in urls.split(",") if url.strip()]
    scheme = servers[0].partition("://")[0] if servers and "://" in servers[0] else "nats"
    servers = [url if "://" in url else f"{scheme}://{url}" for url in servers]
    for url in servers:
        if url.partition("://")[0] not in ("nats", "tls"):
            raise SettingError(
                f"--log is nats://HOST:PORT, or several of these with commas between, not {url}"
            )
    if credentials and not Path(credentials).is_file():
        raise SettingError(f"log_credentials names {credentials}, which is no file")
    return {
        "servers": servers,
        "user_credentials": credentials or None,
        "user": user or None,
        "password": password or None,
        "name": "facetd",
        "connect_timeout": CONNECT_SECONDS,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RETRY_SECONDS,
        "ping_interval": 1,
        "max_outstanding_pings": 2,
    }


class LogStream:
    """A connection to the log; it is reopened whenever it ends.

    Args:
        urls: of the servers, with commas between.
        name: of the stream.
        credentials: file of NATS credentials, or empty.
        user: if neither these nor the addresses name one.
        password: of the user.

    Attributes:
        doubted: called when the log does not answer its follower.
    """

    def __init__(
        self, urls: str, name: str, credentials: str = "", *, user: str = "", password: str = ""
    ) -> None:
        self.name = name
        self.subject = f"{name}.log"
        self._options = connect_options(urls, credentials, user, password)
        self._account = ""
        self.doubted: Callable[[], None] = lambda: None
        self._client: Client | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._asking: dict[asyncio.Future[Msg], None] = {}  # in the order of asking

    @property
    def servers(self) -> list[str]:
        """Addresses of the servers, as configured."""
        return list(self._options["servers"])

    @property
    def is_connected(self) -> bool:
        """Whether a server is connected now."""
        return self._client is not None and self._client.is_connected

    @property
    def num_known_servers(self) -> int:
        """Number of servers that the connected one knows of."""
        return 0 if self._client is None else len(self._client.servers)

    def start(self) -> None:
        """Begin to connect; retry until it succeeds."""
        self._connecting = asyncio.create_task(self._connect_at_last())

    async def connect(self) -> None:
        """Connect once.

        Raises:
            LogAway: no server answers.
            SettingError: nats-py is not installed, or the servers do not let us in.
        """
        try:
            from nats.aio.client import Client as NatsClient
            from nats.errors import AuthorizationError, Error
        except ImportError as error:
            raise SettingError(
                "--log needs the NATS client: pip install 'facetd[cluster]'"
            ) from error
        logging.getLogger("nats").setLevel(logging.CRITICAL)  # we log what matters ourselves
        refused: list[Exception] = []

        async def note(error: Exception) -> None:
            if isinstance(error, AuthorizationError) or "authorization" in str(error).lower():
                refused.append(error)

        client = NatsClient()
        try:
            async with asyncio.timeout(CONNECT_SECONDS * len(self.servers) + 1):
                await client.connect(
                    **self._options, error_cb=note, disconnected_cb=self._give_up_asking
                )
        except (Error, OSError, TimeoutError) as error:
            with contextlib.suppress(Exception):
                await client.close()
            if refused:
                raise SettingError(f"the log's servers do not let us in: {refused[0]}") from error
            raise LogAway(f"no server of the log answers: {', '.join(self.servers)}") from error
        self._client = client

    async def _connect_at_last(self) -> None:
        last_reason = ""
        while self._client is None:
            try:
                await self.connect()
            except (LogAway, SettingError) as error:
                if str(error) != last_reason:
                    last_reason = str(error)
                    _log.warning("log is away", reason=last_reason)
                await asyncio.sleep(RETRY_SECONDS * 5)

    async def close(self) -> None:
        """Close the connection."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._client is not None:
            with contextlib.suppress(Exception):
                await self._client.close()
            self._client = None

    def client(self) -> Client:
        """Return the connection.

        Raises:
            LogAway: there is none now.
        """
        if self._client is None or not self._client.is_connected:
            raise LogAway("no server of the log is connected")
        return self._client

    async def _give_up_asking(self) -> None:
        """End all requests: their responses would have come over the lost connection."""
        for asking in list(self._asking):
            asking.cancel()

    async def _request(
        self, subject: str, content: bytes, seconds: float, headers: dict[str, str] | None = None
    ) -> Msg:
        """Send a request and return its answer.

        Raises:
            LogAway: no server answers, or the connection is lost.
        """
        from nats.errors import Error

        client = self.client()
        asking = asyncio.ensure_future(
            client.request(subject, content, timeout=seconds, headers=headers)
        )
        self._asking[asking] = None
        try:
            return await asking
        except (Error, OSError, TimeoutError) as error:
            raise LogAway(f"the log does not answer ({type(error).__name__})") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise LogAway("the connection to the log was lost") from None
        finally:
            self._asking.pop(asking, None)
            asking.cancel()

    async def ask(
        self, subject: str, content: bytes = b"", seconds: float = REQUEST_SECONDS
    ) -> Msg:
        """Send a request and return its answer.

        Raises:
            LogAway: no server answers.
        """
        return await self._request(subject, content, seconds)

    async def _ask_repeatedly(self, subject: str, content: bytes, seconds: float) -> Msg:
        """Send a request until it is answered, and return its answer.

        Raises:
            LogAway: no server answers.
        """
        give_up_at = time.monotonic() + seconds
        asking: list[asyncio.Task[Msg]] = []
        try:
            while (left := give_up_at - time.monotonic()) > 0:
                asking.append(asyncio.create_task(self._request(subject, content, left)))
                await asyncio.wait(
                    asking,
                    timeout=min(left, REPEAT_SECONDS),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for one in asking:
                    if one.done():
                        return one.result()
            raise LogAway("the log does not answer")
        finally:
            for one in asking:
                one.cancel()

    async def ask_all(
        self, subject: str, seconds: float, enough: int = 0, content: bytes = b""
    ) -> list[bytes]:
        """Send a request and return all responses that arrive within some seconds.

        Args:
            subject: to whom.
            seconds: to wait.
            enough: number of responses after which to wait no longer; 0: always wait.
            content: of the request.

        Raises:
            LogAway: no server is connected.
        """
        client = self.client()
        inbox = client.new_inbox()
        answers: list[bytes] = []
        is_enough = asyncio.Event()

        async def take(message: Msg) -> None:
            if message.data:
                answers.append(message.data)
            if len(answers) == enough:
                is_enough.set()

        subscription = await client.subscribe(inbox, cb=take)
        try:
            await client.publish(subject, content, reply=inbox)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await is_enough.wait()
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()
        return answers

    async def tell(self, subject: str, content: bytes, reply: str) -> None:
        """Send a message, with a subject for responses.

        Raises:
            LogAway: no server is connected.
        """
        await self.client().publish(subject, content, reply=reply)

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

    async def _api(
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
        ask = self._ask_repeatedly if is_read else self.ask
        answer = orjson.loads((await ask(f"$JS.API.{what}", content, seconds)).data)
        if "error" in answer:
            raise JetStreamError(answer["error"])
        return answer  # type: ignore[no-any-return]

    # --- the stream

    async def info(self, seconds: float = REQUEST_SECONDS) -> StreamInfo | None:
        """Return the leader's state of the stream; None if there is no such stream.

        Args:
            seconds: to wait for it.

        Raises:
            LogAway: there is no leader.
        """
        try:
            answer = await self._api(f"STREAM.INFO.{self.name}", seconds=seconds, is_read=True)
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
        await self._api(
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
        answer = await self._request(self.subject, content, seconds, headers)
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
        found = await self._entry(seq, REQUEST_SECONDS)
        if found is None:
            raise LogBroken(f"the log no longer has entry {seq}")
        return found.content

    async def first_seq_since(self, moment: float) -> int:
        """Return the number of the first entry stored at a time (Unix, seconds) or later."""
        name = f"since-{int(moment)}"
        start = datetime.fromtimestamp(moment, UTC).isoformat()
        made = await self._api(
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
        await self._api(f"STREAM.PURGE.{self.name}", {"seq": before})

    # --- follow

    async def follow(self, position: Position) -> AsyncIterator[StreamMessage]:
        """Yield every message after a position, in order; wait for new ones.

        Raises:
            LogBroken: the log lacks entries that it had, or the next one.
        """
        forgotten_since: float | None = None
        last_reason = ""
        seconds = FOLLOW_SECONDS
        while True:
            try:
                info = await self.info(seconds)
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
                async for message in self._consume(position, info.first_seq, seconds):
                    position = Position(message.seq, message.stored_at)
                    last_reason = ""
                    seconds = FOLLOW_SECONDS
                    yield message
            except LogAway as error:
                self.doubted()
                seconds = min(1.5 * seconds, FOLLOW_SECONDS_MAX)
                if str(error) != last_reason:
                    last_reason = str(error)
                    _log.warning("log is away", reason=last_reason, seq=position.seq)
            await asyncio.sleep(RETRY_SECONDS)

    async def _consume(
        self, position: Position, first_seq: int, seconds: float
    ) -> AsyncIterator[StreamMessage]:
        """Yield messages of one consumer until it falls silent or misses one.

        Until the consumer sends, entries are fetched one by one: its server may be dead, and a new
        consumer takes a while, since it needs a leader of its own besides the stream's. From its
        first message on it sends many times as fast.

        Args:
            position: after which to begin.
            first_seq: of the log.
            seconds: within which the consumer must be created.
        """
        client = self.client()
        order = _Order(position, first_seq)
        inbox = client.new_inbox()
        arrived: asyncio.Queue[Msg] = asyncio.Queue()

        async def take(message: Msg) -> None:
            arrived.put_nowait(message)

        subscription = await client.subscribe(
            inbox, cb=take, pending_msgs_limit=0, pending_bytes_limit=0
        )
        making = asyncio.ensure_future(self._make_consumer(inbox, order.seq + 1, seconds))
        try:
            num_delivered = 0
            heard_at = time.monotonic()
            is_silent = True  # the consumer before may have ended because its server died
            while True:
                try:
                    async with asyncio.timeout(POLL_SECONDS if is_silent else QUIET_SECONDS):
                        message = await arrived.get()
                except TimeoutError:
                    is_silent = True
                    try:
                        while arrived.empty() and (found := await self._next_entry(order)):
                            if order.takes(found):
                                yield found
                    except LogAway:
                        self.doubted()
                        if time.monotonic() - heard_at < LEADERLESS_SECONDS:
                            continue  # a new leader may be elected
                        raise
                    if making.done():
                        making.result()
                        if time.monotonic() - heard_at > SILENT_SECONDS:
                            raise LogAway("the log is silent") from None
                    continue
                heard_at = time.monotonic()
                is_silent = False
                status = (message.headers or {}).get("Status")
                if status is not None:
                    # Flow control waits until we have taken all earlier messages.
                    headers = message.headers or {}
                    reply = message.reply or headers.get("Nats-Consumer-Stalled")
                    if reply:
                        await client.publish(reply)
                    if int(headers.get("Nats-Last-Consumer", num_delivered)) != num_delivered:
                        raise LogAway("a message was lost on the way")
                    if status != "100":
                        raise LogAway(f"the log has ended our consumer ({status})")
                    continue
                # $JS.ACK.[domain.account.]stream.consumer.times.seq.delivered.time.pending[.token]
                words = message.reply.split(".")
                seq, delivered, stored_at = map(int, words[5 if len(words) == 9 else 7 :][:3])
                num_delivered += 1
                if delivered != num_delivered:
                    raise LogAway("a message was lost on the way")
                entry = StreamMessage(seq, stored_at, message.data)
                if order.takes(entry):
                    yield entry
        finally:
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()

    async def _make_consumer(self, inbox: str, seq: int, seconds: float) -> None:
        """Have the log send everything from an entry on.

        Raises:
            LogAway: it was not made in time.
        """
        await self._api(
            f"CONSUMER.CREATE.{self.name}",
            {
                "stream_name": self.name,
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

    async def _next_entry(self, order: _Order) -> StreamMessage | None:
        """Return the entry after the last one; None if there is none yet.

        Raises:
            LogAway: no answer.
            LogBroken: the last entry is not the one that the log has.
        """
        found = await self._entry(order.seq + 1, QUIET_SECONDS)
        if found is not None and order.stored_at:
            last = await self._entry(order.seq, QUIET_SECONDS)
            if last is None:
                raise LogAway("the log lacks an entry that it had")
            order.compare(last)
        return found

    async def _entry(self, seq: int, seconds: float) -> StreamMessage | None:
        """Return an entry; None if the log does not have it.

        Raises:
            LogAway: no answer.
        """
        try:
            what = f"STREAM.MSG.GET.{self.name}"
            answer = await self._api(what, {"seq": seq}, seconds, is_read=True)
        except JetStreamError as error:
            if error.code == _NO_MESSAGE:
                return None
            raise
        message = answer["message"]
        content = base64.b64decode(message.get("data", ""))
        return StreamMessage(seq, nanoseconds_of(message["time"]), content)


class _Order:
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


def nanoseconds_of(moment: str) -> int:
    """Return nanoseconds since 1970 of a moment as NATS writes it (RFC 3339, UTC)."""
    whole, _, fraction = moment.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 10**9 + int(fraction.ljust(9, "0"))


_NO_STREAM: Final = 10059
_NO_MESSAGE: Final = 10037


class JetStreamError(LogAway):
    """JetStream refuses a request."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"the log refuses: {error.get('description', error)}")
        self.code = error.get("err_code", 0)


def _forgotten(info: StreamInfo | None, position: Position) -> str:
    if info is None:
        return "the log has no such stream any more"
    return (
        f"the log ends at entry {info.last_seq}, this host has applied {position.seq}: "
        "the log has lost entries that it had confirmed"
    )
