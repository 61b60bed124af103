"""The load of clients on several hosts, and the check of what must be there in the end."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.recorded_answers import SEED, RecordedService, Requests
from tests.replication.several_hosts import Hosts
from tests.service import Client, Reply, Service
from tests.waiting import wait_until

INDEX = "films"
WORDS = ("sea", "river", "mountain", "forest", "city", "night")
JSON = {"content-type": "application/json"}
PAUSE_SECONDS = 0.02
"""Between two requests of a client: hosts shall have time for each other."""
FIRST_READ_SECONDS = 2.0
OTHER_READ_SECONDS = 10.0
RESTING_TRIES = 10
SLOW_SECONDS = 0.5
NUM_SINGLE = 20
NUM_TOGETHER = 4


class ClientThread(threading.Thread):
    """A client that works until `ends` is set.

    Attributes:
        ends: set to end it.
        answered_at: when its requests were answered well; monotonic seconds.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ends = threading.Event()
        self.answered_at: list[float] = []

    def has_answer_since(self, moment: float) -> bool:
        return bool(self.answered_at) and self.answered_at[-1] > moment

    def pause(self, begun_at: float, ended_at: float) -> float:
        """Return the longest time between two answers that touches a span."""
        times = [begun_at - 60, *self.answered_at, ended_at + 60]
        return max(
            after - before
            for before, after in itertools.pairwise(times)
            if after > begun_at and before < ended_at and before >= times[1]
        )


class SlowWrite(NamedTuple):
    """A write that took long.

    Attributes:
        begun_at: monotonic seconds.
        seconds: for which its client waited.
        host: which was asked.
        outcome: the status, or that there was no answer.
    """

    begun_at: float
    seconds: float
    host: int
    outcome: str


class Writer(ClientThread):
    """Writes to any host, and remembers what was acknowledged and what may have been stored."""

    def __init__(self, number: int, hosts: Hosts) -> None:
        super().__init__()
        self.number = number
        self.hosts = hosts
        self.random = random.Random(number)
        self.acknowledged: dict[int, int] = {}
        self.unknown: defaultdict[int, set[int]] = defaultdict(set)
        """Versions by id whose write was not acknowledged: it may still be carried out, later than
        others that were sent after it."""
        self.anonymous: dict[str, bool] = {}
        """By token of an item without id: whether its write was acknowledged."""
        first = number * 1000 + NUM_SINGLE
        self.together = tuple(range(first, first + NUM_TOGETHER))
        """Items that are always written together, so they always have the same version."""
        self.slow: list[SlowWrite] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error

    def _run(self) -> None:
        clients = [Client(one.port, 3) for one in self.hosts.services]
        try:
            self._write(clients)
        finally:
            for client in clients:
                client.close()

    def _write(self, clients: list[Client]) -> None:
        for version in itertools.count(1):
            if self.ends.is_set():
                return
            client = self.random.choice(clients)
            if version % 4 == 0:
                token = f"{self.number}-{version}"
                self.anonymous[token] = False
                is_done = self._send(client, "POST", f"/{INDEX}/items", [{"token": token}])
                self.anonymous[token] = is_done
            else:
                is_done = self._write_version(client, version)
            time.sleep(PAUSE_SECONDS)
            if is_done:
                self.answered_at.append(time.monotonic())

    def _write_version(self, client: Client, version: int) -> bool:
        """Write one item, or several at once; return whether that was acknowledged."""
        first = self.number * 1000
        ids = self.together if version % 8 == 2 else (first + self.random.randrange(NUM_SINGLE),)
        items = [{"id": id, "version": version, "writer": self.number} for id in ids]
        for id in ids:
            self.unknown[id].add(version)
        if len(ids) == 1:
            path = f"/{INDEX}/items/{ids[0]}"
            is_done = self._send(client, "PUT", path, items[0])
        else:
            is_done = self._send(client, "POST", f"/{INDEX}/items", items)
        if is_done:
            for id in ids:
                self.unknown[id].discard(version)
                self.acknowledged[id] = version
        return is_done

    def _send(self, client: Client, method: str, path: str, document: Any) -> bool:
        begun_at = time.monotonic()
        outcome = "no answer"
        try:
            reply = client.request(method, path, json.dumps(document).encode(), JSON)
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
            return False
        else:
            outcome = str(reply.status)
        finally:
            if (seconds := time.monotonic() - begun_at) > SLOW_SECONDS:
                ports = [service.port for service in self.hosts.services]
                slow = SlowWrite(begun_at, seconds, ports.index(client.port), outcome)
                self.slow.append(slow)
        if reply.status == 200:
            return True
        assert reply.status in (500, 503, 504, 507), reply
        if reply.status == 500:
            assert reply.json["error"]["code"] == "partly_stored", reply
        time.sleep(0.02)
        return False


