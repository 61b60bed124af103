"""Estimates how long a text query takes, from sizes alone, before anything is read.

    a word            finding it, and the entries of its list: first a share of the documents; if
                      that would make the query slow, their number
    needed words      those of a single term: what the rarest one's list takes, once for each,
                      because the other lists are read only where they can have its documents
    the best hits     of a single term, whose number is stored: the bounds of its blocks
    with typos        its distance from every term of the vocabulary, unless the segment caches it

The estimate only decides on which thread a search runs, never what it returns: a factor of three is
accurate enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from common.query_syntax_tree import Clause, Word
from shard.query.terms.expansion import expand_word, is_known
from shard.query.text.prepared_query import phrase_words
from shard.segment.text.text_index import text_index

if TYPE_CHECKING:
    from common.analysis.field_classes import FieldClasses
    from common.protocol.messages import ScoredClause, TextQuery
    from shard.segment.snapshot import SegmentView, Snapshot

FAST_US: Final = 1_000.0
"""Up to this estimate, a text query runs on the event loop."""
_WORD_US: Final = 25.0
"""Cost of a word in a segment."""
_OTHER_US: Final = 15.0
"""Cost of a spacing, or of a whole field, in a segment."""
_TERM_US: Final = 0.002
"""Cost per typo and term of the vocabulary."""
_DOC_US: Final = 0.0004
"""Cost per word and document of the segment: one document in ten has the word."""
_ENTRY_US: Final = 0.004
"""Cost per entry of a word's list."""
_RAREST_ENTRY_US: Final = 0.007
"""Cost per entry of the rarest of several words that must all match, and per word: 0.006 to 0.011
for three words and 0.002 to 0.012 for phrases of up to five (medians by class; a segment of a
million items, AMD EPYC, 2026-12-01)."""
_BOUND_US: Final = 0.0005
"""Cost per entry of a list of which only the best are read: 145,000 take 0.09 ms, the search
included (as above)."""

_clause_of: Final = attrgetter("clause")


def words_of(scored: Iterable[ScoredClause], excluded: Iterable[Clause] = ()) -> list[Word]:
    """Return the words of clauses, those of phrases as the search reads them."""
    words: list[Word] = []
    for clause in (*map(_clause_of, scored), *excluded):
        if isinstance(clause, Word):
            words.append(clause)
        else:
            words += phrase_words(clause)
    return words


def num_matches_max(snapshot: Snapshot, query: TextQuery | None, classes: FieldClasses) -> int:
    """Return a bound on the documents that match a query, from what segments know of its words.

    Args:
        snapshot: to search.
        query: None matches all.
        classes: of the fields, by the configuration.
    """
    if query is None or query.required < len(query.clauses):
        return snapshot.num_docs
    words = words_of(query.clauses)
    num_matches = 0
    for view in snapshot.views:
        least = view.segment.num_docs
        for word in words:
            if is_known(view.segment, word, classes):
                expansion = expand_word(view.segment, word, classes)
                if not expansion.phrases:
                    least = min(least, expansion.num_entries)
        num_matches += least
    return num_matches


def is_slow_text(
    snapshot: Snapshot,
    words: Sequence[Word],
    classes: FieldClasses,
    num_others: int = 0,
    num_needed: int = 0,
    *,
    is_best_only: bool = False,
) -> bool:
    """Return whether a query of these words is likely to take more than `FAST_US`.

    Args:
        snapshot: to search.
        words: of the query.
        classes: of the fields, by the configuration.
        num_others: spacings and whole fields to count documents of.
        num_needed: how many of the words, the first ones, must all match.
        is_best_only: whether of the hits only the best by score are wanted, and their number.
    """
    num_views = len(snapshot.views)
    num_us = (len(words) * _WORD_US + num_others * _OTHER_US) * num_views
    if num_us > FAST_US:
        return True
    all_docs_us = snapshot.num_docs * _DOC_US
    if num_us + len(words) * all_docs_us <= FAST_US:
        num_us += len(words) * all_docs_us
    else:
        for view in snapshot.views:
            num_us += _entries_us(view, words, num_needed, classes, is_best_only=is_best_only)
            if num_us > FAST_US:
                return True
    num_typos = 0
    for word in words:
        num_typos += word.typos
        if word.infix:
            for view in snapshot.views:
                if not is_known(view.segment, word, classes):
                    return True
    if not num_typos:
        return False
    typos = [word for word in words if word.typos]
    for view in snapshot.views:
        terms_us = len(text_index(view.segment).vocabulary) * _TERM_US
        if num_us + terms_us * num_typos > FAST_US:
            unknown = [one for one in typos if not is_known(view.segment, one, classes)]
            num_us += terms_us * sum([word.typos for word in unknown])
            if num_us > FAST_US:
                return True
    return False


def _entries_us(
    view: SegmentView,
    words: Sequence[Word],
    num_needed: int,
    classes: FieldClasses,
    *,
    is_best_only: bool,
) -> float:
    """Return the cost of the words' entries; of one that takes long to look up, as of any word."""
    segment = view.segment
    num_us_of_any = segment.num_docs * _DOC_US
    num_us = 0.0
    num_intersected = 0
    num_rarest = segment.num_docs
    for i, word in enumerate(words):
        takes_long = word.typos or word.infix or word.is_prefix
        if takes_long and not is_known(segment, word, classes):
            num_us += num_us_of_any
            continue
        expansion = expand_word(segment, word, classes)
        if i < num_needed:
            num_rarest = min(num_rarest, expansion.num_entries)
        if expansion.phrases:
            num_us += num_us_of_any
        elif i < num_needed and expansion.only is not None:
            num_intersected += 1
        else:
            num_us += expansion.num_entries * _ENTRY_US
    entry_us = _RAREST_ENTRY_US
    if num_intersected == 1:
        is_pruned = is_best_only and len(words) == 1 and view.deleted is None
        entry_us = _BOUND_US if is_pruned else _ENTRY_US
    return num_us + num_intersected * num_rarest * entry_us
