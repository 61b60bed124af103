"""The spool: items that wait on disk until their body is complete."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InternalError, StorageFull
from common.json.item_scanner import ItemScanner
from coordinator.write.bulk_load_spool import Spool


def _fill(spool: Spool, body: bytes, step: int) -> None:
    scanner = ItemScanner()
    for start in range(0, len(body), step):
        spool.append(scanner.feed(body[start : start + step]))
    spool.append(scanner.finish())


@given(
    lengths=st.lists(st.integers(0, 300), max_size=30),
    step=st.integers(1, 2000),
    num_bytes=st.integers(1, 2000),
    num_items=st.integers(1, 40),
)
def test_items_come_back_in_order_in_chunks(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    step: int,
    num_bytes: int,
    num_items: int,
) -> None:
    items = [b'{"id":%d,"t":"%b"}' % (i, b"x" * n) for i, n in enumerate(lengths)]
    spool = Spool(tmp_path_factory.getbasetemp() / "spool")
    _fill(spool, b"\n".join(items), step)
    found: list[bytes] = []
    for chunk in spool.chunks(num_bytes, num_items):
        spans = zip(chunk.starts.tolist(), chunk.ends.tolist(), strict=True)
        pieces = [chunk.payload[start:end].tobytes() for start, end in spans]
        assert 1 <= len(pieces) <= num_items
        assert len(pieces) == 1 or len(chunk.payload) <= num_bytes
        assert chunk.has_id.all()
        found += pieces
    spool.close()
    assert found == items


@pytest.mark.parametrize("file", ["_payload", "_rows"])
def test_nothing_is_read_that_is_not_what_was_written(tmp_path: Path, file: str) -> None:
    """The disk may refuse a page after `write` has returned, and have other bytes there."""
    items = b"\n".join(b'{"id":%d,"t":"text"}' % i for i in range(90))
    spool = Spool(tmp_path / "spool")
    _fill(spool, items, 500)
    os.pwrite(getattr(spool, file).fileno(), bytes(8), 1_200)
    num_read = 0

    def read() -> None:
        nonlocal num_read
        for chunk in spool.chunks(150, 40):
            assert chunk.payload[chunk.starts[0] :].tobytes().startswith(b'{"id":%d,' % num_read)
            num_read += len(chunk.starts)

    with pytest.raises(InternalError, match="rest of the body was not written"):
        read()
    spool.close()
    assert 0 < num_read < 60  # the pieces before the damaged one


def test_nothing_of_it_has_a_name(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    _fill(spool, b'{"a":1}\n{"a":2}', 5)
    assert (spool.num_items, list((tmp_path / "spool").iterdir())) == (2, [])
    spool.close()


def test_a_full_disk_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path / "spool")

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(StorageFull, match="nothing was written"):
        _fill(spool, b'{"a":1}\n', 100)
    monkeypatch.undo()
    spool.close()


def test_it_is_not_closed_while_a_thread_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file might have the number of the closed one by the time of the write."""
    spool = Spool(tmp_path / "spool")
    begun, may_write = threading.Event(), threading.Event()
    written: list[int] = []
    write = os.write

    def write_late(file: int, content: memoryview) -> int:
        begun.set()
        may_write.wait()
        written.append(file)
        return write(file, content)

    monkeypatch.setattr(os, "write", write_late)
    with ThreadPoolExecutor(2) as threads:
        appending = threads.submit(_fill, spool, b'{"a":1}', 100)
        begun.wait()
        closing = threads.submit(spool.close)
        is_closed = wait((closing,), timeout=0.05).done
        may_write.set()
        assert not is_closed
        closing.result()
        appending.result()
    assert len(written) == 2
    with pytest.raises(ValueError, match="closed"):
        _fill(spool, b'{"a":2}', 100)
    assert len(written) == 2
