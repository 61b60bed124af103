"""Mapped pages of a file go back when more than a budget is resident."""

from __future__ import annotations

import gc
import mmap
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from shard.index.segment import Segment
from shard.storage.residency import (
    LOOK_SECONDS_MAX,
    LOOK_SECONDS_MIN,
    Mapping,
    PageBudget,
    parse_maps,
    release_pages,
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs smaps")

MIB = 1 << 20
PAGE_BYTES = 4096

_LISTING = """\
7f00-7f10 r--s 00000000 fe:00 12                  /data/with space/data.mdb
7f20-7f30 rw-p 00000000 00:00 0
7f40-7f50 rw-p 00000000 00:00 0                   [heap]
7f60-7f70 r--s 00000000 fe:00 13                  /other
"""


def test_file_mappings_are_read() -> None:
    assert list(parse_maps(_LISTING)) == [
        Mapping("/data/with space/data.mdb", 0x7F00, 0x10),
        Mapping("/other", 0x7F60, 0x10),
    ]


def _resident(path: Path) -> int:
    """Return what is resident of one file, as the kernel counts it."""
    total, is_wanted = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            is_wanted = rest.endswith(str(path.resolve()))
        elif first == "Rss:" and is_wanted:
            total += int(rest.split()[0]) * 1024
    return total


class Mapped:
    """A file and its mapping."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        with path.open("wb", buffering=0) as file:
            for _ in range(size // PAGE_BYTES):
                file.write(b"x" * PAGE_BYTES)  # so that the kernel has it in small pieces
        with path.open("rb") as file:
            self.mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def read(self, start: int, end: int) -> None:
        assert self.mapping[start:end].count(b"x") == end - start


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Mapped]:
    mapped = Mapped(tmp_path / "data.mdb", 16 * MIB)
    yield mapped
    mapped.mapping.close()


def _budget(data: Mapped, resident_bytes_max: int) -> PageBudget:
    return PageBudget(resident_bytes_max, lambda: release_pages([data.path]))


def test_pages_go_and_can_be_read_again(data: Mapped) -> None:
    data.read(0, 16 * MIB)
    assert _resident(data.path) == 16 * MIB
    release_pages([data.path])
    assert _resident(data.path) == 0
    data.read(0, 16 * MIB)


def test_giving_back_leaves_nothing_to_the_collector(data: Mapped) -> None:
    release_pages([data.path])
    gc.collect()
    release_pages([data.path])
    assert gc.collect() == 0


def test_nothing_is_done_within_the_budget(data: Mapped) -> None:
    budget = _budget(data, 8 * MIB)
    data.read(0, 2 * MIB)
    assert not budget.keep(0.0)
    assert _resident(data.path) == 2 * MIB


def test_budget_is_kept_whatever_is_read(data: Mapped) -> None:
    """After each look no more is resident than the budget, but for what the counter is off by."""
    budget = _budget(data, 4 * MIB)
    choice = random.Random(1)
    num_released = 0
    for _ in range(400):
        start = choice.randrange(0, 16 * MIB - 65_536)
        data.read(start, start + choice.randrange(1, 65_536))
        num_released += budget.keep(0.0)
        assert _resident(data.path) <= 4.5 * MIB
    assert 1 < num_released < 100


def test_looks_are_frequent_only_while_pages_are_read(data: Mapped) -> None:
    budget = _budget(data, 4 * MIB)
    for _ in range(10):
        budget.keep(0.0)
    assert budget.pause == LOOK_SECONDS_MAX
    data.read(0, MIB)
    budget.keep(100.0)
    assert budget.pause == LOOK_SECONDS_MIN
    assert budget.due_at == 100.0 + LOOK_SECONDS_MIN


def test_what_else_is_unmapped_hides_nothing(data: Mapped, tmp_path: Path) -> None:
    """A merged segment's parts go while documents are read: the sum of both stays the same."""
    budget = _budget(data, 4 * MIB)
    for turn in range(4):
        other = Mapped(tmp_path / f"segment-{turn}", 3 * MIB)
        other.read(0, 3 * MIB)
        data.read(turn * 4 * MIB, (turn * 4 + 2) * MIB)
        budget.keep(0.0)
        other.mapping.close()
        budget.keep(0.0)
        assert _resident(data.path) <= 4.5 * MIB


def test_pages_of_a_segment_go_and_its_arrays_stay_the_same(tmp_path: Path) -> None:
    values = np.arange(MIB, dtype=np.uint64)
    Segment({"numbers": values}, num_docs=MIB).write(tmp_path / "segment-1.seg")
    segment = Segment.open(tmp_path / "segment-1.seg")
    assert np.array_equal(segment["numbers"], values)
    assert _resident(tmp_path / "segment-1.seg") >= 8 * MIB
    segment.release_pages()
    assert _resident(tmp_path / "segment-1.seg") == 0
    assert np.array_equal(segment["numbers"], values)


def test_a_segment_in_memory_keeps_what_it_has() -> None:
    values = np.arange(MIB, dtype=np.uint64)
    segment = Segment({"numbers": values}, num_docs=MIB)
    segment.release_pages()
    assert segment["numbers"][MIB - 1] == MIB - 1
