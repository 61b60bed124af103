"""An incomplete data.mdb is refused; a full map is survived."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lmdb
import pytest

from common import data_directory
from common.errors import InternalError, StorageFull, Unavailable
from common.process.mapped_pages import find_mappings
from shard.storage import lmdb_environment
from shard.storage.lmdb_environment import (
    MAP_BYTES_MIN,
    MAP_GROWTH,
    ROOM_BYTES,
    ROOM_BYTES_MIN,
    Environment,
    SubDatabase,
    Transaction,
)
from shard.storage.lmdb_meta_page import read_meta_page
from shard.storage.storage_errors import DamagedEnvironment, StorageFailure, explaining_refusal
from tests.faults.page_cache import PageCache
from tests.waiting import wait_until

_MAP = 1 << 30
_STEP = 1 << 17


def _filled(folder: Path, count: int = 200) -> Path:
    environment = Environment.create(folder, _MAP)
    with environment.write() as txn:
        for number in range(count):
            txn.put(SubDatabase.META, b"%d" % number, bytes(1_000))
    environment.close()
    return folder / "data.mdb"


def test_values_survive_a_reopen(tmp_path: Path) -> None:
    _filled(tmp_path)

    environment = Environment.open(tmp_path, _MAP)

    with environment.read() as txn:
        assert txn.get(SubDatabase.META, b"7") == bytes(1_000)
        assert txn.count(SubDatabase.META) == 200
        assert len(list(txn.items(SubDatabase.META, prefix=b"19"))) == 11
    environment.close()


def test_a_commit_that_a_failed_sync_left_in_memory_is_on_disk_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while its commit wrote the meta page; the sync of the next open fails."""
    path = _filled(tmp_path)
    before = path.read_bytes()
    environment = Environment.open(tmp_path, _MAP)
    with environment.write() as txn:
        txn.put(SubDatabase.META, b"last", b"value")
    environment.close()
    num_meta_bytes = 2 * read_meta_page(path).page_size
    disk = before[:num_meta_bytes] + path.read_bytes()[num_meta_bytes:]
    assert disk != path.read_bytes()

    with monkeypatch.context() as patch:
        pages = PageCache(path, disk, patch)
        pages.fails = True
        with pytest.raises(StorageFailure, match="Input/output error"):
            Environment.open(tmp_path, _MAP)
        pages.fails = False
        environment = Environment.open(tmp_path, _MAP)
        with environment.read() as txn:
            assert txn.get(SubDatabase.META, b"last") == b"value"
        environment.close()
        pages.fail_power()

    environment = Environment.open(tmp_path, _MAP)
    with environment.read() as txn:
        assert txn.get(SubDatabase.META, b"last") == b"value"
    environment.close()


def test_meta_page_is_read_as_lmdb_does(tmp_path: Path) -> None:
    path = _filled(tmp_path)
    environment = Environment.open(tmp_path, _MAP)

    assert read_meta_page(path).txn_id == environment.last_txn_id()

    environment.close()


def test_a_write_that_changes_nothing_takes_no_transaction_number(tmp_path: Path) -> None:
    """A manifest with the number of a transaction that is not there would make the file too old."""
    path = _filled(tmp_path)
    environment = Environment.open(tmp_path, _MAP)
    for _ in range(2):
        with environment.write():
            pass
        assert environment.last_txn_id() == read_meta_page(path).txn_id
        environment.change(_put(1))
        assert environment.last_txn_id() == read_meta_page(path).txn_id
    environment.close()


@pytest.mark.parametrize("keep", [0, 1, 4_096, 8_192, 65_536], ids=str)
def test_cut_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = _filled(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(DamagedEnvironment, match=r"data\.mdb"):
        Environment.open(tmp_path, _MAP)


@pytest.mark.parametrize("page", [0, 1])
def test_a_meta_page_of_zeros_is_refused_with_the_remedy(tmp_path: Path, page: int) -> None:
    path = _filled(tmp_path)
    with path.open("r+b") as file:
        file.seek(page * read_meta_page(path).page_size)
        file.write(bytes(200))

    with pytest.raises(DamagedEnvironment, match=r"restore it from a backup, or remove the index"):
        Environment.open(tmp_path, _MAP)


def test_a_page_that_lmdb_finds_damaged_is_refused_with_the_remedy(tmp_path: Path) -> None:
    _filled(tmp_path)
    environment = Environment.open(tmp_path, _MAP)
    remedy = "restore the index from a backup, or remove it"
    with pytest.raises(InternalError, match=remedy), environment.read():
        raise lmdb.CorruptedError("Located page was wrong type")
    environment.close()


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedEnvironment, match="restore"):
        Environment.open(tmp_path, _MAP)


