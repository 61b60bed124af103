"""Merging to a file in pieces of any size equals merging at once, in bounded memory."""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from common.process.glibc_malloc import trim
from shard.partition.derived_files import DerivedFiles
from shard.segment import merge_allocator
from shard.segment.builder.segment_merge import merge_segments, merge_to_file
from shard.segment.merge_allocator import IN_MEMORY, GrowingArray, MergeAllocator
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from tests.shard.segment.columns.test_object_columns import Builder
from tests.shard.text_model import Lists

_STATUS = Path("/proc/self/status")


def make_items(count: int) -> list[dict[str, Any]]:
    """Items with every kind of column, in forms that depend on where they are."""
    rng = np.random.default_rng(8)
    items: list[dict[str, Any]] = []
    for i in range(count):
        size = "SML"[i % 3]
        item: dict[str, Any] = {
            "id": i,
            "title": " ".join(f"w{n}" for n in rng.zipf(1.3, 6).clip(0, 400).tolist()),
            "year": i % 90,
            "exact": 2**53 + 1 if i == 7 else i,
            "share": i / 7 if i > count // 2 else i,
            "list": [i, i + 1] if i % 5 == 0 else None,
            "variants": [{"size": size, "price": i}, {"size": "XL"}][: i % 3],
        }
        if i % 4:
            item["_geo"] = {"lat": i % 80, "lng": i % 170}
        if i % 50 == 0:
            item["rare"] = f"text{i}"
        items.append(item)
    return items


@pytest.mark.parametrize("drop", [0, 1, 7])
def test_a_merge_in_pieces_is_the_same_as_at_once(tmp_path: Path, drop: int) -> None:
    items = make_items(260)
    with Lists(entries_min=20, dense_docs_min=1).in_force():
        builder = Builder()
        cuts = [0, 3, 100, 101, 260]
        parts = [builder.build(items[a:b]) for a, b in itertools.pairwise(cuts)]
        gone = [
            np.arange(0, part.num_docs, drop, dtype=np.uint32) if drop else None for part in parts
        ]
        whole = MergeState.without(parts, gone)
        at_once = merge_segments(whole)
        tiny = MergeAllocator(tmp_path, large_bytes=1, piece_rows=7, piece_bytes=100)
        pieces = MergeState.without(parts, gone, tiny)
        for one, other in zip(whole.doc_maps, pieces.doc_maps, strict=True):
            np.testing.assert_array_equal(one, other)
        path = tmp_path / "merged.seg"
        merge_to_file(pieces, path)

    in_pieces = Segment.open(path)
    assert (in_pieces.num_docs, in_pieces.meta) == (at_once.num_docs, at_once.meta)
    assert list(in_pieces) == list(at_once)
    for name in at_once:
        assert in_pieces[name].dtype == at_once[name].dtype, name
        assert in_pieces[name].tobytes() == at_once[name].tobytes(), name
    at_once.write(tmp_path / "written.seg")
    assert list(Segment.open(tmp_path / "written.seg")) == list(at_once)
    assert sorted(os.listdir(tmp_path)) == ["merged.seg", "written.seg"]


def anonymous_bytes() -> int:
    """Return the anonymous memory of this process."""
    found = re.search(r"RssAnon:\s+(\d+) kB", _STATUS.read_text())
    assert found is not None
    return int(found[1]) << 10


