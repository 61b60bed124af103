"""NATS JetStream in the simulated world: a log of several hosts, as its client sees it.

The code under test is the real `LogConnection`; this is what it reaches for: a client that
subscribes, publishes and requests. Confirmed entries are never lost, as a majority of servers
promises, unless a simulation asks for it (`truncate`). All else may go wrong: requests and
confirmations are lost or late, requests arrive twice, messages to a follower are lost or come
twice, consumers end, connections break, and for a while there is no leader.

Hosts meet there too: what one publishes under a subject, those hear that have subscribed to it
(`connects_hosts`), and there is a bucket for their table of shards.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from nats.errors import Error
from nats.errors import TimeoutError as NatsTimeout
from nats.js.errors import BucketNotFoundError, KeyNotFoundError, KeyWrongLastSequenceError

from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.nats_connection import LogConnection
from tests.simulation.event_loop import EventLoop
from tests.simulation.seams import EPOCH
from tests.simulation.world import Process, World

LATENCY_SECONDS = 0.002
HEARTBEAT_SECONDS = 0.5
BUCKET_SECONDS = 5.0


@dataclass
class Message:
    """A message as nats-py hands it over."""

    data: bytes = b""
    reply: str = ""
    headers: dict[str, str] | None = None
    client: Client | None = None
    """Who got it."""

    async def respond(self, content: bytes) -> None:
        assert self.client is not None
        await self.client.publish(self.reply, content)


@dataclass
class FaultRates:
    """How often what goes wrong; all 0 is a perfect log."""

    lost_request: float = 0.0
    lost_confirmation: float = 0.0
    doubled_request: float = 0.0
    lost_delivery: float = 0.0
    doubled_delivery: float = 0.0


@dataclass
class _Consumer:
    """A follower of the log."""

    client: Client
    inbox: str
    name: str
    next_seq: int
    num_delivered: int = 0
    is_ended: bool = False


@dataclass
class JetStream:
    """The log.

    Attributes:
        entries: confirmed ones, as (id, content, stored at in nanoseconds); seq 1 is the first.
        away_until: there is no leader before this moment.
    """

    world: World
    fault_rates: FaultRates = field(default_factory=FaultRates)
    name: str = "facetd"
    entries: list[tuple[str, bytes, int]] = field(default_factory=list)
    metadata: dict[str, str] | None = None
    away_until: float = 0.0
    clients: list[Client] = field(default_factory=list)
    ignores_ids: bool = False
    """A planted mistake: what is published again is another entry."""
    connects_hosts: bool = False
    """Whether hosts hear what others publish."""
    rows: dict[str, dict[str, tuple[bytes, int]]] = field(default_factory=dict)
    """By bucket and key: a value and its revision."""
    _by_id: dict[str, int] = field(default_factory=dict)
    _consumers: list[_Consumer] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=itertools.count)

    @property
    def last_seq(self) -> int:
        return len(self.entries)

    @contextmanager
    def standing_in(self) -> Iterator[None]:
        """Let every `LogConnection` connect to this log."""
        log = self
        real = LogConnection.connect

        async def connect(stream: LogConnection) -> None:
            await asyncio.sleep(LATENCY_SECONDS)
            if log.world.now < log.away_until:
                raise LogAway("no server of the log answers")
            loop = asyncio.get_running_loop()
            assert isinstance(loop, EventLoop)
            client = Client(log, loop, stream._give_up_asking)
            log.clients.append(client)
            stream._client = client  # type: ignore[assignment]

        LogConnection.connect = connect  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            LogConnection.connect = real  # type: ignore[method-assign]

    # --- what arrives at the leader

    def handle(self, client: Client, subject: str, content: bytes, headers: Any) -> Any:
        """Return the answer to a request; None if there is none."""
        if self.world.now < self.away_until:
            return None
        if subject == f"{self.name}.log":
            return self._publish(content, headers["Nats-Msg-Id"])
        if not subject.startswith("$JS.API."):
            return None
        what = subject.removeprefix("$JS.API.")
        if what.startswith("STREAM.CREATE."):
            self.metadata = self.metadata or json.loads(content)["metadata"]
            return {}
        if self.metadata is None:
            return {"error": {"err_code": 10059, "description": "stream not found"}}
        if what.startswith("STREAM.INFO."):
            return self._info()
        if what.startswith("STREAM.MSG.GET."):
            return self._entry(json.loads(content)["seq"])
        assert what.startswith("CONSUMER.CREATE."), what
        config = json.loads(content)["config"]
        name = f"c{next(self._names)}"
        start = config["opt_start_seq"]
        consumer = _Consumer(client, config["deliver_subject"], name, start)
        self._consumers.append(consumer)
        self._later(partial(self._deliver, consumer))
        self._later(partial(self._beat, consumer), HEARTBEAT_SECONDS)
        return {"name": name}

    def pass_on(self, sender: Client, subject: str, content: bytes, reply: str) -> None:
        """Send a message to all who have subscribed to its subject."""
        for client in self.clients:
            if not client.is_gone and client.is_connected and subject in client.callbacks:
                client.receive(subject, Message(content, reply, client=client))

    def _info(self) -> dict[str, Any]:
        return {
            "ts": datetime.fromtimestamp(EPOCH + self.world.now, UTC).isoformat(),
            "state": {"first_seq": 1, "last_seq": self.last_seq, "bytes": 0},
            "config": {"num_replicas": 3, "metadata": self.metadata},
            "cluster": {
                "leader": "a",
                "replicas": [{"name": name, "current": True} for name in ("b", "c")],
            },
        }

    def _entry(self, seq: int) -> dict[str, Any]:
        if seq > self.last_seq:
            return {"error": {"err_code": 10037, "description": "no message found"}}
        _, content, stored_at = self.entries[seq - 1]
        seconds, nanoseconds = divmod(stored_at, 10**9)
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        time = f"{moment}.{nanoseconds:09d}".rstrip("0") + "Z"
        return {"message": {"data": b64encode(content).decode(), "time": time}}

    def _publish(self, content: bytes, id: str) -> dict[str, Any]:
        seq = None if self.ignores_ids else self._by_id.get(id)
        if seq is None:
            stored_at = int((EPOCH + self.world.now) * 1e9)
            self.entries.append((id, content, stored_at))
            seq = self._by_id[id] = self.last_seq
            self.world.note(f"the log stores {seq}: {id}")
            for consumer in self._consumers:
                self._later(partial(self._deliver, consumer))
        return {"stream": self.name, "seq": seq}

    def truncate(self, num: int) -> None:
        """Lose the newest entries, as a log that was not synced does in a power cut."""
        for id, _, _ in self.entries[len(self.entries) - num :]:
            del self._by_id[id]
        del self.entries[len(self.entries) - num :]
        self.world.note(f"the log loses {num} entries, and ends at {self.last_seq}")
        self.end_consumers()

    # --- what it sends

    def _later(self, function: Callable[[], None], seconds: float = 0.0) -> None:
        world = self.world
        world.call_at(world.now + seconds + world.random.expovariate(1 / LATENCY_SECONDS), function)

    def _deliver(self, consumer: _Consumer) -> None:
        """Send the next messages to a follower."""
        if consumer.is_ended or consumer.client.is_gone:
            return
        while consumer.next_seq <= self.last_seq:
            seq = consumer.next_seq
            consumer.next_seq += 1
            consumer.num_delivered += 1
            _, content, stored_at = self.entries[seq - 1]
            reply = (
                f"$JS.ACK.{self.name}.{consumer.name}.1.{seq}.{consumer.num_delivered}."
                f"{stored_at}.0"
            )
            chance = self.world.random.random()
            if chance < self.fault_rates.lost_delivery:
                self.world.note(f"entry {seq} to {consumer.name} is lost")
                continue
            consumer.client.receive(consumer.inbox, Message(content, reply))
            if chance > 1 - self.fault_rates.doubled_delivery:
                consumer.client.receive(consumer.inbox, Message(content, reply))

    def _beat(self, consumer: _Consumer) -> None:
        if consumer.is_ended or consumer.client.is_gone:
            return
        if self.world.now >= self.away_until:
            headers = {"Status": "100", "Nats-Last-Consumer": str(consumer.num_delivered)}
            consumer.client.receive(consumer.inbox, Message(headers=headers))
        self._later(partial(self._beat, consumer), HEARTBEAT_SECONDS)

    def end_consumers(self, client: Client | None = None) -> None:
        """Forget followers, as a leader that changes does."""
        for consumer in self._consumers:
            if client is None or consumer.client is client:
                consumer.is_ended = True
        self._consumers = [one for one in self._consumers if not one.is_ended]


class Client:
    """Stands for `nats.aio.client.Client`."""

    def __init__(
        self, log: JetStream, loop: EventLoop, give_up: Callable[[], Awaitable[None]]
    ) -> None:
        self.servers = ["nats://a", "nats://b", "nats://c"]
        self.process: Process = loop.process
        self.cut_until = 0.0
        self._log = log
        self._loop = loop
        self._give_up = give_up
        self.callbacks: dict[str, Any] = {}
        self._last_arrival = 0.0

    @property
    def is_connected(self) -> bool:
        return self._log.world.now >= self.cut_until

    @property
    def is_gone(self) -> bool:
        return self.process.is_dead

    def new_inbox(self) -> str:
        return f"_INBOX.{id(self)}.{len(self.callbacks)}.{self._log.world.num_steps}"

    async def subscribe(self, subject: str, cb: Any, **limits: Any) -> _Subscription:
        self.callbacks[subject] = cb
        return _Subscription(self, subject)

    async def publish(self, subject: str, content: bytes = b"", reply: str = "") -> None:
        """Let hosts hear it, if they are there to."""
        if self._log.connects_hosts:
            self._log._later(partial(self._log.pass_on, self, subject, content, reply))

    def jetstream(self) -> _Buckets:
        return _Buckets(self)

    async def at_the_leader(self, work: Callable[[], Any]) -> Any:
        """Do something at the log's leader; it may happen without any answer here."""
        log, world = self._log, self._log.world
        done: asyncio.Future[Any] = self._loop.create_future()

        def arrive() -> None:
            if self.is_gone or not self.is_connected or world.now < log.away_until:
                return
            try:
                found, error = work(), None
            except Error as refusal:
                found, error = None, refusal
            if world.random.random() >= log.fault_rates.lost_confirmation:
                log._later(partial(come_back, found, error))

        def come_back(found: Any, error: Error | None) -> None:
            if not self.is_gone and self.is_connected:
                self._loop.call_soon(_settle, done, found, error)

        if world.random.random() >= log.fault_rates.lost_request:
            log._later(arrive)
        try:
            async with asyncio.timeout(BUCKET_SECONDS):
                return await done
        except TimeoutError:
            raise NatsTimeout from None

    async def close(self) -> None:
        self._log.end_consumers(self)

    async def request(
        self,
        subject: str,
        content: bytes,
        timeout: float,  # noqa: ASYNC109 - as nats-py has it
        headers: Any = None,
    ) -> Message:
        log, world = self._log, self._log.world
        answered: asyncio.Future[Message] = self._loop.create_future()
        inbox = self.new_inbox()

        async def take(message: Message) -> None:
            _answer(answered, message)

        if log.connects_hosts:
            self.callbacks[inbox] = take

        def arrive() -> None:
            if self.is_gone or not self.is_connected:
                return
            if f"{log.name}.peers." in subject:
                log.pass_on(self, subject, content, inbox)
                return
            answer = log.handle(self, subject, content, headers)
            if answer is None:
                return
            if world.random.random() < log.fault_rates.lost_confirmation:
                world.note(f"the answer to {subject} is lost")
                return
            log._later(partial(come_back, Message(json.dumps(answer).encode())))

        def come_back(message: Message) -> None:
            if not self.is_gone and self.is_connected:
                self._loop.call_soon(_answer, answered, message)

        for chance in (1 - log.fault_rates.lost_request, log.fault_rates.doubled_request):
            if world.random.random() < chance:
                log._later(arrive, world.random.choice((0, 0, 0, 0.05, 1.0)))
        try:
            async with asyncio.timeout(timeout):
                return await answered
        except TimeoutError:
            raise NatsTimeout from None
        finally:
            self.callbacks.pop(inbox, None)

    def receive(self, subject: str, message: Message) -> None:
        """Let a message set out to this client; messages stay in order."""
        if not self.is_connected:
            return
        world = self._log.world
        at = world.now + world.random.expovariate(1 / LATENCY_SECONDS)
        self._last_arrival = at = max(at, self._last_arrival)
        world.call_at(at, partial(self._arrive, subject, message))

    def _arrive(self, subject: str, message: Message) -> None:
        callback = self.callbacks.get(subject)
        if callback is not None and not self.is_gone and self.is_connected:
            self._loop.call_soon(lambda: self._loop.create_task(callback(message)))

    def cut(self, seconds: float) -> None:
        """Let the connection break, and come back after a while."""
        self.cut_until = self._log.world.now + seconds
        self._log.end_consumers(self)
        self._loop.call_soon(lambda: self._loop.create_task(self._lost()))

    async def _lost(self) -> None:
        await self._give_up()


