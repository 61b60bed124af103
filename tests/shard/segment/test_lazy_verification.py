"""A large segment that is opened without being read is verified before anyone uses a byte of it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from common.kernels.decorator import needs_numba
from shard.segment import segment as segment_module
from shard.segment.segment import EXIT_DAMAGED, Segment
from shard.segment.segment_file import BLOCK_BYTES, DamagedSegment, verify_segment

pytestmark = pytest.mark.skipif(needs_numba, reason="numba does without the extension")

NUM_BLOCKS = 20
NUMBERS = np.arange(NUM_BLOCKS * BLOCK_BYTES // 8 + 5, dtype=np.uint64)

TOUCH = """
import sys, threading
from pathlib import Path
from shard.segment.segment import Segment
segment = Segment.open(Path(sys.argv[1]), on_first_touch=True)
numbers = segment["numbers"]
assert not segment.is_verified
first, last, by = map(int, sys.argv[3:])
print("sound part:", int(numbers[first:last].sum()), flush=True)
if sys.argv[2] == "touch":
    print("damaged part:", int(numbers[by]))
elif sys.argv[2] == "verify":
    segment.verify_all()
elif sys.argv[2] == "searched":
    segment.verify_searched()
else:
    segment.remapped()
print("went on")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "segment-1.seg"
    Segment({"numbers": NUMBERS, "few": np.arange(3)}, num_docs=0).write(path)
    return path


def damage(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 4]))


def run(path: Path, how: str, first: int, last: int, by: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", TOUCH, str(path), how, str(first), str(last), str(by)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_reads_the_same_before_and_after_all_is_verified(path: Path) -> None:
    segment = Segment.open(path, on_first_touch=True)
    assert not segment.is_verified
    assert segment["numbers"][-1] == NUMBERS[-1]
    assert np.array_equal(segment["few"], np.arange(3))
    segment.verify_all()
    assert segment.is_verified
    assert np.array_equal(segment["numbers"], NUMBERS)
    assert segment.checksum == Segment.open(path).checksum
    segment.release_pages()
    assert np.array_equal(segment["numbers"], NUMBERS)


def test_small_files_are_verified_when_they_are_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_module, "LAZY_VERIFICATION_BYTES_MIN", path.stat().st_size + 1)
    assert Segment.open(path, on_first_touch=True).is_verified


def test_threads_may_touch_the_same_blocks_at_once(path: Path) -> None:
    for _ in range(5):
        segment = Segment.open(path, on_first_touch=True)
        sums: list[int] = []

        def add(segment: Segment = segment, sums: list[int] = sums) -> None:
            sums.append(int(segment["numbers"].sum()))

        threads = [threading.Thread(target=add) for _ in range(4)]
        threads.append(threading.Thread(target=segment.verify_all))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sums == [int(NUMBERS.sum())] * 4


def test_more_segments_than_are_watched_are_verified_when_they_are_opened(path: Path) -> None:
    segments = [Segment.open(path, on_first_touch=True) for _ in range(260)]
    assert {segment.is_verified for segment in segments} == {True, False}
    assert all(segment["numbers"][7] == 7 for segment in segments)
    segments.clear()
    assert not Segment.open(path, on_first_touch=True).is_verified  # there is room again


def test_verifying_stops_early_when_told_to(path: Path) -> None:
    segment = Segment.open(path, on_first_touch=True)
    is_stopping = threading.Event()
    is_stopping.set()
    segment.verify_all(is_stopping)
    assert not segment.is_verified


