"""Stems and stop words by language."""

from __future__ import annotations

import pytest

from common.analysis.languages import LANGUAGES, Languages, stem, stem_prefix, stop_words


def test_every_language_with_a_stemmer_has_stop_words() -> None:
    assert [language for language in LANGUAGES if not stop_words(language)] == []


def test_english_stop_words_are_those_of_lucene() -> None:
    assert len(stop_words("english")) == 33


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("english", "running", "runs"),
        ("english", "happiness", "happy"),
        ("german", "hauser", "haus"),
        ("russian", "книги", "книга"),
        ("spanish", "casas", "casa"),
    ],
)
def test_forms_share_stem_and_beginning(language: str, one: str, other: str) -> None:
    wanted = stem(one, language)
    assert stem(other, language) == wanted
    beginning = stem_prefix(wanted, language)
    assert beginning is not None
    assert one.startswith(beginning)
    assert other.startswith(beginning)


def test_a_field_has_its_own_language_or_that_of_the_index() -> None:
    languages = Languages("english", {"titel": "german", "code": None})
    assert languages.of("title") == "english"
    assert languages.of("titel") == "german"
    assert languages.of("code") is None
    assert languages.used == ("english", "german")