@dataclass
class _Subscription:
    client: Client
    subject: str

    async def unsubscribe(self) -> None:
        self.client.callbacks.pop(self.subject, None)


@dataclass
class _Entry:
    """A row of a bucket."""

    value: bytes
    revision: int


@dataclass
class _Buckets:
    """Stands for `nats.js.JetStreamContext`, as far as buckets go."""

    client: Client

    async def key_value(self, bucket: str) -> _Bucket:
        def find() -> None:
            if bucket not in self.client._log.rows:
                raise BucketNotFoundError

        await self.client.at_the_leader(find)
        return _Bucket(self.client, bucket)

    async def create_key_value(self, *, bucket: str, **options: Any) -> _Bucket:
        await self.client.at_the_leader(lambda: self.client._log.rows.setdefault(bucket, {}))
        return _Bucket(self.client, bucket)


@dataclass
class _Bucket:
    """Stands for `nats.js.kv.KeyValue`."""

    client: Client
    name: str

    @property
    def _rows(self) -> dict[str, tuple[bytes, int]]:
        return self.client._log.rows[self.name]

    async def get(self, key: str) -> _Entry:
        def find() -> _Entry:
            if key not in self._rows:
                raise KeyNotFoundError
            return _Entry(*self._rows[key])

        found: _Entry = await self.client.at_the_leader(find)
        return found

    async def create(self, key: str, value: bytes) -> None:
        await self._put(key, value, 0)

    async def update(self, key: str, value: bytes, revision: int) -> None:
        await self._put(key, value, revision)

    async def _put(self, key: str, value: bytes, revision: int) -> None:
        def put() -> None:
            former = self._rows.get(key, (b"", 0))[1]
            if former != revision:
                raise KeyWrongLastSequenceError
            self._rows[key] = (value, former + 1)
            self.client._log.world.note(f"the bucket has {value.decode()}")

        await self.client.at_the_leader(put)


def _settle(done: asyncio.Future[Any], found: Any, error: Error | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(found)
    else:
        done.set_exception(error)


def _answer(answered: asyncio.Future[Message], message: Message) -> None:
    if not answered.done():
        answered.set_result(message)
