"""The disk refuses the meta page of a commit, but has it; the power goes during the next commit.

    disk      meta pages 7 and 8    8 was refused, so LMDB put "6" back, in memory
    memory    meta pages 7 and "6"
    next      writes the pages of another 8 over those of the refused one ── power loss
    disk      meta page 8, which names these pages: neither the refused commit nor the next one

So a start makes both meta pages what they are in memory, before anything is written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shard.storage.lmdb_environment import Environment, SubDatabase
from shard.storage.lmdb_meta_page import read_meta_page
from tests.faults.failing_disk import COMPILER, FailingDisk
from tests.faults.page_cache import PAGE, PageCache
from tests.service import ROOT

MAP_BYTES = 1 << 30
NUM_META_BYTES = 2 * PAGE
VALUES = {b"%03d" % number: b"former" * 100 for number in range(300)}

COMMIT = """
import sys
from pathlib import Path
from shard.storage.lmdb_environment import Environment, SubDatabase
from shard.storage.storage_errors import StorageFailure

environment = Environment.open(Path(sys.argv[1]), 1 << 30, synced_meta=sys.argv[2])
try:
    environment.change(lambda txn: txn.put(SubDatabase.META, b"007", b"refused"))
except StorageFailure:
    print(environment.last_txn_id(), "refused")
"""


def write(environment: Environment, values: dict[bytes, bytes]) -> None:
    with environment.write() as txn:
        for key, value in values.items():
            txn.put(SubDatabase.META, key, value)


def read(folder: Path, synced_meta: str = "") -> dict[bytes, bytes]:
    environment = Environment.open(folder, MAP_BYTES, synced_meta=synced_meta)
    try:
        with environment.read() as txn:
            return dict(txn.items(SubDatabase.META))
    finally:
        environment.close()


def commit(folder: Path, synced_meta: str, disk: FailingDisk) -> str:
    """Change a value in another process, on the disk that may fail; return what it says."""
    command = [sys.executable, "-c", COMMIT, str(folder), synced_meta]
    environment = {**os.environ, **disk.environment}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=60
    )
    return run.stdout.decode()


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler for the failing disk")
def test_a_meta_page_that_the_disk_refused_and_has_is_gone_before_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, succeeding, library = (tmp_path / name for name in ("index", "succeeding", "library"))
    folder.mkdir()
    library.mkdir()
    environment = Environment.create(folder, MAP_BYTES)
    write(environment, VALUES)
    environment.close()
    path = folder / "data.mdb"
    former = read_meta_page(path)
    shutil.copytree(folder, succeeding)
    disk = FailingDisk(library)
    try:
        disk.watch(succeeding)
        assert commit(succeeding, former.digest, disk) == ""
        num_calls = disk.num_calls  # the last one wrote the meta page
        disk.watch(folder)
        disk.fail(num_calls, is_late=True)
        assert commit(folder, former.digest, disk) == f"{former.txn_id} refused\n"
    finally:
        disk.close()
    meta_pages = (succeeding / "data.mdb").read_bytes()[:NUM_META_BYTES]
    on_disk = meta_pages + path.read_bytes()[NUM_META_BYTES:]
    (succeeding / "data.mdb").write_bytes(on_disk)
    assert read(succeeding) == {**VALUES, b"007": b"refused"}
    assert read_meta_page(path).txn_id == former.txn_id

    with monkeypatch.context() as patch:
        pages = PageCache(path, on_disk, patch)
        assert read(folder, former.digest) == VALUES
        environment = Environment.open(folder, MAP_BYTES, synced_meta=former.digest)
        write(environment, dict.fromkeys(VALUES, b"next"))
        environment.close()
        written = path.read_bytes()
        pages.fail_power()
    with path.open("r+b") as file:  # of the next commit the disk has all but the meta page
        file.seek(NUM_META_BYTES)
        file.write(written[NUM_META_BYTES:])

    assert read(folder) == VALUES
