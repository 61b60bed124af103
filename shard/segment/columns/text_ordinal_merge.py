"""Text columns of a merged segment, from those of its parts: no stored document is read again.

    part 0   ranks of  apple, pear          ┐ the texts that are left,   ┌ apple, fig, pear
    part 1   ranks of  fig, pear            ┘ ranked together            └ codes of both, renumbered

Parts that have no column yet are extracted, unless they have most of the documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import FrozenBitMap

from common.kernels.decorator import kernel
from common.kernels.types import I64Array, U8Array, U32Array, int64
from common.key_arena import KeyArena
from common.string_sort_kernels import sort_keys
from shard.segment.columns.batch_values_by_column import TEXT_KINDS
from shard.segment.columns.facet_columns import FacetColumn
from shard.segment.columns.presence_and_value_kinds import presence_of
from shard.segment.columns.text_ordinal_columns import (
    StoredTexts,
    TextColumn,
    TextPairs,
    arranged_keys,
    extract_texts,
    keep_texts,
    needs_documents,
    ranked_column,
    stored_texts,
)
from shard.segment.merge_result import MergeResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.snapshot import SegmentView, Snapshot


@kernel(allocates=False)
def _rank_distinct(keys: U8Array, offsets: I64Array, order: U32Array, ranks: U32Array) -> int:
    """Write the rank of each key; keep one of equal keys in `order`. Return how many remain.

    Args:
        keys: their bytes.
        offsets: where each begins, with a sentinel.
        order: numbers in the order of their keys; changed.
        ranks: output, by number.
    """
    count = int64(0)
    for i in range(len(order)):
        number = int64(order[i])
        start = offsets[number]
        length = offsets[number + 1] - start
        is_new = True
        if count > 0:
            last = int64(order[count - 1])
            last_start = offsets[last]
            if offsets[last + 1] - last_start == length:
                at = int64(0)
                while at < length and keys[start + at] == keys[last_start + at]:
                    at += 1
                is_new = at < length
        if is_new:
            order[count] = number
            count += 1
        ranks[number] = count - 1
    return count


def merge_texts(
    snapshot: Snapshot, result: MergeResult, merged: SegmentView, fields: Sequence[int]
) -> None:
    """Cache the texts of some fields of a merged segment, where its parts have theirs.

    Parts without, such as those written since the last search that used the field, are extracted;
    if they have most of the documents, nothing is done.

    Args:
        snapshot: has the parts.
        result: of the merge.
        merged: the merged segment, without the documents deleted in the parts.
        fields: their numbers.

    Raises:
        InternalError: item_corrupt, an item is damaged.

    Cost: 0.5 µs a text.
    """
    parts, doc_maps, _ = result
    wanted = [field for field in fields if _is_worth_merging(snapshot, parts, merged, field)]
    extracted = [_extract_missing(snapshot, part, wanted) for part in parts]
    for field in wanted:
        having = [
            (extracted[at].get(field) or stored_texts(part, field), doc_maps[at])
            for at, part in enumerate(parts)
            if presence_of(part.segment).kinds(field) & TEXT_KINDS
        ]
        stored = [(one, doc_map) for one, doc_map in having if one is not None]
        if len(stored) < len(having):
            continue  # the cache has just dropped one
        texts = _merge_columns(
            [one.texts for one, _ in stored],
            [doc_map for _, doc_map in stored],
            merged.segment.num_docs,
        )
        gone = [
            doc_map[one.deleted.to_array()] for one, doc_map in stored if one.deleted is not None
        ]
        deleted = np.concatenate([np.zeros(0, np.int64), *gone])
        deleted = deleted[deleted >= 0]
        entry = StoredTexts(texts, FrozenBitMap(deleted.tolist()) if len(deleted) else None)
        keep_texts(merged.segment, field, entry)


def _is_worth_merging(
    snapshot: Snapshot, parts: Sequence[SegmentView], merged: SegmentView, field: int
) -> bool:
    """Return whether half of the documents are in parts whose texts need not be extracted."""
    if not needs_documents(snapshot, merged, field):
        return False
    having = [part for part in parts if presence_of(part.segment).kinds(field) & TEXT_KINDS]
    num_known = sum(part.num_docs for part in having if stored_texts(part, field) is not None)
    return 2 * num_known >= sum(part.num_docs for part in having)


def _extract_missing(
    snapshot: Snapshot, part: SegmentView, fields: Sequence[int]
) -> dict[int, StoredTexts]:
    """Extract the texts of those fields of a part that are not cached, in one pass."""
    missing = [field for field in fields if needs_documents(snapshot, part, field)]
    if not missing:
        return {}
    columns = extract_texts(snapshot, part, missing)
    assert columns is not None
    return {
        field: StoredTexts(texts, part.deleted)
        for field, texts in zip(missing, columns, strict=True)
    }


def _merge_columns(
    parts: Sequence[TextColumn], doc_maps: Sequence[NDArray[np.int64]], num_docs: int
) -> TextColumn:
    """Merge columns; texts that only dropped documents have are left out."""
    docs_parts, numbers_parts = [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    keys_parts, sizes_parts = [np.zeros(0, np.uint8)], [np.zeros(1, np.int64)]
    num_texts = 0
    for texts, doc_map in zip(parts, doc_maps, strict=True):
        docs, numbers = pairs_of(texts.column)
        docs = doc_map[docs]
        numbers, docs = numbers[docs >= 0], docs[docs >= 0]
        is_used = np.zeros(texts.num_values, np.bool_)
        is_used[numbers] = True
        used = arranged_keys(texts.arena, np.flatnonzero(is_used).astype(np.uint32))
        docs_parts.append(docs.astype(np.uint32))
        numbers_parts.append((num_texts - 1 + np.cumsum(is_used))[numbers].astype(np.uint32))
        keys_parts.append(used.keys)
        sizes_parts.append(np.diff(used.offsets))
        num_texts += used.num_keys
    # Rank them: equal texts of several parts are one.
    arena = KeyArena(np.concatenate(keys_parts), np.cumsum(np.concatenate(sizes_parts)))
    order = sort_keys(*arena)
    ranks = np.empty(num_texts, np.uint32)
    num_ranks = _rank_distinct(*arena, order, ranks)
    pairs = TextPairs(np.concatenate(docs_parts), np.concatenate(numbers_parts))
    return ranked_column(pairs, arena, order[:num_ranks], ranks, num_docs)


def pairs_of(column: FacetColumn) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the documents and numbers of a column's texts, ascending by document."""
    codes = column.codes
    if column.is_single:
        docs = np.flatnonzero(codes)
        return docs, codes[docs].astype(np.int64) - 1
    docs = np.repeat(np.arange(len(column.starts) - 1), np.diff(column.starts))
    return docs, codes.astype(np.int64) - 1
