"""Query caches of segments share one budget, for any number of indexes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from common.analysis.field_classes import FieldClasses
from common.protocol.messages import FieldWeight, ScoredClause, TextQuery
from common.query_syntax_tree import NUM_MATCH_KINDS, Word
from shard.caches.lru_cache import BOUNDS_CACHE, ENTRY_BYTES, MIB, LruCache
from shard.caches.query_cache import QUERY_CACHE_BUDGET, QueryCache
from shard.query.bm25_statistics.segment_statistics import doc_freqs
from shard.query.pruning import score_bounds
from shard.query.pruning.score_bounds import find_bounds
from shard.query.spelling.spacing_doc_freqs import cut_freqs, spacing_freq
from shard.query.terms.expansion import expand_word
from shard.query.text.clause_evaluation import Evaluation
from shard.query.text.prepared_query import PreparedQuery
from shard.query.text.text_search import match_text
from shard.query.text.whole_field_matches import whole_freq
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView
from tests.shard.text_model import make_segment

NUM_INDEXES = 5
CLASSES = FieldClasses("english")
BYTES_MAX = 200_000
BOUNDS_BYTES_MAX = 100_000
TEXTS = [" ".join(f"sea w{i} w{i + k} w{i}x{k}" for k in range(3)) for i in range(3_200)]


def _query(weight: float) -> TextQuery:
    clause = ScoredClause(Word("sea", is_stemmed=False), ((2.0, *[0.0] * (NUM_MATCH_KINDS - 1)),))
    return TextQuery((clause,), 1, False, (), (FieldWeight("text", weight, 9.0),), 0.9, 0.6, 0.2)


def _ask(segment: Segment, registry: FieldRegistry, number: int) -> list[Any]:
    """Ask everything that is remembered by the words or fields of a query."""
    view = SegmentView(segment)
    words = (f"w{number}", f"w{number + 1}")
    prepared = PreparedQuery(_query(1.0 + number), registry, CLASSES)
    ranked = match_text(view, prepared, None, 3).ranked
    return [
        doc_freqs(view, Word(words[0], is_prefix=True, typos=1), CLASSES).tolist(),
        spacing_freq(view, words),
        cut_freqs(view, "".join(words)),
        whole_freq(view, words),
        ranked.docs.tolist(),
    ]


def test_memory_of_queries_is_bounded_over_all_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_CACHE_BUDGET, "bytes_max", BYTES_MAX)
    monkeypatch.setattr(BOUNDS_CACHE, "bytes_max", BOUNDS_BYTES_MAX)
    registries = [FieldRegistry() for _ in range(NUM_INDEXES)]
    segments = [make_segment([{"text": one} for one in TEXTS], each) for each in registries]
    expected = [_ask(segments[0], registries[0], number) for number in range(20)]
    most = 0
    for number in range(20):
        for segment, registry in zip(segments, registries, strict=True):
            assert _ask(segment, registry, number) == expected[number]
            assert QUERY_CACHE_BUDGET.size <= BYTES_MAX
            assert BOUNDS_CACHE.size <= BOUNDS_BYTES_MAX
            most = max(most, QUERY_CACHE_BUDGET.size)
    assert most > BYTES_MAX / 2, "nothing is remembered"
    assert BOUNDS_CACHE.size > 0, "no bounds are remembered"

    held = 0
    for segment in segments:
        caches = [one for one in segment.caches.values() if isinstance(one, dict)]
        assert len(caches) >= 4, "expansions, spacings, whole fields, tf norms"
        for cache in caches:
            assert isinstance(cache, QueryCache), "what grows with the queries has to be bounded"
            held += sum(map(_array_bytes, cache.values()))
    assert held <= QUERY_CACHE_BUDGET.size


def test_long_keys_are_charged() -> None:
    """Short words take 53 bytes each and more as objects, two or three as text."""
    registry = FieldRegistry()
    segment = make_segment([{"text": one} for one in TEXTS[:20]], registry)
    view = SegmentView(segment)
    _ask(segment, registry, 0)  # what is made once for a segment
    words = [f"w{number}" for number in range(13_000)]
    many = Word("sea", typos=1, synonyms=tuple((one,) for one in words))
    fields = tuple(FieldWeight(f"f{number}", 1.0, 9.0) for number in range(2_000))
    prepared = PreparedQuery(structs.replace(_query(1.0), fields=fields), registry, CLASSES)
    for num_words, ask in (
        (13_000, lambda: spacing_freq(view, tuple(words))),
        (40, lambda: whole_freq(view, tuple(words[:40]))),
        (13_000, lambda: expand_word(segment, many, CLASSES)),
        (2_000, lambda: match_text(view, prepared, None, 3)),
    ):
        before = QUERY_CACHE_BUDGET.size
        ask()
        assert QUERY_CACHE_BUDGET.size - before > 53 * num_words


def _array_bytes(value: Any) -> int:
    """Return the bytes of the arrays of a remembered value."""
    if hasattr(value, "num_bytes"):
        return int(value.num_bytes)
    return sum(one.nbytes for one in value) if isinstance(value, tuple) else 0


def test_bounds_go_with_their_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = LruCache(MIB)
    monkeypatch.setattr(score_bounds, "BOUNDS_CACHE", cache)
    registry = FieldRegistry()
    segment = make_segment([{"text": one} for one in TEXTS], registry)
    match_text(SegmentView(segment), PreparedQuery(_query(1.0), registry, CLASSES), None, 3)
    assert cache.size > 0
    del segment
    cache.sweep()
    assert cache.size == 0


def test_bounds_take_what_was_computed_not_what_a_segment_might_come_to_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of all words of five million documents would exceed the cache."""
    registry = FieldRegistry()
    segment = make_segment([{"text": one} for one in TEXTS], registry)
    prepared = PreparedQuery(_query(1.0), registry, CLASSES)
    choice = Evaluation(segment, prepared).fields.choice
    match_text(SegmentView(segment), prepared, None, 3)
    kept = find_bounds(segment, choice)
    assert kept is not None
    of_all = kept.of_blocks.nbytes + kept.is_known.nbytes + kept.of_groups.codes.nbytes
    of_all += sum(one.num_bytes for one in kept.champions.values())
    BOUNDS_CACHE.resize((segment.uid, choice), kept, BOUNDS_CACHE.bytes_max)  # too large: gone
    assert find_bounds(segment, choice) is None

    might_need = of_all + kept.tf_norms.num_bytes + ENTRY_BYTES
    monkeypatch.setattr(BOUNDS_CACHE, "bytes_max", 2 * might_need - 2)
    match_text(SegmentView(segment), prepared, None, 3)

    kept = find_bounds(segment, choice)
    assert kept is not None
    assert 0 < kept.bytes_written < of_all
