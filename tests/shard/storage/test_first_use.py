"""Message classes are prepared before threads use them: msgspec's first use is not thread-safe.

Two threads in it together end the process (SIGSEGV): indexes are opened by two threads at once,
snapshots are listed by many.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import sys
from pathlib import Path
from common.endpoint_files import Endpoint, read_coordinator_endpoint, write_coordinator_endpoint
from common import data_directory
from common.protocol.messages import IndexEntry
from coordinator.snapshots import snapshots_on_disk
from shard.partition import partition
from common.shard_settings import ShardSettings
from shard.storage import manifest

folder = Path(sys.argv[1])
looked_at = []

def note(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "get_class_annotations":
        looked_at.append(frame.f_locals.get("obj"))

sys.setprofile(note)
made = partition.Partition.create(folder / "index-1", IndexEntry(1, "a", 1, {}), ShardSettings())
made.close()
(folder / "index-1" / "MANIFEST.json").rename(folder / "kept")
partition.Partition.open(folder / "index-1", 1, ShardSettings()).close()
(folder / "kept").rename(folder / "index-1" / "MANIFEST.json")
partition.Partition.open(folder / "index-1", 1, ShardSettings()).close()
manifest.write_manifest(folder / "shard.json", manifest.ShardManifest(1, 0, 1, (1,)))
manifest.read_manifest(folder / "shard.json", manifest.ShardManifest)
data_directory.write_manifest(folder, 1, "test")
data_directory.read_manifest(folder)
write_coordinator_endpoint(folder, Endpoint("127.0.0.1", 1, 1))
assert read_coordinator_endpoint(folder) is not None
(folder / "snapshots" / "one").mkdir(parents=True)
(folder / "snapshots" / "one" / "snapshot.json").write_bytes(b"{}")
assert snapshots_on_disk.list_snapshots(folder / "snapshots") == []
sys.setprofile(None)
assert not looked_at, looked_at
"""


def test_what_threads_decode_was_looked_at_before(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
