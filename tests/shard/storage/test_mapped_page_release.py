"""Mapped pages of a file are released when more than a budget is resident."""

from __future__ import annotations

import asyncio
import gc
import mmap
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from common.process.mapped_pages import (
    WHOLE_FILE,
    FilePart,
    Mapping,
    find_mappings,
    parse_maps,
    release_pages,
)
from shard.segment.segment import Segment
from shard.storage.mapped_page_release import (
    NUM_PARTS,
    POLL_SECONDS_MAX,
    POLL_SECONDS_MIN,
    PageBudget,
)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/pagemap").exists(), reason="needs the page tables"
)

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


@pytest.mark.parametrize("num_bytes", [0, 1, 5 * MIB, 16 * MIB, 79 * MIB + 4096])
@pytest.mark.parametrize("num_parts", [1, 3, 16])
def test_parts_are_the_file(num_bytes: int, num_parts: int) -> None:
    end = 0
    for ordinal in range(num_parts):
        start, length = FilePart(ordinal, num_parts).range_in(num_bytes)
        assert start == end
        assert start % (2 * MIB) == 0 or not length
        end += length
    assert end == num_bytes


def _resident(path: Path) -> int:
    """Return what is resident of one file, as the page tables have it."""
    total = 0
    with Path("/proc/self/pagemap").open("rb") as pagemap:
        for mapping in find_mappings(path):
            pagemap.seek(mapping.start // PAGE_BYTES * 8)
            entries = np.frombuffer(pagemap.read(mapping.size // PAGE_BYTES * 8), np.uint64)
            total += int(np.count_nonzero(entries >> np.uint64(63))) * PAGE_BYTES
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

    def release(self, part: FilePart = WHOLE_FILE) -> None:
        for mapping in find_mappings(self.path):
            release_pages(mapping, part, len(self.mapping))


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Mapped]:
    mapped = Mapped(tmp_path / "data.mdb", 16 * MIB)
    yield mapped
    mapped.mapping.close()


class Budget(PageBudget):
    """A budget of two files; counts how many parts of each were released."""

    def __init__(self, items: Mapped, columns: Mapped, resident_bytes_max: int) -> None:
        self.num_of_items = 0
        self.num_of_columns = 0
        self._items = items
        self._columns = columns
        super().__init__(
            lambda: resident_bytes_max,
            release_items=self._release_item_part,
            release_segments=self._release_column_part,
        )

    def _release_item_part(self, part: FilePart) -> None:
        self.num_of_items += 1
        self._items.release(part)

    def _release_column_part(self, part: FilePart) -> None:
        self.num_of_columns += 1
        self._columns.release(part)


@pytest.fixture
def columns(tmp_path: Path) -> Iterator[Mapped]:
    mapped = Mapped(tmp_path / "segment-1.seg", 16 * MIB)
    yield mapped
    mapped.mapping.close()


def test_pages_go_and_can_be_read_again(data: Mapped) -> None:
    data.read(0, 16 * MIB)
    assert _resident(data.path) == 16 * MIB
    data.release()
    assert _resident(data.path) == 0
    data.read(0, 16 * MIB)


def test_giving_back_leaves_nothing_to_the_collector(data: Mapped) -> None:
    data.release()
    gc.collect()
    data.release()
    assert gc.collect() == 0


def test_nothing_is_done_within_the_budget(data: Mapped, columns: Mapped) -> None:
    budget = Budget(data, columns, 8 * MIB)
    data.read(0, 2 * MIB)
    columns.read(0, 2 * MIB)
    assert not budget.enforce()
    assert _resident(data.path) == 2 * MIB


def test_budget_is_kept_whatever_is_read(data: Mapped, columns: Mapped) -> None:
    """After each look no more is resident than the budget, but for what the counter is off by."""
    budget = Budget(data, columns, 4 * MIB)
    choice = random.Random(1)
    num_released = 0
    for _ in range(400):
        start = choice.randrange(0, 16 * MIB - 65_536)
        choice.choice((data, columns)).read(start, start + choice.randrange(1, 65_536))
        num_released += budget.enforce()
        assert _resident(data.path) + _resident(columns.path) <= 4.5 * MIB
    assert 1 < num_released < 200
    assert 1 < budget.num_of_columns < budget.num_of_items


def test_no_more_is_released_than_makes_room(data: Mapped, columns: Mapped) -> None:
    budget = Budget(data, columns, 8 * MIB)
    data.read(0, 9 * MIB)
    assert budget.enforce()
    assert budget.num_of_items == 1
    assert _resident(data.path) == 7 * MIB
    data.read(0, 9 * MIB)
    assert budget.enforce()  # goes on where it ended
    assert budget.num_of_items == 2
    data.read(2 * MIB, 4 * MIB)
    assert _resident(data.path) == 9 * MIB


def test_stored_items_make_room_for_columns(data: Mapped, columns: Mapped) -> None:
    """Pages that searches read repeatedly stay mapped while each reads other items."""
    budget = Budget(data, columns, 8 * MIB)
    columns.read(0, 3 * MIB)
    for turn in range(10):
        start = turn % 2 * 8 * MIB
        data.read(start, start + 6 * MIB)
        assert budget.enforce()
        assert _resident(data.path) <= 5 * MIB
        assert _resident(columns.path) == 3 * MIB
    assert budget.num_of_columns == 0


def test_unread_columns_are_released_for_stored_items(data: Mapped, columns: Mapped) -> None:
    budget = Budget(data, columns, 8 * MIB)
    columns.read(0, 3 * MIB)
    turn = 0
    while _resident(columns.path):
        start = turn % 2 * 8 * MIB
        data.read(start, start + 8 * MIB)
        assert budget.enforce()
        turn += 1
    assert budget.num_of_items > 8 * NUM_PARTS


def test_columns_beyond_the_budget_go_back_at_once(data: Mapped, columns: Mapped) -> None:
    budget = Budget(data, columns, 4 * MIB)
    data.read(0, MIB)
    columns.read(0, 5 * MIB)
    assert budget.enforce()
    assert budget.num_of_columns == 1
    assert _resident(columns.path) == 3 * MIB
    assert _resident(data.path) == 0


def test_libraries_that_grow_take_nothing_of_the_budget(
    data: Mapped, columns: Mapped, tmp_path: Path
) -> None:
    """Their pages cannot be released: to try at each look would release what searches read."""
    budget = Budget(data, columns, 4 * MIB)
    library = Mapped(tmp_path / "library.so", 6 * MIB)
    library.read(0, 6 * MIB)
    assert budget.enforce()
    data.read(0, 2 * MIB)
    for _ in range(3):
        assert not budget.enforce()
    assert _resident(data.path) == 2 * MIB
    library.mapping.close()


def test_looks_are_frequent_only_while_pages_are_read(data: Mapped, columns: Mapped) -> None:
    budget = Budget(data, columns, 4 * MIB)
    for _ in range(10):
        budget.enforce()
    assert budget.pause == POLL_SECONDS_MAX
    data.read(0, MIB)
    budget.enforce()
    assert budget.pause == POLL_SECONDS_MIN


async def test_looks_go_on_until_they_are_cancelled(data: Mapped, columns: Mapped) -> None:
    released = asyncio.Event()
    budget = PageBudget(
        lambda: 4 * MIB,
        release_items=lambda _: released.set(),
        release_segments=lambda _: released.set(),
    )
    looking = asyncio.create_task(budget.run())
    for _ in range(3):
        data.release()
        budget.enforce()
        released.clear()
        data.read(0, 8 * MIB)
        async with asyncio.timeout(10):
            await released.wait()
    looking.cancel()


def test_what_else_is_unmapped_hides_nothing(data: Mapped, columns: Mapped, tmp_path: Path) -> None:
    """A merged segment's parts go while documents are read: the sum of both stays the same."""
    budget = Budget(data, columns, 4 * MIB)
    for turn in range(4):
        other = Mapped(tmp_path / f"segment-{turn}", 3 * MIB)
        other.read(0, 3 * MIB)
        data.read(turn * 4 * MIB, (turn * 4 + 2) * MIB)
        budget.enforce()
        other.mapping.close()
        budget.enforce()
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
