"""Grouping keys: the value of one field in each document, as a number that can be compared.

Question it answers, for one field of one segment: do these two documents have the same value, also
where they are in different segments and shards? Counting and selecting hits by value
(collect/grouping) needs nothing else.

    documents   0: "red"    1: ["red", "blue"]    2: -    3: ["blue", "red", "red"]    4: ["red"]
    tokens      blake2b(red) = 7    mix(blake2b(blue)) + mix(7) = 5
    numbers     2           1                     0       1                            2

A token is 64 bits that stand for a value in all segments of all shards: the sort key of a number or
boolean, a hash of a text or of an integer that no double holds. Values have the type that they have
in JSON: 1 and 1.0 are one value, 1, "1" and true are three.

An array counts as the set of its values: order and repetition do not matter, and an array with one
value equals that value. So items that share an array are one group, and `["red"]` is `"red"`. Null,
the empty text and objects inside an array are not values of it, as for facets; without values it
is not a value at all. Several values under both spellings of a path, `a.b` and in the object `a`,
are such a set too.

Costs: 100 ns a document, 0.2 µs a text and 200 ns an element of an array, once; memory 4 bytes a
document and 8 a value, in the LRU cache. A field whose texts are not a facet is read from the
stored documents (`text_ordinal_columns.text_column`). A merge of segments makes the keys of its
segment, if searches have used those of its parts (`columns_carried_over_merges`).
"""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.distinct_values import starts_run
from common.value_kinds_and_facet_keys import NO_TOKEN
from shard.caches.lru_cache import COLUMN_CACHE
from shard.segment.columns.batch_values_by_column import KEY_KINDS, TEXT_KINDS
from shard.segment.columns.facet_columns import facet_column
from shard.segment.columns.number_columns import number_column
from shard.segment.columns.presence_and_value_kinds import Aspect, presence_of
from shard.segment.columns.sort_columns import SortColumn, needs_column, sort_column
from shard.segment.columns.sort_keys import EMPTY_TEXT_KEY, FALSE_KEY, ordered_keys
from shard.segment.columns.text_hashes import hash_texts
from shard.segment.columns.text_ordinal_columns import TextColumn, text_column, texts_identity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView, Snapshot

_MULTIPLIERS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_HASHED_FAST_MAX: Final = 2_000
"""Most documents and texts of a segment that are numbered within 2 ms."""
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))
"""Shifts of splitmix64's last step."""


class GroupingKeys(NamedTuple):
    """The values of a field in a segment, each under a number."""

    numbers: NDArray[np.uint32]
    """By document; 0 where it has no value."""
    tokens: NDArray[np.uint64]
    """By number - 1, ascending."""
    serial: int
    """Names these numbers."""


_serials = itertools.count(1)


def grouping_keys(snapshot: Snapshot, view: SegmentView, field: int) -> GroupingKeys:
    """Return the documents of a segment by their value of a field; cached."""
    segment = view.segment
    has_texts = bool(presence_of(segment).kinds(field) & TEXT_KINDS)
    identity = texts_identity(snapshot, view, field) if has_texts else None
    values: GroupingKeys | None = COLUMN_CACHE.get(_key(segment, field, identity))
    if values is not None:
        return values
    texts = text_column(snapshot, view, field) if has_texts else None

    def make() -> GroupingKeys:
        if texts is not None and _has_one_text_at_most(segment, field, texts):
            return _number_texts(texts)
        return _make(segment, field, sort_column(snapshot, view, field), texts)

    return COLUMN_CACHE.get_or_make(
        _key(segment, field, None if texts is None else texts.identity),
        make,
        lambda values: values.numbers.nbytes + values.tokens.nbytes,
        segment,
    )


def num_values_max(snapshot: Snapshot, view: SegmentView, field: int) -> int | None:
    """Return an upper bound of the number of values of a field.

    Returns:
        None if they are not numbered yet, and numbering them takes milliseconds or more.
    """
    segment = view.segment
    identity = None
    num_texts = 0
    if presence_of(segment).kinds(field) & TEXT_KINDS:
        identity = texts_identity(snapshot, view, field)
        column = facet_column(segment, field)
        num_texts = 0 if column is None else len(column.codes)
    values: GroupingKeys | None = COLUMN_CACHE.get(_key(segment, field, identity))
    if values is not None:
        return len(values.tokens)
    num_hashed = segment.num_docs + num_texts
    if num_hashed > _HASHED_FAST_MAX or needs_column(snapshot, view, field):
        return None
    return num_hashed


def _key(segment: Segment, field: int, identity: tuple[int, int] | None) -> tuple[object, ...]:
    # A segment's values stay what they are while the dictionary of its facet grows.
    return "distinct", segment.uid, field, None if identity is None else identity[0]


def _has_one_text_at_most(segment: Segment, field: int, texts: TextColumn) -> bool:
    """Return whether no document has values of a field other than one text."""
    presence = presence_of(segment)
    return (
        texts.column.is_single
        and not presence.kinds(field) & KEY_KINDS & ~TEXT_KINDS
        and not presence.count(field, Aspect.ARRAY)
        and not presence.count(field, Aspect.EMPTY_TEXT)
    )


def _number_texts(texts: TextColumn) -> GroupingKeys:
    """Number the texts of documents that have one or none: 2 ns a document."""
    codes = texts.column.codes
    is_used = np.zeros(texts.num_values + 1, np.bool_)
    is_used[codes] = True
    used = np.flatnonzero(is_used[1:])
    tokens = _text_tokens(texts, used)
    order = np.argsort(tokens)
    number_by_code = np.zeros(len(is_used), np.uint32)
    number_by_code[used[order] + 1] = np.arange(1, len(used) + 1, dtype=np.uint32)
    return GroupingKeys(number_by_code[codes], tokens[order], next(_serials))


