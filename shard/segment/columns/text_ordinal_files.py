"""Files of text columns, beside that of their segment: a start need not extract the texts again.

texts.codes, texts.starts      as those of a facet column; code - 1 is the rank of a text
texts.keys, texts.offsets      the texts by rank
texts.deleted                  documents that were deleted by then, and are left out
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from pyroaring import FrozenBitMap

from common.key_arena import KeyArena
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.facet_columns import FacetColumn
from shard.segment.columns.text_ordinal_columns import (
    IN_FILE,
    StoredTexts,
    TextColumn,
    keep_texts,
)
from shard.segment.segment import Segment

if TYPE_CHECKING:
    from shard.segment.snapshot import SegmentView, Snapshot

FILE_DOCS_MIN: Final = 20_000
"""Texts of segments with fewer documents are not worth a file: they are extracted in 60 ms."""


def texts_to_write(segment: Segment) -> Iterator[tuple[int, Segment]]:
    """Yield the columns of a segment that are cached, but in no file: field, arrays for a file."""
    for field, entry in _not_in_files(segment):
        yield field, _to_arrays(entry, segment.num_docs)


def has_texts_to_write(snapshot: Snapshot) -> bool:
    """Return whether searches have made columns that belong in files."""
    return any(True for view in snapshot.views for _ in _not_in_files(view.segment))


def _not_in_files(segment: Segment) -> Iterator[tuple[int, StoredTexts]]:
    """Yield the columns of a segment that are cached, but in no file, by field."""
    if segment.path is None or segment.num_docs < FILE_DOCS_MIN:
        return
    for key in COLUMN_CACHE.keys_of(segment):
        match key:
            case ("texts", _, int(field)) if field not in segment.text_files:
                entry: StoredTexts | None = COLUMN_CACHE.get(key)
                if entry is not None:
                    yield field, entry


def adopt_texts(segment: Segment, field: int, file: Segment) -> None:
    """Let a segment have the texts of a field from a file; they take the place of cached ones."""
    known: StoredTexts | None = COLUMN_CACHE.get(("texts", segment.uid, field))
    entry = _from_arrays(file, None if known is None else known.texts.identity)
    file.caches[IN_FILE] = entry
    segment.text_files[field] = file
    if known is not None:
        keep_texts(segment, field, entry)


def arrays_of(texts: TextColumn, view: SegmentView) -> Segment:
    """Return the arrays of a column that was extracted from a view, for a file."""
    return _to_arrays(StoredTexts(texts, view.deleted), view.segment.num_docs)


def _to_arrays(entry: StoredTexts, num_docs: int) -> Segment:
    """Return the arrays of a column; see the module's drawing."""
    texts, deleted = entry
    arrays = {
        "texts.codes": texts.column.codes,
        "texts.starts": texts.column.starts,
        "texts.keys": texts.arena.keys,
        "texts.offsets": texts.arena.offsets,
        "texts.deleted": np.array([] if deleted is None else deleted.to_array(), np.uint32),
    }
    return Segment(arrays, num_docs=num_docs, meta={"longest": texts.longest})


def _from_arrays(file: Segment, identity: tuple[int, int] | None) -> StoredTexts:
    """Return the column that a file has."""
    codes, starts = file["texts.codes"], file["texts.starts"]
    arena = KeyArena(file["texts.keys"], file["texts.offsets"])
    deleted = file["texts.deleted"].tolist()
    texts = TextColumn(
        FacetColumn({"codes": codes, "starts": starts}, file.num_docs),
        arena,
        identity=identity,
        longest=file.meta["longest"],
        size=arena.num_bytes + codes.nbytes + starts.nbytes,
    )
    return StoredTexts(texts, FrozenBitMap(deleted) if deleted else None)
