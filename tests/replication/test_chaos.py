"""Three hosts and three servers of the log, with proxies between all: nothing acknowledged is lost.

One round does one harm to one of the six, while clients write to and read from all hosts: kill,
stop (SIGSTOP), cut, slow link, full disk, clock step, restart with an empty disk. At most one of
them is harmed at a time, and the next one only when all are well again, as the runbook says.

    FACETD_CHAOS_ROUNDS=300 pytest --long -s tests/replication/test_chaos.py -k for_long
    FACETD_CHAOS_ROUNDS=300 pytest --long -s tests/replication/test_chaos.py -k some_shards
    FACETD_CHAOS_ROUNDS=300 pytest --long -s tests/replication/test_chaos.py -k administered
    FACETD_CHAOS_KINDS="host kill,server kill" …    only these kinds of harm
    FACETD_CHAOS_MINUTES=6 …                        end after these, with the final check

Full disks need root (a small tmpfs for each of the six), clock steps a C compiler; without them
these harms are left out, and the report says so.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import shutil
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.failing_disk import COMPILER
from tests.replication.administration import Administrator
from tests.replication.proxies import Proxies
from tests.replication.several_hosts import (
    Hosts,
    LogServer,
    PlacedHosts,
    SharedLogServers,
    num_serving,
    placement,
    replica_state,
)
from tests.replication.small_disks import fill, small_disks
from tests.replication.wall_clock import WallClock
from tests.replication.workload import (
    ClientThread,
    CoreWatch,
    Reader,
    Writer,
    at_work,
    check,
    configure,
)
from tests.service import Service
from tests.waiting import wait_until

ROUNDS = 3
ROUNDS_LONG = int(os.environ.get("FACETD_CHAOS_ROUNDS", "300"))
SEED = int(os.environ.get("FACETD_CHAOS_SEED", "1"))
KINDS = tuple(filter(None, os.environ.get("FACETD_CHAOS_KINDS", "").split(",")))
"""Kinds of harm of the long runs; empty: all."""
MINUTES = float(os.environ.get("FACETD_CHAOS_MINUTES", "inf"))
"""After which long runs do no more harm."""
NUM_SLOWEST = 8
NUM_FAILURES = 20
HEALTHY_SECONDS = 180.0
AFTERMATH_SECONDS = 1.0
"""After mending, or until the next harm; a pause of the writes that begins then is of this harm."""
COMPARE_SECONDS = 10.0
"""Hosts that have not compared their data by then are told to once more."""
ORDER_SECONDS = 30.0
"""For which an order to move a shard is repeated while the log does not take it."""
PLACED = ("0,1", "1,2", "2,0")
CLOCK_STEPS = (3_600, -3_600, 86_400, -40, 0)


@dataclass
class Chaos:
    """The six, what stands between them, and what can be done to them."""

    hosts: Hosts
    log: SharedLogServers
    proxies: Proxies
    random: random.Random
    seconds_max: float = 3.0
    """For which a harm lasts."""
    clocks: list[WallClock] = field(default_factory=list)
    disks: bool = False
    is_placed: bool = False
    """Whether each host holds some shards."""
    only: tuple[str, ...] = ()
    """Kinds of harm to do; empty: all."""
    administrator: Administrator | None = None
    """Who administers indexes meanwhile."""
    rounds: list[tuple[str, float, float]] = field(default_factory=list)
    """Harm, begin, end."""

    def run(self, num_rounds: int, minutes: float, wait_writing: Callable[[], None]) -> None:
        """Do harm, one round after the other, each kind as often as any other.

        Args:
            num_rounds: how often.
            minutes: after which to end before that.
            wait_writing: returns once every client can write: else a pause of the writes that a
                harm has begun is put down to the next one.
        """
        harms: list[str] = []
        end_at = time.monotonic() + 60 * minutes
        for number in range(num_rounds):
            if time.monotonic() > end_at:
                break
            wait_writing()
            self.wait_healthy()
            wait_writing()
            if not harms:
                harms = self.random.sample(self.kinds, len(self.kinds))
            kind = harms.pop()
            begun_at = time.monotonic()
            what = self.harm(kind)
            self.rounds.append((kind, begun_at, time.monotonic()))
            took = time.monotonic() - begun_at
            print(f"{_time_of_day(begun_at)} round {number + 1}: {what}, {took:.1f} s", flush=True)
        self.wait_healthy()

    @property
    def kinds(self) -> list[str]:
        """Kinds of harm, `host` or `server` first."""
        both = ["kill", "stop", "cut", "slow", "empty"]
        found = [f"{who} {harm}" for who in ("host", "server") for harm in both]
        found += ["host terminate", "host part"]
        if self.is_placed and self.administrator is not None:
            found.append("host move")
        if self.disks:
            found += ["host full", "server full"]
        if self.clocks:
            found.append("host clock")
        return [kind for kind in found if not self.only or kind in self.only]

    def harm(self, kind: str) -> str:
        """Do one harm, and mend it."""
        who, _, what = kind.partition(" ")
        number = self.random.randrange(3)
        seconds = self.random.uniform(0.3, self.seconds_max)
        if who == "server" and what in ("kill", "stop", "cut") and self.random.random() < 0.5:
            number = self._leader(number)  # what hurts most
        if who == "host":
            self._harm_host(number, what, seconds)
        else:
            self._harm_server(number, what, seconds)
        return f"{who} {number} {what} for {seconds:.1f} s"

    def _leader(self, otherwise: int) -> int:
        for service in self.hosts.services:
            leader = (replica_state(service) or {}).get("leader")
            if leader:
                return int(leader.removeprefix("n"))
        return otherwise

    def _harm_host(self, number: int, what: str, seconds: float) -> None:
        service = self.hosts.services[number]
        if what == "kill":
            service.kill_all()
            time.sleep(seconds)
            service.start(wait=False)
        elif what == "terminate":
            assert service.terminate() == 0
            time.sleep(seconds / 3)
            service.start(wait=False)
        elif what == "part":
            part = self.random.choice(("shard", "coordinator"))
            _signal(service.pids_of(part)[:1], signal.SIGKILL)
            time.sleep(seconds)
        elif what == "empty":
            service.kill_all()
            self.hosts.empty(number)
            service.start(wait=False)
            time.sleep(seconds)
        elif what == "stop":
            pids = service.pids()
            _signal(pids, signal.SIGSTOP)
            time.sleep(seconds)
            _signal(pids, signal.SIGCONT)
        elif what == "move":
            self._move_shard()
            time.sleep(seconds)
            service.kill_all()
            time.sleep(seconds / 3)
            service.start(wait=False)
        elif what == "clock":
            self.clocks[number].set(self.random.choice(CLOCK_STEPS))
            time.sleep(seconds)
        else:
            self._harm_ways(f"host {number}", service.data.parent, what, seconds)

    def _move_shard(self) -> None:
        """Have a shard moved to the host that lacks it."""
        service = self.random.choice(self.hosts.services)
        shards = placement(service)["shards"]
        names = {name for one in shards for name in one["serving"]}
        shard = self.random.randrange(len(shards))
        serving = shards[shard]["serving"]
        order = {
            "shard": shard,
            "from": self.random.choice(sorted(serving)),
            "to": self.random.choice(sorted(names - set(serving))),
        }
        client = service.client()
        give_up_at = time.monotonic() + ORDER_SECONDS
        reply = client.post("/_cluster/shards", order)
        while reply.status == 503 and time.monotonic() < give_up_at:
            # The table may be without a leader for seconds after the log has one again.
            assert reply.json["error"]["code"] == "log_unavailable", reply
            time.sleep(0.2)
            reply = client.post("/_cluster/shards", order)
        assert reply.status in (200, 400), reply  # 400: a host would be left without a shard
        client.close()

    def _harm_server(self, number: int, what: str, seconds: float) -> None:
        server = self.log.servers[number]
        if what == "kill":
            server.kill()
            time.sleep(seconds)
            self.log.start(number)
        elif what == "empty":
            server.kill()
            for kept in server.folder.iterdir():
                if kept.is_dir():
                    shutil.rmtree(kept)
            self.log.start(number)
            time.sleep(seconds)
        elif what == "stop":
            server.signal(signal.SIGSTOP)
            time.sleep(seconds)
            server.signal(signal.SIGCONT)
        else:
            self._harm_ways(server.name, server.folder, what, seconds)
            if what == "full":  # JetStream turns itself off until it is started again
                server.kill()
                self.log.start(number)

    def _harm_ways(self, name: str, folder: Path, what: str, seconds: float) -> None:
        if what == "full":
            filler = folder / "filler"
            fill(filler)
            time.sleep(seconds)
            filler.unlink()
            return
        ways = self.proxies.of(name)
        if what == "cut":
            self.proxies.cut(ways)
        else:
            assert what == "slow", what
            self.proxies.slow(ways, self.random.uniform(0.02, 0.1), 256 * 1024)
        time.sleep(seconds)
        self.proxies.mend()

    def wait_healthy(self) -> None:
        """Return once all hosts serve and have everything, and so have all servers.

        A host must have heard so from the log's leader since this began: what it heard before
        may describe a server as it was before the last harm.
        """
        for service in self.hosts.services:
            service.wait_ready()
        begun_at = time.monotonic()

        def is_healthy() -> bool:
            waited_ms = 1000 * (time.monotonic() - begun_at)
            states = [replica_state(service) or {} for service in self.hosts.services]
            return all(
                state
                and state["is_log_up"]
                and state["num_current"] == 3
                and state["trouble"] == ""
                and state["difference"] == ""
                and 0 <= state["lag_ms"] < min(2_000, waited_ms)
                for state in states
            ) and (
                not self.is_placed
                or all(num_serving(service) == [2, 2, 2] for service in self.hosts.services)
            )

        try:
            wait_until(is_healthy, HEALTHY_SECONDS)
        except AssertionError:
            states = [replica_state(service) for service in self.hosts.services]
            raise AssertionError(f"not healthy after {self.rounds[-1:]}: {states}") from None


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


@contextmanager
def chaos(
    folder: Path,
    seed: int,
    seconds_max: float,
    *,
    is_placed: bool,
    only: tuple[str, ...] = (),
    **settings: str,
) -> Iterator[Chaos]:
    """Start everything."""
    places = [folder / f"host-{n}" for n in range(3)] + [folder / f"nats-{n}" for n in range(3)]
    with ExitStack() as stack:
        disks = stack.enter_context(small_disks(places))
        proxies = stack.enter_context(Proxies())
        log = stack.enter_context(SharedLogServers(folder, proxies=proxies))
        hosts = (
            PlacedHosts(folder, log, PLACED, 3, proxies, **settings)
            if is_placed
            else Hosts(folder, log, (1, 2, 1), **settings)
        )
        clocks = []
        for number, service in enumerate(hosts.services):
            service.data = places[number] / "data"
            if COMPILER is not None:
                clock = WallClock(folder / f"clock-{number}")
                clocks.append(clock)
                service.environment |= clock.environment
        stack.enter_context(hosts)
        found = Chaos(
            hosts, log, proxies, random.Random(seed), seconds_max, clocks, disks, is_placed, only
        )
        if not disks:
            print("NO FULL DISKS: they need root")
        if not clocks:
            print("NO CLOCK STEPS: they need a C compiler")
        yield found


def report(found: Chaos, writers: list[Writer], reader: Reader, cores: CoreWatch) -> dict[str, Any]:
    """Return what was measured: pauses of all writes together, by kind of harm.

    Of the slowest rounds: pause, time of day, number, kind, how long a process had to wait for a
    core meanwhile (at most), and the slow writes.
    """
    acknowledged = sorted(at for writer in writers for at in writer.answered_at)
    gaps = list(itertools.pairwise(acknowledged))
    pauses: dict[str, list[float]] = defaultdict(list)
    rounds: list[tuple[float, str, int, str, float, list[str]]] = []
    next_begun = [*(begun_at for _, begun_at, _ in found.rounds[1:]), math.inf]
    for number, (kind, begun_at, ended_at) in enumerate(found.rounds, 1):
        aftermath_until = min(ended_at + AFTERMATH_SECONDS, next_begun[number - 1])
        pause, since = max(
            (
                (after - before, before) for before, after in gaps
                if after > begun_at and before < aftermath_until
            ),
            default=(0.0, begun_at),
        )  # fmt: skip
        pauses[kind].append(pause)
        waited = [
            f"host {one.host} {one.seconds:.2f} s: {one.outcome}"
            for writer in writers
            for one in writer.slow
            if one.begun_at < since + pause and one.begun_at + one.seconds > since
        ]
        late = round(cores.latest(since, since + pause), 2)
        rounds.append((round(pause, 2), _time_of_day(since), number, kind, late, waited))
    kills = sorted(
        pause
        for kind, some in pauses.items()
        for pause in some
        if kind.endswith((" kill", " part"))
    )
    return {
        "rounds": len(found.rounds),
        "by_kind": dict(Counter(kind for kind, _, _ in found.rounds)),
        "acknowledged": len(acknowledged),
        "reads": reader.num_read,
        "reads_failed": len(reader.failures),
        "first_failures": reader.failures[:NUM_FAILURES],
        "pause_max_s": round(max((after - before for before, after in gaps), default=0), 2),
        "kills": len(kills),
        "pause_after_kill_p50_s": _quantile(kills, 0.5),
        "pause_after_kill_p95_s": _quantile(kills, 0.95),
        "pause_after_kill_p99_s": _quantile(kills, 0.99),
        "waited_for_a_core_s": round(cores.latest(0, math.inf), 2),
        "waited_for_a_core_share": round(cores.share, 2),
        "pause_by_kind_n_p50_max_s": {
            kind: (len(some), _quantile(sorted(some), 0.5), round(max(some), 2))
            for kind, some in sorted(pauses.items())
        },
        "pauses_by_kind_s": {
            kind: [round(pause, 2) for pause in sorted(some)]
            for kind, some in sorted(pauses.items())
        },
        "slowest_rounds": sorted(rounds, reverse=True)[:NUM_SLOWEST],
    }


def _time_of_day(moment: float) -> str:
    """Return the UTC time of day, as in the hosts' logs, of a monotonic moment."""
    at = datetime.fromtimestamp(time.time() - time.monotonic() + moment, UTC)
    return at.isoformat(timespec="milliseconds")[11:23]