@contextmanager
def noting_peak() -> Iterator[list[int]]:
    """Note by how much anonymous memory grows at most."""
    trim()
    before = anonymous_bytes()
    peak = [0]
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(0.0005):
            peak[0] = max(peak[0], anonymous_bytes() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        is_done.set()
        thread.join()


@pytest.mark.skipif(not _STATUS.exists(), reason="needs Linux's /proc")
def test_the_memory_of_a_merge_does_not_grow_with_the_segments(tmp_path: Path) -> None:
    items = make_items(4_000)
    for item in items:
        item["title"] = " ".join([item["title"]] * 6)
    part = Builder().build(items)
    part.write(tmp_path / "part.seg")
    part = Segment.open(tmp_path / "part.seg")
    allocator = MergeAllocator(tmp_path, large_bytes=1 << 14, piece_rows=2_048, piece_bytes=1 << 16)
    sizes = []
    for count in (2, 24):
        parts = [part] * count
        peaks = []
        for _ in range(3):  # what earlier tests left may be freed, or asked for, meanwhile
            with noting_peak() as peak:
                state = MergeState.without(parts, [None] * count, allocator)
                merge_to_file(state, tmp_path / "m.seg")
            peaks.append(peak[0])
        sizes.append((tmp_path / "m.seg").stat().st_size)
        assert min(peaks) < 4 << 20
    assert sizes[0] > 1 << 20
    assert sizes[1] > 12 << 20


def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Builder()
    parts = [builder.build(make_items(20)), builder.build(make_items(20))]
    allocator = MergeAllocator(tmp_path, large_bytes=1)
    state = MergeState.without(parts, [None, None], allocator)

    def refuse(file: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match="No space"):
        merge_to_file(state, tmp_path / "merged.seg")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("is_file", [False, True])
def test_a_growing_array_keeps_what_was_written(tmp_path: Path, is_file: bool) -> None:
    growing = GrowingArray(
        MergeAllocator(tmp_path, large_bytes=64) if is_file else IN_MEMORY, np.uint32
    )
    for i in range(200):
        growing.append(np.full(i, i, np.uint32))
    expected = np.repeat(np.arange(200), np.arange(200))
    np.testing.assert_array_equal(growing.finish(), expected)
    assert growing.length == len(expected)


def cached_bytes(file: int) -> int:
    """Return how much of a file is in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = os.fstat(file).st_size
    with mmap.mmap(file, size) as mapping:
        array = np.frombuffer(mapping, np.uint8)
        pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        done = libc.mincore(
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_size_t(size),
            ctypes.c_void_p(pages.ctypes.data),
        )
        assert done == 0
        del array
    return int(np.count_nonzero(pages & 1)) * mmap.PAGESIZE


def is_in_memory(folder: Path) -> bool:
    """Return whether a file system keeps its files in memory, as tmpfs does."""
    path = folder / "probe"
    path.write_bytes(bytes(1 << 20))
    with path.open("r+b") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return cached_bytes(file.fileno()) > 0


def test_what_a_merge_sets_aside_leaves_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached: list[int] = []
    advise = os.posix_fadvise

    def note(file: int, offset: int, length: int, advice: int) -> None:
        advise(file, offset, length, advice)
        cached.append(cached_bytes(file))

    keeps_files = is_in_memory(tmp_path)
    monkeypatch.setattr(os, "posix_fadvise", note)
    monkeypatch.setattr(merge_allocator, "EVICT_BYTES", 1 << 20)
    growing = GrowingArray(MergeAllocator(tmp_path, large_bytes=1 << 16), np.uint32)
    pieces = np.arange(1 << 20, dtype=np.uint32).reshape(32, -1)
    for piece in pieces:
        growing.append(piece)
        growing.evict()
    assert len(cached) == 4
    assert keeps_files or max(cached) < 1 << 20
    np.testing.assert_array_equal(growing.finish(), pieces.reshape(-1))


def test_what_is_in_memory_is_not_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_allocator, "EVICT_BYTES", 1)
    growing = GrowingArray(IN_MEMORY, np.uint32)
    growing.append(np.arange(9, dtype=np.uint32))
    growing.evict()
    np.testing.assert_array_equal(growing.finish(), np.arange(9))


def test_parts_in_files_are_read_apart_from_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DerivedFiles(tmp_path)
    part = files.write(Builder().build(make_items(40)))
    read: list[bool] = []
    lookup = Segment.__getitem__

    def note(segment: Segment, name: str) -> NDArray[Any]:
        read.append(segment is part)
        return lookup(segment, name)

    monkeypatch.setattr(Segment, "__getitem__", note)
    merged = files.merge(MergeState.without([part, part], [None, None]))
    assert merged.num_docs == 2 * part.num_docs
    assert read
    assert not any(read)
    assert merged.checksum == Segment.open(merged.path or tmp_path).checksum