@pytest.mark.parametrize("how", ["touch", "verify", "remap"])
@pytest.mark.parametrize("block", [1, 13, NUM_BLOCKS])
def test_a_damaged_block_ends_the_process_before_it_is_read(
    path: Path, how: str, block: int
) -> None:
    damage(path, block * BLOCK_BYTES + 9)
    first = ((block + 3) % NUM_BLOCKS + 1) * BLOCK_BYTES // 8  # in another block
    ended = run(path, how, first, first + 10, block * BLOCK_BYTES // 8 - 20)
    assert ended.returncode == EXIT_DAMAGED, ended.stderr
    assert ended.stdout == f"sound part: {sum(range(first, first + 10))}\n"
    assert f"{path}: checksum differs" in ended.stderr
    assert not path.exists()
    assert path.with_name("segment-1.seg.damaged").exists()


@pytest.mark.parametrize("name", ["text.lengths", "facet.12.codes", "facet.0.starts", "numbers"])
def test_what_most_searches_read_is_verified_before_the_rest(tmp_path: Path, name: str) -> None:
    path = tmp_path / "segment-1.seg"
    names = ("text.lengths", "facet.12.codes", "facet.0.starts", "facet.0.sets", "numbers")
    long = {other: np.arange(BLOCK_BYTES // 2 + 3, dtype=np.uint64) for other in names}
    Segment({"few": np.arange(3), **long}, num_docs=0).write(path)
    first_block = 1 + 4 * names.index(name)
    damage(path, (first_block + 2) * BLOCK_BYTES + 9)
    ended = run(path, "searched", 0, 0, 0)
    if name == "numbers":
        assert ended.stdout == "sound part: 0\nwent on\n", ended.stderr
    else:
        assert ended.returncode == EXIT_DAMAGED, ended.stderr


def test_a_cut_file_and_damaged_checksums_are_noticed_when_it_is_opened(path: Path) -> None:
    damage(path, path.stat().st_size - 3)
    with pytest.raises(DamagedSegment, match="checksum differs"):
        Segment.open(path, on_first_touch=True)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 8)
    with pytest.raises(DamagedSegment, match="bytes instead of"):
        Segment.open(path, on_first_touch=True)


def test_a_process_with_as_many_mappings_as_it_may_have_verifies_all_at_once(path: Path) -> None:
    most = Path("/proc/sys/vm/max_map_count")
    if not most.exists() or int(most.read_text()) > 300_000:
        pytest.skip("it would take too many mappings")
    program = """
import mmap, sys
from pathlib import Path
from shard.segment.segment import Segment
segment = Segment.open(Path(sys.argv[1]), on_first_touch=True)
numbers = segment["numbers"]
others = [None] * 300_000
try:
    for i in range(len(others)):
        prot = mmap.PROT_READ | (mmap.PROT_WRITE if i % 2 else 0)
        others[i] = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot)
except OSError:
    pass
else:
    sys.exit("there is no limit")
touched = int(numbers[300_000])
del others
print(touched, int(numbers.sum()))
"""
    command = [sys.executable, "-c", program, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout == f"300000 {NUMBERS.sum()}\n", ended.stderr


def test_faults_elsewhere_end_the_process_as_ever(path: Path) -> None:
    program = """
import ctypes, sys
from pathlib import Path
from shard.segment.segment import Segment
segment = Segment.open(Path(sys.argv[1]), on_first_touch=True)
ctypes.string_at(8)
"""
    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert ended.returncode == -11
    verify_segment(path, Segment.map(path).checksum)  # it was not set aside


def test_a_mapping_takes_the_place_of_one_that_is_about_to_be_forgotten(tmp_path: Path) -> None:
    """Python unmaps with the GIL released, so another thread may map a file there before `forget`.

    The program maps four files in turn at one address: the kernel chooses the gap that it has just
    been given back, if nothing is allocated meanwhile.
    """
    program = """
import mmap, os, sys
from pathlib import Path
import numpy as np
import xxhash
from common.kernels import decorator  # loads the extension_loading
from common.kernels.extension_loading import loaded
BLOCK = 1 << 18
contents = [bytes([number]) * (2 * BLOCK) for number in range(1, 5)]
paths = [Path(sys.argv[1], str(number)) for number in range(1, 5)]
files, sums = [], []
for content, path in zip(contents, paths):
    path.write_bytes(content)
    files.append(os.open(path, os.O_RDONLY))
    sums.append([xxhash.xxh64_intdigest(content[:BLOCK])] * 2)
sums[3][0] ^= 1

def map_and_watch(i):
    mapping = mmap.mmap(files[i], 0, access=mmap.ACCESS_COPY)
    path, checksums = os.fsencode(paths[i]), np.array(sums[i], "<u8").tobytes()
    handle = loaded().watch(
        mapping, checksums, 0, 2 * BLOCK, BLOCK, files[i], path, path + b".damaged", b"damaged", 71
    )
    array = np.frombuffer(mapping, np.uint8)
    addresses.add(array.ctypes.data)
    if len(addresses) > 1:
        os._exit(72)
    return array, handle

addresses = set()
first, handle = map_and_watch(0)
touched = int(first[0])
del first  # unmapped, not forgotten yet
second, other = map_and_watch(1)
print(touched, int(second[0]), int(second[BLOCK]), flush=True)
del second
loaded().forget(handle)
loaded().forget(other)
third, handle = map_and_watch(2)
del third
fourth, _ = map_and_watch(3)
print(int(fourth[0]))
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if ended.returncode == 72:
        pytest.skip("the kernel chose another address")
    assert (ended.stdout, ended.stderr) == ("1 2 2\n", "damaged")
    assert ended.returncode == EXIT_DAMAGED
