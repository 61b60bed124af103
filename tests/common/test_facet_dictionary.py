"""Values get numbers in the order of their first use, and keep them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.facet_dictionary import FacetDictionary
from tests.shard.segment.key_arenas import arena_of

keys = st.lists(st.text(max_size=30) | st.sampled_from(["a", "aa", "12345678", "123456789"]))


def encode(dictionary: FacetDictionary, values: list[str]) -> list[int]:
    numbers: list[int] = dictionary.encode(*arena_of(map(str.encode, values))).tolist()
    return numbers


@given(st.lists(keys, max_size=5))
def test_numbers_count_up_and_stay(batches: list[list[str]]) -> None:
    dictionary = FacetDictionary()
    expected: dict[str, int] = {}
    for batch in batches:
        numbers = [expected.setdefault(value, len(expected)) for value in batch]
        assert encode(dictionary, batch) == numbers
    assert dictionary.values() == list(expected)
    assert dictionary.texts(np.arange(len(expected))[::-1]) == list(expected)[::-1]
    assert len(dictionary) == len(expected)
    for value, number in expected.items():
        assert dictionary.number(value) == number
        assert dictionary.number(value, number) is None, "a snapshot before it knows it not"
    assert dictionary.number("never seen before, surely") is None


@given(keys, keys)
def test_ranks_are_code_point_order_and_grow(first: list[str], second: list[str]) -> None:
    dictionary = FacetDictionary()
    encode(dictionary, first)
    length = len(dictionary)
    for _ in range(2):
        values = dictionary.values()
        order = dictionary.order(len(values)).tolist()
        assert [values[number] for number in order] == sorted(values)
        assert [order[rank] for rank in dictionary.ranks(len(values))] == list(range(len(values)))
        encode(dictionary, second)
    early = dictionary.values(0, length)
    assert [early[number] for number in dictionary.order(length).tolist()] == sorted(early)


def test_thousands_of_values_survive_growth_and_storage() -> None:
    values = [f"value {number * 7919 % 20_011}" for number in range(20_011)]
    dictionary = FacetDictionary()
    assert encode(dictionary, values) == list(range(len(values)))
    assert encode(dictionary, values[::-1]) == list(range(len(values)))[::-1]
    pieces = [dictionary.to_arrays(0, 5), dictionary.to_arrays(5, 5), dictionary.to_arrays(5)]
    again = FacetDictionary.from_arrays(dictionary.epoch, pieces)
    assert again.epoch == dictionary.epoch
    assert again.values() == values
    assert encode(again, ["value 77", "new"]) == [values.index("value 77"), len(values)]
    assert [key.decode() for key in again.keys([0, len(values)])] == [values[0], "new"]
    assert FacetDictionary.from_arrays(1, []).values() == []


def test_a_reader_keeps_its_prefix_while_the_writer_goes_on() -> None:
    dictionary = FacetDictionary()
    encode(dictionary, ["a", "b"])
    length = len(dictionary)
    ranks = dictionary.ranks(length)
    encode(dictionary, [f"0{number}" for number in range(1_000)])
    assert dictionary.values(0, length) == ["a", "b"]
    assert dictionary.numbers(["b", "a", "01"], length) == [0, 1]
    assert ranks.tolist() == [0, 1]


def test_epochs_differ() -> None:
    assert FacetDictionary().epoch != FacetDictionary().epoch


def test_it_is_known_whether_values_are_sorted() -> None:
    dictionary = FacetDictionary(1)
    dictionary.encode(*arena_of([b"b", b"a"]))
    assert not dictionary.is_sorted(2)
    dictionary.order(2)
    assert dictionary.is_sorted(2)
    dictionary.encode(*arena_of([b"c"]))
    assert not dictionary.is_sorted(3)
