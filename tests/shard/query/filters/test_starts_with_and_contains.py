"""STARTS WITH and CONTAINS find the keys that Python's string methods find in the folded texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.facet_dictionary import FacetDictionary
from common.key_arena import KeyArena
from shard.query.filters import starts_with_and_contains as module
from shard.query.filters.starts_with_and_contains import (
    fold_key,
    fold_keys,
    numbers_alike,
    values_alike,
)
from tests.shard.segment.key_arenas import arena_of

PIECES = [
    "Café",
    "CAFE\u0301",
    "noir",
    "[@{`Zz",
    "ß",
    "ﬁ",
    "東京",
    "İ",
    "\ud800",
    "a",
    "aa",
    "aab",
    "",
]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=4).map("".join)


def encoded(values: list[str]) -> KeyArena:
    return arena_of(value.encode("utf-8", "surrogatepass") for value in values)


def decoded(arena: KeyArena) -> list[str]:
    every = arena.keys_of(range(arena.num_keys))
    return [key.decode("utf-8", "surrogatepass") for key in every]


@given(st.lists(texts, max_size=12), st.integers(0, 12), st.integers(1, 5))
def test_keys_are_folded_together_as_one_by_one(values: list[str], start: int, step: int) -> None:
    keys, offsets = encoded(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STEP_KEYS", step)
        folded = fold_keys(KeyArena(keys, offsets[min(start, len(values)) :]))
    assert decoded(folded) == [fold_key(value) for value in values[start:]]


@given(st.lists(texts, max_size=12), texts, st.booleans())
def test_alike_is_what_python_finds(values: list[str], text: str, is_at_start: bool) -> None:
    wanted = fold_key(text)
    folded = fold_keys(encoded(values))
    found = numbers_alike(folded, wanted, is_at_start=is_at_start).tolist()
    is_like = str.startswith if is_at_start else str.__contains__
    assert found == [n for n, value in enumerate(values) if is_like(fold_key(value), wanted)]


@given(st.lists(st.lists(texts, max_size=6), min_size=1, max_size=4), texts)
def test_the_values_of_a_growing_facet_are_alike(batches: list[list[str]], text: str) -> None:
    dictionary = FacetDictionary()
    wanted = fold_key(text)
    lengths = []
    for batch in batches:
        dictionary.encode(*encoded(batch))
        lengths.append(len(dictionary))
        expected = [n for n, one in enumerate(dictionary.values()) if wanted in fold_key(one)]
        for length in lengths:  # of older snapshots too
            found = values_alike(dictionary, length, wanted, is_at_start=False).tolist()
            assert found == [n for n in expected if n < length]


def test_a_text_that_overlaps_itself_is_found() -> None:
    folded = fold_keys(encoded(["aaab", "aab", "ab", "aaa"]))
    assert numbers_alike(folded, "aab", is_at_start=False).tolist() == [0, 1]
    assert numbers_alike(folded, "aab", is_at_start=True).tolist() == [1]


def test_folding_keeps_punctuation() -> None:
    assert fold_key("C++ É") == "c++ e"