class Reader(ClientThread):
    """Reads from any host, and once from another one if that fails."""

    def __init__(self, hosts: Hosts) -> None:
        super().__init__()
        self.hosts = hosts
        self.num_read = 0
        self.failures: list[str] = []

    def run(self) -> None:
        order = random.Random(7)
        while not self.ends.is_set():
            chosen = order.sample(self.hosts.services, 2)
            self.num_read += 1
            told = self._read(chosen[0], FIRST_READ_SECONDS)
            if told:
                other = self._read(chosen[1], OTHER_READ_SECONDS)
                if other:
                    at = datetime.now(UTC).isoformat(timespec="seconds")[11:]
                    self.failures.append(f"{at} {told}; {other}")
                told = other
            if not told:
                self.answered_at.append(time.monotonic())
            time.sleep(PAUSE_SECONDS)

    def _read(self, service: Service, seconds: float) -> str:
        """Read once; return why that failed, or nothing."""
        client = service.client(seconds)
        try:
            reply = client.get(f"/{INDEX}/search", per_page="1")
        except (OSError, http.client.HTTPException) as error:
            return f"{service.data.parent.name} {error!r}"
        finally:
            client.close()
        return "" if reply.status == 200 else f"{service.data.parent.name} {reply.body[:200]!r}"


class CoreWatch(ClientThread):
    """Measures how late a thread gets a core: no pause is the service's that the machine makes.

    Attributes:
        share: of the time in which some process waited for a core (as Linux counts it, PSI).
    """

    def __init__(self) -> None:
        super().__init__()
        self.share = 0.0
        self._late: list[tuple[float, float]] = []

    def run(self) -> None:
        begun_at, waited = time.monotonic(), _waited_for_a_core()
        while not self.ends.is_set():
            due_at = time.monotonic() + PAUSE_SECONDS
            time.sleep(PAUSE_SECONDS)
            now = time.monotonic()
            self._late.append((now, now - due_at))
            self.share = (_waited_for_a_core() - waited) / (now - begun_at)

    def latest(self, begun_at: float, ended_at: float) -> float:
        """Return by how many seconds it was late at most, within a span."""
        return max((late for at, late in self._late if begun_at <= at <= ended_at), default=0.0)


def _waited_for_a_core() -> float:
    """Return for how many seconds, so far, some process has waited for a core; 0: not counted."""
    try:
        first = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return 0.0
    return int(first.rpartition("=")[2]) / 1e6


class Clients:
    """Writers and a reader that are at work.

    Attributes:
        writers: each with ids of its own.
        reader: of all hosts.
    """

    def __init__(self, hosts: Hosts, numbers: Iterable[int]) -> None:
        self.writers = [Writer(number, hosts) for number in numbers]
        self.reader = Reader(hosts)

    def wait_written(self, num: int) -> None:
        """Wait until so many more writes are acknowledged."""

        def acknowledged() -> int:
            return sum(len(one.answered_at) for one in self.writers)

        before = acknowledged()
        wait_until(lambda: acknowledged() >= before + num)


