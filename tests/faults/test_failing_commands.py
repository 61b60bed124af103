"""The n-th change of the disk fails in `facetd restore` and `facetd reshard`, n = 1, 2, 3 …

As in test_failing_disk.py. What holds each time: the data directory is the old one or the new one,
whole; whatever was left behind does not keep the command from succeeding on a healthy disk.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from common import data_directory
from shard.maintenance.check_and_rebuild import check_index
from shard.storage.manifest import SHARD_FILE, ShardManifest, read_manifest
from tests.faults.failing_disk import COMPILER, FailingDisk
from tests.service import ROOT, Service

pytestmark = pytest.mark.skipif(
    COMPILER is None, reason="needs a C compiler for the library that lets calls fail"
)

NUM_ITEMS = 300
CALLS_MAX = 5_000


@dataclass
class Bench:
    """What all tries share."""

    disk: FailingDisk
    process: subprocess.Popen[str]
    backup: Path
    place: Path

    @property
    def data(self) -> Path:
        return self.place / "data"

    def run(self, *arguments: str) -> int:
        """Run a command on the data directory; returns its status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        words = [*arguments, "--data-dir", str(self.data)]
        request = {"arguments": words, "log": str(self.place.with_name("log"))}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def said(self) -> str:
        """Return what the last command wrote."""
        return self.place.with_name("log").read_text()

    def shards(self) -> int:
        """Return for how many shards the data directory is, and check all of it."""
        manifest = data_directory.read_manifest(self.data)
        assert manifest is not None
        num_items = 0
        for shard in range(manifest.shards):
            folder = data_directory.shard_folder(self.data, shard)
            described = read_manifest(folder / SHARD_FILE, ShardManifest)
            assert described is not None
            assert (described.shard, described.num_shards) == (shard, manifest.shards)
            for number in described.indexes:
                report = check_index(folder / f"index-{number}")
                assert not report.problems
                num_items += report.num_items
        assert num_items == NUM_ITEMS
        return manifest.shards

    def clear(self) -> None:
        """Remove what a try has left."""
        for path in self.place.iterdir():
            shutil.rmtree(path)

    def try_once(self, command: str, nth: int, *, is_full: bool) -> bool:
        """Let the n-th change fail in a command; returns whether it got so far."""
        words = {"restore": ("restore", str(self.backup)), "reshard": ("reshard", "--shards", "3")}
        if command == "reshard":
            assert self.run("restore", str(self.backup)) == 0, self.said()
        self.disk.watch(self.place)
        (self.disk.fill if is_full else self.disk.fail)(nth)
        status = self.run(*words[command])
        has_failed = self.disk.heal() > 0
        said = self.said()
        assert "Traceback" not in said, said
        assert has_failed or status == 0, said
        is_there = self.data.is_dir() and any(self.data.iterdir())
        if command == "restore":
            assert status != 0 or self.shards() == 2
            if is_there:  # whole, also if the last sync of all has failed
                assert self.shards() == 2
            else:
                assert self.run(*words[command]) == 0, self.said()
                assert self.shards() == 2
        else:
            assert self.shards() in ((3,) if status == 0 else (2, 3))
            assert self.run(*words[command]) == 0, self.said()
            assert self.shards() == 3
        assert [path.name for path in self.place.iterdir()] == ["data"]
        self.clear()
        return has_failed


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else None
    source = tmp_path_factory.mktemp("source")
    with Service(source / "data", 2) as service:
        client = service.client()
        configuration: dict[str, Any] = {"aggregations": {"colour": {}}}
        assert client.post("/things/configuration", configuration).status == 200
        items = [{"id": n, "colour": "rgb"[n % 3], "name": f"thing {n}"} for n in range(NUM_ITEMS)]
        assert client.post("/things/items", items).status == 200
        assert client.post("/_snapshots", {"name": "one"}).status == 200
        client.close()
    with tempfile.TemporaryDirectory(prefix="facetd-failing-", dir=parent) as folder:
        place = Path(folder) / "place"
        place.mkdir()
        disk = FailingDisk(tmp_path_factory.mktemp("library"))
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.command_maker"],
            cwd=ROOT,
            env={**os.environ, **disk.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            backup = data_directory.snapshots_folder(source / "data") / "one"
            yield Bench(disk, process, backup, place)
        finally:
            process.communicate()
            disk.close()


@pytest.mark.parametrize("kind", ["error", "full"])
@pytest.mark.parametrize("command", ["restore", "reshard"])
def test_a_failing_change_leaves_the_old_or_the_new(bench: Bench, command: str, kind: str) -> None:
    has_failed = [bench.try_once(command, nth, is_full=kind == "full") for nth in (2, 20)]
    assert has_failed[0]


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["error", "full"])
@pytest.mark.parametrize("command", ["restore", "reshard"])
def test_no_failing_change_leaves_anything_else(bench: Bench, command: str, kind: str) -> None:
    for nth in range(1, CALLS_MAX):
        if not bench.try_once(command, nth, is_full=kind == "full"):
            assert nth > 8
            return
    pytest.fail("the command never passed")
