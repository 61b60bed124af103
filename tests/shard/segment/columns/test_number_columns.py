"""Number columns: the documents that have one of some numbers, whatever the column's type."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shard.segment.columns.number_columns import number_column
from shard.segment.doc_sets import empty_bitset, list_all_docs
from tests.shard.columns_model import World

SMALL = st.integers(-130, 130)
NUMBERS = st.one_of(
    SMALL, st.integers(-(2**31), 2**31), st.sampled_from([-0.0, 0.0, 0.5, -1e300, 2.0**52])
)
COLUMNS = st.one_of(
    st.lists(st.none() | SMALL, min_size=1, max_size=60),
    st.lists(st.none() | NUMBERS, min_size=1, max_size=60),
    st.lists(st.none() | NUMBERS | st.lists(NUMBERS, max_size=3), min_size=1, max_size=60),
)


def numbers_of(value: Any) -> list[float]:
    """Return the numbers of a field's value."""
    return [] if value is None else value if isinstance(value, list) else [value]


@given(COLUMNS, st.lists(NUMBERS, min_size=1, max_size=300))
def test_documents_with_one_of_some_numbers(values: list[Any], others: list[float]) -> None:
    world = World([{} if value is None else {"n": value} for value in values])
    field = world.snapshot.registry.number("n")
    column = None if field is None else number_column(world.snapshot.views[0].segment, field)
    if column is None or not column.is_exact_as_double:
        return
    for wanted in (others, others + [one for value in values[::2] for one in numbers_of(value)]):
        bitset = empty_bitset(len(values))
        column.add_docs_among(np.array(wanted, np.float64), bitset)
        expected = [i for i, value in enumerate(values) if set(numbers_of(value)) & set(wanted)]
        assert list_all_docs(bitset, len(expected)).tolist() == expected
