"""The merger's thread next to a writer and readers: no state ever changes under a reader."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import pytest

from common.errors import InternalError
from common.process import fault_injection
from common.protocol.messages import ApplyRequest, IndexEntry
from common.protocol.write_operations_and_outcomes import Operation
from common.shard_settings import ShardSettings
from shard.partition import merge_flush_and_purge_scheduler
from shard.partition.merge_and_flush import flush, work
from shard.partition.merge_flush_and_purge_scheduler import Job, MergeScheduler
from shard.partition.opening_progress import OpeningProgress
from shard.partition.partition import Partition
from shard.partition.writer import Writer
from shard.segment.columns import text_ordinal_files
from shard.segment.doc_records_and_places import records_of
from shard.segment.snapshot import Snapshot
from shard.storage.lmdb_environment import SubDatabase
from tests.waiting import wait_until

_SETTINGS = ShardSettings(map_bytes_max=1 << 30, flush_docs=200, idle_ms=20)


class Running:
    """A partition with its writer's thread and the merger's."""

    def __init__(self, folder: Path, settings: ShardSettings = _SETTINGS) -> None:
        entry = IndexEntry(1, "things", 1, {"aggregations": {"color": {}}})
        self._serve(Partition.create(folder, entry, settings))

    def _serve(self, partition: Partition) -> None:
        self.partition = partition
        self.writer = Writer(self.partition, self._fail)
        self.thread = ThreadPoolExecutor(1)
        self.merge_scheduler = MergeScheduler()
        self.merge_scheduler.start()
        self.job = Job(self.partition, self.writer, self.thread.submit)
        self.merge_scheduler.add(self.job)

    def _fail(self, error: BaseException) -> None:
        raise AssertionError from error

    def apply(
        self, seq: int, horizon: int, changes: Sequence[tuple[int, int | str | None]]
    ) -> None:
        """Put (id, value), or delete where the value is None; ids of one group differ."""
        contents = [
            str(id).encode() if value is None else orjson.dumps({"id": id, "v": value})
            for id, value in changes
        ]
        request = ApplyRequest(
            index=1,
            seq=seq,
            horizon=horizon,
            payload=b"".join(contents),
            lengths=np.array([len(one) for one in contents], np.uint32).tobytes(),
            operations=bytes(
                Operation.DELETE if value is None else Operation.PUT for _, value in changes
            ),
            places=(np.arange(len(changes), dtype=np.uint64) + np.uint64(seq << 32)).tobytes(),
        )
        self.thread.submit(self.writer.apply, request).result()
        self.merge_scheduler.notify(1)

    def open_again(self) -> None:
        """As after a kill: nothing in memory was written to files."""
        self._stop()
        self.partition.close()
        self._serve(Partition.open(self.partition.folder, 1, self.partition.settings))

    def _stop(self) -> None:
        self.merge_scheduler.stop()
        self.thread.shutdown()
        self.writer.close()

    def close(self) -> None:
        self._stop()
        flush(self.partition)
        self.partition.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "index-1")
    yield running
    running.close()


def _live(snapshot: Snapshot) -> dict[int, int]:
    found = {}
    for view in snapshot.views:
        records = records_of(view.segment)
        keep = np.ones(len(records), np.bool_)
        if view.deleted is not None:
            keep[list(view.deleted)] = False
        for document in snapshot.read_documents(records[keep]):
            item = orjson.loads(document)
            assert item["id"] not in found
            found[item["id"]] = item["v"]
    return found


class _Horizons:
    """The newest state, and those that readers use: what a coordinator keeps of an index."""

    def __init__(self, num_readers: int) -> None:
        self.newest = 0
        self._used = [0] * num_readers
        self._lock = threading.Lock()

    def use(self, reader: int) -> int:
        """Return the newest state; it is in use until the same reader uses another one."""
        with self._lock:
            self._used[reader] = self.newest
            return self.newest

    def oldest_in_use(self) -> int:
        """Return the oldest state that a reader may ask for, from now on."""
        with self._lock:
            return min(self.newest, *self._used)


def test_every_state_stays_what_it_was(running: Running) -> None:
    generator = random.Random(3)
    states: dict[int, dict[int, int]] = {0: {}}
    horizons = _Horizons(2)
    is_done = threading.Event()
    failures: list[str] = []

    def read(reader: int) -> None:
        while not is_done.is_set():
            wanted = horizons.use(reader)
            if wanted % 8 == reader:  # some searches take as long as several writes
                time.sleep(0.05)
            snapshot = running.partition.snapshot_at(wanted)
            expected = states[max(seq for seq in list(states) if seq <= snapshot.seq)]
            if _live(snapshot) != expected:
                failures.append(f"state {snapshot.seq} at horizon {wanted}")

    readers = [threading.Thread(target=read, args=(reader,)) for reader in range(2)]
    for reader in readers:
        reader.start()
    model: dict[int, int] = {}
    for seq in range(1, 200):
        size = generator.choice([1, 2, 8, 100, 300])
        # Few ids: most records die soon, and readers read many states in their time.
        changes: list[tuple[int, int | None]] = [
            (id, None if generator.random() < 0.3 else seq)
            for id in generator.sample(range(400), size)
        ]
        for id, value in changes:
            if value is None:
                model.pop(id, None)
            else:
                model[id] = value
        states[seq] = dict(model)
        running.apply(seq, horizons.oldest_in_use(), changes)
        horizons.newest = seq
    is_done.set()
    for reader in readers:
        reader.join()

    assert failures == []
    assert _live(running.partition.newest) == model


def test_idle_index_ends_in_one_file_without_dead_records(running: Running) -> None:
    for seq in range(1, 30):
        running.apply(seq, seq - 1, [(id, seq) for id in range(seq, seq + 90)])
    # The last one makes what died before final, and is large enough for a merge with all the rest.
    running.apply(30, 29, [(id, 30) for id in range(1_000, 1_050)])
    running.apply(31, 30, [(2_000, 31)])  # opens a segment, which rest closes

    def has_rested() -> bool:
        with running.partition.environment.read() as txn:
            num_records = txn.count(SubDatabase.DOCUMENTS)
        views = running.partition.newest.views
        return len(views) <= 2 and num_records == 169 and not running.partition.has_open_segment

    deadline = threading.Event()
    for _ in range(1_000):
        if has_rested():
            break
        deadline.wait(0.02)

    assert has_rested()
    assert len(_live(running.partition.newest)) == 169


def test_what_the_open_had_to_index_goes_to_files_once_idle(running: Running) -> None:
    """Else closing it, which a search of another index may wait for, would have to write it."""
    running.apply(1, 0, [(id, 1) for id in range(20)])
    while running.job.is_pending:
        time.sleep(0.005)
    assert running.partition.newest.views[0].segment.path is None
    assert not running.partition.is_settled

    running.open_again()
    assert running.partition.newest.views[0].segment.path is None
    while running.job.is_pending:
        time.sleep(0.005)
    assert running.partition.newest.views[0].segment.path is not None
    assert running.partition.is_settled
    assert len(_live(running.partition.newest)) == 20

    running.open_again()
    assert running.partition.is_settled


def test_an_open_on_a_full_disk_does_not_stay_busy(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it could not be closed for another index."""
    running.apply(1, 0, [(id, 1) for id in range(20)])
    running.merge_scheduler.stop()
    monkeypatch.setattr(merge_flush_and_purge_scheduler, "RETRY_SECONDS", 0.01)
    fault_injection.arm("merge.write=error@1")
    try:
        running.open_again()
        while running.job.is_pending:
            time.sleep(0.005)
    finally:
        fault_injection.arm("")
    assert running.partition.newest.views[0].segment.path is None


