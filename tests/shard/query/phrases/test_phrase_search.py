"""Phrases against texts read word by word: rare and frequent words, positions of several bytes."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from shard.query.phrases import phrase_search
from shard.segment.field_registry import FieldRegistry
from shard.segment.text.text_index import text_index
from tests.shard.text_model import make_segment

WORDS = ["sea", "green", "mile", "of"]


def texts_of(rng: random.Random, num_words: int) -> str:
    return " ".join(rng.choices([*WORDS, "rare"], [8, 8, 8, 8, 0.2], k=rng.randint(0, num_words)))


@pytest.mark.parametrize("ratio_max", [0, phrase_search._ENTRIES_PER_DOC_MAX, 1_000_000])
@pytest.mark.parametrize("num_words", [6, 400])
def test_phrases_are_found_where_the_words_stand(
    monkeypatch: pytest.MonkeyPatch, ratio_max: int, num_words: int
) -> None:
    monkeypatch.setattr(phrase_search, "_ENTRIES_PER_DOC_MAX", ratio_max)
    rng = random.Random(num_words)
    items = [{name: texts_of(rng, num_words) for name in ("a", "b")} for _ in range(400)]
    registry = FieldRegistry()
    segment = make_segment(items, registry)
    index = text_index(segment)
    for _ in range(40):
        words = rng.choices([*WORDS, "rare"], k=rng.randint(2, 5))
        is_prefix = rng.random() < 0.3
        if is_prefix:
            words[-1] = words[-1][:1]
        wanted = sorted(rng.sample(range(400), rng.choice([0, 5, 400])))
        terms = phrase_search.phrase_terms(index, words, is_prefix=is_prefix)
        found = phrase_search.find_phrase(index, terms, np.array(wanted, np.uint32))
        expected = Counter[tuple[int, str]]()
        for doc in wanted:
            for name, text in items[doc].items():
                typed = text.split()
                for at in range(len(typed) - len(words) + 1):
                    here = typed[at : at + len(words)]
                    is_there = here[:-1] == words[:-1] and (
                        here[-1].startswith(words[-1]) if is_prefix else here[-1] == words[-1]
                    )
                    expected[doc, name] += is_there
        places = list(zip(found.docs.tolist(), found.fields.tolist(), strict=True))
        assert places == sorted(set(places))
        numbers = [registry.paths[field] for field in found.fields.tolist()]
        assert dict(
            zip(zip(found.docs.tolist(), numbers, strict=True), found.freqs.tolist(), strict=True)
        ) == {place: freq for place, freq in expected.items() if freq}