def test_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"x" * 100_000)

    with pytest.raises(DamagedEnvironment):
        Environment.open(tmp_path, _MAP)


def test_creating_over_a_file_is_refused(tmp_path: Path) -> None:
    _filled(tmp_path)

    with pytest.raises(DamagedEnvironment):
        Environment.create(tmp_path, _MAP)


def test_full_map_changes_nothing_and_small_writes_go_on(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, 1 << 20)

    def overfill() -> None:
        with environment.write() as txn:
            txn.put(SubDatabase.META, b"small", b"")
            for number in range(2_000):
                txn.put(SubDatabase.META, b"%d" % number, bytes(1_000))

    with pytest.raises(StorageFull):
        overfill()

    with environment.read() as txn:
        assert txn.get(SubDatabase.META, b"small") is None
    with environment.write() as txn:
        txn.put(SubDatabase.META, b"small", b"")
    environment.close()


def test_exception_in_a_write_changes_nothing(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, _MAP)

    def fail() -> None:
        with environment.write() as txn:
            txn.put(SubDatabase.META, b"a", b"")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    with environment.read() as txn:
        assert txn.get(SubDatabase.META, b"a") is None
    environment.close()


def test_a_write_that_meets_a_damaged_page_changes_nothing_and_others_go_on(tmp_path: Path) -> None:
    path = _filled(tmp_path)
    environment = Environment.open(tmp_path, _MAP)
    size = read_meta_page(path).page_size
    content = path.read_bytes()
    page = content.index(b"150" + bytes(1_000)) // size
    with path.open("r+b") as file:  # which is mapped
        file.seek(page * size)
        file.write(bytes(size))

    def change_two(txn: Transaction) -> None:
        txn.put(SubDatabase.META, b"0", b"other")
        txn.put(SubDatabase.META, b"150", b"other")

    with pytest.raises(InternalError, match="damaged") as caught:
        environment.change(change_two)

    assert caught.value.code == "item_corrupt"
    with environment.write() as txn:
        txn.put(SubDatabase.META, b"99", b"other")
    with environment.read() as txn:
        assert txn.get(SubDatabase.META, b"0") == bytes(1_000)
        assert txn.get(SubDatabase.META, b"99") == b"other"
    environment.close()


def test_appending_after_a_greater_key_fails(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, _MAP)

    def append_backwards() -> None:
        with environment.write() as txn:
            txn.append(SubDatabase.DOCUMENTS, [(b"b", b"")])
            txn.append(SubDatabase.DOCUMENTS, [(b"a", b"")])

    with pytest.raises(StorageFailure):
        append_backwards()

    environment.close()


def test_bytes_used_shrinks_after_deletes(tmp_path: Path) -> None:
    _filled(tmp_path, 2_000)
    environment = Environment.open(tmp_path, _MAP)
    before = environment.bytes_used()
    with environment.write() as txn:
        for number in range(2_000):
            txn.delete(SubDatabase.META, b"%d" % number)

    assert environment.bytes_used() < before / 5
    assert environment.file_bytes() >= before
    assert environment.uses_more_than(environment.bytes_used() - 1)
    assert not environment.uses_more_than(environment.bytes_used())
    environment.close()


def test_room_is_written_again_once_it_is_used_up(tmp_path: Path) -> None:
    path = _filled(tmp_path)
    environment = Environment.open(tmp_path, _MAP)
    sizes = []

    for number in range(3):
        environment.reserve()
        sizes.append(path.stat().st_size)
        with environment.write() as txn:
            txn.put(SubDatabase.META, b"new %d" % number, bytes(ROOM_BYTES))

    assert sizes == sorted(set(sizes))
    environment.close()


def test_copy_opens_and_holds_the_same(tmp_path: Path) -> None:
    _filled(tmp_path)
    environment = Environment.open(tmp_path, _MAP)
    (tmp_path / "copy").mkdir()

    environment.copy(tmp_path / "copy")

    copied = Environment.open(tmp_path / "copy", _MAP)
    with copied.read() as txn:
        assert txn.count(SubDatabase.META) == 200
    copied.close()
    environment.close()


def test_small_commits_do_not_change_the_size_of_the_file(tmp_path: Path) -> None:
    path = _filled(tmp_path)
    environment = Environment.open(tmp_path, _MAP)
    sizes = set()

    for number in range(40):
        environment.reserve()
        with environment.write() as txn:
            txn.put(SubDatabase.META, b"new %d" % number, bytes(2_000))
        sizes.add(path.stat().st_size)

    assert len(sizes) == 1
    meta = read_meta_page(path)
    used = (meta.last_page + 1) * meta.page_size
    assert used + ROOM_BYTES_MIN <= sizes.pop() <= used + ROOM_BYTES
    environment.close()
    environment = Environment.open(tmp_path, _MAP)
    with environment.read() as txn:
        assert txn.count(SubDatabase.META) == 240
    environment.close()


