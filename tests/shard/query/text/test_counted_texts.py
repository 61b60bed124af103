"""Counts of documents with adjacent words, or with a whole field, against comparing all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from shard.query.spelling.spacing_doc_freqs import (
    cut_freqs,
    cut_freqs_among,
    spacing_freq,
    spacing_freq_among,
)
from shard.query.text import whole_field_matches
from shard.query.text.whole_field_matches import whole_freq, whole_freq_among
from shard.segment.field_registry import FieldRegistry
from shard.segment.snapshot import SegmentView
from tests.shard.text_model import make_segment

TEXTS = st.lists(st.sampled_from(["sea", "green", "mile", "the"]), max_size=4).map(" ".join)
ITEMS = st.lists(
    st.fixed_dictionaries({}, optional={"a": TEXTS, "b": TEXTS, "c": TEXTS}), max_size=12
)
WORDS = st.lists(st.sampled_from(["sea", "green", "mile", "the", "nope"]), min_size=1, max_size=3)


def has_words(item: dict[str, str], words: list[str]) -> bool:
    return any(f" {' '.join(words)} " in f" {text} " for text in item.values())


def has_whole(item: dict[str, str], words: list[str]) -> bool:
    named = " ".join(words)
    return not {named, f"the {named}"}.isdisjoint(item.values())


@pytest.mark.parametrize("listed_max", [0, 4_096])
def test_counts_are_those_of_all_documents(monkeypatch: Any, listed_max: int) -> None:
    monkeypatch.setattr(whole_field_matches, "_LISTED_MAX", listed_max)

    @given(ITEMS, WORDS, st.sets(st.integers(0, 11)))
    def compare(items: list[dict[str, str]], words: list[str], chosen: set[int]) -> None:
        segment = make_segment(items, FieldRegistry())
        some = sorted(one for one in chosen if one < len(items))
        views = [SegmentView(segment), SegmentView(segment, FrozenBitMap(some))]
        for _ in range(2):  # the second time from the cache
            for view, gone in zip(views, ([], some), strict=True):
                live = [item for i, item in enumerate(items) if i not in gone]
                assert spacing_freq(view, tuple(words)) == sum(has_words(i, words) for i in live)
                assert whole_freq(view, tuple(words)) == sum(has_whole(i, words) for i in live)
        docs = np.array(some, np.uint32)
        visible = [items[i] for i in some]
        assert spacing_freq_among(segment, tuple(words), docs) == sum(
            has_words(item, words) for item in visible
        )
        assert whole_freq_among(segment, tuple(words), docs) == sum(
            has_whole(item, words) for item in visible
        )

    compare()


PARTS = ["s", "ea", "sea", "мор", "е", "море", "ем", "m"]


@given(
    st.lists(st.lists(st.sampled_from(PARTS), max_size=4).map(" ".join), max_size=8),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("".join),
    st.sets(st.integers(0, 7)),
)
def test_words_are_cut_wherever_both_parts_are_words(
    texts: list[str], word: str, chosen: set[int]
) -> None:
    items = [{"a": text} for text in texts]
    segment = make_segment(items, FieldRegistry())
    some = [one for one in sorted(chosen) if one < len(items)]

    def freqs(items: list[dict[str, str]]) -> dict[int, int]:
        cuts = {cut: [word[:cut], word[cut:]] for cut in range(1, len(word))}
        counts = {cut: sum(has_words(one, parts) for one in items) for cut, parts in cuts.items()}
        return {cut: count for cut, count in counts.items() if count}

    live = [item for i, item in enumerate(items) if i not in some]
    found = cut_freqs(SegmentView(segment, FrozenBitMap(some)), word)
    assert {cut: freq for cut, freq in found.items() if freq} == freqs(live)
    found = cut_freqs_among(segment, word, np.array(some, np.uint32))
    assert {cut: freq for cut, freq in found.items() if freq} == freqs([items[i] for i in some])
