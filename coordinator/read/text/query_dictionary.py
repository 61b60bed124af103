"""The words that a configuration gives a meaning of their own, folded as those of queries are."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from common.analysis.analyzer import Analyzer
from common.analysis.field_classes import typo_groups
from common.analysis.stop_words import stop_words
from common.index_configuration import IndexConfiguration
from coordinator.read.text.numerals_and_abbreviations import (
    LANGUAGE_DEFAULT,
    LANGUAGES_REMEMBERED_MAX,
    notations,
)
from coordinator.read.text.query_pieces import Words


class QueryDictionary:
    """Folded stop words and synonyms of one configuration, notations, typos; once per revision."""

    def __init__(self, configuration: IndexConfiguration, analyzer: Analyzer) -> None:
        language = configuration.stop_words_language
        listed = stop_words(language) if language else configuration.stop_words
        self.stop_words = _words_of(listed, analyzer)
        named = {configuration.language, *configuration.field_languages.values()}
        languages = tuple(sorted(filter(None, named))) or (LANGUAGE_DEFAULT,)
        self.function_words = _function_words(languages, analyzer)
        """Those of the languages of the fields, whether they are stop words or not."""
        self.synonyms: dict[Words, tuple[Words, ...]] = {}
        for phrase, alternatives in configuration.synonyms.items():
            words = tuple(analyzer.words(phrase))
            # A query is looked up without its stop words.
            key = tuple([word for word in words if word not in self.stop_words]) or words
            folded = [tuple(analyzer.words(alternative)) for alternative in alternatives]
            known = self.synonyms.get(key, ())
            self.synonyms[key] = tuple(dict.fromkeys([*known, *filter(None, folded)]))
        self.synonyms.pop((), None)
        self.synonym_words_max = max(map(len, self.synonyms), default=0)
        self.notations = notations(languages, analyzer)
        self.typo_groups = typo_groups(configuration.field_typo_lengths)


@functools.lru_cache(LANGUAGES_REMEMBERED_MAX)
def _function_words(languages: Words, analyzer: Analyzer) -> frozenset[str]:
    """Return the folded function words of some languages."""
    return _words_of([word for language in languages for word in stop_words(language)], analyzer)


def _words_of(texts: Iterable[str], analyzer: Analyzer) -> frozenset[str]:
    """Return the folded words of some texts."""
    return frozenset(word for text in texts for word in analyzer.words(text))
