"""Merges segments into one, structure by structure.

    MergeState ──▶ merge_* of each structure, as arrays: no item is parsed again; each structure
                   goes to the file as soon as it is merged, unless all stay in memory

Cost: nearly all of it is text, see `text_merge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from shard.segment.builder.all_columns import merge_columns
from shard.segment.columns.object_columns import merge_object_columns
from shard.segment.doc_records_and_places import TABLE_NAMES, merge_doc_records
from shard.segment.facet_value_sets import StoredSets
from shard.segment.merge_state import MergeState
from shard.segment.segment import Segment
from shard.segment.segment_file import SegmentWriter
from shard.segment.text.text_merge import merge_text

if TYPE_CHECKING:
    from pathlib import Path


def merge_segments(state: MergeState) -> Segment:
    """Merge segments into one in memory.

    Args:
        state: what is merged.
    """
    arrays, facts = merge_doc_records(state)
    for more in _merge_arrays(state):
        arrays |= more
    return Segment(arrays, num_docs=state.num_docs, meta=facts)


def merge_to_file(state: MergeState, path: Path) -> None:
    """Merge segments into one in a file, in memory that does not grow with them.

    Each structure is written as soon as it is merged; `merge_allocator` says what it needs until
    then.

    Args:
        state: what is merged.
        path: of the file.

    Raises:
        OSError: the disk is full, or the device failed; nothing is left under `path`.
    """
    with SegmentWriter(path, _possible_names(state.parts)) as writer:
        docs, facts = merge_doc_records(state)
        writer.write(docs)
        del docs
        for arrays in _merge_arrays(state):
            writer.write(arrays)
        writer.finish(state.num_docs, facts)


def _merge_arrays(state: MergeState) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the arrays of a merged segment but docs.*, structure by structure."""
    yield from merge_text(state)
    yield from merge_columns(state)
    yield from merge_object_columns(state)


def _possible_names(parts: Sequence[Segment]) -> set[str]:
    """Return the names of all arrays that a merged segment may have.

    Those of its parts, and more: it may be large enough for stored sets, and a column of numbers or
    points may change its form.
    """
    names = {name for part in parts for name in part} | TABLE_NAMES
    for name in list(names):
        stem, _, last = name.rpartition(".")
        more: tuple[str, ...] = ()
        if last == "codes":
            more = StoredSets._fields
        elif last == "values":
            more = ("docs", "residuals")
        elif last == "lats":
            more = ("docs",)
        names.update(f"{stem}.{one}" for one in more)
    return names
