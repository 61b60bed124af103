"""Patterns and half-typed words over the keys of a facet."""

from __future__ import annotations

import re
from typing import cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from common.analysis.analyzer import Analyzer, bare_word
from common.analysis.typo_budget import typo_budget
from common.deadline import Deadline
from common.errors import DeadlineExceeded
from common.key_arena import KeyArena
from coordinator.parameters.facet_specs import KeyTypos
from coordinator.read.facets import facet_value_search as module
from coordinator.read.facets.facet_value_search import accept_keys
from coordinator.read.facets.folded_facet_key_matching import KeyWords, fold_keys
from coordinator.read.facets.global_ordinals import FacetValues
from coordinator.read.text.prefix_edit_distance import edit_distances

KEYS = ["Drama", "Melodrama", "Science Fiction", "Café noir", "Film-Noir", "Mystery", "1994"]
ANALYZER = Analyzer()


def found(pattern: str | None, key_query: str | None) -> list[str]:
    values = FacetValues(1)
    values.extend(0, 1, 0, KeyArena.of(KEYS))
    accepted = accept_keys(values, ANALYZER, pattern, key_query)
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
        ("film *", ["Film-Noir"]),
        ("drama *", []),
        ("* drama", []),
        ("* noir", ["Café noir", "Film-Noir"]),
        ("* *", ["Science Fiction", "Café noir", "Film-Noir"]),
        ("film * noir", ["Film-Noir"]),
        ("film* - *noir", ["Film-Noir"]),
        ("science * *fiction", ["Science Fiction"]),
        (" drama *", []),
        ("drama* ", ["Drama"]),
        (" *drama", ["Drama", "Melodrama"]),
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
    values.extend(0, 1, 0, KeyArena.of(numbers))
    accepted = accept_keys(values, ANALYZER, pattern, None)
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
    values.extend(0, 1, 0, KeyArena.of(["Model12", "Model345 new", "Medal7", "Model", "345"]))

    accepted = accept_keys(values, ANALYZER, None, "modle")

    assert accepted is not None
    assert accepted.tolist() == [True, True, False, True, False]


ODD_TEXTS = st.text("aäBbcß0٣12 +#.-*\n\u200c\u0301日本ガ하ที่اﱞ⑴\ud800\U0001f600'", max_size=10)
WORDS = st.sampled_from(
    [
        "",
        "Model12",
        "modle",
        "Modèle 3",
        "network",
        ".network",
        "c++",
        "networking",
        "\t-3",
        "日本語",
    ]
)
TEXTS = st.lists(WORDS | ODD_TEXTS | st.text(max_size=6), max_size=8).map(" ".join) | st.text("aé ")


def folded(text: str) -> str:
    """Fold a key as a pattern sees it."""
    return "-" * bool(re.match(r"\s*-[0-9]", text)) + " ".join(ANALYZER.words(text))


def as_regex(pattern: str) -> re.Pattern[str]:
    """Return what keys must be; white space beside an asterisk is an end of a word.

    Such ends are looked at, not taken, since the next part may begin with the same space.
    """
    first, *others = pattern.split("*")
    forms = [re.escape(folded(first)), *(re.escape(ANALYZER.fold(other)) for other in others)]
    form, before = forms[0], first
    for number, (part, after) in enumerate(zip(forms[1:], others, strict=True), start=1):
        is_end = before[-1:].isspace() and (number > 1 or forms[0] != "")
        is_beginning = after[:1].isspace() and (number < len(others) or part != "")
        form += "(?= )" * is_end + ".*" + ("(?<= )" if part else "(?= )") * is_beginning + part
        before = after
    return re.compile(form, re.DOTALL)


def listed(accepted: NDArray[np.bool_] | None) -> list[bool] | None:
    return None if accepted is None else accepted.tolist()


def has_word(text: str, word: str, typos: int) -> bool:
    """Return whether a word of a text, with symbols or without, begins with a folded word."""
    for one in ANALYZER.words(text):
        forms = (one, bare_word(one))
        if any(form.startswith(word) for form in forms):
            return True
        stems = [re.split("[0-9]", form)[0] for form in forms]
        if typos and any(edit_distances(word, stem, typos)[1] <= typos for stem in stems):
            return True
    return False


MARK_ON_SPACE = "\ufc5e"
"""Nothing is left of it, as of the mark; once it was a word of one space, which c++ b has."""


