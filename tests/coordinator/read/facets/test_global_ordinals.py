"""Facet counts of several shards, merged through their numberings, equal a plain Counter."""

from __future__ import annotations

import threading
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.facet_dictionary import FacetDictionary
from common.key_arena import KeyArena
from common.protocol.messages import FacetCounts, SearchResponse
from coordinator.parameters.facet_specs import BucketOrder
from coordinator.read.facets import bucket_selection as module
from coordinator.read.facets import global_ordinals, summed_counts
from coordinator.read.facets.bucket_selection import next_buckets, num_buckets, page_of_buckets
from coordinator.read.facets.global_ordinals import FacetValues
from coordinator.read.facets.summed_counts import CountsReader
from tests.common.protocol.packed_model import pack

KEYS = [f"{a}{b}" for a in "abcdé" for b in "xyz漢"]


def answer(
    dictionary: list[str], counts: Counter[str], live: set[str] | None, form: int
) -> SearchResponse:
    bits = np.packbits(
        np.array([key in (live or ()) for key in dictionary], np.bool_), bitorder="little"
    )
    by_number = {number: counts[key] for number, key in enumerate(dictionary)}
    return SearchResponse(
        total=0,
        places=b"",
        scores=b"",
        records=b"",
        sort_values=(),
        documents=(),
        facets=(
            FacetCounts(
                field="f",
                epoch=7,
                num_values=len(dictionary),
                live=None if live is None else bits.tobytes(),
            ),
        ),
        ranges=(),
        explanations=(),
        timings_us=(0, 0, 0),
        facet_counts=pack(by_number, len(dictionary), form),
    )


def check_zeros() -> None:
    """The sums that all searches share are zeros between facets."""
    assert not summed_counts._ACCUMULATOR.sums.any()


