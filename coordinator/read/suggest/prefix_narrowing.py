"""Suggestions for a longer prefix, derived from those for a shorter one (pure).

    tom ha       all completions      ──▶  tom han     those with the longer prefix
                                           tom hanc    none
    tom han      all items, a few     ──▶  tom hank    those that have a word with the prefix
    tom h        the best fifteen     ──▶  tom ha      those that have a word with the prefix: the
                                                       best ones, if as many as are shown
    tom hank     hanks, nothing else  ──▶  tom hanks   the same completions, so the same items

Search-as-you-type sends a query per keystroke, and with one more letter the shards often need not
be asked. That is always so for the completions of the last word. For items, the word must match
only what it begins (not a stem, a synonym or a part of a word), and popularity alone must order
them, because scores depend on the text that was typed.

For this, half as many again as are shown are fetched. Of 1,971 prefixes of short queries and
titles (`benchmarks/suggest`), 48 % have their items among those of the prefix without the last
letter with none to spare, 57 % with five to spare beyond the ten shown, 61 % with ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from common.analysis.analyzer import is_run
from common.analysis.stemmer import stem, stem_all, stem_prefixes
from common.index_configuration import IndexConfiguration
from common.protocol.messages import FilterClause
from common.query_syntax_tree import Filter
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.suggest.folded_words_cache import FoldedWordsCache
from coordinator.read.text.completions_and_near_spellings import NearTerm
from coordinator.read.text.query_dictionary import QueryDictionary


class CompletionContext(Struct, frozen=True):
    """What completions of a last word depend on, besides the word."""

    words: tuple[str, ...]
    """The words before it, folded."""
    filters: tuple[FilterClause, ...]
    key_filter: Filter | None
    size: int
    """How many of the best items are wanted."""


class BestItems(Struct, frozen=True):
    """The best items that have all words."""

    items: list[bytes]
    are_all: bool = False
    """Whether there are no others."""
    num_by_value: int = 0
    """Popularity alone decides which items are this many first ones, and their order."""
    has_made_up_scores: bool = False

    def is_decided(self, num_shown: int) -> bool:
        """Return whether popularity alone decides which items are shown, and in which order."""
        return self.num_by_value >= min(num_shown, len(self.items))

    def is_doubtful(self, num_shown: int) -> bool:
        """Return whether the items to show may be others: scores that matter were made up."""
        return self.has_made_up_scores and not (self.items and self.is_decided(num_shown))


class KnownPrefix(Struct, frozen=True):
    """What the shards have answered about a last word."""

    completions: list[NearTerm] | None
    """All of them, the best first; None: not all are known."""
    best: BestItems | None
    """None: they were not asked for."""


class LastWord(Struct, frozen=True):
    """A last word that may be half typed, and what it matches in items."""

    text: str
    """Folded."""
    prefix: str
    """All words that it matches begin with this."""
    language: str | None
    """The language by whose rules it has other forms; None: it has none."""
    is_stemmed: bool
    """Whether words of the index have other forms."""

    def is_among(self, words: Sequence[str]) -> bool:
        """Return whether it matches one of some folded words."""
        if any(word.startswith(self.text) for word in words):
            return True
        if self.language is None:
            return False
        return stem(self.text, self.language) in stem_all(words, self.language)


def last_word(
    text: str,
    search: SearchParameters,
    dictionary: QueryDictionary,
    configuration: IndexConfiguration,
) -> LastWord | None:
    """Return the last word of a text; None if it is hard to say what it matches.

    Args:
        text: the word, folded; it may be half typed.
        search: with the text.
        dictionary: of the index.
        configuration: of the index.
    """
    if search.prefix == "none" or search.infix or configuration.infix_fields or is_run(text):
        return None
    if dictionary.synonyms or configuration.field_languages:
        return None
    if text in dictionary.stop_words or text in dictionary.notations:
        return None
    language = configuration.language
    if language is None:
        return LastWord(text, text, None, is_stemmed=False)
    prefixes = stem_prefixes(stem(text, language), language)
    if not prefixes:
        return LastWord(text, text, None, is_stemmed=True)
    is_known = len(prefixes) == 1 and text.startswith(prefixes[0])
    return LastWord(text, prefixes[0] if is_known else "", language, is_stemmed=True)


def completions_from(shorter: Iterable[KnownPrefix], last: str) -> list[NearTerm] | None:
    """Return the completions of a last word; None if shorter prefixes do not say.

    Args:
        shorter: what is known of prefixes of the word.
        last: the word, folded.
    """
    for known in shorter:
        if known.completions is not None:
            return [term for term in known.completions if term.text.startswith(last)]
    return None


def best_from(
    shorter: Mapping[str, KnownPrefix],
    last: LastWord,
    completions: Sequence[NearTerm] | None,
    fields: tuple[str, ...],
    size: int,
    folded: FoldedWordsCache,
) -> BestItems | None:
    """Return the best items that have a last word; None if shorter prefixes do not say.

    Args:
        shorter: what is known of prefixes of the word, the longest first.
        last: the word.
        completions: of the word; None: not known.
        fields: that are searched.
        size: how many items are shown.
        folded: has the words of items.
    """
    for text, known in shorter.items():
        best = known.best
        if best is None or not best.is_decided(size) or not last.prefix.startswith(text):
            continue
        decided = best.items[: best.num_by_value]
        are_all = best.are_all and len(decided) == len(best.items)
        is_same = completions is not None and known.completions == completions
        if is_same and not (are_all or last.is_stemmed):
            return BestItems(decided, num_by_value=len(decided))
        found = (item for item in decided if last.is_among(folded.words_in(item, fields)))
        items = list(found if are_all else islice(found, size))
        if are_all:
            # A search ignores a word that is nowhere, beside others: leave that to the shards.
            return BestItems(items, are_all=True, num_by_value=len(items)) if items else None
        if len(items) == size:
            return BestItems(items, num_by_value=size)
    return None
