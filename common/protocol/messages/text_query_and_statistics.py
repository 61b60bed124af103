"""Messages about the words of a query: their statistics, then the query with its weights."""

from __future__ import annotations

from common.protocol.messages.message import Message
from common.query_syntax_tree import Clause, Filter, Word


class StatisticsRequest(Message, frozen=True, array_like=True):
    """Ask for the statistics of all live documents that scoring needs."""

    index: int
    horizon: int
    revision: int
    words: tuple[Word, ...]
    filters: tuple[Filter, ...] = ()
    """Documents that do not pass all of them are ignored."""
    needs_fields: bool = True
    """Whether to return the fields too; they are the same for all words."""
    spacings: tuple[tuple[str, ...], ...] = ()
    """Words, and sequences of words, to count as well."""
    wholes: tuple[tuple[str, ...], ...] = ()
    """Texts (their words) to count as whole fields."""
    cuts: tuple[str, ...] = ()
    """Words to count where they are written as two, cut anywhere."""


class FieldStatistics(Message, frozen=True, array_like=True):
    """Lengths of one text field over the live documents of a shard."""

    path: str
    num_docs: int
    """Documents that have at least one word in the field."""
    total_length: int
    """Sum of the *quantized* lengths, so that it does not depend on history."""


class StatisticsResponse(Message, frozen=True, array_like=True):
    """Additive over shards, and over segments: live documents only."""

    num_docs: int
    fields: tuple[FieldStatistics, ...]
    """Text fields by path; empty if not requested, as `scalar_fields`."""
    doc_freqs: tuple[tuple[int, ...], ...]
    """Per word of the request: sum of document frequencies of its matching terms, by `MatchKind`.
    """
    scalar_fields: tuple[str, ...]
    """Paths of fields that have, or had, values or null."""
    scalar_kinds: tuple[int, ...] = ()
    """Per path: bit set of the `ValueKind` of its values; 0: none to sort or filter by."""
    spacing_freqs: tuple[int, ...] = ()
    """Per spacing of the request: documents that have the word, or the words next to each other."""
    whole_freqs: tuple[int, ...] = ()
    """Per text of the request: documents that have a field which consists of it."""
    cut_freqs: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Per word to cut: pairs of the number of characters of the first part and the documents (some)
    that have both parts next to each other."""
    near_words: tuple[tuple[tuple[int, str, int], ...], ...] = ()
    """Per word of the request: kind (TYPO_1, TYPO_2), term and documents of the terms that it may
    be a misspelling of; none if a document of the shard has it in a better way."""

    @property
    def has_any(self) -> bool:
        """Whether any document has one of the spacings, whole texts or cut words."""
        return any(self.spacing_freqs) or any(self.whole_freqs) or any(self.cut_freqs)


class FieldWeight(Message, frozen=True, array_like=True):
    """A searchable field as one query sees it."""

    path: str
    weight: float
    average_length: float


class ScoredClause(Message, frozen=True, array_like=True):
    """A clause with the weights that the coordinator derived from the statistics of all shards."""

    clause: Clause
    weights: tuple[tuple[float, ...], ...]
    """Per word of the clause (one for a Word), by `MatchKind`: idf times kind factor; 0 where the
    kind is not used.
    """


class TextQuery(Message, frozen=True, array_like=True):
    """The scored text part of a search."""

    clauses: tuple[ScoredClause, ...]
    required: int
    """How many of the clauses must match, at least (len(clauses): all)."""
    is_leading: bool
    """Whether the clauses that match must be the first ones (match: last)."""
    excluded: tuple[Clause, ...]
    fields: tuple[FieldWeight, ...]
    k1: float
    b: float
    proximity: float
    """Largest relative proximity score; 0 switches it off."""
    whole: tuple[str, ...] = ()
    """The words of the query, if a field that consists of them gets a bonus."""
