"""Orders of languages. The expected ones were recorded from ICU 78."""

from __future__ import annotations

import random
import unicodedata
from itertools import pairwise

import numpy as np
import pytest

from common.analysis.collation import collator, with_new_values
from common.analysis.collation_names import COLLATION_LANGUAGES, parse_collation


@pytest.mark.parametrize(
    ("collation", "ordered"),
    [
        ("root", ["", " ", "a b", "ab", "Ab", "áb", "b", "ﬁ", "z", "я", "京"]),
        (
            "de",
            ["arzt", "Ärzte", "Göbel", "Goebel", "Goethe", "Strase", "Straße", "Strassf", "Zaun"],
        ),
        ("de-phonebook", ["Göbel", "Goebels", "Goethe", "Götz", "Gold"]),
        ("sv", ["a", "é", "Zorn", "Åberg", "Ängel", "Örn"]),
        ("da", ["Zoo", "Ære", "Øre", "Ål", "Aalborg"]),
        ("cs", ["cena", "čaj", "dům", "hora", "chata", "jih"]),
        ("es", ["llama", "luz", "nube", "ñame", "oro"]),
        ("es-traditional", ["cuna", "chico", "luz", "llama"]),
        ("hu", ["cukor", "csak", "zene", "zsír"]),
        ("ru", ["ёж", "ель", "жук", "abc"]),
        ("fr", ["cote", "coté", "côte", "côté"]),
        ("fr-ca", ["cote", "côte", "coté", "côté"]),
        ("vi", ["da", "dạ", "đa", "e"]),
        # With combining accents, in the order in which Unicode decomposes them.
        ("vi", ["a\u0323z", "â", "a\u0323\u0302", "b"]),
        ("sv", ["oz", "z", "o\u0308", "o\u0327\u0308b"]),
        ("mt", ["A", "a", "B", "b"]),
        ("root+numeric", ["part 2", "part 10", "part 010 a", "part 11", "part x"]),
        ("root+numeric", ["1", "9", "10", "99999999999999999999", "100000000000000000000", "a"]),
        ("root+numeric", ["v1.9.0", "v1.10.0", "v2"]),
        ("root+numeric", ["第２巻", "第9巻", "第１０巻", "第11巻"]),
        ("ar+numeric", ["ص ٩", "ص ١٠", "ص 11", "ص ۱۲"]),
        ("root+numeric", ["é２", "e\u0301９", "é１０"]),
        ("root+numeric", ["1²0", "10", "²", "³"]),
    ],
)
def test_texts_are_in_the_order_of_the_language(collation: str, ordered: list[str]) -> None:
    shuffled = random.Random(1).sample(ordered, len(ordered))

    assert sorted(shuffled, key=collator(collation).key_of) == ordered


@pytest.mark.parametrize("language", ["root", *COLLATION_LANGUAGES])
def test_different_texts_have_different_keys(language: str) -> None:
    key_of = collator(language).key_of

    texts = [
        "",
        "a",
        "A",
        "\u0000",
        "a\u0000",
        "é",
        "e\u0301",
        "01",
        "1",
        "한",
        "한글",
        "𝄞",
        "\ud800",
    ]

    assert len({key_of(text) for text in texts}) == len(texts)


def test_keys_of_many_texts_are_those_of_each() -> None:
    texts = ["ﷺ" * 50, "", *(f"Straße {i}" for i in range(5_000)), "x" * 100_000, "京都 10"]
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    of_german = collator("de+numeric")

    keys, ends = of_german.keys(np.frombuffer(bytearray(b"".join(encoded)), np.uint8), offsets)

    for i in (0, 1, 2, 3_000, len(texts) - 2, len(texts) - 1):
        assert keys[ends[i] : ends[i + 1]].tobytes() == of_german.key(encoded[i])


@pytest.mark.parametrize("language", ["root", "vi", "sv"])
def test_composed_and_combining_accents_are_equal_but_for_the_text_itself(language: str) -> None:
    words = ["Ặ", "ậ", "ế", "ö", "Å", "é1", "o"]
    forms = [
        unicodedata.normalize(form, word) + end
        for word in words
        for form in ("NFC", "NFD")
        for end in ("", "a", "b")
    ]
    by_word = sorted(
        {unicodedata.normalize("NFC", one) for one in forms}, key=collator(language).key_of
    )
    ordered = sorted(forms, key=collator(language).key_of)
    assert list(dict.fromkeys(unicodedata.normalize("NFC", one) for one in ordered)) == by_word
    encoded = [one.encode() for one in forms]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    arena = np.frombuffer(bytearray(b"".join(encoded)), np.uint8)
    keys, key_offsets = collator(language).keys(arena, offsets)
    found = [keys[start:end].tobytes() for start, end in pairwise(key_offsets.tolist())]
    assert found == [collator(language).key_of(one) for one in forms]
    assert len(set(found)) == len(set(forms))


def test_new_values_are_put_in_their_place() -> None:
    names = [f"é{i * 7919 % 1_000}" for i in range(1_000)]
    key_of = collator("fr").key_of

    def order(num: int) -> list[int]:
        return sorted(range(num), key=lambda n: key_of(names[n]))

    known = np.array(order(990), np.uint32)

    grown = with_new_values(known, 1_000, lambda n: key_of(names[n]))

    assert grown is not None
    assert grown.tolist() == order(1_000)
    assert with_new_values(known[:10], 1_000, lambda n: key_of(names[n])) is None


def test_names_of_collations() -> None:
    assert parse_collation("de-AT") == "de"
    assert parse_collation("fr_CA+numeric") == "fr-ca+numeric"
    assert parse_collation("ROOT") == "root"
    assert parse_collation("none") == ""
    for wrong in ("xx", "de-wrong", "de+", "de+x", "none+numeric", "", 1, None, ["de"]):
        assert parse_collation(wrong) is None
