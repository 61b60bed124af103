"""Merges segments of an index, and writes those in memory to files: one step at a time.

A step is the first of these that there is to do:

    1. merge neighbours that `merge_policy` names, as arrays, without the documents that no search
       can name any more; a result that is large enough goes to a file
    2. write segments in memory to files, once there are enough of them, or once it is idle if they
       were indexed again at open: the next open and closing then have nothing to do
    3. write the text columns that searches have made to files
    4. once it is idle, make those that searches are likely to need (`text_ordinal_preparation`)
    5. name the new files in the manifest (then remove the old ones)

Any step may be killed at any moment, and is retried later if the disk is full (by
`merge_flush_and_purge_scheduler`, whose thread calls this): the truth depends on none of them, and
a search sees the same before and after.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from common.errors import InternalError
from common.process.fault_injection import fault
from common.process.logs import Log
from shard.collect.facets.calendar_buckets import carry_calendars
from shard.partition.droppable_documents import count_droppable, droppable_docs
from shard.partition.merge_policy import SegmentSize, choose_merge
from shard.partition.partition import Partition
from shard.partition.writer import has_room
from shard.segment.builder.segment_merge import merge_segments
from shard.segment.columns.columns_carried_over_merges import carry_columns
from shard.segment.columns.text_ordinal_files import adopt_texts, texts_to_write
from shard.segment.columns.text_ordinal_preparation import is_prepared, prepare_texts, set_prepared
from shard.segment.doc_records_and_places import records_of
from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator
from shard.segment.merge_result import MergeResult
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView

ROOM_FACTOR = 3
"""What a merge needs on the disk, in bytes for each of its parts: the result, which may have more
prefix lists than they, and room for it and for temporary arrays."""

_log = Log("shard")


def work(
    partition: Partition,
    *,
    is_idle: bool,
    flushes_all: bool = False,
    prepares: bool = True,
    is_wanted: Callable[[], bool] = lambda: True,
) -> bool:
    """Do one step for an index: merge, write to files, or name them; return whether there was one.

    Args:
        partition: the index.
        is_idle: whether nothing was written for a while.
        flushes_all: whether segments in memory are written to files however small they are.
        prepares: whether text columns are made ahead, if it is idle.
        is_wanted: whether to go on with a step that may be given up, asked every few milliseconds.

    Raises:
        OSError: no space left, or the device failed; nothing has changed.
    """
    views, open_segment_uid = partition.segments_to_merge()
    recent = partition.groups.recent(partition.horizon)
    sizes = [
        SegmentSize(
            view.segment.num_docs,
            count_droppable(view, recent),
            is_fixed=view.segment.uid == open_segment_uid,
        )
        for view in views
    ]
    chosen = choose_merge(sizes, is_idle=is_idle)
    is_flush = chosen is None
    if chosen is None:
        chosen = _choose_flush(partition, views, sizes, flushes_all=flushes_all)
    if chosen is None:
        has_written = _write_texts(partition)
        if not has_written and is_idle and prepares:
            has_written = _prepare_texts(partition, is_wanted)
        if has_written or partition.is_commit_due:
            partition.commit_derived()
            return True
        return False
    parts = views[chosen.start : chosen.stop]
    num_bytes = ROOM_FACTOR * sum(view.segment.size for view in parts)
    if not has_room(partition, num_bytes):
        raise OSError(errno.ENOSPC, f"no room on the disk for a merge of {num_bytes} bytes")
    _merge(partition, parts, is_flush=is_flush)
    return True


def flush(partition: Partition) -> None:
    """Write all segments that are in memory to files; for an orderly stop."""
    while True:
        views = partition.retire_open_segment()
        run = _last_memory_run(views)
        if run is None:
            partition.commit_derived()
            return
        _merge(partition, views[run.start : run.stop], is_flush=True)


def _choose_flush(
    partition: Partition,
    views: Sequence[SegmentView],
    sizes: Sequence[SegmentSize],
    *,
    flushes_all: bool,
) -> range | None:
    """Return segments in memory that should become a file."""
    settings = partition.settings
    waiting = [
        position
        for position, (view, size) in enumerate(zip(views, sizes, strict=True))
        if view.segment.path is None and not size.is_fixed
    ]
    for position in waiting:
        if sizes[position].num_docs >= settings.flush_docs:
            return range(position, position + 1)
    num_bytes = sum(views[position].segment.size for position in waiting)
    num_docs = sum(sizes[position].num_docs for position in waiting)
    is_enough = num_docs >= settings.flush_docs or num_bytes >= settings.flush_bytes
    if not waiting or not (is_enough or flushes_all):
        return None
    first = last = waiting[0]
    while last + 1 in waiting:
        last += 1
    return range(first, last + 1)


def _last_memory_run(views: Sequence[SegmentView]) -> range | None:
    """Return the newest run of segments in memory."""
    stop = len(views)
    while stop and views[stop - 1].segment.path is not None:
        stop -= 1
    start = stop
    while start and views[start - 1].segment.path is None:
        start -= 1
    return range(start, stop) if stop else None


def _merge(
    partition: Partition,
    parts: Sequence[SegmentView],
    *,
    is_flush: bool,
) -> None:
    """Merge segments (or copy one) and replace them by the result."""
    generation = partition.generation
    segments = [view.segment for view in parts]
    recent = partition.groups.recent(partition.horizon)
    dropped = [droppable_docs(view, recent) for view in parts]
    fault("merge.begin")
    num_docs = sum(segment.num_docs for segment in segments)
    num_docs -= sum(0 if gone is None else len(gone) for gone in dropped)
    is_file = is_flush or _belongs_in_file(partition, segments, num_docs)
    allocator = MergeAllocator(partition.folder) if is_file else IN_MEMORY
    state = MergeState.without(segments, dropped, allocator)
    is_copy = len(segments) == 1 and num_docs == segments[0].num_docs
    merged: Segment | None = None
    if num_docs and is_file:
        files = partition.derived
        merged = files.write(segments[0]) if is_copy else files.merge(state)
    elif num_docs:
        merged = segments[0] if is_copy else merge_segments(state)
    result = MergeResult(parts, state.doc_maps, merged)
    _carry_columns(partition, result)
    fault("merge.publish")
    if not partition.replace_segments(result):
        partition.derived.discard([] if merged is None else [merged])
        return
    partition.derived.release(segments)
    for segment in segments:
        segment.caches.clear()  # they refer to the segment and would keep it alive
    gone_records = [
        records_of(segment, gone)
        for segment, gone in zip(segments, dropped, strict=True)
        if gone is not None and len(gone)
    ]
    is_in_file = merged is None or merged.path is not None
    if gone_records:
        partition.enqueue_purge(np.concatenate(gone_records), generation, are_in_files=is_in_file)
    if is_in_file:
        partition.commit_derived()


def _carry_columns(partition: Partition, result: MergeResult) -> None:
    """Make the columns that searches use of the parts, so that none waits for them."""
    newest = partition.newest
    segments = [view.segment for view in newest.views]
    if result.merged is None or result.parts[0].segment not in segments:
        return  # nothing is left, or another configuration was switched to
    with contextlib.suppress(InternalError):  # an item is damaged: the search that reads it says so
        carry_columns(newest, result)
    carry_calendars(newest, result.parts, result.view())


def _write_texts(partition: Partition) -> bool:
    """Write text columns to files, for the next start; return whether there was one.

    Where there is no room, searches make them again then; it is no reason to put off purges.
    """
    is_written = False
    for view in partition.newest.views:
        segment = view.segment
        num_written, is_refused = _write_columns(partition, segment, list(texts_to_write(segment)))
        is_written |= num_written > 0
        if is_refused:
            break
    return is_written


def _prepare_texts(partition: Partition, is_wanted: Callable[[], bool]) -> bool:
    """Make text columns of one segment that searches are likely to need; return whether any.

    Where there is no room, or an item is damaged, the searches that need them make them.
    """
    snapshot = partition.newest
    named = partition.generation.configuration.sorting_fields
    for view in snapshot.views:
        segment = view.segment
        if is_prepared(segment, named):
            continue
        try:
            columns = prepare_texts(snapshot, view, named, is_wanted)
        except InternalError:
            columns = {}
            set_prepared(segment, named)
        num_written, is_refused = _write_columns(partition, segment, columns.items())
        if is_refused:
            set_prepared(segment, named)
        if num_written:
            return True
    return False


def _write_columns(
    partition: Partition, segment: Segment, columns: Iterable[tuple[int, Segment]]
) -> tuple[int, bool]:
    """Write text columns of a segment to files; return how many, and whether one was refused."""
    num_written = 0
    for field, column in columns:
        if not has_room(partition, column.size):
            return num_written, True
        try:
            file = partition.derived.write_texts(segment, field, column)
        except OSError as error:
            _log.warning("a column is not written", index=partition.number, reason=str(error))
            return num_written, True
        adopt_texts(segment, field, file)
        num_written += 1
    return num_written, False


def _belongs_in_file(partition: Partition, parts: Sequence[Segment], num_docs: int) -> bool:
    """Return whether the merge of segments, with this many documents, goes to a file."""
    settings = partition.settings
    return (
        any(part.path is not None for part in parts)
        or num_docs >= settings.flush_docs
        or sum(part.size for part in parts) >= settings.flush_bytes
    )