def _quantile(ascending: list[float], part: float) -> float | None:
    if not ascending:
        return None
    return round(ascending[min(len(ascending) - 1, int(len(ascending) * part))], 2)


def run_rounds(
    folder: Path,
    num_rounds: int,
    seed: int,
    seconds_max: float,
    *,
    is_placed: bool = False,
    only: tuple[str, ...] = (),
    minutes: float = math.inf,
    is_administered: bool = False,
) -> None:
    with chaos(
        folder, seed, seconds_max, is_placed=is_placed, only=only, log_compare_seconds="45"
    ) as found:
        hosts = found.hosts
        configure(hosts.services[0])
        hosts.wait_equal()
        writers = [Writer(number, hosts) for number in range(1, 4)]
        reader = Reader(hosts)
        cores = CoreWatch()
        clients: list[ClientThread] = [*writers, reader, cores]
        if is_administered:
            found.administrator = Administrator(hosts, seed)
            clients.append(found.administrator)

        def wait_writing() -> None:
            now = time.monotonic()
            wait_until(
                lambda: all(one.error is not None or one.has_answer_since(now) for one in writers)
            )
            for writer in writers:
                if writer.error is not None:
                    raise writer.error

        try:
            with at_work(*clients):
                found.run(num_rounds, minutes, wait_writing)
        finally:
            print(json.dumps(report(found, writers, reader, cores)), flush=True)
        check(hosts, writers)
        if found.administrator is not None:
            found.administrator.check()
        wait_compared(hosts)
        assert not reader.failures, reader.failures[:3]


