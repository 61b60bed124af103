"""What a word that is nowhere in the index may be a misspelling of."""

from __future__ import annotations

from common.query_syntax_tree import NUM_MATCH_KINDS, MatchKind, Word
from common.term_weights import CORRECTIONS_KNOWN_MAX
from coordinator.read.text.noisy_channel import LIKELIER
from coordinator.read.text.word_corrections import RARER, Corrections, choose_corrections

ONE, TWO = int(MatchKind.TYPO_1), int(MatchKind.TYPO_2)
GUITR = Word("guitr", typos=1)


def freqs(**by_kind: int) -> list[int]:
    found = [0] * NUM_MATCH_KINDS
    for kind, freq in by_kind.items():
        found[MatchKind[kind]] = freq
    return found


def test_the_nearest_words_are_the_corrections_most_frequent_first() -> None:
    near = {(ONE, "guitare"): 20, (ONE, "guitar"): 90, (TWO, "altar"): 500}
    chosen = choose_corrections(GUITR, freqs(TYPO_1=110, TYPO_2=500), near)
    assert chosen == Corrections(MatchKind.TYPO_1, {"guitar": 90, "guitare": 20}, 0)
    assert list(chosen.likely) == ["guitar", "guitare"]
    far = {(TWO, "altar"): 500}
    chosen = choose_corrections(GUITR, freqs(TYPO_2=500), far)
    assert chosen == Corrections(MatchKind.TYPO_2, {"altar": 500}, 0)


def test_a_word_that_is_many_times_rarer_than_another_is_unlikely_if_alone() -> None:
    near = {(ONE, "tolkan"): 20 * RARER, (ONE, "talkin"): 19, (ONE, "tolpin"): 20}
    chosen = choose_corrections(Word("tolkin", typos=1), freqs(TYPO_1=39 + 20 * RARER), near)
    assert chosen is not None
    assert list(chosen.likely) == ["tolkan", "tolpin", "talkin"]
    likely = {"tolkan": 20 * RARER, "tolpin": 20}
    assert chosen.if_alone("tolkin") == Corrections(MatchKind.TYPO_1, likely, 19)


def test_a_likely_slip_counts_as_if_the_word_were_more_frequent() -> None:
    near = {(ONE, "tolkien"): 3, (ONE, "talkin"): 3 * LIKELIER - 1, (ONE, "tolpin"): 2}
    chosen = choose_corrections(Word("tolkin", typos=1), freqs(TYPO_1=4 + 3 * LIKELIER), near)
    assert chosen is not None
    assert list(chosen.likely) == ["tolkien", "talkin", "tolpin"]
    likely = {"tolkien": 3, "talkin": 3 * LIKELIER - 1}
    assert chosen.if_alone("tolkin") == Corrections(MatchKind.TYPO_1, likely, 2)


def test_a_word_whose_beginning_alone_is_near_is_unlikely_beside_one_that_is_near() -> None:
    near = {(ONE, "talking"): 900, (ONE, "tolkien"): 12, (ONE, "talkin"): 1}
    known = freqs(TYPO_1=913)
    chosen = choose_corrections(Word("tolkin", is_prefix=True, typos=1), known, near)
    assert chosen == Corrections(MatchKind.TYPO_1, {"tolkien": 12, "talkin": 1}, 900)
    assert chosen.if_alone("tolkin") == Corrections(MatchKind.TYPO_1, {"tolkien": 12}, 901)
    only_begun = {(ONE, "shawshank"): 3}
    chosen = choose_corrections(
        Word("shawhs", is_prefix=True, typos=1), freqs(TYPO_1=3), only_begun
    )
    assert chosen == Corrections(MatchKind.TYPO_1, {"shawshank": 3}, 0)


def test_words_that_are_there_or_near_many_have_no_corrections() -> None:
    near = {(ONE, "guitar"): 92}
    assert choose_corrections(GUITR, freqs(TYPO_1=92), {}) is None
    as_many = {(ONE, f"word{i:02}"): 5 for i in range(CORRECTIONS_KNOWN_MAX)}
    chosen = choose_corrections(GUITR, freqs(TYPO_1=5 * CORRECTIONS_KNOWN_MAX), as_many)
    assert chosen is not None
    assert len(chosen.likely) == CORRECTIONS_KNOWN_MAX
    more = as_many | {(ONE, "word"): 5}
    assert choose_corrections(GUITR, freqs(TYPO_1=92), more) is None
    for kind in range(MatchKind.TYPO_1):
        known = freqs(TYPO_1=92)
        known[kind] = 1
        assert choose_corrections(GUITR, known, near) is None
