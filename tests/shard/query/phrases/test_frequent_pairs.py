"""Frequent pairs against texts read word by word, and phrases with and without them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest

from common.protocol.messages import FieldWeight
from shard.caches.background_derivation import BACKGROUND_TASKS
from shard.caches.lru_cache import PAIRS_CACHE
from shard.query.phrases import frequent_pairs
from shard.query.phrases.frequent_pairs import find_pair, keep_frequent_pairs, make_frequent_pairs
from shard.query.phrases.phrase_search import find_phrase, phrase_terms, search_phrase
from shard.query.postings.term_lists import TermLists
from shard.query.scoring.bm25f import make_tf_norms
from shard.query.scoring.scratch_arrays import SCRATCH
from shard.segment.doc_sets import bitset_of
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.text.postings import Entries
from shard.segment.text.postings_cursor import ALL_DOCS, Wanted
from shard.segment.text.text_index import text_index
from tests.shard.text_model import make_segment

WORDS = ["sea", "green", "mile", "of"]
NUM_ITEMS = 700


def make_items(num_words: int) -> list[dict[str, list[str]]]:
    """Return items of two fields; values of a field stand apart."""
    rng = random.Random(num_words)

    def text(longest: int) -> str:
        chosen = rng.choices([*WORDS, "rare"], [8, 8, 8, 8, 0.1], k=rng.randint(0, longest))
        return " ".join(chosen)

    return [{"a": [text(num_words), text(3)], "b": [text(num_words)]} for _ in range(NUM_ITEMS)]


def lists_of(segment: Segment, fields: dict[int, float]) -> TermLists:
    """Return the lists of a segment as a query of some fields reads them."""
    index = text_index(segment)
    SCRATCH.reserve(index.num_docs)
    weights = {field: FieldWeight("", weight, 5.0) for field, weight in fields.items()}
    row_classes = np.ones(len(index.length_fields), np.uint64)
    tf_norms = make_tf_norms(index, weights, row_classes, 0.75)
    return TermLists(segment, tf_norms, 1.2, SCRATCH.members)


def rows_of(entries: Entries, fields: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return document, field and frequency of the entries in some fields."""
    columns = entries.docs.tolist(), entries.fields.tolist(), entries.freqs.tolist()
    return [row for row in zip(*columns, strict=True) if row[1] in fields]


@pytest.mark.parametrize("num_words", [5, 200])
def test_pairs_are_where_two_words_are_adjacent(
    monkeypatch: pytest.MonkeyPatch, num_words: int
) -> None:
    monkeypatch.setattr(frequent_pairs, "_PART_DOCS", 300)
    monkeypatch.setattr(frequent_pairs, "_OCCURRENCES_MAX", 1_000)
    items, registry = make_items(num_words), FieldRegistry()
    segment = make_segment(items, registry)
    pairs = make_frequent_pairs(segment)
    vocabulary = text_index(segment).vocabulary
    expected = Counter[tuple[str, str, int, str]]()
    for doc, item in enumerate(items):
        for name, values in item.items():
            for value in values:
                for first, second in pairwise(value.split()):
                    expected[first, second, doc, name] += 1
    found = Counter[tuple[str, str, int, str]]()
    for first, second in product(WORDS, WORDS):
        a, b = vocabulary.find(first), vocabulary.find(second)
        assert a is not None
        assert b is not None
        number = pairs.pair(a, b)
        entries = pairs.entries(number)
        assert len(entries.docs) == pairs.count(number)
        rows = rows_of(entries, range(len(registry.paths)))
        places = [row[:2] for row in rows]
        assert places == sorted(set(places))
        for doc, field, freq in rows:
            found[first, second, doc, registry.paths[field]] = freq
    assert len(pairs.parts) == 3
    assert found == {key: n for key, n in expected.items() if "rare" not in key[:2]}


def test_phrases_are_the_same_with_and_without_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequent_pairs, "DOCS_MIN", NUM_ITEMS)
    registry = FieldRegistry()
    segment = make_segment(make_items(8), registry)
    index = text_index(segment)
    keep_frequent_pairs(segment)
    rng = random.Random(5)
    everything = dict.fromkeys(index.length_fields.tolist(), 1.0)
    some = {field: float(registry.paths[field] == "b") for field in everything}
    num_pairs = 0
    for number in range(150):
        words = rng.choices([*WORDS, "rare"], [4, 4, 4, 4, 1], k=rng.randint(2, 4))
        terms = phrase_terms(index, words, is_prefix=rng.random() < 0.2)
        num_pairs += find_pair(segment, terms.only) is not None
        lists = lists_of(segment, some if number % 3 == 0 else everything)
        wanted = np.array(sorted(rng.sample(range(NUM_ITEMS), rng.choice([0, 9, 600]))), np.uint32)
        bits = bitset_of(wanted, NUM_ITEMS)
        for looked_at in (ALL_DOCS, Wanted.of(bits), Wanted.among(wanted)):
            found = search_phrase(lists, terms, looked_at)
            only = [term for term in terms.only if term >= 0]
            docs = lists.docs_with_all(only, looked_at)
            expected = find_phrase(index, terms, docs)
            counted = [field for field in everything if number % 3 or some[field]]
            assert rows_of(found, counted) == rows_of(expected, counted)
    assert num_pairs > 100


def test_pairs_are_made_in_the_background_once_a_phrase_wants_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    BACKGROUND_TASKS.run_all()
    monkeypatch.setattr(frequent_pairs, "DOCS_MIN", NUM_ITEMS)
    segment = make_segment(make_items(8), FieldRegistry())
    index = text_index(segment)
    rare = phrase_terms(index, ["rare", "sea"], is_prefix=False).only
    terms = phrase_terms(index, ["green", "sea"], is_prefix=False)
    frequent = terms.only
    assert find_pair(segment, rare) is None
    assert len(BACKGROUND_TASKS) == 0, "nothing to gain"
    assert find_pair(segment, frequent) is None
    assert len(BACKGROUND_TASKS) == 1
    BACKGROUND_TASKS.run_all()
    found = find_pair(segment, frequent)
    assert found is not None
    docs = np.arange(NUM_ITEMS, dtype=np.uint32)
    fields = index.length_fields.tolist()
    assert rows_of(found, fields) == rows_of(find_phrase(index, terms, docs), fields)


def test_a_small_segment_has_none() -> None:
    BACKGROUND_TASKS.run_all()
    segment = make_segment(make_items(8), FieldRegistry())
    terms = phrase_terms(text_index(segment), WORDS[:2], is_prefix=False)
    assert find_pair(segment, terms.only) is None
    assert len(BACKGROUND_TASKS) == 0


def test_long_texts_have_fewer_frequent_words(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = make_segment(make_items(8), FieldRegistry())
    assert set(WORDS) <= {
        text_index(segment).vocabulary.term(term) for term in make_frequent_pairs(segment).words
    }
    monkeypatch.setattr(frequent_pairs, "_OCCURRENCES_MAX", 4)
    assert 1 <= len(make_frequent_pairs(segment).words) < len(WORDS)


def test_pairs_that_would_fill_the_cache_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PAIRS_CACHE, "bytes_max", 4_000)
    segment = make_segment(make_items(8), FieldRegistry())
    keep_frequent_pairs(segment)
    assert PAIRS_CACHE.size <= 4_000
    terms = phrase_terms(text_index(segment), WORDS[:2], is_prefix=False)
    assert find_pair(segment, terms.only) is None