def wait_compared(hosts: Hosts, seconds: float = 60) -> None:
    """Have the hosts compare their data, at any mark from the first one that is set here on.

    A host that still hashes an earlier mark skips the next one, so others are set. Nothing is
    written any more: one that hashes for longer than the pause between two of them skips every
    second one, and would never have compared the newest.
    """
    client = hosts.services[0].client()
    give_up_at = time.monotonic() + seconds
    seq = 0
    while True:
        marked = client.post("/_cluster/compare").json["seq"]
        seq = seq or marked
        ask_again_at = time.monotonic() + COMPARE_SECONDS
        while time.monotonic() < ask_again_at:
            if all(_is_compared(service, seq) for service in hosts.services):
                client.close()
                return
            time.sleep(0.1)
        assert time.monotonic() < give_up_at, "the hosts have not compared their data"


def _is_compared(service: Service, seq: int) -> bool:
    state = replica_state(service)
    assert state is not None
    assert state["difference"] == "", state
    return bool(state["compared_seq"] >= seq and state["num_equal"] == 3)


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    run_rounds(tmp_path, ROUNDS, seed=3, seconds_max=1.0)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_nothing_acknowledged_is_lost_for_long(tmp_path: Path) -> None:
    run_rounds(tmp_path, ROUNDS_LONG, SEED, seconds_max=3.0, only=KINDS, minutes=MINUTES)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_nothing_acknowledged_by_hosts_that_hold_some_shards_is_lost(tmp_path: Path) -> None:
    run_rounds(
        tmp_path, ROUNDS_LONG, SEED, seconds_max=3.0, is_placed=True, only=KINDS, minutes=MINUTES
    )


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("is_placed", [False, True])
def test_nothing_is_lost_while_indexes_are_administered(tmp_path: Path, is_placed: bool) -> None:
    run_rounds(
        *(tmp_path, ROUNDS_LONG, SEED),
        seconds_max=3.0,
        is_placed=is_placed,
        only=KINDS,
        minutes=MINUTES,
        is_administered=True,
    )