def _make(
    segment: Segment, field: int, column: SortColumn, texts: TextColumn | None
) -> GroupingKeys:
    by_doc = _scalar_tokens(column)
    presence = presence_of(segment)
    if presence.count(field, Aspect.ARRAY) or column.has_several:
        docs = np.flatnonzero(by_doc == np.uint64(NO_TOKEN)).astype(np.uint32)
        by_doc[docs] = _set_tokens(segment, field, texts, docs)
    tokens, positions = np.unique(by_doc, return_inverse=True)
    numbers = positions.astype(np.uint32)
    numbers += np.uint32(1)
    if len(tokens) and tokens[-1] == np.uint64(NO_TOKEN):
        numbers[numbers == len(tokens)] = 0
        tokens = tokens[:-1]
    return GroupingKeys(numbers, tokens, next(_serials))


def _scalar_tokens(column: SortColumn) -> NDArray[np.uint64]:
    """Return the token of each document that has one value; arrays and several have none."""
    docs = np.arange(column.num_docs, dtype=np.uint32)
    keys, positions = np.unique(
        column.keys(docs, is_descending=False, is_missing_first=False), return_inverse=True
    )
    tokens = keys.copy()
    is_text = (keys > np.uint64(EMPTY_TEXT_KEY)) & (keys < np.uint64(FALSE_KEY))
    if is_text.any():
        assert column.texts is not None, "text keys without texts"
        ranks = (keys[is_text] - np.uint64(EMPTY_TEXT_KEY + 1)).astype(np.int64)
        order = column.texts.order
        tokens[is_text] = _text_tokens(column.texts, ranks if order is None else order[ranks])
    by_doc: NDArray[np.uint64] = tokens[positions]
    if column.minor_keys is not None:
        inexact = np.flatnonzero(column.minor_keys)
        by_doc[inexact] = _integer_tokens(keys[positions[inexact]], column.minor_keys[inexact])
    return by_doc


def _set_tokens(
    segment: Segment, field: int, texts: TextColumn | None, docs: NDArray[np.uint32]
) -> NDArray[np.uint64]:
    """Return the tokens of documents with an array or several values: one for each set of values.

    Args:
        segment: that has the documents.
        field: its number.
        texts: of the field, those of elements included.
        docs: ascending.
    """
    docs_parts = [np.zeros(0, np.uint32)]
    tokens_parts = [np.zeros(0, np.uint64)]
    if texts is not None:
        column = texts.column
        lengths = (column.codes != 0) if column.is_single else np.diff(column.starts)
        codes = column.codes[column.codes != 0] if column.is_single else column.codes
        numbers, positions = np.unique(codes, return_inverse=True)
        docs_parts.append(np.repeat(np.arange(segment.num_docs, dtype=np.uint32), lengths))
        tokens_parts.append(_text_tokens(texts, numbers.astype(np.int64) - 1)[positions])
    number_values = number_column(segment, field)
    if number_values is not None:
        number_docs, doubles, residuals = number_values.pairs()
        keys = ordered_keys(doubles)
        if residuals is not None:
            inexact = np.flatnonzero(residuals)
            keys[inexact] = _integer_tokens(keys[inexact], residuals[inexact])
        docs_parts.append(number_docs)
        tokens_parts.append(keys)
    presence = presence_of(segment)
    for aspect, key in ((Aspect.TRUE, FALSE_KEY + 1), (Aspect.FALSE, FALSE_KEY)):
        if presence.count(field, aspect):
            docs_parts.append(presence.docs(field, aspect))
            tokens_parts.append(np.full(len(docs_parts[-1]), key, np.uint64))
    all_docs, tokens = np.concatenate(docs_parts), np.concatenate(tokens_parts)
    # Only of arrays, and each value of an item once.
    order = np.lexsort((tokens, all_docs))
    all_docs, tokens = all_docs[order], tokens[order]
    is_kept = np.isin(all_docs, docs) & starts_run(all_docs, tokens)
    positions = np.searchsorted(docs, all_docs[is_kept])
    tokens = tokens[is_kept]
    counts = np.bincount(positions, minlength=len(docs))
    sums = np.zeros(len(docs), np.uint64)
    np.add.at(sums, positions, _mixed(tokens))
    sums[counts == 0] = np.uint64(NO_TOKEN)
    is_single = counts[positions] == 1
    sums[positions[is_single]] = tokens[is_single]
    return sums


def _text_tokens(texts: TextColumn, numbers: NDArray[np.integer]) -> NDArray[np.uint64]:
    return hash_texts(texts.arena, numbers.astype(np.int64, copy=False))


def _integer_tokens(keys: NDArray[np.uint64], residuals: NDArray[np.int16]) -> NDArray[np.uint64]:
    """Return the tokens of integers that no double holds: (key of the nearest one, difference)."""
    hashes = [
        hashlib.blake2b(f"{key} {residual}".encode(), digest_size=8, person=b"integer")
        for key, residual in zip(keys.tolist(), residuals.tolist(), strict=True)
    ]
    return np.frombuffer(b"".join([one.digest() for one in hashes]), np.uint64)


def _mixed(tokens: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of tokens whose sums differ where the sets of tokens do (splitmix64)."""
    mixed = tokens
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        mixed = (mixed ^ (mixed >> shift)) * multiplier
    result: NDArray[np.uint64] = mixed ^ (mixed >> _SHIFTS[-1])
    return result
