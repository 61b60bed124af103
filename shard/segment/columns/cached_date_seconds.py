"""Dates of a text field in seconds since 1970, for boosts by recency.

They are read once, 25 ns a text, and kept in the LRU cache. A merge of segments has those of its
segment made, if searches have used those of its parts (`columns_carried_over_merges`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.iso_dates import timestamps_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shard.segment.columns.text_ordinal_columns import TextColumn
    from shard.segment.segment import Segment


def date_seconds_by_rank(segment: Segment, field: int, texts: TextColumn) -> NDArray[np.float64]:
    """Return the seconds since 1970 of every date of a text column, by rank; cached.

    Texts that are no dates have NaN.
    """

    def make() -> NDArray[np.float64]:
        by_number = timestamps_of(texts.arena)
        return by_number if texts.order is None else by_number[texts.order]

    key = _key(segment, field, texts)
    return COLUMN_CACHE.get_or_make(key, make, lambda made: made.nbytes, segment)


def has_date_seconds(segment: Segment, field: int, texts: TextColumn) -> bool:
    """Return whether the seconds of a column are cached."""
    return COLUMN_CACHE.get(_key(segment, field, texts)) is not None


def _key(segment: Segment, field: int, texts: TextColumn) -> tuple[object, ...]:
    return "date seconds", segment.uid, field, texts.identity
