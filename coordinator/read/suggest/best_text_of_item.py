"""Suggestions of whole texts: of each item, the one that has most of the typed words (pure).

A suggestion becomes a query, in which "Alien -Uncut" would exclude a word of that very text; so it
is suggested without the sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from coordinator.read.suggest.folded_words_cache import FoldedWordsCache
from coordinator.read.suggest.suggestion_results import UNCOUNTED, Suggestion
from coordinator.read.text.query_pieces import without_exclusions


def best_texts_of_items(
    items: Iterable[bytes],
    typed_words: Sequence[str],
    fields: Sequence[str],
    folded: FoldedWordsCache,
) -> Iterator[Suggestion]:
    """Yield, for each item, the text that has most of the typed words; each once.

    Args:
        items: stored ones, the best first.
        typed_words: folded.
        fields: whose texts are suggested.
        folded: has the words of texts.
    """
    seen = set()
    for item in items:
        document = orjson.loads(item)
        texts = [(name, text) for name in fields for text in _texts_at(document, name)]
        if not texts:
            continue
        name, text = texts[0]
        if len(texts) > 1:
            name, text = max(texts, key=lambda one: _num_found(folded, one[1], typed_words))
        text = without_exclusions(text)
        if text not in seen:
            seen.add(text)
            yield Suggestion(text, "field", UNCOUNTED, name)


def _num_found(folded: FoldedWordsCache, text: str, typed_words: Sequence[str]) -> int:
    """Return how many typed words some word of a text begins with."""
    if not typed_words:
        return 0
    words = folded.words(text)
    return sum(any(word.startswith(one) for word in words) for one in typed_words)


def _texts_at(value: Any, path: str) -> Iterator[str]:
    """Yield the texts at a path of a document, those in arrays one by one."""
    if isinstance(value, list):
        for one in value:
            yield from _texts_at(one, path)
    elif path == "" and isinstance(value, str):
        yield value
    elif path and isinstance(value, dict):
        if path in value:
            yield from _texts_at(value[path], "")
        head, _, tail = path.partition(".")
        if tail and head in value:
            yield from _texts_at(value[head], tail)
