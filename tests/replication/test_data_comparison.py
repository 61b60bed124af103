"""Hosts compare what they have: equal ones say so, a planted difference is found and named."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from coordinator.catalog.catalog_state import CatalogState
from coordinator.cli.commands.cluster import entries_text
from coordinator.replication.following.comparison_schedule import ComparisonScheduler
from coordinator.replication.host.log_watch import LogWatch
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_entries import HostReport, IndexFingerprint
from coordinator.replication.peers.data_comparison import MARKS_KEPT, DigestComparer, judge
from coordinator.settings import Settings
from tests.cluster.test_metrics import REPLICA_FAMILIES
from tests.replication.several_hosts import Hosts, SharedLogServers, replica_state
from tests.service import Service, run_command
from tests.waiting import wait_until

NAMES = {1: "films"}
JSON = {"content-type": "application/json"}


def report(name: str, fingerprint: int = 5, *, items: int = 3, catalog: int = 1) -> HostReport:
    return HostReport(name, name, 9, catalog, {1: IndexFingerprint(items, 0, fingerprint)})


def judged(own: HostReport, *others: HostReport) -> tuple[int, str, bool]:
    verdict = judge(own, {one.host: one for one in others}, NAMES)
    return verdict.num_equal, verdict.difference, verdict.is_outlier


def test_equal_hosts_are_counted() -> None:
    assert judged(report("a"), report("b"), report("c")) == (3, "", False)


def test_the_one_that_differs_from_two_is_wrong() -> None:
    b, c = report("b"), report("c")

    assert judged(report("a", 6), b, c) == (
        1,
        "b: items of index 'films' differ; c: items of index 'films' differ",
        True,
    )
    assert judged(b, report("a", 6), c) == (2, "a: items of index 'films' differ", False)


def test_two_that_differ_do_not_know_who_is_wrong() -> None:
    assert judged(report("a", items=4), report("b")) == (
        1,
        "b: index 'films' has 3 items there, 4 here",
        False,
    )
    assert judged(report("a", 1), report("b", 2), report("c", 3))[2] is False
    assert judged(report("a", 1), report("d", 1), report("b", 2), report("c", 2))[2] is False


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (HostReport("b", "b", 9, 1, {}), "b: index 'films' is missing there"),
        (
            HostReport("b", "b", 9, 1, {1: IndexFingerprint(3, 2, 5)}),
            "b: index 'films' has 2 damaged items there, 0 here",
        ),
        (report("b", catalog=2), "b: configurations, aliases or keys differ"),
    ],
)
def test_a_difference_is_named(other: HostReport, told: str) -> None:
    assert judged(report("a"), other)[1] == told


def test_of_many_differences_the_first_are_named() -> None:
    """The text is in messages to other hosts and to clients: with all names it was too long."""
    fingerprints = {number: IndexFingerprint(3, 0, 5) for number in range(20_000)}
    a, b = HostReport("a", "a", 9, 1, fingerprints), HostReport("b", "b", 9, 1, {})
    told = judged(a, b)[1].split(", ")
    assert told[0] == "b: index '0' is missing there"
    assert told[10:] == ["19,990 more"]
    shards = {0: IndexFingerprint(3, 0, 5)}, {0: IndexFingerprint(3, 0, 6)}
    c, d = (
        HostReport(name, name, 9, 1, {}, dict.fromkeys(range(20_000), held))
        for name, held in zip("cd", shards, strict=True)
    )
    assert judged(c, d)[1].endswith(", 19,990 more")
    assert len(judged(c, d)[1]) < 1_000


def parts(name: str, *values: tuple[int, int]) -> HostReport:
    """Return the report of a host that holds some shards, each with a fingerprint."""
    shards = {shard: IndexFingerprint(3, 0, value) for shard, value in values}
    return HostReport(name, name, 9, 1, {}, {1: shards})


def test_a_host_that_is_wrong_in_one_shard_is_wrong_though_it_is_not_in_another() -> None:
    """The first shard with most hosts against this one decided for all."""
    own, b, c = parts("a", (0, 1), (1, 8)), parts("b", (0, 1), (1, 9)), parts("c", (0, 1), (1, 9))
    assert judged(own, b, c, parts("d", (0, 2)), parts("e", (0, 2)))[2]
    assert not judged(b, own, c, parts("d", (0, 2)), parts("e", (0, 2)))[2]


def test_hosts_that_hold_some_shards_compare_those_that_they_share() -> None:
    a, b, c = parts("a", (0, 5), (1, 6)), parts("b", (1, 6), (2, 7)), parts("c", (2, 7), (0, 5))
    assert judged(a, b, c) == (3, "", False)
    wrong = parts("c", (2, 7), (0, 4))
    told = "items of index 'films' on shard 0 differ"
    assert judged(a, b, wrong) == (2, f"c: {told}", False)
    assert judged(b, a, wrong) == (3, "", False)  # it holds no copy of that shard
    assert judged(wrong, a, b) == (2, f"a: {told}", False)
    assert judged(wrong, a, parts("d", (0, 5))) == (1, f"a: {told}; d: {told}", True)


def test_the_last_comparison_is_shown_however_long_the_other_host_is_away() -> None:
    """The reports of its mark are forgotten by then: health, metrics and status were a 500."""
    comparer = DigestComparer(Mock(), AsyncMock(), Mock())

    def take(mark: int, *names: str) -> None:
        own = msgspec.structs.replace(report("a"), mark=mark)
        comparer._own[mark] = own, NAMES
        for name in names:
            comparer.take(msgspec.structs.replace(own, host=name, name=name))

    assert comparer.state == (0, -1, 0, "", "")
    take(9, "a", "b")
    compared = comparer.state
    assert (compared.seq, compared.num_equal, compared.difference) == (9, 2, "")
    for mark in range(10, 11 + MARKS_KEPT):
        take(mark, "a")
    assert comparer.state._replace(age_s=0) == compared._replace(age_s=0)
    take(20, "a", "b")
    assert comparer.state.seq == 20


async def test_a_mark_that_is_applied_again_is_not_compared() -> None:
    """A host that serves without the log may have more than a mark that it then reads again.

    It found that it differed from all others, and stopped for good.
    """
    host: Any = SimpleNamespace(
        stream=SimpleNamespace(),
        progress=SimpleNamespace(cluster=""),
        serving=SimpleNamespace(shown_seq=43),  # its shards have more than its position says
        cluster=Mock(here={}),
        catalog=SimpleNamespace(state=CatalogState()),
        settings=Settings(),
        id="a",
        name="a",
    )
    watch = LogWatch(host, None)
    publisher = Mock(append=AsyncMock())
    scheduler = ComparisonScheduler(host, watch, publisher, Mock())

    async def has_compared(seq: int) -> bool:
        scheduler.mark(seq)
        hashing, scheduler.comparer._hashing = scheduler.comparer._hashing, None
        if hashing is not None:
            hashing.cancel()
            await asyncio.gather(hashing, return_exceptions=True)
        return hashing is not None

    assert not await has_compared(42)  # nothing is known of the log yet
    watch._take(log_info(last_seq=43), time.monotonic())
    assert not await has_compared(42)
    watch._take(log_info(last_seq=45), time.monotonic())
    assert not await has_compared(43)
    assert await has_compared(44)


def log_info(last_seq: int) -> StreamInfo:
    """Return what the log's leader says."""
    state = {"first_seq": 1, "last_seq": last_seq}
    return StreamInfo.read({"state": state, "config": {"num_replicas": 1}})


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    with SharedLogServers(folder, 1) as log, Hosts(folder, log, (1, 2, 1)) as hosts:
        yield hosts


