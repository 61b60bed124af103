"""Stems and stop words by language."""

from __future__ import annotations

import pytest
import Stemmer

from common.analysis.stemmer import _IRREGULAR_PLURALS, stem, stem_prefixes
from common.analysis.stop_words import stop_words


def test_every_language_with_a_stemmer_has_stop_words() -> None:
    assert [language for language in Stemmer.algorithms() if not stop_words(language)] == []


def test_english_stop_words_are_those_of_lucene() -> None:
    assert len(stop_words("english")) == 33


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("english", "running", "runs"),
        ("english", "happiness", "happy"),
        ("english", "mice", "mouse"),
        ("english", "womens", "woman"),
        ("english", "childrens", "child"),
        ("english", "fireman", "firemen"),
        ("english", "shelves", "shelf"),
        ("german", "hauser", "haus"),
        ("russian", "книги", "книга"),
        ("spanish", "casas", "casa"),
    ],
)
def test_forms_share_stem_and_beginning(language: str, one: str, other: str) -> None:
    wanted = stem(one, language)
    assert stem(other, language) == wanted
    for word in (one, other):
        beginnings = stem_prefixes(wanted, language)
        assert [word.startswith(beginning) for beginning in beginnings].count(True) == 1


def test_a_plural_is_a_form_of_its_word_wherever_it_begins() -> None:
    for pair in _IRREGULAR_PLURALS["english"].split():
        word, plural = pair.split(":")
        wanted = stem(word, "english")
        assert stem(plural, "english") == wanted, pair
        beginnings = stem_prefixes(wanted, "english")
        assert list(beginnings) == sorted(beginnings)
        for one in (word, plural):
            assert [one.startswith(beginning) for beginning in beginnings].count(True) == 1, pair


def test_every_listed_plural_needs_to_be_listed() -> None:
    for pair in _IRREGULAR_PLURALS["english"].split():
        word, plural = pair.split(":")
        stemmer = Stemmer.Stemmer("english")
        assert stemmer.stemWord(word) != stemmer.stemWord(plural), pair


def test_plurals_that_are_forms_of_commoner_words_stay_forms_of_these() -> None:
    assert stem("leaves", "english") == stem("leaving", "english") != stem("leaf", "english")
    assert stem("lives", "english") == stem("living", "english") != stem("life", "english")
    assert stem("omen", "english") != stem("oman", "english")
