"""Carried columns: a merged segment has what searches use of its parts, before they see it.

Columns that a segment does not store are made on first use, and kept by the uid of the segment
(`text_ordinal_columns`, `sort_columns`, `cached_date_seconds`, `grouping_keys`). So after each
merge of segments the next search would make them again, and wait: for a text column, until all
stored documents were read. Instead, the merger makes those that are cached for the parts: texts
from theirs, the others as a search would.

A column that no search uses any more is carried until the LRU cache drops it. Texts of large
segments are in files as well (`text_ordinal_files`): a start has those of the process before, and
merges carry them for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.cached_date_seconds import date_seconds_by_rank
from shard.segment.columns.grouping_keys import grouping_keys
from shard.segment.columns.sort_columns import sort_column
from shard.segment.columns.text_ordinal_columns import needs_documents, text_column
from shard.segment.columns.text_ordinal_merge import merge_texts
from shard.segment.merge_result import MergeResult

if TYPE_CHECKING:
    from shard.segment.snapshot import Snapshot


def carry_columns(snapshot: Snapshot, result: MergeResult) -> None:
    """Make the columns of a merged segment that its parts have.

    Args:
        snapshot: has the parts.
        result: of the merge; no search has the merged segment yet.

    Raises:
        InternalError: item_corrupt, an item is damaged.
    """
    fields = set[int]()
    orders = set[tuple[int, str]]()
    timed = set[int]()
    grouped = set[int]()
    for part in result.parts:
        fields.update(part.segment.text_files)
        for key in COLUMN_CACHE.keys_of(part.segment):
            match key:
                case ("texts", _, int(field)):
                    fields.add(field)
                case ("order", _, int(field), _, str(collation)):
                    orders.add((field, collation))
                case ("date seconds", _, int(field), _):
                    timed.add(field)
                case ("distinct", _, int(field), _):
                    grouped.add(field)
    if not fields and not orders and not timed and not grouped:
        return
    view = result.view()
    merge_texts(snapshot, result, view, sorted(fields))
    for field, collation in sorted(orders):
        if not needs_documents(snapshot, view, field):
            sort_column(snapshot, view, field, collation)
    for field in sorted(timed):
        if not needs_documents(snapshot, view, field):
            texts = text_column(snapshot, view, field)
            if texts is not None:
                date_seconds_by_rank(view.segment, field, texts)
    for field in sorted(grouped):
        if not needs_documents(snapshot, view, field):
            grouping_keys(snapshot, view, field)
