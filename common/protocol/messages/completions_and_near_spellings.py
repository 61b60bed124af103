"""Messages that ask for the words of the index near a text."""

from __future__ import annotations

from common.protocol.messages.message import Message
from common.query_syntax_tree import Filter


class TermsRequest(Message, frozen=True, array_like=True):
    """Ask for the words of the index near a text, with the number of items that have them.

    Only live documents count that pass all filters and have all of `words`.
    """

    index: int
    horizon: int
    revision: int
    text: str = ""
    """Folded word, or the beginning of one; empty: no words are requested, see `counted`."""
    is_prefix: bool = False
    """Whether to return words that begin with the text, not just the text itself."""
    typos: int = 0
    """Edits allowed: 0, 1 or 2."""
    words: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    num_terms: int = 0
    """About how many of the most frequent words to return; with typos, all."""
    counted: tuple[tuple[str, ...], ...] = ()
    """Instead: sets of words; count the documents that have all words of a set."""


class TermsResponse(Message, frozen=True, array_like=True):
    """Words near a text, or the counts of the request's sets."""

    terms: tuple[str, ...]
    counts: tuple[int, ...]
    """Documents, by term or by set; greater than 0 for a term."""
    distances: tuple[int, ...] = ()
    """Edits between the text and each term."""
    bound: int = 0
    """No term that is left out has more documents here."""
