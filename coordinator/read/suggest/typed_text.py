"""A text as typed into a search box, with its words."""

from __future__ import annotations

from msgspec import Struct

from common.analysis.analyzer import Analyzer, Token
from coordinator.read.text.query_pieces import typed_words


class TypedText(Struct, frozen=True):
    """The text as typed, with its words, of which a query has at most `query_words_max`."""

    text: str
    tokens: list[Token]
    is_open: bool
    """Whether the last word may be incomplete."""

    @property
    def words(self) -> list[str]:
        """The words, folded."""
        return [token.text for token in self.tokens]


def typed_text(text: str, analyzer: Analyzer, words_max: int) -> TypedText | None:
    """Return the typed text with its first words.

    None where words are quoted or excluded, or there are none.
    """
    found = typed_words(text, analyzer, words_max)
    return None if found is None else TypedText(text, *found)