@pytest.mark.parametrize(("number", "is_survived"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_room_is_not_taken_from_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_survived: bool
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    path = _filled(tmp_path)
    size = path.stat().st_size
    environment = Environment.open(tmp_path, _MAP)
    monkeypatch.setattr(os, "pwrite", refuse)

    if is_survived:
        environment.reserve()
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            environment.reserve()

    assert path.stat().st_size == size
    environment.close()


@pytest.mark.parametrize(("number", "is_survived"), [(errno.EMFILE, True), (errno.EIO, False)])
def test_a_commit_needs_no_file_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_survived: bool
) -> None:
    """The writer takes an error of `reserve` for a failed disk, and ends the process."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    _filled(tmp_path)
    environment = Environment.open(tmp_path, _MAP)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        if is_survived:
            environment.reserve()
            with environment.write() as txn:
                txn.put(SubDatabase.META, b"0", b"written")
        else:
            with pytest.raises(OSError, match=os.strerror(number)):
                environment.reserve()
    if is_survived:
        assert environment.get_many(SubDatabase.META, [b"0"]) == [b"written"]
    environment.close()


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (errno.EMFILE, "file descriptors left; allow more open files"),
        (errno.ENOMEM, "address space ran out; allow more memory"),
        (errno.EACCES, "permissions); let the user of the service read"),
        (errno.EROFS, "read-only; mount it for writing"),
        (errno.EIO, "the disk refused it"),
    ],
)
def test_client_is_told_cause_and_remedy_but_no_path(number: int, cause: str) -> None:
    with pytest.raises(InternalError) as caught, explaining_refusal("to make the index"):
        raise OSError(number, os.strerror(number), "/some/folder/data.mdb")
    assert cause in caught.value.message
    assert "to make the index" in caught.value.message
    assert "/some" not in caught.value.message
    with pytest.raises(StorageFull), explaining_refusal("to make the index"):
        raise OSError(errno.ENOSPC, "full", "/some/folder/data.mdb")


@pytest.mark.parametrize("opener", [os, Path])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
def test_file_that_may_not_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, opener: Any
) -> None:
    """Its meta page is read by `os.open`, then its room is made by `Path.open`."""
    _filled(tmp_path)

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(opener, "open", refuse)
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            Environment.open(tmp_path, _MAP)
    line = str(data_directory.refusal_explained(tmp_path, caught.value))
    assert os.strerror(number) in line
    assert "backup" not in line


def test_a_read_without_a_reader_slot_is_refused_but_nothing_is_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_environment, "READERS_MAX", 1)
    environment = Environment.create(tmp_path, _MAP)
    with environment.read():
        with pytest.raises(Unavailable, match="READERS_FULL"), environment.read():
            pass
        with pytest.raises(Unavailable, match="try again"):
            environment.get_many(SubDatabase.META, [b"0"])
        with pytest.raises(Unavailable, match="try again"):
            environment.bytes_used()
    assert environment.get_many(SubDatabase.META, [b"0"]) == [None]
    environment.close()


def test_an_environment_that_cannot_be_read_yet_can_be_opened_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _filled(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise Unavailable("memory ran out; try again")

    with monkeypatch.context() as patched:
        patched.setattr(Environment, "look_ahead", refuse)
        with pytest.raises(Unavailable) as caught:
            Environment.open(tmp_path, _MAP)
    assert caught.value.__traceback__ is not None  # which refers to all that was opened
    Environment.open(tmp_path, _MAP).close()


def test_environment_that_cannot_be_mapped_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_environment, "MAP_BYTES_MIN", 1 << 60)
    with pytest.raises(OSError, match="allocate memory"):
        Environment.create(tmp_path, 1 << 60)


def _put(number: int, num_bytes: int = 1_000) -> Callable[[Transaction], None]:
    return lambda txn: txn.put(SubDatabase.DOCUMENTS, b"%08d" % number, bytes(num_bytes))


def _mapped_bytes(environment: Environment) -> int:
    return sum(one.size for one in find_mappings(environment.data_path))


def test_map_is_small_and_grows_with_the_file(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, _MAP)
    assert _mapped_bytes(environment) == MAP_BYTES_MIN

    for number in range(3):  # one that fits, and two of which each is larger than the map
        environment.change(_put(number, MAP_BYTES_MIN * (number + 1) // 2))
    environment.release_pages()

    with environment.read() as txn:
        sizes = [len(value) for _, value in txn.items(SubDatabase.DOCUMENTS)]
    assert sizes == [MAP_BYTES_MIN * part // 2 for part in (1, 2, 3)]
    assert _mapped_bytes(environment) == MAP_BYTES_MIN * MAP_GROWTH
    environment.close()
    environment = Environment.open(tmp_path, _MAP)
    assert _mapped_bytes(environment) == MAP_BYTES_MIN * MAP_GROWTH
    environment.close()


def test_map_grows_up_to_its_limit(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, 2 * MAP_BYTES_MIN)
    environment.change(_put(0, MAP_BYTES_MIN))

    with pytest.raises(StorageFull, match=str(2 * MAP_BYTES_MIN)):
        environment.change(_put(1, MAP_BYTES_MIN))

    assert _mapped_bytes(environment) == 2 * MAP_BYTES_MIN
    with environment.read() as txn:
        assert txn.count(SubDatabase.DOCUMENTS) == 1
    environment.close()


def test_map_waits_for_readers_before_it_grows(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, _MAP)
    environment.change(_put(0))
    with ThreadPoolExecutor(1) as writer:
        with environment.read() as txn:
            done = writer.submit(environment.change, _put(1, MAP_BYTES_MIN))
            wait_until(lambda: environment._map_lock._is_closed)
            assert not done.done()
            assert txn.get(SubDatabase.DOCUMENTS, b"%08d" % 0) == bytes(1_000)
        done.result()
    assert environment.get_many(SubDatabase.DOCUMENTS, [b"%08d" % 1]) == [bytes(MAP_BYTES_MIN)]
    environment.close()


def test_map_grows_repeatedly_while_many_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        lmdb_environment, "_map_bytes_for", lambda num_bytes, _: (num_bytes // _STEP + 1) * _STEP
    )
    environment = Environment.create(tmp_path, _MAP)
    is_over = threading.Event()
    num_written = 0
    targets = iter(tmp_path / f"copy-{number}" for number in itertools.count())

    def scan() -> None:
        known = num_written
        with environment.read() as txn:
            assert (
                sum(len(value) for _, value in txn.items(SubDatabase.DOCUMENTS)) >= 10_000 * known
            )

    def get() -> None:
        known = num_written
        keys = [b"%08d" % number for number in range(known)]
        assert environment.get_many(SubDatabase.DOCUMENTS, keys) == [bytes(10_000)] * known

    def measure() -> None:
        assert min(environment.bytes_used(), environment.file_bytes()) > 0
        environment.num_readers()
        environment.release_pages()

    def copy() -> None:
        target = next(targets)
        target.mkdir()
        environment.copy(target)

    def always(work: Callable[[], None]) -> int:
        for number in itertools.count(1):
            work()
            if is_over.is_set():
                return number
        raise AssertionError

    sizes = set()
    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(always, work) for work in (scan, get, get, measure, copy)]
        try:
            for number in range(300):
                environment.change(_put(number, 10_000))
                num_written = number + 1
                sizes.add(environment._map_bytes)
        finally:
            is_over.set()
        for reader in readers:
            reader.result()
    assert len(sizes) > 4  # a copy makes room for several steps
    environment.close()


def test_copy_leaves_room_to_grow_meanwhile(tmp_path: Path) -> None:
    environment = Environment.create(tmp_path, _MAP)
    environment.change(_put(0, MAP_BYTES_MIN // 2))
    assert _mapped_bytes(environment) == MAP_BYTES_MIN
    (tmp_path / "copy").mkdir()

    environment.copy(tmp_path / "copy")

    assert _mapped_bytes(environment) == MAP_BYTES_MIN * MAP_GROWTH
    environment.close()


def test_map_that_cannot_grow_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Environment.create(tmp_path, 1 << 60)
    environment.change(_put(0))
    monkeypatch.setattr(lmdb_environment, "MAP_GROWTH", 1 << 40)

    with pytest.raises(StorageFull, match="address space"):
        environment.change(_put(1, MAP_BYTES_MIN))

    assert environment.get_many(SubDatabase.DOCUMENTS, [b"%08d" % 0]) == [bytes(1_000)]
    environment.change(_put(2))
    environment.close()


def test_a_transaction_is_aborted_while_many_read(tmp_path: Path) -> None:
    """LMDB's binding waits for a moment without any other call, which readers would not leave."""
    environment = Environment.create(tmp_path, _MAP)
    environment.change(_put(0))
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            environment.get_many(SubDatabase.DOCUMENTS, [b"%08d" % 0] * 100)

    def fail(txn: Transaction) -> float:
        txn.delete(SubDatabase.DOCUMENTS, b"%08d" % 0)
        return 1 / 0

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        try:
            for _ in range(20):
                with pytest.raises(ZeroDivisionError):
                    environment.change(fail)
        finally:
            is_over.set()
        for reader in readers:
            reader.result()
    assert environment.get_many(SubDatabase.DOCUMENTS, [b"%08d" % 0]) == [bytes(1_000)]
    environment.close()