@contextmanager
def clients_at_work(hosts: Hosts, numbers: Iterable[int]) -> Iterator[Clients]:
    """Write and read for the body of a `with`; no read may have failed on two hosts.

    Args:
        hosts: that are written to and read from.
        numbers: of the writers.
    """
    clients = Clients(hosts, numbers)
    with at_work(*clients.writers, clients.reader):
        yield clients
    assert not clients.reader.failures, clients.reader.failures[:3]


@contextmanager
def at_work(*clients: ClientThread) -> Iterator[None]:
    """Run clients for the body of a `with`."""
    for client in clients:
        client.start()
    try:
        yield
    finally:
        for client in clients:
            client.ends.set()
        for client in clients:
            client.join(60)


def configure(service: Service, document: Any = None) -> None:
    """Create the index."""
    client = service.client()
    assert client.post(f"/{INDEX}/configuration", document or {}).status == 200
    client.close()


def exported(service: Service) -> bytes:
    """Return all items of a host, in the order of their insertion."""
    client = service.client(60)
    reply = client.get(f"/{INDEX}/items")
    client.close()
    assert reply.status == 200, reply
    return reply.body


def load(client: Client, num_items: int) -> None:
    """Load items that do not compress well: their group is longer than a message may be."""
    order = random.Random(5)
    lines = []
    for number in range(num_items):
        item: dict[str, Any] = {
            "name": " ".join(order.choices(WORDS, k=3)),
            "genre": order.sample(WORDS, order.randrange(3)),
            "year": order.randrange(1950, 2000),
            "text": order.randbytes(250).hex(),
        }
        if number % 10:
            item["id"] = number
        lines.append(json.dumps(item))
    reply = client.post_text(f"/{INDEX}/index", "\n".join(lines).encode())
    assert reply.status == 200, reply
    assert reply.json["created"] == num_items


def change_much(clients: list[Client]) -> None:
    """Change items and indexes through all hosts in turn."""
    a, b, c = clients
    tag = a.get(f"/{INDEX}/items/11").headers["etag"]
    item = json.dumps({"name": "changed"}).encode()
    assert a.request("PUT", f"/{INDEX}/items/11", item, {**JSON, "if-match": tag}).status == 200
    assert b.request("PUT", f"/{INDEX}/items/11", item, {**JSON, "if-match": tag}).status == 409
    assert c.request("PATCH", f"/{INDEX}/items/11", b'{"year": 1999}', JSON).status == 200
    assert c.request("PATCH", f"/{INDEX}/items/no", b'{"year": 1999}', JSON).status == 404
    reply = b.post(f"/{INDEX}/items/update", {"filter": "year < 1960", "fields": {"old": True}})
    assert reply.status == 200, reply
    assert reply.json["updated"] > 100
    reply = c.post(f"/{INDEX}/items/delete", {"filter": "genre = city AND year > 1990"})
    assert reply.status == 200, reply
    assert reply.json["deleted"] > 10
    assert a.delete(f"/{INDEX}/items/12").status == 200
    change_indexes(b, c)
    count_concurrently(clients)


def change_indexes(one: Client, other: Client) -> None:
    """Change indexes and aliases through one host; another one sees each change at once."""

    def seen(reply: Reply, path: str) -> int:
        assert reply.status == 200, reply
        return other.request("GET", path, headers={"x-min-seq": reply.headers["x-seq"]}).status

    assert seen(one.post("/other/configuration", {"typo": 0}), "/other/configuration") == 200
    assert one.post("/other/items", [{"id": 1}]).status == 200
    assert seen(one.post("/_aliases", {"aliases": {"movies": INDEX}}), "/movies/search") == 200
    assert seen(one.delete("/other"), "/other/search") == 404


