"""The language of each field of an index."""

from __future__ import annotations

from common.analysis.language_and_typos_by_field import Languages


def test_a_field_has_its_own_language_or_that_of_the_index() -> None:
    languages = Languages("english", {"titel": "german", "code": None})
    assert languages.of("title") == "english"
    assert languages.of("titel") == "german"
    assert languages.of("code") is None
    assert languages.used == ("english", "german")
