"""Check, rebuild, backup, restore and reshard by the command line, with real services."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service import ROOT, Service

CONFIGURATION = {"aggregations": {"tags": {"conjunction": False}, "year": {}}}
NUM_ITEMS = 300


def run(
    *arguments: str, text: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "coordinator", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        input=text,
        capture_output=True,
        timeout=120,
        check=False,
    )


def fill(service: Service) -> None:
    """Store items with and without id; replace and delete some, so that there are tombstones."""
    client = service.client()
    assert client.post("/things/configuration", CONFIGURATION).status == 200
    lines = b"".join(
        b'{%b"title":"thing number %d","tags":["t%d","all"],"year":%d}\n'
        % (b"" if i % 7 == 0 else b'"id":%d,' % i, i, i % 5, 1990 + i % 9)
        for i in range(NUM_ITEMS)
    )
    assert client.post_text("/things/index", lines).status == 200
    changed = [{"id": i, "title": f"changed {i}", "tags": ["new"]} for i in range(1, 60, 2)]
    assert client.post("/things/items", changed).status == 200
    for i in (2, 3, 4):
        assert client.delete(f"/things/items/{i}").status == 200
    client.close()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data of a service of two shards that was stopped."""
    service = Service(tmp_path_factory.mktemp("maintenance") / "data", 2)
    service.start()
    fill(service)
    assert service.terminate() == 0
    return service.data


class TestCheck:
    def test_data_that_are_right(self, stopped: Path) -> None:
        checked = run("check", "--data-dir", str(stopped))
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert checked.stdout.count(b", 0 problems") == 2

    def test_a_damaged_segment_is_told_and_rebuilt(self, stopped: Path) -> None:
        segment = next(stopped.glob("shard-0/index-*/segment-*.seg"))
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
        checked = run("check", "--data-dir", str(stopped))
        assert checked.returncode == 1
        assert b"PROBLEM" in checked.stdout
        rebuilt = run("rebuild", "--data-dir", str(stopped))
        assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
        assert run("check", "--data-dir", str(stopped)).returncode == 0

    def test_a_shard_that_is_missing(self, stopped: Path) -> None:
        folder = stopped / "shard-1"
        folder.rename(stopped / "gone")
        try:
            checked = run("check", "--data-dir", str(stopped))
        finally:
            (stopped / "gone").rename(folder)
        assert checked.returncode == 1
        assert b"shard-1/shard.json is missing" in checked.stdout

    def test_no_data(self, tmp_path: Path) -> None:
        checked = run("check", "--data-dir", str(tmp_path))
        assert checked.returncode == 1
        assert b"has no data" in checked.stderr

    @pytest.mark.parametrize("command", ["check", "rebuild"])
    def test_not_while_a_service_runs(self, tmp_path: Path, command: str) -> None:
        with Service(tmp_path / "data", 1) as service:
            refused = run(command, "--data-dir", str(service.data))
        assert refused.returncode == 1
        assert b"in use by another facetd" in refused.stderr
