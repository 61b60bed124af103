"""Folded words of texts and items: the same whether they are remembered or not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.analysis.analyzer import Analyzer
from coordinator.read.suggest import folded_words_cache
from coordinator.read.suggest.folded_words_cache import FoldedWordsCache

ITEM: dict[str, Any] = {
    "title": "The Café, again",
    "cast": [{"name": "Tom Hanks", "as": {"role": "Tom"}}, {"name": ["Ann", 3, None]}],
    "cast.name": "dotted",
    "castle": "no",
}


@pytest.mark.parametrize("bound", [0, 4_096])
def test_words_of_fields_and_what_is_inside(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ITEM_BYTES_REMEMBERED_MAX", "TEXT_CHARS_REMEMBERED_MAX"):
        monkeypatch.setattr(folded_words_cache, name, bound)
    folded = FoldedWordsCache(Analyzer())
    item = json.dumps(ITEM).encode()
    for _ in range(2):
        assert folded.words("The Café, again") == ("the", "cafe", "again")
        assert folded.words_in(item, ("title",)) == ("the", "cafe", "again")
        assert folded.words_in(item, ("cast.name",)) == ("tom", "hanks", "ann", "dotted")
        assert folded.words_in(item, ("cast",)) == ("tom", "hanks", "tom", "ann", "dotted")
        assert folded.words_in(item, ("cas", "cast.as.role", "nothing")) == ("tom",)


def test_few_texts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded_words_cache, "TEXTS_REMEMBERED_MAX", 2)
    analyzer = Analyzer()
    folded: list[str] = []

    def words(text: str) -> list[str]:
        folded.append(text)
        return text.split()

    monkeypatch.setattr(analyzer, "words", words)
    texts = FoldedWordsCache(analyzer)
    for text in ("a b", "c", "a b", "d", "a b", "c"):
        assert texts.words(text) == tuple(text.split())
    assert folded == ["a b", "c", "d", "c"]
