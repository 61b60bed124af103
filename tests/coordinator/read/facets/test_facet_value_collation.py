"""The kernel sorts texts as `sorted` does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.facet_dictionary import FacetDictionary
from common.key_arena import KeyArena
from coordinator.read.facets import facet_value_collation
from coordinator.read.facets.facet_value_collation import sorted_numbers

NOTHING = np.zeros(0, np.uint32)
TEXTS = st.lists(
    st.text("ab\0é漢\ud800\uffff\U0001f600", max_size=4)
    | st.text("a\0", max_size=12)
    | st.text(max_size=3).map(lambda end: "the same beginning " + end),
    unique=True,
    max_size=60,
)


def numbered(texts: list[str]) -> FacetDictionary:
    dictionary = FacetDictionary()
    dictionary.encode(*KeyArena.of(texts))
    return dictionary


@given(TEXTS)
def test_texts_are_in_order_of_code_points(texts: list[str]) -> None:
    order = sorted_numbers(numbered(texts), len(texts), NOTHING).tolist()
    assert order == sorted(range(len(texts)), key=texts.__getitem__)


@given(TEXTS, st.integers(0, 60))
def test_new_texts_are_inserted(texts: list[str], num_known: int) -> None:
    known = sorted_numbers(numbered(texts), min(num_known, len(texts)), NOTHING)
    order = sorted_numbers(numbered(texts), len(texts), known).tolist()
    assert order == sorted(range(len(texts)), key=texts.__getitem__)


def test_many_texts() -> None:
    texts = [f"{i * 7919 % 20011:x} of many" for i in range(20_000)]
    known = sorted_numbers(numbered(texts), 5_000, NOTHING)
    assert len(texts) - len(known) > facet_value_collation._INSERTED_MAX
    order = sorted_numbers(numbered(texts), len(texts), known).tolist()
    assert order == sorted(range(len(texts)), key=texts.__getitem__)