@example(
    texts=["c++ b", "c", MARK_ON_SPACE, f"a{MARK_ON_SPACE}b"],
    pattern=f"*{MARK_ON_SPACE}*",
    key_query=MARK_ON_SPACE,
    typos="never",
    cut=2,
    block_keys=8,
    piece=None,
)
@given(
    texts=st.lists(TEXTS, max_size=30, unique=True),
    pattern=TEXTS,
    key_query=TEXTS,
    typos=st.sampled_from(["always", "unless_typed", "never"]),
    cut=st.integers(0, 30),
    block_keys=st.sampled_from([1, 2, 8, 64]),
    piece=st.none() | st.tuples(st.integers(0, 30), st.integers(0, 8), st.integers(0, 2)),
)
def test_odd_keys_are_found_like_one_by_one(
    texts: list[str],
    pattern: str,
    key_query: str,
    typos: KeyTypos,
    cut: int,
    block_keys: int,
    piece: tuple[int, int, int] | None,
) -> None:
    if texts and piece is not None:
        number, middle, num_left_out = piece
        chosen = texts[number % len(texts)]
        pattern = f"{chosen[:middle]}*{chosen[middle + num_left_out :]}"
        key_query = chosen[:middle]
    form = as_regex(pattern)
    matches = [bool(form.fullmatch(folded(text))) for text in texts]
    with_words = [True] * len(texts)
    for word in ANALYZER.words(key_query):
        has = [has_word(text, word, 0) for text in texts]
        if typos == "always" or (typos == "unless_typed" and not any(has)):
            has = [has_word(text, word, typo_budget(word)) for text in texts]
        with_words = [one and other for one, other in zip(with_words, has, strict=True)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_KEYS", block_keys)
        values = FacetValues(1)
        values.extend(0, 1, 0, KeyArena.of(texts[:cut]))
        accept_keys(values, ANALYZER, "a", "a")
        values.extend(0, 1, cut, KeyArena.of(texts[cut:]))
        by_pattern = accept_keys(values, ANALYZER, pattern, None)
        by_words = accept_keys(values, ANALYZER, None, key_query, typos=typos)
        by_both = accept_keys(values, ANALYZER, pattern, key_query, typos=typos)

    assert listed(by_pattern) == (matches if pattern else None)
    assert listed(by_words) == (with_words if ANALYZER.words(key_query) else None)
    restricting = [one for one in (listed(by_pattern), listed(by_words)) if one is not None]
    both = [all(one) for one in zip(*restricting, strict=True)]
    assert listed(by_both) == (both if restricting else None)


def test_long_keys_are_folded_whole() -> None:
    """Some fold to more bytes than they have."""
    texts = ["ﷺ " * 3_000 + "end", "日" * 5_000, "x" * 100_000, "a " * 10_000 + "end"]
    values = FacetValues(1)
    values.extend(0, 1, 0, KeyArena.of(texts))
    for pattern in (*texts, "*end", f"*{'日' * 3}"):
        form = as_regex(pattern)
        assert listed(accept_keys(values, ANALYZER, pattern, None)) == [
            bool(form.fullmatch(folded(text))) for text in texts
        ]


def test_a_sign_follows_white_space_as_a_regular_expression_has_it() -> None:
    characters = [chr(point) for point in range(0x11_0000) if not 0xD800 <= point < 0xE000]
    for start in range(0, len(characters), 0x4000):
        some = characters[start : start + 0x4000]
        keys = fold_keys(KeyArena.of(f"{one}-1" for one in some))
        signed = keys.key_bytes[keys.key_starts[:-1]] == ord("-")
        assert signed.tolist() == [one.isspace() for one in some]


def test_each_key_is_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_KEYS", 8)
    given_texts: list[str] = []

    def noting(arena: KeyArena) -> KeyWords:
        given_texts.extend(key.decode() for key in arena.keys_of(range(arena.num_keys)))
        return fold_keys(arena)

    monkeypatch.setattr(module, "fold_keys", noting)
    values = FacetValues(1)
    keys: list[str] = []
    for _ in range(7):
        keys += [f"{word} {len(keys) + i}" for i, word in enumerate(["sea", "green mile", "tide"])]
        values.extend(0, 1, len(values), KeyArena.of(keys[len(values) :]))
        for pattern, query, wanted in (
            ("*mile*", None, "mile"),
            (None, "se", "sea"),
            (None, "greem", "green"),
        ):
            accepted = accept_keys(values, ANALYZER, pattern, query)
            assert accepted is not None
            assert accepted.tolist() == [wanted in key for key in keys]
        typed = accept_keys(values, ANALYZER, None, "green", typos="unless_typed")
        assert typed is not None
        assert typed.tolist() == ["green" in key for key in keys]
    assert given_texts == keys


def test_a_search_ends_at_its_deadline_and_keeps_what_it_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_BLOCK_KEYS", 8)
    values = FacetValues(1)
    values.extend(0, 1, 0, KeyArena.of(list(map(str, range(20)))))
    calls = 0

    class Ending:
        def check(self) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise DeadlineExceeded("too late")

    with pytest.raises(DeadlineExceeded):
        accept_keys(values, ANALYZER, "1*", None, deadline=cast(Deadline, Ending()))
    accepted = accept_keys(values, ANALYZER, "1*", None)
    assert accepted is not None
    assert np.flatnonzero(accepted).tolist() == [1, *range(10, 20)]


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_value_that_no_counted_item_has_does_not_forbid_typos(is_counted: bool) -> None:
    values = FacetValues(1)
    values.extend(0, 1, 0, KeyArena.of(["Mistery", "Mystery"]))
    counted = np.array([True, is_counted])

    accepted = accept_keys(values, ANALYZER, None, "mystery", typos="unless_typed", counted=counted)

    assert accepted is not None
    assert accepted[0] == (not is_counted)
