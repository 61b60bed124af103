"""Mapped pages of a file go back when more than a budget is resident."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from shard.storage.residency import Mapping, PageBudget, parse_smaps, release_pages

_LISTING = """\
7f00-7f10 r--s 00000000 fe:00 12 /data/with space/data.mdb
Size:                  4 kB
Rss:                  16 kB
7f20-7f30 rw-p 00000000 00:00 0
Rss:                  99 kB
7f40-7f50 rw-p 00000000 00:00 0 [heap]
Rss:                  99 kB
7f60-7f70 r--s 00000000 fe:00 13 /other
Rss:                   0 kB
"""


def test_file_mappings_are_read() -> None:
    assert list(parse_smaps(_LISTING)) == [
        Mapping("/data/with space/data.mdb", 0x7F00, 0x10, 16 * 1024),
        Mapping("/other", 0x7F60, 0x10, 0),
    ]


def _resident(path: Path) -> int:
    text = Path("/proc/self/smaps").read_text()
    return sum(one.resident_bytes for one in parse_smaps(text) if one.path == str(path.resolve()))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs smaps")
def test_pages_over_the_budget_go_and_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    path.write_bytes(b"x" * (4 << 20))
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert mapping[:].count(b"x") == 4 << 20
    assert _resident(path) == 4 << 20

    assert release_pages([path], 8 << 20) == 0
    assert _resident(path) == 4 << 20
    assert release_pages([path], 1 << 20) == 4 << 20
    assert _resident(path) == 0
    assert mapping[:].count(b"x") == 4 << 20
    mapping.close()


def test_no_files_is_no_work() -> None:
    assert release_pages([], 0) == 0


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs smaps")
def test_budget_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    path.write_bytes(b"x" * (8 << 20))
    with path.open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    budget = PageBudget(4 << 20)
    budget.keep([path])

    for end in range(1 << 20, (8 << 20) + 1, 1 << 20):
        assert mapping[end - (1 << 20) : end].count(b"x") == 1 << 20
        budget.keep([path])
        assert _resident(path) <= 5 << 20
    mapping.close()
