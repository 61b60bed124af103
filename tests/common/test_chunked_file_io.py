"""Long files are written and read whole, however little each call moves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.chunked_file_io import CALL_BYTES, read_all, write_all

CONTENT = os.urandom(2 * CALL_BYTES + 5)


@given(moved=st.lists(st.integers(1, CALL_BYTES), min_size=1), offset=st.integers(0, len(CONTENT)))
def test_calls_that_move_less_than_asked_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, moved: list[int], offset: int
) -> None:
    """As on a disk that is nearly full, or after a signal."""
    steps = [*moved, CALL_BYTES]
    write, read = os.write, os.preadv

    def write_less(file: int, content: memoryview) -> int:
        assert 0 < len(content) <= CALL_BYTES
        return write(file, content[: steps[0] if len(steps) == 1 else steps.pop(0)])

    def read_less(file: int, targets: list[memoryview], at: int) -> int:
        (target,) = targets
        assert 0 < len(target) <= CALL_BYTES
        return read(file, [target[: steps[0] if len(steps) == 1 else steps.pop(0)]], at)

    path = tmp_path_factory.mktemp("file") / "long"
    with pytest.MonkeyPatch.context() as patch, path.open("w+b") as file:
        patch.setattr(os, "write", write_less)
        patch.setattr(os, "preadv", read_less)
        write_all(file.fileno(), memoryview(CONTENT))
        steps[:] = [*moved, CALL_BYTES]
        target = bytearray(len(CONTENT) - offset)
        read_all(file.fileno(), memoryview(target), offset)

    assert path.read_bytes() == CONTENT
    assert target == CONTENT[offset:]


def test_a_file_that_ends_too_early_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"12345")
    with path.open("rb") as file, pytest.raises(OSError, match="ends too early"):
        read_all(file.fileno(), memoryview(bytearray(4)), 2)
