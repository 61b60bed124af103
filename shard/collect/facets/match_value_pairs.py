"""Distinct pairs of a matching document and a facet value.

Counts need no pairs (`facet_counts`); everything beyond a count is computed from them, such as
statistics of another field by value (`statistics_by_facet_value`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.distinct_values import starts_run
from common.protocol.messages import FacetRequest
from common.value_kinds_and_facet_keys import number_text
from shard.caches.lru_cache import COLUMN_CACHE
from shard.collect.nested.passing_elements import list_passing
from shard.query.filters.filter_bitsets import element_view
from shard.segment.columns.facet_columns import FacetColumn, facet_column
from shard.segment.columns.number_columns import NumberColumn, number_column, plain_number
from shard.segment.columns.presence_and_value_kinds import Aspect, presence_of
from shard.segment.columns.text_ordinal_columns import text_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard.query.matches import Matches
    from shard.segment.columns.text_ordinal_columns import TextColumn
    from shard.segment.segment import Segment
    from shard.segment.snapshot import SegmentView, Snapshot


class MatchValuePairs(NamedTuple):
    """Pairs (document, value) of one segment, by document."""

    docs: NDArray[np.uint32]
    """Ascending."""
    codes: NDArray[Any]
    """Number of the value + 1."""


NO_PAIRS: Final = MatchValuePairs(np.zeros(0, np.uint32), np.zeros(0, np.uint32))


def match_value_pairs(snapshot: Snapshot, request: FacetRequest, part: Matches) -> MatchValuePairs:
    """Return the values that the matches of one segment have of a facet.

    Args:
        snapshot: to search.
        request: of the facet; with `within` only elements that pass have values.
        part: the matches.

    Cost: 10 ns a match, more where several values or elements belong to one.
    """
    field = snapshot.registry.number(request.field)
    if field is None or not part.count or request.field not in snapshot.dictionaries:
        return NO_PAIRS
    if request.within is None:
        column = facet_column(part.view.segment, field)
        return NO_PAIRS if column is None else _pairs_of(column, part.docs)
    elements = element_view(snapshot, part.view.segment, request.within.field)
    column = None if elements is None else facet_column(elements.view.segment, field)
    if elements is None or column is None:
        return NO_PAIRS
    passing = list_passing(snapshot, elements, request.within.condition)
    found = _pairs_of(column, passing[are_among(part, elements.docs[passing])])
    return distinct_pairs(elements.docs[found.docs], found.codes)


def _pairs_of(column: FacetColumn, docs: NDArray[np.uint32]) -> MatchValuePairs:
    """Return the values of some documents (or elements) of a column."""
    if column.is_single:
        codes = column.codes[docs]
        has_value = codes != 0
        return MatchValuePairs(docs[has_value], codes[has_value])
    starts = column.starts[docs].astype(np.int64)
    lengths = column.starts[docs + np.uint32(1)].astype(np.int64) - starts
    return MatchValuePairs(np.repeat(docs, lengths), column.codes[ranges_of(starts, lengths)])


def ranges_of(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of several ranges, one after the other."""
    shifts = starts - (np.cumsum(lengths) - lengths)
    positions: NDArray[np.int64] = np.repeat(shifts, lengths) + np.arange(int(lengths.sum()))
    return positions


def distinct_pairs(docs: NDArray[Any], codes: NDArray[Any]) -> MatchValuePairs:
    """Return each (document, code) once, by document; the documents may come in any order.

    Codes may be numbers of anything that documents have, such as buckets.
    """
    order = np.lexsort((codes, docs))
    docs, codes = docs[order], codes[order]
    is_new = starts_run(docs, codes)
    return MatchValuePairs(docs[is_new], codes[is_new])


def are_among(part: Matches, docs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return, for each of some documents, whether it matches."""
    bits = np.unpackbits(part.bitset.view(np.uint8), bitorder="little").view(np.bool_)
    is_match: NDArray[np.bool_] = bits[docs]
    return is_match


# --- fields that are not facets -------------------------------------------------------------------


class FieldValues(NamedTuple):
    """The values of a field of a segment that is not a facet, under their facet keys."""

    keys: list[str]
    pairs: MatchValuePairs
    """Codes are the position of the key."""


def field_values(snapshot: Snapshot, view: SegmentView, field: int) -> FieldValues:
    """Return the values that the documents of a segment have in any field; cached.

    Cost: 300 ns a value, once; texts are read from the stored documents (`text_column`).
    """
    segment = view.segment
    texts = text_column(snapshot, view, field)
    return COLUMN_CACHE.get_or_make(
        ("values", segment.uid, field, None if texts is None else texts.identity),
        lambda: _read_values(segment, field, texts),
        lambda made: made.pairs.docs.nbytes + made.pairs.codes.nbytes + 100 * len(made.keys),
        segment,
    )


def _read_values(segment: Segment, field: int, texts: TextColumn | None) -> FieldValues:
    # Each type of value has pairs of its own; equal keys, as of 1 and "1", share a code.
    codes: dict[str, int] = {}
    parts: list[MatchValuePairs] = []
    if texts is not None:
        docs = np.arange(segment.num_docs, dtype=np.uint32)
        every = _pairs_of(texts.column, docs)
        keys = [key.decode("utf-8", "surrogatepass") for key in texts.all_keys()]
        by_number = _codes_of(keys, codes)
        parts.append(MatchValuePairs(every.docs, by_number[every.codes.astype(np.int64) - 1]))
    numbers = number_column(segment, field)
    if numbers is not None:
        docs, keys, positions = _number_keys(numbers)
        parts.append(MatchValuePairs(docs, _codes_of(keys, codes)[positions]))
    presence = presence_of(segment)
    for aspect, key in ((Aspect.TRUE, "true"), (Aspect.FALSE, "false")):
        if presence.count(field, aspect):
            docs = presence.docs(field, aspect)
            parts.append(MatchValuePairs(docs, np.full(len(docs), _codes_of([key], codes)[0])))
    pairs = NO_PAIRS
    if parts:
        pairs = distinct_pairs(*[np.concatenate(column) for column in zip(*parts, strict=True)])
    return FieldValues(list(codes), pairs)


def _number_keys(
    numbers: NumberColumn,
) -> tuple[NDArray[np.uint32], list[str], NDArray[np.intp]]:
    """Return the documents of a column's numbers, the distinct keys, each number's key there."""
    docs, doubles, residuals = numbers.pairs()
    if residuals is None:
        distinct, positions = np.unique(doubles, return_inverse=True)
        keys = [number_text(one) for one in distinct.tolist()]
    else:
        both = np.stack([doubles, residuals.astype(np.float64)])
        rows, positions = np.unique(both, axis=1, return_inverse=True)
        keys = [number_text(plain_number(one, int(rest))) for one, rest in rows.T.tolist()]
    return docs, keys, positions.reshape(-1)


def _codes_of(keys: list[str], codes: dict[str, int]) -> NDArray[np.int64]:
    """Return the code of each key; new ones are added."""
    return np.array([codes.setdefault(key, len(codes)) for key in keys], np.int64)
