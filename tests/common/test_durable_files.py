"""Files that survive a crash."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from common.durable_files import write_again, write_atomically


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old", mode=0o600)
    write_atomically(path, b"new", mode=0o600)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_parts_are_written_over_themselves(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    write_again(path, [(0, 2), (8, 100)])  # the file ends before
    assert path.read_bytes() == b"0123456789"


@pytest.mark.parametrize(
    ("number", "is_refused"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True)]
)
def test_a_full_disk_does_not_keep_a_file_from_being_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_refused: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    synced: list[int] = []

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", fail)
    monkeypatch.setattr(os, "fsync", synced.append)
    if is_refused:
        with pytest.raises(OSError, match="Input/output"):
            write_again(path, [(0, 10)])
    else:
        write_again(path, [(0, 10)])
    assert len(synced) == (not is_refused)
