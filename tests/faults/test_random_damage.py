"""Random damage to one file of a stopped service: repaired, reported or refused, never served.

    a data directory ──▶ one file is damaged ──▶ start
                                                 ├─ refused    one line that names the remedy
                                                 └─ serves     each response is the one from before
                                                               the damage, or an error that says so

Each round damages a copy of the same directory: two indexes with segments, changed and deleted
items, and a snapshot. The service is asked before and after writes, so that what is verified at the
first touch, and what is read by merges, changes of the configuration and the stop, is read.
"""

from __future__ import annotations

import http.client
import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.service import Client, Reply, Service

NUM_ITEMS: Final = 1_500
INDEXES: Final = ("first", "second")
REWRITTEN: Final = range(50, 70)
"""Items that were written after the snapshot; a round writes them again."""

ENVIRONMENT: Final = {"FACETD_SHARD_FLUSH_DOCS": "300", "FACETD_SHARD_IDLE_MS": "50"}
CONFIGURATION: Final = {
    "aggregations": {"group": {}, "tags": {"conjunction": False}, "word": {}},
    "searchable_fields": ["title", "text"],
}
WORDS: Final = [f"w{number}" for number in range(300)]

PAGE: Final = 4_096
"""Bytes of a page of LMDB."""
BRANCH: Final = 1
"""Flag of a page whose entries lead to other pages."""

REPORTED: Final = {
    "item_corrupt",
    "shard_unavailable",
    "starting",
    "snapshot_damaged",
    "deadline_exceeded",
}
"""Codes of errors that say what is wrong."""
REMEDIES: Final = ("restore", "backup", "remove", "start with", "rebuild")
CRASHES_MAX: Final = 2
"""Ends of shards in a round: a page that a running shard cannot use may end it."""


class Request(NamedTuple):
    """A request that changes nothing."""

    path: str
    body: Any = None


def item(number: int, version: int = 0) -> dict[str, Any]:
    chance = random.Random(number * 31 + version)
    return {
        "id": number if number % 3 else f"id-{number}",
        "group": f"g{number % 7}",
        "tags": chance.sample(["a", "b", "c", "d"], 2),
        "price": chance.randrange(10**6) / 7,
        "title": " ".join(chance.choices(WORDS, k=6)),
        "text": " ".join(chance.choices(WORDS, k=40)),
        "word": chance.choice(WORDS),
        "version": version,
    }


def requests_for(index: str) -> Iterator[Request]:
    """Yield requests that read every kind of structure of an index."""
    for body in (
        {"query": "w1 w2", "match": "any", "per_page": 50, "facet_fields": ["group", "tags"]},
        {"query": "w17", "per_page": 100},
        {"query": '"w1 w2"', "per_page": 5},
        {"query": "w12", "prefix": "last", "per_page": 3, "facet_fields": ["word"]},
        {"filters": {"group": ["g1"]}, "per_page": 1_000, "sort": "price:asc"},
        {"per_page": 0, "facet_ranges": {"price": [{"to": 1_000}, {"from": 1_000}]}},
        {"filters": {"tags": ["a", "b"]}, "per_page": 20, "page": 3},
    ):
        yield Request(f"/{index}/search", body)
    yield Request(f"/{index}/items")
    yield Request(f"/{index}/facet?name=word&per_page=50")
    yield Request(f"/{index}/suggest?query=w1")
    for number in (1, 3, 50, 77, 123, 999, 1_400):
        yield Request(f"/{index}/items/{item(number)['id']}")
    yield Request(f"/{index}/configuration")


def is_lines(reply: Reply) -> bool:
    return "ndjson" in reply.headers.get("content-type", "")


def content(reply: Reply) -> Any:
    """Return what a reply says about the data."""
    if is_lines(reply):
        return sorted(reply.body.splitlines())
    document = reply.json
    if "error" in document:
        return document["error"]["code"]
    return {key: it for key, it in document.items() if key not in ("meta", "timings")}