def test_memory_is_returned_after_merges_only(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each index that is opened: allocations of searches wait for it."""
    asked = threading.Event()
    monkeypatch.setattr(merge_flush_and_purge_scheduler, "trim_soon", asked.set)

    while running.job.is_pending:
        time.sleep(0.005)
    assert not asked.is_set()

    running.apply(1, 0, [(id, 1) for id in range(300)])
    assert asked.wait(10)


def test_segments_are_merged_while_writing_goes_on(tmp_path: Path) -> None:
    running = Running(tmp_path / "index-1", dataclasses.replace(_SETTINGS, idle_ms=3_600_000))
    pause = threading.Event()

    for seq in range(1, 10):
        running.apply(seq, seq - 1, [(100 * seq + i, seq) for i in range(90)])
    for _ in range(1_000):
        if len(running.partition.newest.views) < 6:
            break
        pause.wait(0.02)

    assert len(running.partition.newest.views) < 6
    assert len(_live(running.partition.newest)) == 9 * 90
    running.close()


def test_text_columns_are_made_ahead_after_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_ordinal_files, "FILE_DOCS_MIN", 50)
    running = Running(tmp_path / "index-1", dataclasses.replace(_SETTINGS, idle_ms=300))

    running.apply(1, 0, [(id, f"2026-01-{id % 28 + 1:02}") for id in range(300)])
    written_at = time.monotonic()
    wait_until(lambda: running.partition.newest.views[0].segment.text_files)

    assert time.monotonic() - written_at > 1
    wait_until(lambda: running.partition.is_at_rest)
    wait_until(lambda: running.merge_scheduler.is_idle(1))
    running.close()


def test_damage_is_told_once_and_in_words(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every try meets a damaged page again; the log says what to do, not where the program was."""
    monkeypatch.setattr(merge_flush_and_purge_scheduler, "RETRY_SECONDS", 0.0)
    tries: list[int] = []

    def fail(*_: object, **__: object) -> bool:
        tries.append(1)
        raise InternalError("a page is damaged: restore the index", code="item_corrupt")

    monkeypatch.setattr(merge_flush_and_purge_scheduler, "work", fail)
    running.apply(1, 0, [(1, 1), (2, 2)])
    wait_until(lambda: len(tries) >= 3)

    (record,) = caplog.records
    assert record.message == "merging failed"
    assert record.exc_info is None
    assert record.fields["reason"] == "a page is damaged: restore the index"  # type: ignore[attr-defined]


def test_full_disk_is_survived(running: Running) -> None:
    fault_injection.arm("merge.write=error@1")
    try:
        for seq in range(1, 20):
            running.apply(seq, seq - 1, [(id, seq) for id in range(100)])
    finally:
        fault_injection.arm("")

    assert _live(running.partition.newest) == dict.fromkeys(range(100), 19)


def test_a_load_that_merges_do_not_follow_goes_to_files(tmp_path: Path) -> None:
    settings = dataclasses.replace(_SETTINGS, flush_docs=100, flush_bytes=10_000)
    running = Running(tmp_path / "index-1", settings)
    running.merge_scheduler.stop()  # as if it were at one merge all the time
    partition = running.partition
    ids = iter(range(1_000_000))
    for seq in range(1, 9):
        running.apply(2 * seq, 0, [(next(ids), seq) for _ in range(200)])
        running.apply(2 * seq + 1, 0, [(next(ids), seq) for _ in range(40)])
    paths = [view.segment.path for view in partition.newest.views]
    assert paths[0] is None  # few wait yet
    in_files = [path for path in paths if path is not None]
    assert len(in_files) >= 5
    expected = _live(partition.newest)
    manifest = partition.derived.read_manifest()
    assert manifest is not None
    assert [entry.file for entry in manifest.segments] == [path.name for path in in_files]

    # A kill: the next start indexes only what was in memory.
    running.thread.shutdown()
    running.writer.close()
    partition.close()
    opening = OpeningProgress()
    again = Partition.open(tmp_path / "index-1", 1, settings, opening=opening)
    assert opening.num_built == sum(
        view.segment.num_docs for view in again.newest.views if view.segment.path is None
    )
    assert _live(again.newest) == expected
    files = {view.segment.path for view in again.newest.views}
    assert files.issuperset(in_files)

    while work(again, is_idle=True):
        pass
    again.commit_derived()
    assert _live(again.newest) == expected
    left = {path.name for path in (tmp_path / "index-1").glob("segment-*")}
    assert left == {view.segment.path.name for view in again.newest.views if view.segment.path}
    again.close()
