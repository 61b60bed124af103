"""Texts of others on a terminal: what controls it is shown, everything else stays."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.process.control_character_escaping import printable

STAYS = "a\tb\nc Ünï ö 語 👩\u200d👩 שלום\u200f עולם é \ue000"


def test_texts_stay() -> None:
    assert printable(STAYS) == STAYS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
        ("\x9b31m", "\\u009b31m"),
        ("over\rwritten\x08", "over\\u000dwritten\\u0008"),
        ("\u202etxt.exe\u2066", "\\u202etxt.exe\\u2066"),
        ("\udce9", "\\udce9"),
    ],
)
def test_what_controls_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_no_control_is_left_and_all_can_be_encoded(text: str) -> None:
    shown = printable(text)
    assert not {unicodedata.category(char) for char in shown if char not in "\t\n"} & {"Cc", "Cs"}
    assert not {unicodedata.bidirectional(char) for char in shown} & {"LRO", "RLO", "LRE", "RLE"}


@given(st.recursive(st.text(st.characters()), lambda inner: st.lists(inner), max_leaves=4))
def test_json_keeps_its_content(value: object) -> None:
    assert json.loads(printable(json.dumps(value, ensure_ascii=False))) == value
