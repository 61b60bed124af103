"""Prepared texts: columns that are made before a search needs them, while an index is idle.

The first sort, boost, filter or count by a text that is not a facet reads every stored item of the
index (`text_ordinal_columns`): 6 µs each, so seconds for a million, and more than a search may take
on a busy machine. Columns of all texts would take a fifth of the disk. So these are made:

    named       fields that `sorting_fields` of the configuration names
    dates       nine texts of ten are dates: what is new is asked of every catalogue. A day takes 2
                bytes a document, a time 30
    repeated    at most half of the texts in a sample are different, as of states, places and
                materials: 2 to 4 bytes a text, as equal ones are kept once

A sample of the documents tells which fields these are. One pass reads as many as memory permits,
the most common ones first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.distinct_values import distinct_values
from common.facet_dictionary import FacetDictionary
from common.key_arena import KeyArena
from shard.segment.columns import text_ordinal_files
from shard.segment.columns.batch_values_by_column import TEXT_KINDS, group_values
from shard.segment.columns.iso_dates import timestamps_of
from shard.segment.columns.presence_and_value_kinds import presence_of
from shard.segment.columns.text_ordinal_columns import (
    extract_docs,
    extract_texts,
    needs_documents,
)
from shard.segment.columns.text_ordinal_files import arrays_of
from shard.segment.items.numbers_and_facet_keys import canonical_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView, Snapshot

_SAMPLE_DOCS: Final = 8_192
"""They are read within 100 ms, and tell 5,000 values that are equally frequent from a million."""
_FIELDS_MAX: Final = 32
"""Of an index with hundreds of fields, searches use few."""
_PASS_BYTES: Final = 256 << 20
"""Memory for the fields of one pass, as the sample lets expect."""
_DATES_MIN: Final = 0.9
_DIFFERENT_MAX: Final = 0.5
_BYTES_A_TEXT: Final = 8
_BYTES_A_KEY: Final = 24
_DONE: Final = "prepared texts"
"""What is derived of a segment whose texts are prepared, or cannot be: which fields were named."""


def is_prepared(segment: Segment, named: Collection[str]) -> bool:
    """Return whether nothing is to be made for a segment; so it is for those that have no file."""
    return (
        segment.path is None
        or segment.num_docs < text_ordinal_files.FILE_DOCS_MIN
        or segment.caches.get(_DONE) == frozenset(named)
    )


def prepare_texts(
    snapshot: Snapshot,
    view: SegmentView,
    named: Collection[str],
    is_wanted: Callable[[], bool],
) -> dict[int, Segment]:
    """Make columns of a segment that is not prepared yet, those that one pass can; none: it is.

    Args:
        snapshot: has the segment.
        view: of it.
        named: paths of fields to sort by.
        is_wanted: asked every few milliseconds; if it is not, there are none.

    Returns:
        Arrays for a file, by field.

    Raises:
        InternalError: item_corrupt, an item is damaged.
    """
    fields = _fields_of_a_pass(snapshot, view, named)
    columns = extract_texts(snapshot, view, fields, is_wanted) if fields else []
    if columns is None:
        return {}
    if not columns:
        set_prepared(view.segment, named)
    return {field: arrays_of(texts, view) for field, texts in zip(fields, columns, strict=True)}


def set_prepared(segment: Segment, named: Collection[str]) -> None:
    """Note that a segment has its columns, or that they cannot be made."""
    segment.caches[_DONE] = frozenset(named)


def _fields_of_a_pass(snapshot: Snapshot, view: SegmentView, named: Collection[str]) -> list[int]:
    """Return the fields whose columns are to be made next, together."""
    chosen: list[int] = []
    num_bytes = 0.0
    for candidate in _candidates(snapshot, view, named):
        num_bytes += candidate.num_bytes
        if chosen and num_bytes > _PASS_BYTES:
            break
        chosen.append(candidate.field)
    return chosen


class _Candidate(NamedTuple):
    """A field that is worth a column, and what this takes while it is made."""

    field: int
    num_bytes: float


def _candidates(snapshot: Snapshot, view: SegmentView, named: Collection[str]) -> list[_Candidate]:
    """Return the fields that are worth a column: those that are named, then the most common ones.

    Fields that have one are left out.
    """
    registry = snapshot.registry
    presence = presence_of(view.segment)
    fields = [field for field in presence.fields if presence.kinds(field) & TEXT_KINDS]
    if not fields or not view.num_docs:
        return []
    sample = extract_docs(snapshot, view.segment, _sample_docs(view))
    selection, offsets = group_values(sample, fields, TEXT_KINDS)
    is_named = {field: registry.paths[field] in named for field in fields}
    counts = np.diff(offsets)
    order = sorted(range(len(fields)), key=lambda at: (not is_named[fields[at]], -counts[at]))
    found: list[_Candidate] = []
    num_worth = 0
    for at in order:
        field = fields[at]
        arena = KeyArena(*canonical_keys(sample, selection[offsets[at] : offsets[at + 1]]))
        num_different = len(distinct_values(FacetDictionary().encode(*arena)))
        is_repeated = 0 < num_different <= _DIFFERENT_MAX * arena.num_keys
        if field == registry.overflow_number or not (
            is_named[field] or is_repeated or _are_dates(arena)
        ):
            continue
        num_worth += 1
        if num_worth > _FIELDS_MAX:
            break
        if needs_documents(snapshot, view, field):
            num_bytes = _BYTES_A_TEXT * arena.num_keys
            if not is_repeated:
                num_bytes += arena.num_bytes + _BYTES_A_KEY * num_different
            found.append(_Candidate(field, num_bytes / sample.num_docs * view.segment.num_docs))
    return found


def _sample_docs(view: SegmentView) -> NDArray[np.uint32]:
    """Return some live documents of a segment, from all parts of it."""
    live = view.live_docs
    return live[:: max(1, len(live) // _SAMPLE_DOCS)]


def _are_dates(arena: KeyArena) -> bool:
    """Return whether texts are dates, but for a few."""
    num_dates = np.count_nonzero(~np.isnan(timestamps_of(arena)))
    return bool(num_dates and num_dates >= _DATES_MIN * arena.num_keys)
