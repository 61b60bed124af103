"""Other notations of a word, each next to a word that was typed beside it."""

from __future__ import annotations

import pytest

from coordinator.read.text.query_parser import QueryOptions
from tests.coordinator.read.text.test_word_spacings import parsed_query


def notations(text: str, **configuration: object) -> set[str]:
    parsed = parsed_query(text, None, **configuration)
    return {" ".join(one.words) for one in parsed.spacings if one.is_notation}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rocky 2", {"rocky ii", "rocky two", "rocky part ii"}),
        ("rocky ii", {"rocky 2", "rocky two"}),
        ("7 samurai", {"vii samurai", "seven samurai", "part vii samurai"}),
        ("50 shades", {"fifty shades"}),
        ("saint louis", {"st louis"}),
        ("fort st john", {"fort saint", "saint john", "ft st"}),
        ("salt and pepper", {"salt pepper"}),
        ("at and t", {"at t"}),
        ("and pepper", set()),
        ("2", set()),
        ("player 1", {"player one"}),
        ("formula one", {"formula 1"}),
        ("rocky 21", set()),
        ('rocky "2"', set()),
        ("rocky -2", set()),
        ('"rocky" 2', set()),
        ("京都 2", set()),
    ],
)
def test_notations_are_those_of_english_unless_fields_have_languages(
    text: str, expected: set[str]
) -> None:
    assert notations(text) == expected


def test_words_belong_to_the_languages_of_the_fields() -> None:
    assert notations("salz und pfeffer", language="german") == {"salz pfeffer"}
    assert notations("salz und pfeffer") == set()
    assert notations("salt and pepper", language="german") == set()
    both: dict[str, object] = {"language": "german", "field_languages": {"name": "english"}}
    assert notations("salt and pepper und", **both) == {"salt pepper"}
    assert notations("hauptstr 2", language="finnish") == {"hauptstr ii"}
    assert notations("teil 1", language="german") == set()
    assert notations("berliner straße", language="german") == {"berliner str"}


def test_words_around_a_stop_word_are_not_neighbours() -> None:
    assert notations("rocky the 2", stop_words=["the"]) == set()


def test_words_as_typed_have_no_notations() -> None:
    assert not parsed_query("rocky 2", QueryOptions(typo=0)).spacings