def count_concurrently(clients: list[Client]) -> None:
    """Increment a value of an item through all hosts at once; all must count."""
    path = f"/1/indexes/{INDEX}/counted/partial"
    change = {"seen": {"_operation": "Increment", "value": 1}, "name": "often seen"}

    def count(client: Client) -> None:
        for _ in range(10):
            reply = client.post(path, change)
            assert reply.status == 200, reply

    with ThreadPoolExecutor(len(clients)) as pool:
        list(pool.map(count, clients))
    count(clients[-1])
    item = clients[-1].get(f"/{INDEX}/items/counted").json
    assert item["seen"] == 10 * (len(clients) + 1), item


def assert_alike(hosts: Hosts, num_requests: int) -> None:
    """Ask all hosts the same of the same items; they must answer byte for byte alike."""
    requests = Requests(SEED)
    recorded = [RecordedService(f"http://127.0.0.1:{one.port}") for one in hosts.services]
    recorded[1].load(requests)
    hosts.wait_equal()
    num_good = 0
    for path, body in requests.requests(num_requests):
        answers = [service.ask(path, body) for service in recorded]
        assert answers[0] == answers[1] == answers[2], (path, body)
        num_good += answers[0][0] == 200
    assert num_good > 0.7 * num_requests
    for service in recorded:
        service.close()


def contents_at_rest(hosts: Hosts) -> list[bytes]:
    """Return all items of each host, at one entry of the log.

    A host may still publish a write whose client no longer waits for it.
    """
    for _ in range(RESTING_TRIES):
        seq = hosts.wait_equal(60)
        contents = [exported(service) for service in hosts.services]
        if hosts.wait_equal(60) == seq:
            return contents
    raise AssertionError("the log does not come to rest")


class Verdict(NamedTuple):
    """What is wrong with the items of all hosts; nothing if all is well.

    Attributes:
        lost: acknowledged writes that are not there.
        phantom: items that no client has sent, or that are there twice.
        torn: writes of several items, of which only some are there.
        divergent: items in which the hosts differ.
    """

    lost: list[str]
    phantom: list[str]
    torn: list[str]
    divergent: list[str]

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(found) for name, found in self._asdict().items()}


def judged(contents: list[bytes], writers: list[Writer]) -> Verdict:
    """Compare what the hosts have with what was acknowledged.

    Args:
        contents: all items of each host, in the order of their insertion.
        writers: of all of them.
    """
    lines = [one.splitlines() for one in contents]
    divergent = sorted({line.decode() for one in lines for line in set(one) ^ set(lines[0])})
    if not divergent and len(set(contents)) > 1:
        divergent = ["the order of the items"]
    found = Verdict([], [], [], divergent)
    items = [json.loads(line) for line in lines[0]]
    versions = {item["id"]: item["version"] for item in items if "id" in item}
    tokens = Counter(item["token"] for item in items if "token" in item)
    known: set[int] = set()
    sent: dict[str, bool] = {}
    for writer in writers:
        known |= writer.unknown.keys()
        sent |= writer.anonymous
        for id, unknown in writer.unknown.items():
            version, acknowledged = versions.get(id), writer.acknowledged.get(id)
            if version == acknowledged or version in unknown:
                continue
            is_lost = acknowledged is not None and (version is None or version < acknowledged)
            wrong = found.lost if is_lost else found.phantom
            wrong.append(f"item {id} has version {version}, not {acknowledged} or {unknown}")
        together = {id: versions.get(id) for id in writer.together}
        if len(set(together.values())) > 1:
            found.torn.append(str(together))
    found.lost.extend(one for one, is_done in sent.items() if is_done and one not in tokens)
    found.phantom.extend(one for one, num in tokens.items() if num > 1 or one not in sent)
    found.phantom.extend(f"item {id}" for id in versions.keys() - known)
    return found


def check(hosts: Hosts, writers: list[Writer]) -> None:
    """Compare what the hosts have with what was acknowledged."""
    for service in hosts.services:
        service.wait_ready()
    for writer in writers:
        assert writer.error is None, writer.error
    verdict = judged(contents_at_rest(hosts), writers)
    print(json.dumps({"verdict": verdict.counts}), flush=True)
    assert not any(verdict), verdict
