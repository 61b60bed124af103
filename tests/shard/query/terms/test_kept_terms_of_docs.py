"""Which terms of a word each document has, as the texts themselves tell."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.caches.lru_cache import WORDS_CACHE
from shard.query.terms import kept_terms_of_docs
from shard.query.terms.kept_terms_of_docs import KeptTerms, first_extra, kept_terms
from shard.segment.doc_sets import are_in, rank_of
from shard.segment.field_registry import FieldRegistry
from shard.segment.segment import Segment
from shard.segment.text.text_index import text_index
from tests.shard.text_model import make_segment

WORDS = ("sea", "seal", "season", "sell", "tide")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
ITEMS = st.lists(st.fixed_dictionaries({"a": TEXTS, "b": TEXTS}), min_size=1, max_size=150)


def terms_of(kept: KeptTerms, doc: int) -> list[int]:
    """Return the terms that are kept of a document."""
    if not are_in(kept.docs, np.array([doc], np.uint32))[0]:
        return []
    found = [kept.firsts[rank_of(kept.docs, kept.ranks, doc)]]
    at = first_extra(kept, doc)
    while at < len(kept.extra_docs) and kept.extra_docs[at] == doc:
        found.append(kept.extra_terms[at])
        at += 1
    return [int(kept.terms[one]) for one in found]


@given(ITEMS)
def test_each_document_has_the_terms_of_its_texts(items: list[dict[str, Any]]) -> None:
    segment = make_segment(items, FieldRegistry())
    vocabulary = text_index(segment).vocabulary
    begun = {word: vocabulary.find(word) for word in WORDS if word.startswith("se")}
    known = {word: term for word, term in begun.items() if term is not None}
    terms = np.array(sorted(known.values()), np.uint32)
    kept = kept_terms_of_docs.terms_of_docs(segment, terms)
    for doc, item in enumerate(items):
        words = set(f"{item['a']} {item['b']}".split())
        assert terms_of(kept, doc) == sorted(known[word] for word in words if word in known)


def test_terms_are_kept_from_the_second_search_on(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = make_segment([{"a": "sea seal"}, {"a": "tide"}, {"a": "seal"}], FieldRegistry())
    terms = np.array(text_index(segment).vocabulary.find_all(("sea", "seal")), np.uint32)
    scheduled: list[Callable[[Segment], None]] = []

    def note(key: Hashable, owner: Segment, make: Callable[[Segment], None]) -> None:
        assert owner is segment
        scheduled.append(make)

    monkeypatch.setattr(kept_terms_of_docs, "schedule", note)
    assert kept_terms(segment, "se", terms) is None
    assert not scheduled
    size = WORDS_CACHE.size
    assert kept_terms(segment, "se", terms) is None
    scheduled[0](segment)
    assert WORDS_CACHE.size > size
    kept = kept_terms(segment, "se", terms)
    assert kept is not None
    assert terms_of(kept, 0) == terms.tolist()
    assert kept_terms(segment, "tide", terms[:1]) is None
    assert len(scheduled) == 1
