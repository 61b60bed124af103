"""Patterns and half-typed words over the keys of a facet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.analysis.analyzer import Analyzer
from common.process.loop_scheduler import run_to_completion
from coordinator.read.facets import key_search as module
from coordinator.read.facets.global_ordinals import FacetValues
from coordinator.read.facets.key_search import accept_keys

KEYS = ["Drama", "Melodrama", "Science Fiction", "Café noir", "Film-Noir", "Mystery", "1994"]
ANALYZER = Analyzer()


def found(pattern: str | None, key_query: str | None) -> list[str]:
    values = FacetValues(1)
    values.extend(0, 1, 0, KEYS)
    accepted = run_to_completion(accept_keys(values, ANALYZER, pattern, key_query))
    assert accepted is not None
    return [key for key, is_accepted in zip(KEYS, accepted, strict=True) if is_accepted]


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("drama", ["Drama"]),
        ("*drama", ["Drama", "Melodrama"]),
        ("cafe NOIR", ["Café noir"]),
        ("*noir", ["Café noir", "Film-Noir"]),
        ("s*fi*n", ["Science Fiction"]),
        ("*", KEYS),
        ("dram", []),
        ("film noir", ["Film-Noir"]),
    ],
)
def test_patterns_match_whole_keys(pattern: str, keys: list[str]) -> None:
    assert found(pattern, None) == keys


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("3", ["3"]),
        ("-3", ["-3"]),
        ("-*", ["3", "-3", "-12", "Film-3"]),
        ("-1*", ["-12"]),
        ("*3", ["3", "-3", "Film-3"]),
        ("*-3", ["3", "-3", "Film-3"]),
        ("film-3", ["Film-3"]),
    ],
)
def test_a_pattern_tells_a_number_from_its_negative(pattern: str, keys: list[str]) -> None:
    numbers = ["3", "-3", "-12", "Film-3"]
    values = FacetValues(1)
    values.extend(0, 1, 0, numbers)
    accepted = run_to_completion(accept_keys(values, ANALYZER, pattern, None))
    assert accepted is not None
    assert [key for key, is_found in zip(numbers, accepted, strict=True) if is_found] == keys


@pytest.mark.parametrize(
    ("key_query", "keys"),
    [
        ("no", ["Café noir", "Film-Noir"]),
        ("fic", ["Science Fiction"]),
        ("mistery", ["Mystery"]),
        ("fiction sci", ["Science Fiction"]),
        ("dramma", ["Drama"]),
        ("melodarm", ["Melodrama"]),
        ("19", ["1994"]),
        ("zzz", []),
    ],
)
def test_words_match_beginnings_of_words(key_query: str, keys: list[str]) -> None:
    assert found(None, key_query) == keys


def test_words_with_the_same_letters_before_their_digits_have_the_same_typos() -> None:
    values = FacetValues(1)
    values.extend(0, 1, 0, ["Model12", "Model345 new", "Medal7", "Model", "345"])

    accepted = run_to_completion(accept_keys(values, ANALYZER, None, "modle"))

    assert accepted is not None
    assert accepted.tolist() == [True, True, False, True, False]


TEXTS = st.lists(
    st.text("aäB0 +#.-\n\u200c日本ا\ud800'c", max_size=8) | st.text(max_size=6), max_size=30
)


@given(TEXTS)
def test_many_keys_are_folded_like_each_of_them(texts: list[str]) -> None:
    assert ANALYZER.fold_all(texts) == [ANALYZER.fold(text) for text in texts]


def test_keys_that_come_later_are_found_in_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_KEYS", 8)
    folded: list[str] = []
    fold_all = Analyzer.fold_all

    def noting(analyzer: Analyzer, texts: Sequence[str]) -> list[str]:
        folded.extend(texts)
        return fold_all(analyzer, texts)

    monkeypatch.setattr(Analyzer, "fold_all", noting)
    values = FacetValues(1)
    keys: list[str] = []
    for _ in range(3):
        keys += [f"{word} {len(keys) + i}" for i, word in enumerate(["sea", "green mile", "tide"])]
        values.extend(0, 1, len(values), keys[len(values) :])
        for pattern, query, wanted in (
            ("*mile*", None, "mile"),
            (None, "se", "sea"),
            (None, "greem", "green"),
        ):
            accepted = run_to_completion(accept_keys(values, ANALYZER, pattern, query))
            assert accepted is not None
            assert accepted.tolist() == [wanted in key for key in keys]
        typed = run_to_completion(
            accept_keys(values, ANALYZER, None, "green", typos="unless_typed")
        )
        assert typed is not None
        assert typed.tolist() == ["green" in key for key in keys]
    assert len(folded) == 3 + 6 + 9 - 8 + 8, "a full block is folded once"


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_value_that_no_counted_item_has_does_not_forbid_typos(is_counted: bool) -> None:
    values = FacetValues(1)
    values.extend(0, 1, 0, ["Mistery", "Mystery"])
    counted = np.array([True, is_counted])

    accepted = run_to_completion(
        accept_keys(values, ANALYZER, None, "mystery", typos="unless_typed", counted=counted)
    )

    assert accepted is not None
    assert accepted[0] == (not is_counted)


def test_steps_are_short() -> None:
    """Folding the keys of a long facet must not keep the event loop."""
    values = FacetValues(1)
    values.extend(0, 1, 0, [f"Number {i}" for i in range(20_000)])
    steps = accept_keys(values, ANALYZER, "*7", "num")
    num_steps = sum(1 for _ in steps)
    assert num_steps > 20_000 / 64
