"""resting.json saves a start its reading, and is never believed about an index that has changed."""

from __future__ import annotations

import asyncio
import errno
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from common.protocol.messages import ApplyRequest, CatalogUpdate, IndexEntry
from common.protocol.operations import Operation
from common.shard_settings import ShardSettings
from shard.partition import indexes as indexes_module
from shard.partition import resting as module
from shard.partition.indexes import Indexes
from shard.partition.resting import RESTING_FILE, Resting, read_resting
from shard.storage.environment import DamagedEnvironment
from shard.storage.manifest import MANIFEST_FILE, write_manifest

NUM_INDEXES = 5


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let five indexes be many, and files that were changed just now be as good as old ones."""
    monkeypatch.setattr(indexes_module, "FEW_INDEXES", 0)
    monkeypatch.setattr(module, "TICK_NS", 0)


def _indexes(folder: Path, *, open_max: int = 256) -> Indexes:
    def fail(error: BaseException) -> None:
        raise AssertionError(error)

    settings = ShardSettings(open_indexes_max=open_max)
    return Indexes(folder, shard=0, num_shards=1, settings=settings, on_failure=fail)


async def _started(folder: Path, *, open_max: int = 256) -> Indexes:
    indexes = _indexes(folder, open_max=open_max)
    indexes.start()
    entries = tuple(IndexEntry(n, f"index{n}", n, {}) for n in range(1, NUM_INDEXES + 1))
    await indexes.take_catalog(CatalogUpdate(NUM_INDEXES, entries))
    return indexes


async def _stop(indexes: Indexes) -> None:
    opened = indexes.all_open()
    await indexes.close()
    for index in opened:
        index.partition.close()


async def _made(folder: Path) -> None:
    """Make the indexes and stop in order: the file has all of them."""
    indexes = await _started(folder)
    await indexes.apply(_group(2, seq=7))
    await _stop(indexes)


def _group(index: int, *, seq: int) -> ApplyRequest:
    item = b'{"id":%d,"title":"one"}' % seq
    return ApplyRequest(
        index=index,
        seq=seq,
        horizon=seq - 1,
        payload=item,
        lengths=np.array([len(item)], np.uint32).tobytes(),
        operations=bytes([Operation.PUT]),
        places=np.array([seq], np.uint64).tobytes(),
    )


def _read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[int, Resting], list[int]]:
    """Return what a start knows of the indexes, and those that it had to read."""
    read: list[int] = []
    of = Resting.of

    def note(path: Path, map_bytes_max: int) -> Resting:
        read.append(int(path.name.removeprefix("index-")))
        return of(path, map_bytes_max)

    with monkeypatch.context() as patch:
        patch.setattr(Resting, "of", note)
        indexes = _indexes(folder)
        indexes.start()
    indexes.merger.stop()
    known = dict(indexes.all_resting())
    assert indexes.seq_max == max(one.seq_max for one in known.values())
    assert all(one.num_bytes > 0 for one in known.values())
    # (A manifest does not count itself.)
    comparable = {"stamp": 0, "num_bytes": 0}
    return {n: msgspec.structs.replace(one, **comparable) for n, one in known.items()}, read


async def _truth(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, Resting]:
    """Return what a start without the file knows."""
    with monkeypatch.context() as patch:
        patch.setattr(indexes_module, "read_resting", lambda _: {})
        return _read(folder, monkeypatch)[0]


async def test_after_a_stop_in_order_a_start_reads_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 indexes took a second of processor time of each shard, and of a killed one too."""
    await _made(tmp_path)
    known, read = _read(tmp_path, monkeypatch)
    assert read == []
    assert known == await _truth(tmp_path, monkeypatch)
    assert [one.num_docs for one in known.values()] == [0, 1, 0, 0, 0]
    assert known[2].seq_max == 7
    # They open, and the configuration that was entered is the one in force.
    indexes = await _started(tmp_path)
    assert indexes.all_open() == []
    assert (await indexes.opened(2)).partition.newest.num_docs == 1
    await _stop(indexes)


async def test_what_was_written_to_since_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _made(tmp_path)
    entered = (tmp_path / RESTING_FILE).read_bytes()
    indexes = await _started(tmp_path)
    await indexes.apply(_group(3, seq=8))
    with monkeypatch.context() as patch:  # as after a kill: nothing goes to files
        patch.setattr(indexes_module, "CLOSE_SECONDS", 0.0)
        opened = indexes.all_open()
        await indexes.close()
        for index in opened:
            index.thread.shutdown()
            index.writer.close()
            index.partition.close()
    for content in ((tmp_path / RESTING_FILE).read_bytes(), entered):
        (tmp_path / RESTING_FILE).write_bytes(content)
        known, read = _read(tmp_path, monkeypatch)
        assert read == [3]
        assert (known[3].num_docs, known[3].seq_max, known[3].is_settled) == (1, 8, False)
        assert known == await _truth(tmp_path, monkeypatch)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _of_another_format(path: Path) -> None:
    stored = msgspec.json.decode(path.read_bytes().split(b"\n")[1], type=module.RestingIndexes)
    write_manifest(path, msgspec.structs.replace(stored, format=99))


