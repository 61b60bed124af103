"""Counting facets of elements, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shard.collect.nested.element_counts import count_elements
from shard.segment.columns.facet_column_builder import build_column
from shard.segment.columns.facet_columns import FacetColumn
from shard.segment.columns.nested_elements import ElementSegment
from shard.segment.doc_sets import bitset_of
from shard.segment.segment import Segment

NUM_VALUES = 4


@st.composite
def owned_elements(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Draw how many elements each document has, and the values of each element."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 5, 63, 64, 65, 130]), min_size=1, max_size=8))
    most = draw(st.sampled_from([1, 3]))
    rng = np.random.default_rng(draw(st.integers(0, 1_000)))
    values = [
        sorted(set(rng.integers(0, NUM_VALUES, rng.integers(0, most + 1)).tolist()))
        for _ in range(sum(sizes))
    ]
    return sizes, values


@given(owned_elements(), st.data())
def test_documents_are_counted_once_for_each_value_in_passing_elements(
    owned: tuple[list[int], list[list[int]]], data: st.DataObject
) -> None:
    sizes, values = owned
    num_elements = len(values)
    owners = np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)
    elements = ElementSegment(Segment({}, num_docs=num_elements), owners, len(sizes))
    pairs = [(element, value) for element, row in enumerate(values) for value in row]
    arrays = build_column(
        np.array([element for element, _ in pairs], np.uint32),
        np.array([value for _, value in pairs], np.uint32),
        num_elements,
    )
    share = data.draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1_000)))
    passing = np.flatnonzero(rng.random(num_elements) < share).astype(np.uint32)
    expected = [0] * (NUM_VALUES + 1)
    for value in range(NUM_VALUES):
        docs = {int(owners[one]) for one in passing.tolist() if value in values[one]}
        expected[value + 1] = len(docs)
    forms: list[NDArray[Any]] = [passing, bitset_of(passing, num_elements)]
    for form in forms:
        counts = np.zeros(NUM_VALUES + 1, np.uint32)
        count_elements(elements, form, FacetColumn(arrays, num_elements), counts)
        counts[0] = 0
        assert counts.tolist() == expected


@given(owned_elements(), st.data())
def test_elements_of_documents(
    owned: tuple[list[int], list[list[int]]], data: st.DataObject
) -> None:
    sizes, values = owned
    owners = np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)
    elements = ElementSegment(Segment({}, num_docs=len(values)), owners, len(sizes))
    docs = sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1))))
    found = elements.of_docs(np.array(docs, np.uint32))
    wanted = np.flatnonzero(np.isin(owners, docs)).astype(np.uint32)
    assert found.tolist() == bitset_of(wanted, len(values)).tolist()
