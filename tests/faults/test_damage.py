"""Damage is detected: derived files are rebuilt, the truth is never guessed."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from common.kernels.decorator import needs_numba
from shard.segment.segment import LAZY_VERIFICATION_BYTES_MIN
from shard.segment.segment_file import BLOCK_BYTES
from shard.storage.lmdb_environment import Environment, SubDatabase
from tests.faults.workload import CONFIGURATION
from tests.service import Client, Service, run_command
from tests.waiting import wait_until

NUM_ITEMS = 400


def make(service: Service) -> None:
    client = service.client()
    assert client.post("/d/configuration", CONFIGURATION).status == 200
    for begin in range(0, NUM_ITEMS, 100):
        items = [
            {"id": n, "colour": ["red", "blue"][n % 2], "writer": "w", "name": f"thing {n}"}
            for n in range(begin, begin + 100)
        ]
        assert client.post("/d/items", items).status == 200
    client.close()


def check_all(client: Client) -> None:
    answer = client.search("d", query="thing", per_page=1)
    assert answer["pagination"]["total"] == NUM_ITEMS
    buckets = answer["data"]["aggregations"]["colour"]["buckets"]
    assert {b["key"]: b["doc_count"] for b in buckets} == {"red": 200, "blue": 200}
    assert client.get("/d/items/123").json["name"] == "thing 123"


def segment_files(data: Path) -> list[Path]:
    return sorted(data.rglob("segment-*.seg"))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "gone"])
def test_a_damaged_segment_is_built_again_from_the_items(tmp_path: Path, damage: str) -> None:
    service = Service(tmp_path / "data", 2)
    with service:
        make(service)
        assert service.terminate() == 0
        files = segment_files(service.data)
        assert files, "a stop in order leaves segments on disk"
        for path in files:
            content = bytearray(path.read_bytes())
            if damage == "bit":
                content[len(content) // 2] ^= 16
                path.write_bytes(content)
            elif damage == "gone":
                path.unlink()
            else:
                path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
        service.start()
        client = service.client()
        check_all(client)
        client.close()


@pytest.mark.skipif(needs_numba, reason="numba does without the extension")
@pytest.mark.timeout(180)
def test_damage_in_a_segment_that_is_verified_while_it_serves_is_never_served(
    tmp_path: Path,
) -> None:
    num_items = 30_000

    def text(n: int) -> str:
        return " ".join(str(n * k % 9973) for k in range(1, 90))

    service = Service(tmp_path / "data", 1)
    with service:
        client = service.client()
        assert client.post("/d/configuration", CONFIGURATION).status == 200
        for begin in range(0, num_items, 5_000):
            items = [
                {"id": n, "colour": "red", "name": text(n)} for n in range(begin, begin + 5_000)
            ]
            assert client.post("/d/items", items).status == 200
        client.close()
        assert service.terminate() == 0
        path = max(segment_files(service.data), key=lambda one: one.stat().st_size)
        assert path.stat().st_size > LAZY_VERIFICATION_BYTES_MIN
        content = bytearray(path.read_bytes())
        for block in range(2, len(content) // BLOCK_BYTES):
            content[block * BLOCK_BYTES + 100] ^= 16
        path.write_bytes(content)
        expected = sum("4711" in text(n).split() for n in range(num_items))
        service.start()
        with closing(service.client()) as client:

            def is_built_again() -> bool:
                answer = client.post(
                    "/d/search", {"query": "4711", "typo": 0, "prefix": "none", "per_page": 1}
                )
                if answer.status == 200:
                    assert answer.json["pagination"]["total"] == expected
                return answer.status == 200 and "items indexed at open" in service.log()

            wait_until(is_built_again, 120, ignoring=(OSError,))
        assert "checksum differs" in service.log()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("damage", ["cut", "empty"])
def test_a_cut_or_empty_truth_is_refused_with_the_remedy(tmp_path: Path, damage: str) -> None:
    service = Service(tmp_path / "data", 2)
    with service:
        make(service)
        assert service.terminate() == 0
        truth = sorted(service.data.rglob("data.mdb"))[0]
        truth.write_bytes(truth.read_bytes()[:8192] if damage == "cut" else b"")
        service.start(wait=False)
        wait_until(lambda: "data.mdb" in service.log(), 60)
        assert "restore" in service.log() or "backup" in service.log()
        process = service.process
        assert process is not None
        with closing(service.client()) as client:

            def outcome() -> int:
                """Return the status of a search, or of a service that has ended."""
                return process.poll() or client.post("/d/search", {}).status

            status = wait_until(outcome, 20, ignoring=(OSError,))
        assert status != 200, "an index without half of its items was served"


@pytest.mark.timeout(180)
def test_a_damaged_dictionary_ends_the_start_with_one_line(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", 1)
    with service:
        client = service.client()
        assert client.post("/d/configuration", {}).status == 200
        items = [{"id": n, "name": f"some thing {n}", "colour": "red"} for n in range(1_500)]
        assert client.post("/d/items", items).status == 200
        client.close()
        assert service.terminate() == 0
        folder = next(service.data.glob("shard-0/index-*"))
        environment = Environment.open(folder, 1 << 30)
        with environment.write() as txn:
            value = txn.get(SubDatabase.META, b"words/1")
            assert value is not None
            txn.put(SubDatabase.META, b"words/1", value[:-1])
        environment.close()
        before = len(service.log())
        service.start(wait=False)
        assert service.process is not None
        assert service.process.wait(60) == 1
        lines = [one for one in service.log()[before:].splitlines() if one.startswith("facetd: ")]
        (line,) = lines
        assert "dictionary is damaged" in line
        assert "restore the index from a backup" in line
        service.process = None


@pytest.mark.timeout(180)
def test_a_catalog_that_was_cut_removes_no_index(tmp_path: Path) -> None:
    """Its last line looks as if a crash had cut it, and names an index with items."""
    service = Service(tmp_path / "data", 2)
    with service:
        make(service)
        assert service.terminate() == 0
        catalog = service.data / "catalog.json"
        whole = catalog.read_bytes()
        assert len(whole.splitlines()) > 1
        catalog.write_bytes(whole[:-20])
        before = len(service.log())
        service.start(wait=False)
        assert service.process is not None
        assert service.process.wait(60) == 1
        lines = [one for one in service.log()[before:].splitlines() if one.startswith("facetd: ")]
        assert lines
        assert all("is older than index 'd'" in line for line in lines)
        assert all("restore catalog.json" in line for line in lines)
        service.process = None
        catalog.write_bytes(whole)
        service.start()
        with closing(service.client()) as client:
            check_all(client)


@pytest.mark.timeout(180)
def test_a_damaged_secret_ends_the_start_with_the_remedy(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", 1)
    with service:
        assert service.terminate() == 0
        (service.data / "secret").write_bytes(b"\xff\xfe nonsense")
        before = len(service.log())
        service.start(wait=False)
        assert service.process is not None
        assert service.process.wait(60) == 1
        (line,) = service.log()[before:].splitlines()
        assert line.startswith("facetd: ")
        assert "secret is damaged: remove it" in line
        service.process = None
        (service.data / "secret").unlink()
        service.start()


@pytest.mark.timeout(180)
def test_a_page_of_zeros_is_reported_with_the_remedy(tmp_path: Path) -> None:
    """LMDB ends a process that walks into it: `facetd check`, a shard that indexes its items."""
    service = Service(tmp_path / "data", 1)
    with service:
        make(service)
        with closing(service.client()) as client:
            assert client.post("/other/items", [{"id": 1}]).status == 404
            assert client.post("/other/configuration", {}).status == 200
            assert client.post("/other/items", [{"id": 1}]).status == 200
        assert service.terminate() == 0
        truth = service.data / "shard-0" / "index-1" / "data.mdb"
        content = bytearray(truth.read_bytes())
        for found in re.finditer(rb'"thing 200"', bytes(content)):  # one page has it, others had it
            page = found.start() // 4096
            content[page * 4096 : (page + 1) * 4096] = bytes(4096)
        truth.write_bytes(content)

        for command in ("check", "rebuild"):
            said = run_command(command, "--data-dir", str(service.data))
            assert said.returncode == 1
            (line,) = [one for one in said.stdout.decode().splitlines() if "damaged" in one]
            assert line.startswith("shard-0/index-1: ")
            assert "restore the index from a backup" in line
            assert b"shard-0/index-2: 1 items, 0 problems" in said.stdout
        for path in segment_files(service.data):
            path.unlink()
        before = len(service.log())
        service.start(wait=False)
        assert service.process is not None
        assert service.process.wait(60) == 1
        (line,) = [one for one in service.log()[before:].splitlines() if one.startswith("facetd: ")]
        assert str(truth) in line
        assert "restore the index from a backup" in line
        service.process = None


@pytest.mark.timeout(180)
def test_an_unreadable_manifest_is_rebuilt(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", 2)
    with service:
        make(service)
        assert service.terminate() == 0
        for number, path in enumerate(sorted(service.data.glob("shard-*/index-*/MANIFEST.json"))):
            path.unlink()
            if number % 2:
                path.mkdir()
            else:
                path.write_bytes(b"\xff\xfe nonsense")
        service.start()
        client = service.client()
        check_all(client)
        client.close()