class Bench:
    """A data directory that is damaged repeatedly.

    Args:
        folder: for everything.
        seed: of the chance.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pristine = folder / "pristine"
        self.service = Service(folder / "data", 2, environment=ENVIRONMENT)
        self.outcomes: Counter[str] = Counter()
        self._make()
        shutil.copytree(self.service.data, self.pristine)
        with self.service, closing(self.service.client()) as client:
            self.expected = {
                repr(request): (reply.status, content(reply))
                for index in INDEXES
                for request in requests_for(index)
                for reply in [send(client, request)]
            }
        assert {status for status, _ in self.expected.values()} <= {200, 404}

    def _make(self) -> None:
        """Write everything, and kill or stop the service."""
        with self.service, closing(self.service.client()) as client:
            for index in INDEXES:
                assert client.post(f"/{index}/configuration", CONFIGURATION).status == 200
                for begin in range(0, NUM_ITEMS, 250):
                    items = [item(number) for number in range(begin, begin + 250)]
                    assert client.post(f"/{index}/items", items).status == 200
                for number in range(0, 200, 7):
                    assert client.post(f"/{index}/items", [item(number, 1)]).status == 200
                for number in range(3, 100, 9):
                    client.delete(f"/{index}/items/{item(number)['id']}")
            assert client.post("/_snapshots", {"name": "s"}).status == 200
            for index in INDEXES:
                assert write_again(client, index).status == 200
            if self.chance.random() < 0.5:
                assert self.service.terminate() == 0

    def round(self) -> None:
        """Damage a file, start, and compare."""
        path, where = self.damaged()
        self.service.log_path.write_text("")
        self.service.start(wait=False)
        try:
            if self._is_refused():
                self._check_refusal(where)
            else:
                self._check_service(where, is_snapshot="snapshots" in path.parts)
        finally:
            self.service.kill_all()
            self.service.process = None

    def damaged(self) -> tuple[Path, str]:
        """Damage a file of a new copy of the directory; return its path, and what was done."""
        data = self.service.data
        shutil.rmtree(data)
        shutil.copytree(self.pristine, data)
        path = self._victim()
        return path, f"{path.relative_to(data)}: {damage(path, self.chance)}"

    def _victim(self) -> Path:
        """Choose a kind of file, then one of that kind."""
        kinds: dict[tuple[bool, str], list[Path]] = {}
        for path in sorted(self.service.data.rglob("*")):
            is_state = path.name in ("coordinator.json", "endpoint.json")  # written at each start
            if path.is_file() and path.stat().st_size and "lock" not in path.name and not is_state:
                suffix = path.name if path.suffix == ".json" else path.suffix or path.name
                kinds.setdefault(("snapshots" in path.parts, suffix), []).append(path)
        return self.chance.choice(kinds[self.chance.choice(sorted(kinds))])

    def _is_refused(self) -> bool:
        """Wait until the service is ready, or has ended."""
        assert self.service.process is not None
        give_up_at = time.monotonic() + 60
        while self.service.process.poll() is None:
            with (
                suppress(OSError, http.client.HTTPException),
                closing(self.service.client()) as one,
            ):
                if one.get("/_ready").status == 200:
                    return False
            assert time.monotonic() < give_up_at, self.service.log()[-3_000:]
            time.sleep(0.02)
        return True

    def _check_refusal(self, where: str) -> None:
        assert self.service.process is not None
        log = self.service.log()
        lines = [line for line in log.splitlines() if line.startswith("facetd: ")]
        assert self.service.process.returncode == 1, (where, log)
        assert "Traceback" not in log, (where, log[log.find("Traceback") - 500 :][:4_000])
        assert lines, (where, log)
        assert any(remedy in lines[-1] for remedy in REMEDIES), (where, lines)
        self.outcomes["refused"] += 1

    def _check_service(self, where: str, *, is_snapshot: bool) -> None:
        errors: Counter[str] = Counter()
        with closing(self.service.client()) as client:
            self._compare(client, where, errors)
            for index in INDEXES:
                report(write_again(client, index), where, errors)
                for fields in (["text", "title"], ["title", "text"]):
                    report(search_in(client, index, fields), where, errors)
            if is_snapshot:
                names = {index: f"{index}-restored" for index in INDEXES}
                report(client.post("/_snapshots/s/restore", {"rename": names}), where, errors)
            self._compare(client, where, errors)
        crashes = self.service.log().count('"ended"')
        status = self.service.terminate()  # what is written then meets the damage again
        log = self.service.log()
        assert "Traceback" not in log, (where, log[log.find("Traceback") - 500 :][:4_000])
        assert (status, crashes <= CRASHES_MAX) == (0, True), (where, log)
        self.outcomes["reported" if errors else "unharmed"] += 1

    def _compare(self, client: Client, where: str, errors: Counter[str]) -> None:
        for index in INDEXES:
            for request in requests_for(index):
                try:
                    reply = send(client, request)
                except http.client.IncompleteRead:
                    assert '"response cut off"' in self.service.log(), (where, request)
                    errors["cut off"] += 1
                    continue
                status, expected = self.expected[repr(request)]
                if (reply.status, content(reply)) == (status, expected):
                    continue
                if reply.status == 200 and is_lines(reply):
                    self._check_left_out(content(reply), expected, where)
                    errors["item_corrupt"] += 1
                    continue
                assert reply.status >= 500, (where, request, reply.status, reply.body[:500])
                report(reply, where, errors)

    def _check_left_out(self, found: list[bytes], expected: list[bytes], where: str) -> None:
        """An export lacks damaged items only; the log names each."""
        assert set(found) < set(expected), (where, set(found) - set(expected))
        named = self.service.log().count("damaged item left out of an export")
        assert named >= len(expected) - len(found), (where, named, len(expected), len(found))


def search_in(client: Client, index: str, fields: list[str]) -> Reply:
    body = json.dumps({"searchable_fields": fields}).encode()
    headers = {"content-type": "application/json"}
    return client.request("PATCH", f"/{index}/configuration", body, headers)


def write_again(client: Client, index: str) -> Reply:
    return client.post(f"/{index}/items", [item(number, 2) for number in REWRITTEN])


def send(client: Client, request: Request) -> Reply:
    if request.body is None:
        return client.get(request.path)
    return client.post(request.path, request.body)


def report(reply: Reply, where: str, errors: Counter[str]) -> None:
    """Count a reply that is an error; it must say what is wrong."""
    if reply.status != 200:
        code = content(reply)
        assert code in REPORTED, (where, reply.status, reply.body[:500])
        errors[code] += 1


def damage(path: Path, chance: random.Random) -> str:
    """Damage a file; return how."""
    content = bytearray(path.read_bytes())
    if path.name == "data.mdb" and chance.random() < 0.7:
        how = damage_page(content, chance)
    else:
        how = damage_anywhere(content, chance)
    path.write_bytes(content)
    return how


def damage_anywhere(content: bytearray, chance: random.Random) -> str:
    """Flip, overwrite, cut or lengthen, as disks and careless tools do."""
    at = chance.randrange(len(content))
    how = chance.choice(["bit", "byte", "8 bytes", "zeros", "garbage", "cut", "longer"])
    size = chance.choice([512, PAGE])
    begin = at - at % size
    end = min(begin + size, len(content))
    match how:
        case "bit":
            content[at] ^= 1 << chance.randrange(8)
        case "byte":
            content[at] ^= 1 + chance.randrange(255)
        case "8 bytes":
            for _ in range(8):
                content[chance.randrange(len(content))] ^= 1 + chance.randrange(255)
        case "zeros":
            content[begin:end] = bytes(end - begin)
        case "garbage":
            content[begin:end] = chance.randbytes(end - begin)
        case "cut":
            del content[at:]
        case "longer":
            content += chance.randbytes(100)
    return f"{how} at {at}"


def damage_page(content: bytearray, chance: random.Random) -> str:
    """Damage what leads LMDB to its entries: heads of pages, branches, the two meta pages."""
    pages = range(len(content) // PAGE)
    kind = chance.choice(["meta", "branch", "head"])
    if kind == "meta":
        wanted = [*pages[:2]]
    elif kind == "branch":
        wanted = [page for page in pages if content[page * PAGE + 10] & BRANCH] or [*pages]
    else:
        wanted = [*pages]
    page = chance.choice(wanted)
    at = page * PAGE + chance.randrange(160 if kind == "meta" else 60)
    how = chance.choice(["bit", "byte", "page of zeros", "8 zeros", "8 ones"])
    match how:
        case "bit":
            content[at] ^= 1 << chance.randrange(8)
        case "byte":
            content[at] ^= 1 + chance.randrange(255)
        case "page of zeros":
            content[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        case "8 zeros":
            content[at : at + 8] = bytes(8)
        case "8 ones":
            content[at : at + 8] = b"\xff" * 8
    return f"{how} in {kind} page {page} of {len(pages)}, at {at % PAGE}"


@pytest.mark.timeout(300)
def test_damage_is_repaired_reported_or_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, seed=3)
    for _ in range(6):
        bench.round()


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_damage_is_repaired_reported_or_refused_hundreds_of_times(
    tmp_path: Path, seed: int
) -> None:
    bench = Bench(tmp_path, seed)
    for _ in range(150):
        bench.round()
    assert bench.outcomes.keys() == {"refused", "reported", "unharmed"}
