"""What a segment remembers of expansions is bounded in bytes, whatever is typed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from common.analysis.languages import Languages
from common.query import Word
from shard.query import expansion
from shard.query.expansion import expand_word
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from tests.shard.text_model import make_segment

LANGUAGES = Languages()
LETTERS = "abcdefgh"
BYTES_MAX = 64 * 1024


@pytest.fixture(scope="module")
def segment() -> Segment:
    words = ["".join(letters) for letters in itertools.product(LETTERS, repeat=4)]
    return make_segment([{"text": " ".join(words)}], FieldRegistry())


def test_memory_of_expansions_is_bounded(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "EXPANSIONS_BYTES_MAX", BYTES_MAX)
    beginnings = [
        *LETTERS,
        *map("".join, itertools.product(LETTERS, repeat=2)),
        *map("".join, itertools.product(LETTERS, repeat=3)),
    ]
    most = 0
    for turn in range(2):
        for typos, beginning in itertools.product((0, 1), beginnings):
            word = Word(beginning, is_prefix=True, typos=typos if turn else 0)
            found = expand_word(segment, word, LANGUAGES)
            again = expand_word(segment, word, LANGUAGES)
            assert np.array_equal(found.terms, again.terms)
            memo = segment.caches["expansions"]
            held = sum(kept.num_bytes for kept in memo.values())
            assert held == memo.num_bytes <= BYTES_MAX
            most = max(most, held)
    assert most > BYTES_MAX // 2, "nothing is remembered"


def test_one_that_is_larger_than_all_may_be_is_not_kept(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion, "EXPANSIONS_BYTES_MAX", 1_000)
    segment.caches.pop("expansions", None)
    assert len(expand_word(segment, Word("a", is_prefix=True), LANGUAGES)) == 512
    assert not segment.caches["expansions"]
    expand_word(segment, Word("abc", is_prefix=True), LANGUAGES)
    assert len(segment.caches["expansions"]) == 1
