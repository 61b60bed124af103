"""A segment file returns what was written, and damage of any byte is detected."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from shard.segment import segment_file
from shard.segment.segment import Segment
from shard.segment.segment_file import ALIGNMENT, DamagedSegment, verify_segment


def _segment() -> Segment:
    return Segment(
        {
            "docs.record": np.array([7, 9], np.uint64),
            "ids.hash": np.array([1, 2], np.uint64),
            "empty": np.zeros(0, np.float64),
            "matrix": np.arange(12, dtype=np.int16).reshape(3, 4),
        },
        num_docs=2,
        meta={"places_ascending": True},
    )


def test_written_segment_opens_equal(tmp_path: Path) -> None:
    written = _segment()
    written.write(tmp_path / "1.segment")

    opened = Segment.open(tmp_path / "1.segment")

    assert list(opened) == list(written)
    for name in written:
        assert opened[name].dtype == written[name].dtype
        assert opened[name].shape == written[name].shape
        assert np.array_equal(opened[name], written[name])
    assert opened.num_docs == 2
    assert opened.meta == {"places_ascending": True}
    assert opened.uid != written.uid


def test_arrays_of_a_file_are_writable_typed_and_aligned(tmp_path: Path) -> None:
    _segment().write(tmp_path / "1.segment")
    opened = Segment.open(tmp_path / "1.segment")

    assert all(opened[name].flags.writeable for name in opened)
    assert all(opened[name].ctypes.data % ALIGNMENT == 0 for name in opened if opened[name].size)


def test_writing_to_a_mapped_array_leaves_the_file_alone(tmp_path: Path) -> None:
    _segment().write(tmp_path / "1.segment")
    Segment.open(tmp_path / "1.segment")["docs.record"][0] = 99

    assert Segment.open(tmp_path / "1.segment")["docs.record"][0] == 7


def test_segment_without_arrays_opens(tmp_path: Path) -> None:
    Segment({}, num_docs=0).write(tmp_path / "1.segment")

    assert list(Segment.open(tmp_path / "1.segment")) == []


def test_a_large_file_is_written_in_pieces_and_synced_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, fdatasync = os.write, os.fdatasync
    unsynced = [0]
    most = []

    def write_less(file: int, content: memoryview) -> int:
        count = write(file, content[:30])  # as a disk does that is nearly full
        unsynced.append(unsynced.pop() + count)
        return count

    def count_unsynced(file: int) -> None:
        fdatasync(file)
        most.append(unsynced[-1])
        unsynced.append(0)

    monkeypatch.setattr(os, "write", write_less)
    monkeypatch.setattr(os, "fdatasync", count_unsynced)
    monkeypatch.setattr(segment_file, "CALL_BYTES", 100)
    monkeypatch.setattr(segment_file, "SYNC_BYTES", 1_000)
    content = np.arange(5_000)
    Segment({"numbers": content}, num_docs=0).write(tmp_path / "1.segment")

    assert np.array_equal(Segment.open(tmp_path / "1.segment")["numbers"], content)
    assert len(most) == content.nbytes // 1_000
    assert max(most) < 1_100


def test_a_file_that_was_written_is_mapped_as_if_opened(tmp_path: Path) -> None:
    written = _segment()
    written.write(tmp_path / "1.segment")
    mapped, opened = (
        Segment.map(tmp_path / "1.segment"),
        Segment.open(tmp_path / "1.segment"),
    )

    assert mapped.checksum == opened.checksum != ""
    assert all(np.array_equal(mapped[name], written[name]) for name in written)


def test_a_remapped_segment_is_the_same(tmp_path: Path) -> None:
    in_memory = _segment()
    assert in_memory.remapped() is in_memory
    in_memory.write(tmp_path / "1.segment")
    opened = Segment.open(tmp_path / "1.segment")

    remapped = opened.remapped()
    assert list(remapped) == list(opened)
    assert all(np.array_equal(remapped[name], opened[name]) for name in opened)
    assert not np.shares_memory(remapped["docs.record"], opened["docs.record"])
    (tmp_path / "1.segment").unlink()
    assert opened.remapped() is opened


def test_temporary_file_is_gone_after_writing(tmp_path: Path) -> None:
    _segment().write(tmp_path / "1.segment")

    assert [path.name for path in tmp_path.iterdir()] == ["1.segment"]


def test_a_full_disk_leaves_neither_a_file_nor_an_open_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, content: memoryview) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(segment_file, "write_all", refuse)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="space"):
        _segment().write(tmp_path / "1.segment")

    assert not list(tmp_path.iterdir())
    assert os.listdir("/proc/self/fd") == before


def test_missing_file_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedSegment):
        Segment.open(tmp_path / "1.segment")


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("segment") / "1.segment"
    _segment().write(path)
    return path.read_bytes()


def write_without_blocks(path: Path) -> None:
    """Turn a file into one of version 7."""
    content = bytearray(path.read_bytes())
    del content[int.from_bytes(content[32:40], "little") :]
    content[8:12] = (7).to_bytes(4, "little")
    content[16:24] = len(content).to_bytes(8, "little")
    content[24:64] = bytes(40)
    checksum = xxhash.xxh3_64_intdigest(content[32:] + content[:24])
    content[24:32] = checksum.to_bytes(8, "little")
    path.write_bytes(content)


def test_a_file_of_the_former_version_opens_and_its_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "1.segment"
    _segment().write(path)
    write_without_blocks(path)
    opened = Segment.open(path, on_first_touch=True)
    assert opened.is_verified
    assert list(opened["docs.record"]) == [7, 9]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedSegment, match="checksum differs"):
        Segment.open(path)


@given(st.data())
def test_any_flipped_bit_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, intact: bytes, data: st.DataObject
) -> None:
    bit = data.draw(st.integers(0, len(intact) * 8 - 1))
    damaged = bytearray(intact)
    damaged[bit >> 3] ^= 1 << (bit & 7)
    path = tmp_path_factory.getbasetemp() / "flipped.segment"
    path.write_bytes(damaged)

    with pytest.raises(DamagedSegment):
        Segment.open(path)


@given(st.data())
def test_any_cut_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, intact: bytes, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.segment"
    path.write_bytes(intact[: data.draw(st.integers(0, len(intact) - 1))])

    with pytest.raises(DamagedSegment):
        Segment.open(path)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_a_file_that_cannot_be_opened_for_want_of_descriptors_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "1.segment"
    _segment().write(path)
    checksum = Segment.open(path).checksum

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        with pytest.raises(OSError, match=os.strerror(number)):
            verify_segment(path, checksum)
    verify_segment(path, checksum)