def cluster_command(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `facetd cluster` with some words against a host."""
    return command(service, "cluster", *words)


def command(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `facetd` with some words against a host."""
    done = run_command(*words, FACETD_URL=f"http://127.0.0.1:{service.port}")
    told = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in told[1], told[1]
    return subprocess.CompletedProcess(done.args, done.returncode, *told)


def compared(hosts: Hosts) -> list[dict[str, Any]]:
    """Have all hosts compare what they have; return their states after that."""
    client = hosts.services[0].client()
    reply = client.post("/_cluster/compare")
    client.close()
    assert reply.status == 200, reply
    seq = reply.json["seq"]

    def states() -> list[dict[str, Any]]:
        return [replica_state(service) or {} for service in hosts.services]

    wait_until(
        lambda: all(
            one.get("trouble") or (one.get("compared_seq") == seq and one["num_equal"] >= 2)
            for one in states()
        )
    )
    return states()


def metrics(service: Service) -> dict[str, float]:
    client = service.client()
    text = client.get("/_metrics").body.decode()
    client.close()
    return {
        family.name: family.samples[0].value for family in text_string_to_metric_families(text)
        if family.samples
    }  # fmt: skip


def test_a_planted_difference_is_found_and_its_host_stops(hosts: Hosts) -> None:
    first, other = hosts.services[0], hosts.services[2]
    client = first.client()
    assert client.post("/films/configuration", {"aggregations": {"genre": {}}}).status == 200
    items = [{"id": number, "genre": f"g{number % 7}"} for number in range(2_000)]
    assert client.post("/films/items", [*items, {"genre": "none"}]).status == 200
    assert client.delete("/films/items/7").status == 200
    hosts.wait_equal()
    states = compared(hosts)
    assert {one["difference"] for one in states} == {""}
    wait_until(lambda: {(replica_state(one) or {})["num_equal"] for one in hosts.services} == {3})
    assert len({one["digest"] for one in states}) == 1
    assert metrics(first).keys() >= REPLICA_FAMILIES
    assert metrics(first)["facetd_replica_differs"] == 0

    change_alone(other)
    states = compared(hosts)

    assert "damaged" not in states[2]["trouble"]
    assert "other contents than 2 hosts that agree" in states[2]["trouble"], states
    assert states[0]["difference"].endswith("items of index 'films' differ"), states
    assert states[0]["difference"].startswith(states[2]["name"])
    assert metrics(first)["facetd_replica_differs"] == 1
    wait_until(lambda: any(one["trouble"] for one in client.get("/_cluster").json["hosts"]))
    shown = cluster_command(first, "status")
    assert shown.returncode == 1
    assert "STOPPED" in shown.stdout
    assert "items of index 'films' differ" in shown.stdout
    other.terminate()
    other.start(wait=False)
    assert refuses(other)

    other.kill_all()
    hosts.empty(2)
    other.start()
    hosts.wait_equal()
    states = compared(hosts)
    assert {one["difference"] for one in states} == {""}
    client.close()


def change_alone(service: Service) -> None:
    """Change an item of one host only, as an operator does who starts it without the log."""
    service.terminate()
    kept = service.data / "replica.json"
    aside = kept.with_suffix(".aside")
    kept.rename(aside)
    alone = Service(service.data, service.num_shards)
    alone.start()
    client = alone.client()
    item = json.dumps({"genre": "changed"}).encode()
    assert client.request("PUT", "/films/items/11", item, JSON).status == 200
    client.close()
    assert alone.terminate() == 0
    aside.rename(kept)
    service.start()


def refuses(service: Service) -> bool:
    """Return whether a host reports in the end that it differs from the others."""
    codes = set()

    def is_refused() -> bool:
        client = service.client(5)
        try:
            reply = client.get("/films/search")
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()
        assert reply.status == 503, reply
        codes.add(reply.json["error"]["code"])
        return "replica_stopped" in codes

    wait_until(is_refused)
    return codes <= {"starting", "replica_stopped", "shard_unavailable"}


def test_a_host_that_is_gone_is_known_until_it_is_removed(hosts: Hosts) -> None:
    first, last = hosts.services[0], hosts.services[2]

    def shown(service: Service) -> dict[str, Any]:
        name = (state_of_last or {})["name"]
        with closing(first.client()) as client:
            found = client.get("/_cluster").json["hosts"]
        return next((one for one in found if one["name"] == name), {})

    state_of_last = replica_state(last)
    wait_until(lambda: shown(last).get("is_serving"))
    name = shown(last)["name"]
    with closing(first.client()) as client:
        refused = client.delete(f"/_cluster/hosts/{name}")
    assert (refused.status, refused.json["error"]["code"]) == (409, "host_in_use")
    last.terminate()
    wait_until(lambda: shown(last)["is_away"])
    assert metrics(first)["facetd_replica_hosts_away"] == 1
    here = (replica_state(first) or {})["name"]
    status = cluster_command(first, "status")
    assert status.returncode == 1
    assert f"host {name} has not answered" in status.stdout
    for words, problem in (
        (("remove", "x"), "there is no host 'x'; there are "),
        (("remove", here), "still answers: stop facetd there"),
        (("remove", here, "--shard", "0"), "each of these hosts holds all shards"),
        (("move", "x", "d"), "there is no host 'x'; there are "),
        (("move", name, name), "is not moved to itself"),
        (("move", name, here), f"{here} is one of the hosts already"),
        (("move", "0", "--from", here, "--to", name), "each of these hosts holds all shards"),
        (("add", here), f"{here} is one of the hosts already"),
    ):
        told = cluster_command(first, *words)
        assert (told.returncode, told.stdout) == (1, ""), told
        assert problem in told.stderr
    for words in (("move", name), ("move", "0", "--from", name), ("move", "²", "--from", "--to")):
        assert cluster_command(first, *words).returncode == 2
    added = cluster_command(first, "add", "d:3100", "--server")
    assert "http://d:3100/_ready" in added.stdout
    assert "nats://d:4222" in added.stdout
    assert "accounts { $SYS" in added.stdout
    assert "facetd serve --log nats://127.0.0.1" in added.stdout
    assert "server_name: d" in added.stdout
    moved = cluster_command(first, "move", name, "d")
    assert f"facetd cluster remove {name}" in moved.stdout

    removed = cluster_command(first, "remove", name)
    assert removed.returncode == 0, removed
    assert not shown(last)
    assert cluster_command(first, "status").returncode == 0


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [(1, 9, "entries 1 to 9"), (7, 6, "no entries (next: 7)"), (0, None, "entries not known")],
)
def test_what_the_log_has_in_words(first: int, last: int | None, text: str) -> None:
    assert entries_text(first, last) == text


def test_a_host_alone_says_so(service: Service) -> None:
    client = service.client()
    assert client.get("/_cluster").json == {"log": None, "hosts": []}
    assert client.post("/_cluster/compare").json["error"]["code"] == "not_with_one_host"
    assert client.delete("/_cluster/hosts/x").json["error"]["code"] == "not_with_one_host"
    client.close()
    assert "shares no log" in cluster_command(service, "status").stderr


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "data", 1) as service:
        yield service
