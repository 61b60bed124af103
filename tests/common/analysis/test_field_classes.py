"""The classes of the fields of an index: their languages, typos and infixes, each with a bit."""

from __future__ import annotations

from common.analysis.field_classes import FieldClasses


def test_a_field_has_its_own_language_or_that_of_the_index() -> None:
    classes = FieldClasses("english", {"titel": "german", "code": None})
    assert classes.language_of("title") == "english"
    assert classes.language_of("titel") == "german"
    assert classes.language_of("code") is None
    assert classes.languages == ("english", "german")


def test_each_class_has_a_bit() -> None:
    """The example that the module draws."""
    classes = FieldClasses("english", {"titel": "german", "code": None}, infix_fields=["code"])
    assert classes.masks[classes.class_of("title")] == classes.masks[classes.class_of("text")]
    assert classes.mask_of_language("english") == 0b0010
    assert classes.mask_of_language("german") == 0b0100
    assert classes.mask_of_infixes() == classes.masks[classes.class_of("code")] == 0b1000
