"""Joint orders: documents by several columns, whatever their directions."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shard.segment.columns.joint_orders import Direction, JointOrder
from shard.segment.columns.sort_columns import SortColumn
from shard.segment.columns.sort_keys import MISSING_KEY

NUM_DOCS = 20
directions = st.builds(Direction, st.booleans(), st.booleans())
keys = st.lists(st.sampled_from([1, 2, 3, MISSING_KEY]), min_size=NUM_DOCS, max_size=NUM_DOCS)


@given(st.lists(st.tuples(keys, directions), min_size=1, max_size=4))
def test_documents_are_in_the_naive_order(fields: list[tuple[list[int], Direction]]) -> None:
    columns = [SortColumn(NUM_DOCS, by_doc=np.array(rows, np.uint64)) for rows, _ in fields]
    order = JointOrder(columns, [direction for _, direction in fields])

    def row_of(doc: int) -> list[tuple[bool, int]]:
        row = []
        for rows, (is_descending, is_missing_first) in fields:
            is_missing = rows[doc] == MISSING_KEY
            key = 0 if is_missing else rows[doc]
            row.append((is_missing != is_missing_first, -key if is_descending else key))
        return row

    found = order._sorted_docs()

    assert found is not None
    assert found.docs.tolist() == sorted(range(NUM_DOCS), key=row_of)
    listed = [row_of(doc) for doc in found.docs.tolist()]
    assert found.is_first.tolist() == [
        place == 0 or listed[place - 1] != row for place, row in enumerate(listed)
    ]


def test_sorting_takes_no_more_memory_for_more_fields() -> None:
    num_docs = 20_000
    columns = [
        SortColumn(num_docs, by_doc=np.arange(num_docs, dtype=np.uint64) % np.uint64(modulus))
        for modulus in range(2, 18)
    ]
    order = JointOrder(columns, [Direction(False, False)] * len(columns))
    tracemalloc.start()
    try:
        order._sorted_docs()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * num_docs
