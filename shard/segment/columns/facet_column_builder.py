"""Builds facet columns, which `facet_columns` draws and reads.

A batch's keys become numbers of the shard's dictionary, and these the rows of distinct codes by
document; large columns are transposed into stored sets by a counting sort.

Costs: build about 120 ns a value (the key's text included), plus 8 ns for the sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import I64Array, U32Array, int64, uint32
from shard.segment.columns.batch_values_by_column import KEY_KINDS, group_values
from shard.segment.columns.code_counting import NO_STARTS, Codes
from shard.segment.facet_value_sets import write_sets
from shard.segment.items.numbers_and_facet_keys import canonical_keys
from shard.segment.merge_allocator import IN_MEMORY, MergeAllocator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.facet_dictionary import FacetDictionary
    from shard.segment.items.value_extraction import Extraction

SETS_DOCS_MIN: Final = 4_096
"""Segments with at least this many documents store the set of documents of each value."""

_INSERTION_MAX: Final = 32


@kernel
def _collect_codes(
    docs: U32Array, numbers: U32Array, starts: U32Array, codes: U32Array
) -> tuple[int, int, int]:
    """Turn (document, value number) pairs into rows of distinct, ascending codes.

    Returns:
        Number of codes, most codes of one document, greatest code.
    """
    num_codes = 0
    most = 0
    greatest = int64(0)
    num_docs = len(starts) - 1
    position = 0
    for doc in range(num_docs):
        # The row of this document; documents without a value have an empty one.
        starts[doc] = num_codes
        begin = num_codes
        while position < len(docs) and docs[position] == doc:
            codes[num_codes] = numbers[position] + uint32(1)
            num_codes += 1
            position += 1
        if num_codes - begin > 1:
            # Sort the row, then drop repeated codes.
            if num_codes - begin <= _INSERTION_MAX:
                for i in range(begin + 1, num_codes):
                    code = codes[i]
                    at = i
                    while at > begin and codes[at - 1] > code:
                        codes[at] = codes[at - 1]
                        at -= 1
                    codes[at] = code
            else:
                codes[begin:num_codes].sort()
            last = begin
            for i in range(begin + 1, num_codes):
                if codes[i] != codes[last]:
                    last += 1
                    codes[last] = codes[i]
            num_codes = last + 1
        if num_codes > begin:
            most = max(most, num_codes - begin)
            greatest = max(greatest, int64(codes[num_codes - 1]))
    starts[num_docs] = num_codes
    return num_codes, most, greatest


@kernel
def _count_each(codes: Codes, counts: I64Array) -> None:
    """Add 1 to counts[code] for each code."""
    for code in codes:
        counts[code] += 1


@kernel
def _list_by_value(codes: Codes, starts: U32Array, cursors: I64Array, docs: U32Array) -> None:
    """Write the documents of each code at its cursor: a counting sort, hence ascending."""
    if len(starts) == 0:
        for doc in range(len(codes)):
            code = int64(codes[doc])
            docs[cursors[code]] = doc
            cursors[code] += 1
        return
    for doc in range(len(starts) - 1):
        for position in range(starts[doc], starts[doc + 1]):
            code = int64(codes[position])
            docs[cursors[code]] = doc
            cursors[code] += 1


def code_type(greatest: int) -> type[np.uint8 | np.uint16 | np.uint32]:
    """Return the smallest unsigned type that holds a code."""
    if greatest < 1 << 8:
        return np.uint8
    return np.uint16 if greatest < 1 << 16 else np.uint32


def narrow_codes(codes: NDArray[np.uint32], greatest: int) -> NDArray[Any]:
    """Return codes in the smallest unsigned type that holds the greatest."""
    return codes.astype(code_type(greatest))


def build_column(
    docs: NDArray[np.uint32], numbers: NDArray[np.uint32], num_docs: int
) -> dict[str, NDArray[Any]]:
    """Return `codes` (and `starts`) for (document, value number) pairs, ascending by document."""
    starts = np.empty(num_docs + 1, np.uint32)
    codes = np.empty(len(numbers), np.uint32)
    num_codes, most, greatest = _collect_codes(docs, numbers, starts, codes)
    if most > 1:
        return {"codes": narrow_codes(codes[:num_codes], greatest), "starts": starts}
    narrow = narrow_codes(codes[:num_codes], greatest)
    if num_codes == num_docs:
        return {"codes": narrow}
    dense = np.zeros(num_docs, narrow.dtype)
    dense[docs] = narrow if num_codes == len(docs) else narrow_codes(numbers + 1, greatest)
    return {"codes": dense}


def build_sets(
    codes: NDArray[Any], starts: NDArray[np.uint32] | None, allocator: MergeAllocator = IN_MEMORY
) -> dict[str, NDArray[Any]]:
    """Return `numbers`, `counts`, `sets` and `set_offsets`: the column, transposed."""
    starts = NO_STARTS if starts is None else starts
    counts_by_code = allocator.zeros(int(codes.max()) + 1, np.int64)
    _count_each(codes, counts_by_code)
    ends = allocator.zeros(len(counts_by_code) + 1, np.int64)
    np.cumsum(counts_by_code, out=ends[1:])
    docs = allocator.empty(len(codes), np.uint32)
    _list_by_value(codes, starts, allocator.concatenate([ends[:-1]]), docs)
    present = np.flatnonzero(counts_by_code)
    present = present[present > 0]
    num_missing = int(counts_by_code[0])
    offsets = np.append(ends[present], ends[-1]) - num_missing
    sets, set_offsets = write_sets(docs[num_missing:], offsets, allocator)
    return {
        "numbers": (present - 1).astype(np.uint32),
        "counts": counts_by_code[present].astype(np.uint32),
        "sets": sets,
        "set_offsets": set_offsets,
    }


def build_facets(
    extraction: Extraction, facet_fields: Mapping[int, FacetDictionary]
) -> dict[str, NDArray[Any]]:
    """Build the facet columns of a batch; new values get numbers in the dictionaries.

    Args:
        extraction: the values of the batch.
        facet_fields: dictionary by field number.

    Returns:
        Arrays by name, see the module's drawing.
    """
    fields = list(facet_fields)
    selection, offsets = group_values(extraction, fields, KEY_KINDS)
    if len(selection) == 0:
        return {}
    keys, key_offsets = canonical_keys(extraction, selection)
    docs = extraction.doc[selection]
    arrays: dict[str, NDArray[Any]] = {}
    bounds = offsets.tolist()
    for group, field in enumerate(fields):
        begin, end = bounds[group], bounds[group + 1]
        if begin == end:
            continue
        numbers = facet_fields[field].encode(keys, key_offsets[begin : end + 1])
        column = build_column(docs[begin:end], numbers, extraction.num_docs)
        if extraction.num_docs >= SETS_DOCS_MIN:
            column |= build_sets(column["codes"], column.get("starts"))
        for name, array in column.items():
            arrays[f"facet.{field}.{name}"] = array
    return arrays