@given(
    shards=st.lists(
        st.tuples(
            st.permutations(KEYS),
            st.integers(0, len(KEYS)),
            st.lists(st.sampled_from(KEYS), max_size=60),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=4,
    ),
    selected=st.frozensets(st.sampled_from([*KEYS, "nowhere"]), max_size=3),
    offset=st.integers(0, 12),
    limit=st.integers(0, 12),
    order=st.sampled_from(
        [
            BucketOrder(),
            BucketOrder(hides_zero=True),
            BucketOrder((("count", True), ("key", False))),
            BucketOrder((("count", True), ("key", False)), hides_zero=True),
            BucketOrder((("key", False),)),
            BucketOrder((("selected", True), ("key", True)), hides_zero=True),
            BucketOrder((("count", False), ("key", True))),
        ]
    ),
)
def test_pages_equal_a_sorted_counter(
    shards: list[tuple[list[str], int, list[str], int]],
    selected: frozenset[str],
    offset: int,
    limit: int,
    order: BucketOrder,
) -> None:
    values = FacetValues(len(shards))
    answers = []
    total: Counter[str] = Counter()
    live: set[str] = set()
    for shard, (permutation, length, hits, form) in enumerate(shards):
        dictionary = permutation[:length]
        counts = Counter(key for key in hits if key in dictionary)
        living = set(dictionary[::2]) | set(counts)
        assert values.known[shard] == (-1, 0)
        values.extend(shard, 7, 0, KeyArena.of(dictionary[: length // 2]))
        values.extend(shard, 7, length // 2, KeyArena.of(dictionary[length // 2 :]))
        answers.append((shard, answer(dictionary, counts, living, form)))
        total += counts
        live |= living
    chosen = {key for key in selected if key in live}
    listed = {key for key in live if total[key] > 0 or not order.hides_zero} | chosen

    def rank(key: str) -> list[object]:
        columns: list[object] = []
        for name, is_descending in [*order.keys, ("key", False)]:
            if name == "key":
                points = [ord(c) for c in key]
                columns.append([-p for p in points] if is_descending else points)
            else:
                number = total[key] if name == "count" else int(key in chosen)
                columns.append(-number if is_descending else number)
        return columns

    expected = sorted(listed, key=rank)
    reader = CountsReader(answers, [values.numbering])
    first = next_buckets(reader, values, selected, order, offset, limit)
    if first is not None:
        check_zeros()
        reader = CountsReader(answers, [values.numbering])
    with reader.next(values) as merged:
        is_kept = bool(len(listed) % 2)
        if not is_kept:
            buckets = page_of_buckets(values, merged, selected, order, offset, limit)
            num_listed = num_buckets(values, merged, selected, order)
        kept = merged.kept()
    if is_kept:
        buckets = page_of_buckets(values, kept, selected, order, offset, limit)
        num_listed = num_buckets(values, kept, selected, order)
    check_zeros()
    # The greatest counts are known at once if so many values have one.
    is_simple = order.is_by_count and not selected and offset + limit > 0
    has_enough = len(+total) >= min(offset + limit, len(values)) > 0
    assert (first is not None) == (is_simple and has_enough)
    assert first is None or first == buckets
    assert [b.key for b in buckets] == expected[offset : offset + limit]
    assert [b.doc_count for b in buckets] == [total[b.key] for b in buckets]
    assert [b.is_selected for b in buckets] == [b.key in chosen for b in buckets]
    assert num_listed == len(expected)


def test_counts_from_before_a_restart_are_added_up_by_the_numbers_of_then() -> None:
    values = FacetValues(1)
    values.extend(0, 7, 0, KeyArena.of(["drama", "crime"]))
    before = [(0, answer(["drama", "crime"], Counter(drama=5, crime=1), {"drama"}, 0))]
    numbering = values.numbering
    # While the search waits for its items, another one learns what the restarted shard has.
    values.extend(0, 8, 0, KeyArena.of(["crime", "drama"]))
    assert values.numbering.to_number[0, :2].tolist() == [1, 0]
    assert not values.numbering.is_same[0]
    with CountsReader(before, [numbering]).next(values) as merged:
        buckets = page_of_buckets(values, merged, frozenset(), BucketOrder(), 0, 3)
    assert [(one.key, one.doc_count) for one in buckets] == [("drama", 5), ("crime", 1)]


def test_very_many_ties_are_ordered_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RANKED_MAX", 0)  # as if the numbering were too long
    dictionary = [f"{(i * 7919) % 20000:05d}" for i in range(20000)]
    values = FacetValues(1)
    values.extend(0, 7, 0, KeyArena.of(dictionary))
    counts = Counter(dictionary)
    for form in (0, 2):
        answers = [(0, answer(dictionary, counts, None, form))]
        with CountsReader(answers, [values.numbering]).next(values) as merged:
            buckets = page_of_buckets(values, merged, frozenset(), BucketOrder(), 5000, 3)
            assert num_buckets(values, merged, frozenset(), BucketOrder()) == 20000
        assert [b.key for b in buckets] == ["05000", "05001", "05002"]


def zeros_of(values: FacetValues, *live: tuple[list[str], set[str]]) -> list[str]:
    """Keys of the buckets of a search without hits, given what each shard says is live."""
    answers = [
        (shard, answer(dictionary, Counter(), living, 2))
        for shard, (dictionary, living) in enumerate(live)
    ]
    with CountsReader(answers, [values.numbering]).next(values) as merged:
        return [b.key for b in page_of_buckets(values, merged, frozenset(), BucketOrder(), 0, 3)]


def test_what_is_alive_is_remembered_as_long_as_all_shards_say_the_same() -> None:
    values = FacetValues(2)
    first, second = ["d", "b", "c"], ["a", "c"]
    values.extend(0, 7, 0, KeyArena.of(first))
    values.extend(1, 7, 0, KeyArena.of(second))
    assert zeros_of(values, (first, {"d", "c"}), (second, {"a"})) == ["a", "c", "d"]
    remembered = values.derived["live"]
    assert zeros_of(values, (first, {"d", "c"}), (second, {"a"})) == ["a", "c", "d"]
    assert values.derived["live"] is remembered
    assert zeros_of(values, (first, {"d"}), (second, {"a"})) == ["a", "d"]
    assert zeros_of(values, (first, {"d"}), (second, {"c"})) == ["c", "d"]
    longer = [*second, "e"]
    values.extend(1, 7, 2, KeyArena.of(["e"]))
    assert zeros_of(values, (first, {"d"}), (longer, {"c"})) == ["c", "d"]
    assert zeros_of(values, (first, set()), (longer, {"e"})) == ["e"]


def test_what_is_alive_is_told_apart_by_the_epoch_of_a_dictionary() -> None:
    values = FacetValues(1)
    for epoch, dictionary in ((1, ["a", "b"]), (2, ["b", "a"])):
        values.extend(0, epoch, 0, KeyArena.of(dictionary))
        part = answer(dictionary, Counter(), {dictionary[0]}, 2)
        facets = tuple(msgspec.structs.replace(one, epoch=epoch) for one in part.facets)
        answers = [(0, msgspec.structs.replace(part, facets=facets))]
        with CountsReader(answers, [values.numbering]).next(values) as merged:
            buckets = page_of_buckets(values, merged, frozenset(), BucketOrder(), 0, 3)
        assert [bucket.key for bucket in buckets] == [dictionary[0]]


def test_a_new_epoch_clears_the_map() -> None:
    values = FacetValues(1)
    values.extend(0, 6, 0, KeyArena.of(["a", "b"]))
    assert values.known == [(6, 2)]
    values.extend(0, 7, 0, KeyArena.of(["b"]))
    assert values.known == [(7, 1)]
    answers = [(0, answer(["b"], Counter({"b": 3}), None, 0))]
    with CountsReader(answers, [values.numbering]).next(values) as merged:
        buckets = page_of_buckets(values, merged, frozenset(), BucketOrder(), 0, 9)
    assert [(b.key, b.doc_count) for b in buckets] == [("b", 3)]


@given(
    st.lists(st.tuples(st.text("ab", max_size=4), st.integers(0, 3)), max_size=400),
    st.integers(0, 400),
    st.integers(1, 30),
    st.sampled_from([0, 2]),
)
def test_values_without_a_rank_are_ordered_like_all_others(
    rows: list[tuple[str, int]], num_first: int, limit: int, form: int
) -> None:
    counts = Counter({f"{text}{i:03d}": count for i, (text, count) in enumerate(rows)})
    dictionary = list(counts)
    values = FacetValues(1)
    expected = sorted((key for key in counts if counts[key]), key=lambda key: (-counts[key], key))
    for end in (num_first, len(dictionary)):
        values.extend(0, 7, len(values), KeyArena.of(dictionary[len(values) : end]))
        if end == num_first:
            values.ranks()
    for _ in range(2):  # the second time most have a rank
        answers = [(0, answer(dictionary, counts, None, form))]
        reader = CountsReader(answers, [values.numbering])
        at_once = next_buckets(reader, values, frozenset(), BucketOrder(), 0, limit)
        if at_once is not None:
            reader = CountsReader(answers, [values.numbering])
        with reader.next(values) as merged:
            buckets = page_of_buckets(values, merged, frozenset(), BucketOrder(), 0, limit)
        assert at_once is None or at_once == buckets
        assert [bucket.key for bucket in buckets] == expected[:limit]
        assert [bucket.doc_count for bucket in buckets] == [counts[b.key] for b in buckets]


def test_a_value_added_while_others_are_read_as_numbers_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = FacetValues(1)
    values.extend(0, 7, 0, KeyArena.of(["1", "2"]))
    read = FacetDictionary.values

    def read_and_grow(dictionary: FacetDictionary, start: int, end: int) -> list[str]:
        """Read values, then add one, as the event loop may while a thread reads."""
        found = read(dictionary, start, end)
        values.extend(0, 7, 2, KeyArena.of(["3"]))
        return found

    monkeypatch.setattr(FacetDictionary, "values", read_and_grow)

    values.numeric_values()

    assert values.numeric_values().tolist() == [1.0, 2.0, 3.0]


async def test_arrays_of_many_values_are_enlarged_on_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(global_ordinals, "_ENLARGED_FAST_MAX", 1_000)
    threads: list[bool] = []
    grow = FacetDictionary._grow

    def noting(dictionary: FacetDictionary, num_keys: int, num_bytes: int) -> None:
        if len(dictionary) > 2_000:
            threads.append(threading.current_thread() is threading.main_thread())
        grow(dictionary, num_keys, num_bytes)

    monkeypatch.setattr(FacetDictionary, "_grow", noting)
    values = FacetValues(1)
    keys = [f"{'long ' * (i % 7)}{i}" for i in range(9_000)]
    for start in range(0, len(keys), 900):
        part = KeyArena.of(keys[start : start + 900])
        async with values.learning:
            await values.make_room(part)
            values.extend(0, 7, start, part)
    assert threads
    assert not any(threads)
    assert values.texts_of(range(len(keys))) == keys
    assert [values.number(key) for key in keys[::100]] == list(range(0, len(keys), 100))


def test_few_values_are_kept_as_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(global_ordinals, "_TEXTS_KEPT_MAX", 16)
    keys = [*map(str, range(100)), "\ud800", ""]
    values = FacetValues(1)
    values.extend(0, 7, 0, KeyArena.of(keys))
    for number in [*range(len(keys)), 3, 3]:
        assert values.texts[number] == keys[number]
        assert len(values.texts) <= 16
    assert values.texts_of([5, 101, 100]) == ["5", "", "\ud800"]