def test_hosts_that_skip_every_second_mark_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest mark is always one that they skip: an earlier one has to do."""
    marks: list[int] = []

    def post(path: str) -> SimpleNamespace:
        marks.append(100 + len(marks))
        return SimpleNamespace(json={"seq": marks[-1]})

    def state(service: object) -> dict[str, Any]:
        compared = [mark for mark in marks[:-1] if mark % 2]
        return {"difference": "", "compared_seq": max(compared, default=99), "num_equal": 3}

    client = SimpleNamespace(post=post, close=lambda: None)
    hosts = SimpleNamespace(services=[SimpleNamespace(client=lambda: client)] * 3)
    monkeypatch.setattr("tests.replication.test_chaos.replica_state", state)
    monkeypatch.setattr("tests.replication.test_chaos.COMPARE_SECONDS", 0.15)

    wait_compared(hosts, seconds=2)  # type: ignore[arg-type]

    assert marks == [100, 101, 102]  # 100 is skipped, 101 compared while 102 is set


def test_a_proxy_that_is_cut_delivers_nothing(tmp_path: Path) -> None:
    server = LogServer(tmp_path / "nats", 0)
    server.start([server.route])
    with Proxies() as proxies:
        port = proxies.add("somebody", server.name, server.port)
        try:
            wait_until(lambda: _says_hello(port))
            proxies.cut(proxies.of("somebody"))
            assert not _says_hello(port)
            proxies.mend()
            assert _says_hello(port)
        finally:
            server.kill()


def _says_hello(port: int) -> bool:
    import socket

    with socket.create_connection(("127.0.0.1", port), timeout=0.5) as connection:
        try:
            return connection.recv(5) == b"INFO "
        except TimeoutError:
            return False
