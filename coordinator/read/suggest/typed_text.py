"""A text as typed into a search box, with its words."""

from __future__ import annotations

from msgspec import Struct

from common.analysis.analyzer import Analyzer, Token
from coordinator.read.text.query_parser import typed_words


class TypedText(Struct, frozen=True):
    """The text as typed, with its words."""

    text: str
    tokens: list[Token]
    is_open: bool
    """Whether the last word may be incomplete."""

    @property
    def words(self) -> list[str]:
        """The words, folded."""
        return [token.text for token in self.tokens]


def typed_text(text: str, analyzer: Analyzer) -> TypedText | None:
    """Return the typed text; None where words are quoted or excluded, or there are none."""
    found = typed_words(text, analyzer)
    return None if found is None else TypedText(text, *found)
