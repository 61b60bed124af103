"""The analyzer: what becomes one word, how it is folded, where it stands."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.analysis.accented_spellings import is_spelling
from common.analysis.analyzer import Analyzer, is_lone_character, is_run
from common.analysis.tokenizer import TERM_BYTES_MAX

ANALYZER = Analyzer()


def words(text: str, *, is_indexing: bool = False) -> list[str]:
    return [token.text for token in ANALYZER.tokenize(text, is_indexing=is_indexing)]


class TestWords:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", []),
            ("  .,;  ", []),
            ("The iPhone12, don't!", ["the", "iphone12", "don", "t"]),
            ("snake_case kebab-case", ["snake", "case", "kebab", "case"]),
            ("a\u00a0b\u2009c\u3000d", ["a", "b", "c", "d"]),
            ("Foo™ 20℃", ["foo", "20"]),
        ],
    )
    def test_letters_and_digits_are_words_and_everything_else_separates(
        self, text: str, expected: list[str]
    ) -> None:
        assert words(text) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("ÉCOLE Ångström", ["ecole", "angstrom"]),
            ("e\u0301cole", ["ecole"]),
            ("Straße ẞ", ["strasse", "ss"]),
            ("Łódź Øre đ æ Œ", ["lodz", "ore", "d", "ae", "oe"]),
            ("İstanbul ISPARTA ısı", ["istanbul", "isparta", "isi"]),
            ("Σίσυφος ΣΊΣΥΦΟΣ", ["σισυφοσ", "σισυφοσ"]),
            ("ёлка Чайка", ["елка", "чаика"]),
            ("أَحْمَد احمد", ["احمد", "احمد"]),
            ("ﬁne m² Ⅳ", ["fine", "m2", "iv"]),
            ("٣٤ १२", ["34", "12"]),
            ("ＡＢＣ", ["abc"]),
        ],
    )
    def test_case_accents_and_compatibility_forms_are_folded(
        self, text: str, expected: list[str]
    ) -> None:
        assert words(text) == expected

    def test_marks_that_carry_meaning_do_not_split_words(self) -> None:
        assert len(words("हिन्दी में")) == 2

    def test_ignored_characters_do_not_split_words(self) -> None:
        assert words("soft\u00adhyphen zero\u200dwidth") == ["softhyphen", "zerowidth"]

    def test_long_words_are_cut_off_alike_in_any_company(self) -> None:
        assert words("a" * 1_000 + " b") == ["a" * TERM_BYTES_MAX, "b"]
        assert all(len(word.encode()) <= TERM_BYTES_MAX for word in words("é" * 999 + "я" * 999))


class TestSpellings:
    @pytest.mark.parametrize(
        ("left", "right"),
        [
            ("café", "CAFE\u0301"),
            ("ế", "e\u0302\u0301"),
            ("ộ", "o\u0302\u0323"),
            ("Ünïcode", "ÜNÏCODE"),
            ("e\u0301#", "é"),
            ("ёлка", "Ёлка"),
        ],
    )
    def test_the_same_accents_are_one_spelling(self, left: str, right: str) -> None:
        spelling = ANALYZER.spelling(left)
        assert spelling is not None
        assert spelling == ANALYZER.spelling(right)

    @pytest.mark.parametrize(
        "text",
        ["má mà mã mạ mâ ma", "cote coté côte côté", "élève éleve elève", "все всё", "ø o ö"],
    )
    def test_other_accents_are_other_spellings(self, text: str) -> None:
        spellings = [ANALYZER.spelling(word) for word in text.split()]
        assert len(set(spellings)) == len(spellings)

    @pytest.mark.parametrize(
        "text",
        ["cafe", "straße", "ﬁne", "İstanbul", "ısı", "m²", "Σίγμας".replace("ί", "ι"), "٣٤", "ＡＢ",
         "soft\u00adhyphen", "日本語", "ガ", "½", "کی"],
    )  # fmt: skip
    def test_another_encoding_of_the_same_letters_is_not_a_spelling(self, text: str) -> None:
        assert ANALYZER.spelling(text) is None

    def test_items_have_spellings_beside_the_words_and_queries_do_not(self) -> None:
        tokens = ANALYZER.tokenize("Un café!", is_indexing=True)
        assert [token.text for token in tokens if not is_spelling(token.text)] == ["un", "cafe"]
        _, cafe, spelling = tokens
        assert spelling[1:] == cafe[1:]
        assert spelling.text.endswith("cafe")
        assert words("Un café!") == ["un", "cafe"]

    def test_spellings_of_very_long_words_are_left_out(self) -> None:
        assert ANALYZER.spelling("é" * 96) is not None
        assert ANALYZER.spelling("é" * 97) is None


class TestRuns:
    def test_a_run_gives_overlapping_bigrams_and_items_also_its_last_character(self) -> None:
        assert words("日本語") == ["日本", "本語"]
        assert words("日本語", is_indexing=True) == ["日本", "本語", "語"]
        assert words("水") == words("水", is_indexing=True) == ["水"]

    def test_thai_vowels_and_tones_belong_to_their_consonant(self) -> None:
        assert words("ที่ดี") == ["ที่ดี"]
        assert words("กรุงเทพ") == ["กรุ", "รุง", "งเ", "เท", "ทพ"]

    def test_hangul_is_cut_like_han_whether_composed_or_not(self) -> None:
        composed = "한국어"
        assert words(composed) == ["한국", "국어"]
        assert words(unicodedata.normalize("NFD", composed)) == words(composed)

    def test_half_width_kana_equal_full_width_with_their_voice_marks(self) -> None:
        assert words("ｶﾞｷﾞｸﾟ") == words("ガギク\u309a")
        assert words("ﾊﾟﾝ") == words("パン") == words(unicodedata.normalize("NFD", "パン"))

    def test_positions_go_on_across_runs_and_words(self) -> None:
        tokens = ANALYZER.tokenize("東京都 tower 水", is_indexing=True)
        assert [(token.text, token.position) for token in tokens] == [
            ("東京", 0),
            ("京都", 1),
            ("都", 1),
            ("tower", 2),
            ("水", 3),
        ]

    def test_digits_and_letters_are_not_part_of_a_run(self) -> None:
        assert words("2023年的iPhone") == ["2023", "年的", "iphone"]


class TestPlaces:
    @given(st.text(max_size=60))
    def test_places_name_the_source_and_ascend(self, text: str) -> None:
        tokens = ANALYZER.tokenize(text, is_indexing=True)
        for token in tokens:
            assert 0 <= token.start < token.end <= len(text)
            assert token.text
        assert [token.position for token in tokens] == sorted(token.position for token in tokens)

    @given(st.lists(st.text(max_size=20), max_size=8))
    def test_texts_joined_by_a_space_have_the_words_of_each(self, texts: list[str]) -> None:
        assert words(" ".join(texts)) == [word for text in texts for word in words(text)]

    @given(st.text(alphabet="aÉß 日本가ที่ｶﾞ\u0301-", max_size=4_000))
    def test_long_texts_are_cut_as_in_one_go(self, text: str) -> None:
        long = text * 3
        assert words(long) == [token.text for token in Analyzer().tokenize_bytes(long.encode())]

    @given(st.text(alphabet=st.characters(categories=["L", "N"]), max_size=20))
    def test_upper_case_finds_lower_case(self, text: str) -> None:
        assert words(text.upper()) == words(text.upper().lower().upper())


def test_a_lone_character_may_have_marks() -> None:
    assert [is_lone_character(word) for word in ("水", "ที่", "日本", "ดี", "a")] == [
        True,
        True,
        False,
        True,
        False,
    ]


def test_is_run_tells_pieces_of_unspaced_scripts() -> None:
    assert [is_run(word) for word in ("word", "слово", "日本", "ที่ดี", "한국")] == [
        False,
        False,
        True,
        True,
        True,
    ]


@given(
    st.text("aZ09z", min_size=1, max_size=40) | st.text(st.characters(max_codepoint=127)),
    st.booleans(),
)
def test_plain_words_are_cut_as_the_kernel_cuts_them(text: str, is_indexing: bool) -> None:
    tokens = ANALYZER.tokenize(text, is_indexing=is_indexing)
    assert tokens == ANALYZER.tokenize_bytes(text.encode(), is_indexing=is_indexing)


@given(
    st.text("aZ09 ", max_size=80)
    | st.text(st.characters(max_codepoint=127))
    | st.text("aÉß日本ที่ -'.+#2")
)
def test_words_are_those_of_the_kernel(text: str) -> None:
    tokens = ANALYZER.tokenize_bytes(text.encode())
    assert ANALYZER.words(text) == [token.text for token in tokens]
    assert ANALYZER.count_words(text) == len(tokens)
    assert [token.is_run for token in tokens] == [is_run(token.text) for token in tokens]


@given(st.text("aZ09 ", max_size=80) | st.text("aÉß日本ที่ -'.+#2"), st.integers(1, 20))
def test_the_first_words_of_a_text_are_as_all_of_them_have_them(text: str, words_max: int) -> None:
    assert ANALYZER.tokenize(text, words_max=words_max) == ANALYZER.tokenize(text)[:words_max]


def test_a_text_may_have_more_words_than_are_cut_at_a_time() -> None:
    text = "日本語の" * 1_000
    assert len(ANALYZER.tokenize(text)) == ANALYZER.count_words(text) == 3_999
    assert ANALYZER.words(text) == [token.text for token in ANALYZER.tokenize(text)]
    assert ANALYZER.tokenize(text, words_max=2_500) == ANALYZER.tokenize(text)[:2_500]
