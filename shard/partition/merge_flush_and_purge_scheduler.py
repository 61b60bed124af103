"""Background work on the indexes of a shard: merges, files, purges of dead records.

One thread for all indexes. It visits an index when its writer has published something, or searches
have made columns that belong in files, and again when the index has been idle for a while. Each
visit does one step, the most useful first:

    1. merge segments, write them to files, or name these in the manifest (`merge_and_flush`)
    2. remove dead records from LMDB, a batch at a time, on the writer's thread
    3. once the index is idle: release states of previous configurations, and memory

A step that the disk refuses is retried later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from common.errors import ServiceError, StorageFull
from common.process.glibc_malloc import trim_soon
from common.process.logs import Log
from common.process.thread_priority import run_in_background
from shard.caches.lru_cache import CACHES
from shard.partition.merge_and_flush import work
from shard.partition.partition import Partition
from shard.partition.writer import Writer
from shard.segment.columns.text_ordinal_files import has_texts_to_write

RETRY_SECONDS = 10.0
"""Pause after a full disk."""

NEW_SEGMENTS_MIN = 2
"""While writing, an index is visited again once it has gained this many segments."""

REST_FACTOR = 4
"""Text columns are made ahead after this many times `idle_ms`: a load may pause for less."""

PURGEABLE_MAX = 20_000
"""From this many on, dead records are purged between write groups too, not only when idle."""

_log = Log("shard")


@dataclass(slots=True)
class Job:
    """An index that the scheduler looks after.

    Attributes:
        partition: the index.
        writer: its writer.
        submit: runs a function on the writer's thread.
        written_at: monotonic time of the last publication.
        is_pending: whether there may be work.
        retry_at: not before this monotonic time, because the last try failed.
        idle_at: monotonic time at which it will be idle; until then only new segments matter.
        num_segments: how many there were at the last visit that found no work.
        is_merging: whether a step is in progress.
        is_flush_due: whether segments in memory, however small, go to files once it is idle.
        num_steps: merges and flushes done since the index was opened.
        num_steps_tidied: as many as there were when the index was last found idle.
        seconds: that they took together.
        told: why the last try failed, as it was logged; empty: it did not.
    """

    partition: Partition
    writer: Writer
    submit: Callable[[Callable[[], object]], Future[object]]
    written_at: float = field(default_factory=time.monotonic)
    is_pending: bool = True
    retry_at: float = 0.0
    idle_at: float = 0.0
    num_segments: int = 0
    is_merging: bool = False
    is_flush_due: bool = field(init=False)
    num_steps: int = 0
    num_steps_tidied: int = 0
    seconds: float = 0.0
    told: str = ""

    def __post_init__(self) -> None:
        self.is_flush_due = self.partition.is_indexed_again

    def is_due(self, now: float) -> bool:
        """Return whether to look at the index now."""
        return (
            self.is_pending
            and now >= self.retry_at
            and (now >= self.idle_at or self.has_new_segments())
        )

    def has_new_segments(self) -> bool:
        """Return whether there are enough more segments for some to be worth a merge."""
        num_segments = len(self.partition.newest.views)
        return num_segments >= self.num_segments + NEW_SEGMENTS_MIN


class MergeStatistics(NamedTuple):
    """Merge statistics of one index since it was opened, for operators."""

    is_running: bool
    num_steps: int
    micros: int


class MergeScheduler:
    """The merger thread; all methods are thread-safe."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._wakes = threading.Condition()
        self._is_stopping = False
        self._busy: int | None = None
        self._thread = threading.Thread(target=self._run, name="merger", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step in progress."""
        with self._wakes:
            self._is_stopping = True
            self._wakes.notify()
        if self._thread.is_alive():
            self._thread.join()

    def add(self, job: Job) -> None:
        """Look after an index."""
        with self._wakes:
            self._jobs[job.partition.number] = job
            self._wakes.notify()

    def remove(self, number: int) -> None:
        """Stop looking after an index; waits for its step in progress."""
        with self._wakes:
            self._jobs.pop(number, None)
            self._wakes.wait_for(lambda: self._busy != number)

    def is_idle(self, number: int) -> bool:
        """Return whether an index has no work to do, and none in progress."""
        job = self._jobs.get(number)
        return job is None or (not job.is_pending and self._busy != number)

    def notify(self, number: int) -> None:
        """Note that an index was written to."""
        with self._wakes:
            job = self._jobs.get(number)
            if job is not None:
                job.written_at = time.monotonic()
                # Most groups only extend the open segment: they need not wake the thread.
                if not job.is_pending or job.has_new_segments():
                    job.is_pending = True
                    self._wakes.notify()

    def note_search(self, number: int) -> None:
        """Note that a search, which was slow, may have made columns that belong in files."""
        job = self._jobs.get(number)
        if job is not None and not job.is_pending and has_texts_to_write(job.partition.newest):
            with self._wakes:
                job.is_pending = True
                self._wakes.notify()

    def statistics(self, number: int) -> MergeStatistics:
        """Return the merge statistics of an index."""
        job = self._jobs.get(number)
        if job is None:
            return MergeStatistics(False, 0, 0)
        return MergeStatistics(job.is_merging, job.num_steps, int(job.seconds * 1e6))

    # --- the thread

    def _run(self) -> None:
        run_in_background()
        while True:
            with self._wakes:
                job = self._next_job()
                if job is None and not self._is_stopping:
                    self._wakes.wait(self._seconds_to_wait())
                    job = self._next_job()
                if self._is_stopping:
                    return
                self._busy = None if job is None else job.partition.number
            try:
                if job is not None:
                    self._work(job)
            finally:
                with self._wakes:
                    self._busy = None
                    self._wakes.notify_all()

    def _next_job(self) -> Job | None:
        """Return the index with work that has waited longest."""
        now = time.monotonic()
        due = [job for job in self._jobs.values() if job.is_due(now)]
        return min(due, key=lambda job: job.written_at, default=None)

    def _seconds_to_wait(self) -> float | None:
        """Return the time until an index may be due without a notification; None: there is none."""
        now = time.monotonic()
        due_times = [
            max(job.retry_at, job.idle_at) for job in self._jobs.values() if job.is_pending
        ]
        return max(0.0, min(due_times) - now) if due_times else None

    def _work(self, job: Job) -> None:
        """Do one step; keep the job pending until there is none left."""
        settings = job.partition.settings
        idle_at = job.written_at + settings.idle_ms / 1000
        is_idle = time.monotonic() >= idle_at
        rested_at = job.written_at + REST_FACTOR * settings.idle_ms / 1000
        is_rested = time.monotonic() >= rested_at
        num_segments = len(job.partition.newest.views)
        try:
            job.is_merging = True
            started = time.monotonic()
            has_worked = work(
                job.partition,
                is_idle=is_idle,
                flushes_all=is_idle and job.is_flush_due,
                prepares=is_rested,
                is_wanted=lambda: self._is_wanted(job),
            )
            if has_worked:
                job.num_steps += 1
                job.seconds += time.monotonic() - started
            if not has_worked and is_idle:
                job.is_flush_due = False
                has_worked = self._tidy(job)
            elif len(job.partition.purge_queue) > PURGEABLE_MAX:
                has_worked = bool(job.submit(job.writer.purge).result()) or has_worked
        except (OSError, StorageFull) as error:
            _log.warning("merging put off", index=job.partition.number, reason=str(error))
            job.retry_at = time.monotonic() + RETRY_SECONDS
            job.is_flush_due = False  # nothing needs it, and an index that has work is not closed
            return
        except ServiceError as error:  # a damaged page, say: it says what to do, and stays damaged
            if error.message != job.told:
                job.told = error.message
                _log.error("merging failed", index=job.partition.number, reason=error.message)
            job.retry_at = time.monotonic() + RETRY_SECONDS
            return
        except Exception as error:
            _log.error("merging failed", index=job.partition.number, cause=error)
            job.retry_at = time.monotonic() + RETRY_SECONDS
            return
        finally:
            job.is_merging = False
        job.told = ""
        if has_worked:
            return
        if is_idle and (is_rested or job.partition.is_prepared):
            with self._wakes:
                job.is_pending = job.written_at + settings.idle_ms / 1000 != idle_at
        else:
            job.idle_at = rested_at if is_idle else idle_at
            job.num_segments = num_segments

    def _is_wanted(self, job: Job) -> bool:
        """Return whether nothing waits for the step in progress to end."""
        return not self._is_stopping and self._jobs.get(job.partition.number) is job

    def _tidy(self, job: Job) -> bool:
        """Close the open segment, then purge dead records; return whether there is more to do."""
        if job.partition.has_open_segment and len(job.partition.newest.views) > 1:
            job.submit(job.writer.retire_open_segment).result()
            return True
        if job.partition.purge_queue:
            return bool(job.submit(job.writer.purge).result())
        job.partition.forget_revisions()
        for cache in CACHES.values():
            cache.sweep()
        if job.num_steps != job.num_steps_tidied:  # one that was only opened has freed little
            job.num_steps_tidied = job.num_steps
            trim_soon()
        return False
