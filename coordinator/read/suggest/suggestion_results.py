"""Suggestions as a response shows them: frozen values, as those of `read.search_results`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

UNCOUNTED: Final = -1
"""Count of a suggestion that is not known yet."""


class Suggestion(Struct, frozen=True, omit_defaults=True):
    """One text that the typed one may become."""

    text: str
    source: str
    """word, field, facet or search."""
    count: int
    """Items that have the facet value; else those that have all words of the text."""
    field: str | None = None
    """Source of the value or text."""


class SuggestionPage(Struct, frozen=True):
    """The suggestions, the best first."""

    suggestions: Sequence[Suggestion]
    seq: int
    """The state that was counted."""
