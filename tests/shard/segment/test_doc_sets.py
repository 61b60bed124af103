"""Bitsets and lists of documents are the same sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shard.segment.doc_sets import (
    bitset_of,
    complement,
    count_docs,
    full_bitset,
    list_all_docs,
    list_docs,
    pick_docs,
)


def array(docs: set[int]) -> NDArray[np.uint32]:
    return np.array(sorted(docs), np.uint32)


@given(st.integers(1, 300), st.data())
def test_bitsets_behave_like_sets(num_docs: int, data: st.DataObject) -> None:
    docs = data.draw(st.sets(st.integers(0, num_docs - 1)))
    words = bitset_of(array(docs), num_docs)
    assert count_docs(words) == len(docs)
    assert list_docs(words, len(docs)).tolist() == sorted(docs)
    assert list_all_docs(words, len(docs)).tolist() == sorted(docs)
    assert list_docs(words, len(docs) // 2).tolist() == sorted(docs)[: len(docs) // 2]
    asked = array(data.draw(st.sets(st.integers(0, num_docs - 1))))
    picked = np.empty(len(asked), np.uint32)
    assert picked[: pick_docs(asked, words, picked)].tolist() == sorted(docs & set(asked.tolist()))
    rest = complement(words, num_docs)
    assert list_docs(rest, num_docs).tolist() == sorted(set(range(num_docs)) - docs)
    assert count_docs(full_bitset(num_docs)) == num_docs