def _with_other_digests(path: Path) -> None:
    stored = msgspec.json.decode(path.read_bytes().split(b"\n")[1], type=module.RestingIndexes)
    write_manifest(path, msgspec.structs.replace(stored, probe=stored.probe ^ 1))


def _as_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        lambda path: path.write_bytes(b""),
        _cut,
        _flip,
        _of_another_format,
        _with_other_digests,
        _as_a_folder,
    ],
)
async def test_without_a_good_file_every_index_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object]
) -> None:
    await _made(tmp_path)
    spoil(tmp_path / RESTING_FILE)
    known, read = _read(tmp_path, monkeypatch)
    assert read == [1, 2, 3, 4, 5]
    assert known[2].num_docs == 1
    await _stop(await _started(tmp_path))  # writes it anew, if it can


async def test_a_copy_of_the_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shard"
    folder.mkdir()
    await _made(folder)
    older = tmp_path / "older"
    shutil.copytree(folder, older)
    assert _read(older, monkeypatch)[1] == [1, 2, 3, 4, 5]
    # One index put back from a copy, with its times; its manifest is another file too.
    shutil.rmtree(folder / "index-4")
    shutil.copytree(older / "index-4", folder / "index-4")
    assert _read(folder, monkeypatch)[1] == [4]
    # A manifest alone that went away, or came back.
    (folder / "index-1" / MANIFEST_FILE).unlink()
    assert _read(folder, monkeypatch)[1] == [1, 4]


async def test_files_that_were_changed_just_now_get_no_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another change within the same tick of the clock would not show."""
    monkeypatch.setattr(module, "TICK_NS", 3_600 * 10**9)
    await _made(tmp_path)
    assert read_resting(tmp_path) == {}
    assert _read(tmp_path, monkeypatch)[1] == [1, 2, 3, 4, 5]


async def test_a_write_whose_time_was_lost_with_the_power_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit makes data durable, not times: they may be those of before the write."""
    monkeypatch.setattr(module, "_identity", lambda path: (1, 1, 1))
    await _made(tmp_path)
    indexes = await _started(tmp_path)
    await indexes.apply(_group(4, seq=9))
    copy = shutil.copytree(tmp_path, tmp_path.with_name("copy"))
    await _stop(indexes)
    known, read = _read(copy, monkeypatch)
    assert 4 in read
    assert known[4].seq_max == 9
    assert known == await _truth(copy, monkeypatch)


@pytest.mark.parametrize("content", [None, b""])
async def test_a_data_file_that_was_lost_ends_the_start(
    tmp_path: Path, content: bytes | None
) -> None:
    await _made(tmp_path)
    path = tmp_path / "index-3" / "data.mdb"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DamagedEnvironment, match=r"index-3/data\.mdb is (missing|empty)"):
        _indexes(tmp_path).start()


async def test_a_full_disk_leaves_the_former_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _made(tmp_path)
    former = (tmp_path / RESTING_FILE).read_bytes()
    indexes = await _started(tmp_path)
    await indexes.apply(_group(5, seq=9))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_manifest", refuse)
        await _stop(indexes)
    assert (tmp_path / RESTING_FILE).read_bytes() == former
    known, read = _read(tmp_path, monkeypatch)
    assert read == [5]
    assert known[5].num_docs == 1


async def test_it_is_written_while_indexes_come_to_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a kill after a month would find nothing that still holds."""
    monkeypatch.setattr(indexes_module, "UNWRITTEN_MIN", 2)
    await _made(tmp_path)
    (tmp_path / RESTING_FILE).unlink()
    indexes = await _started(tmp_path, open_max=1)  # (which enters what it had to read)
    assert indexes._settling is not None
    await indexes._settling
    async with asyncio.timeout(30):
        while indexes._entering is not None:
            await asyncio.wait([indexes._entering])
    assert len(read_resting(tmp_path)) == NUM_INDEXES
    for number in (1, 2, 3):
        await indexes.apply(_group(number, seq=10 + number))
    async with asyncio.timeout(30):
        for number in itertools.cycle((4, 5)):  # the others close once nothing is merged any more
            await indexes.opened(number)
            entered = {n: one.seq_max for n, one in read_resting(tmp_path).items()}
            if (entered.get(1), entered.get(2)) == (11, 12):
                break
            await asyncio.sleep(0.01)
    await _stop(indexes)


async def test_an_index_that_is_opened_meanwhile_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry would have the counters of before and the stamp of after a write."""
    await _made(tmp_path)
    (tmp_path / RESTING_FILE).unlink()
    monkeypatch.setattr(module, "TICK_NS", 3_600 * 10**9)
    indexes = await _started(tmp_path)
    monkeypatch.setattr(module, "TICK_NS", 0)
    loop = asyncio.get_running_loop()
    stamps = indexes._stamps

    def write_first(numbers: list[int]) -> dict[int, int]:
        asyncio.run_coroutine_threadsafe(indexes.apply(_group(4, seq=20)), loop).result(30)
        return stamps(numbers)

    monkeypatch.setattr(indexes, "_stamps", write_first)
    await indexes._enter(indexes._closer)
    assert sorted(read_resting(tmp_path)) == [1, 2, 3, 5]
    monkeypatch.setattr(indexes, "_stamps", stamps)
    await _stop(indexes)
    assert read_resting(tmp_path)[4].seq_max == 20
