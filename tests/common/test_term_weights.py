"""Weights of words and fields."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.query_syntax_tree import NUM_MATCH_KINDS, MatchKind
from common.term_weights import (
    CHOSEN_STEM_FACTOR,
    CHOSEN_WORDS_MAX,
    STEM_FACTOR,
    clause_weights,
    inverse_doc_freq,
    stem_factor,
    weigh_fields,
)

FREQS = st.lists(st.integers(0, 1_000), min_size=NUM_MATCH_KINDS, max_size=NUM_MATCH_KINDS)


def freqs(**by_kind: int) -> list[int]:
    """Return document frequencies by `MatchKind`."""
    found = [0] * NUM_MATCH_KINDS
    for kind, freq in by_kind.items():
        found[MatchKind[kind]] = freq
    return found


@given(FREQS)
def test_tiers_that_are_there_have_a_weight_and_others_none(doc_freqs: list[int]) -> None:
    weights = clause_weights(doc_freqs, 500)
    typed = sum(doc_freqs[: MatchKind.PREFIX])
    present = [
        doc_freq > 0 for doc_freq in (*[typed] * MatchKind.PREFIX, *doc_freqs[MatchKind.PREFIX :])
    ]
    present[MatchKind.SPELLING] = doc_freqs[MatchKind.SPELLING] > 0
    for form in (MatchKind.TYPO_1_FORM, MatchKind.TYPO_2_FORM):
        present[form] = present[form] and present[form - 1]  # of corrections that are there
    assert [weight > 0 for weight in weights] == present


@given(FREQS)
def test_the_best_kind_present_has_the_greatest_weight(doc_freqs: list[int]) -> None:
    weights = clause_weights(doc_freqs, 500)
    best = min((kind for kind in MatchKind if weights[kind] > 0), default=None)
    if best is not None:
        is_spelt = weights[MatchKind.SPELLING] > 0
        assert weights[MatchKind.SPELLING if is_spelt else best] == max(weights)


def test_a_word_with_accents_has_the_rarity_of_its_spelling() -> None:
    folded = clause_weights(freqs(EXACT=400), 500)
    weights = clause_weights(freqs(EXACT=400, SPELLING=20), 500)
    rare = clause_weights(freqs(EXACT=20), 500)
    assert weights[MatchKind.SPELLING] == rare[MatchKind.EXACT] > folded[MatchKind.EXACT]
    assert 0 < weights[MatchKind.EXACT] < weights[MatchKind.SPELLING] / 5


def test_a_word_keeps_a_share_of_the_rarity_of_its_typed_form_beside_common_forms() -> None:
    weights = clause_weights(freqs(EXACT=20, STEM=480), 500)
    alone = clause_weights(freqs(EXACT=20), 500)[MatchKind.EXACT]
    assert alone / 4 < weights[MatchKind.EXACT] < alone / 2
    assert weights[MatchKind.STEM] == weights[MatchKind.EXACT] * STEM_FACTOR


def test_a_word_that_begins_others_has_the_rarity_of_all_of_them() -> None:
    begun = clause_weights(freqs(EXACT=20, COMPLETION=480), 500)
    assert begun[MatchKind.EXACT] == clause_weights(freqs(EXACT=500), 500)[MatchKind.EXACT]


def test_chosen_forms_leave_less_to_others_but_for_those_still_to_come() -> None:
    found = freqs(EXACT=40, STEM=10, SYNONYM=5)
    chosen = clause_weights(found, 500, stem_factor(CHOSEN_WORDS_MAX))
    in_a_sentence = clause_weights(found, 500, stem_factor(CHOSEN_WORDS_MAX + 1))
    typed = chosen[MatchKind.EXACT]
    assert chosen[MatchKind.STEM] == typed * CHOSEN_STEM_FACTOR
    assert in_a_sentence[MatchKind.STEM] == typed * STEM_FACTOR > chosen[MatchKind.STEM]
    differing = [kind for kind in MatchKind if chosen[kind] != in_a_sentence[kind]]
    assert differing == [MatchKind.STEM]
    assert chosen[MatchKind.COMPLETION_STEM] == typed * STEM_FACTOR


def test_a_rare_typo_does_not_outweigh_a_frequent_word() -> None:
    weights = clause_weights(freqs(EXACT=400, TYPO_1=1, TYPO_2=1), 500)
    assert weights[MatchKind.EXACT] > 5 * weights[MatchKind.TYPO_1] > 0


def test_a_synonym_weighs_less_than_the_word_and_more_than_nothing() -> None:
    weights = clause_weights(freqs(EXACT=40, STEM=10, SYNONYM=100), 500)
    assert weights[MatchKind.EXACT] >= weights[MatchKind.STEM] > weights[MatchKind.SYNONYM] > 0


def test_another_spacing_weighs_less_than_the_word_and_more_than_a_synonym() -> None:
    weights = clause_weights(freqs(EXACT=40, STEM=10, SYNONYM=100, SPACING=20), 500)
    assert weights[MatchKind.EXACT] > weights[MatchKind.SPACING] > weights[MatchKind.SYNONYM]


def test_a_form_of_a_correction_weighs_less_than_the_correction() -> None:
    weights = clause_weights(freqs(TYPO_1=40, TYPO_1_FORM=1), 500)
    assert weights[MatchKind.TYPO_1] > weights[MatchKind.TYPO_1_FORM] > 0
    weights = clause_weights(freqs(TYPO_2=40, TYPO_2_FORM=1), 500)
    assert weights[MatchKind.TYPO_2] > weights[MatchKind.TYPO_2_FORM] > 0


@given(st.integers(1, 1_000_000), st.integers(0, 1_000_000))
def test_rarity_is_positive_and_falls_with_frequency(num_docs: int, doc_freq: int) -> None:
    rarity = inverse_doc_freq(doc_freq, num_docs)
    assert rarity > 0
    assert rarity >= inverse_doc_freq(doc_freq + 1, num_docs)


def test_short_fields_weigh_more_and_only_searched_fields_are_there() -> None:
    weighed = weigh_fields(
        {"title": (10, 50), "text": (10, 5_000), "other": (10, 10)},
        {"title": 2.0, "text": 1.0, "absent": 1.0},
        10,
    )
    assert list(weighed) == ["text", "title"]
    assert weighed["text"].weight == 1.0
    assert 2.0 < weighed["title"].weight < 30.0
    assert weighed["text"].average_length == 500.0


def test_a_rarely_filled_field_is_not_taken_for_a_short_one() -> None:
    weighed = weigh_fields({"note": (1, 90)}, {"note": 1.0}, 1_000)
    assert weighed["note"].average_length == 30.0
