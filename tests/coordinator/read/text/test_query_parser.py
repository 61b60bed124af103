"""Query text becomes clauses; every text is a valid query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.analysis.analyzer import Analyzer, Token
from common.index_configuration import IndexConfiguration
from common.index_configuration_parser import parse_configuration
from common.process.cooperative_scheduler import run_to_completion
from common.query_syntax_tree import Phrase, Word
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.text.query_dictionary import QueryDictionary
from coordinator.read.text.query_parser import ParsedQuery, QueryOptions, parse_query, words_of
from coordinator.read.text.query_pieces import pieces_as_typed, typed_words, without_exclusions
from coordinator.read.text.relaxation import relaxed

ANALYZER = Analyzer()


def parse(
    text: str, options: QueryOptions | None = None, configuration: dict[str, object] | None = None
) -> ParsedQuery:
    index, _ = parse_configuration(configuration or {})
    dictionary = QueryDictionary(index, ANALYZER)
    return run_to_completion(
        parse_query(text, options or QueryOptions(), dictionary, ANALYZER, words_max=20)
    )


def test_the_picture_of_the_module() -> None:
    parsed = parse('the "green mile"  -horror  tom han')
    assert parsed.clauses == (
        Word("the"),
        Phrase(("green", "mile")),
        Word("tom"),
        Word("han", is_prefix=True),
    )
    assert parsed.excluded == (Word("horror"),)


def test_typos_by_length_and_never_with_digits() -> None:
    parsed = parse("word words wonderful iphone12 x", QueryOptions(prefix="none"))
    assert [clause.typos for clause in parsed.clauses if isinstance(clause, Word)] == [
        0,
        1,
        2,
        0,
        0,
    ]


def test_a_number_of_typos_asked_for_holds_while_most_letters_remain() -> None:
    parsed = parse("word ab iphone12 words", QueryOptions(typo=2, prefix="none"))
    assert [clause.typos for clause in parsed.clauses if isinstance(clause, Word)] == [1, 0, 0, 2]
    parsed = parse("wonderful", QueryOptions(typo=0))
    assert parsed.clauses == (Word("wonderful", is_prefix=True),)


def test_an_open_quote_is_a_half_typed_phrase() -> None:
    assert parse('"green mi').clauses == (Phrase(("green", "mi"), is_prefix=True),)
    assert parse('"green mi"').clauses == (Phrase(("green", "mi")),)
    assert parse('-"green mile"').excluded == (Phrase(("green", "mile")),)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("nfs-g", ("nfs", "g")),
        ("see r-cran-r.u", ("r", "u")),
        ("nfs g", ()),
        ("nfs-g ", ("nfs", "g")),
        ("nfs-g)", ()),
        ("nfs-", ()),
        ("-nfs-g", ()),
        ('"nfs-g', ()),
        ("日本", ()),
    ],
)
def test_the_last_two_words_without_a_space_between_them(
    text: str, fragment: tuple[str, ...]
) -> None:
    assert parse(text).fragment == fragment
    for prefix in ("none", "all"):
        assert parse(text, QueryOptions(prefix=prefix)).fragment == ()


def test_punctuation_restricts_nothing() -> None:
    assert parse('-- "" - !? ""').is_blank


def test_words_cut_at_punctuation_are_words() -> None:
    assert [c.text for c in parse("o'reilly e-mail").clauses if isinstance(c, Word)] == [
        "o",
        "reilly",
        "e",
        "mail",
    ]
    assert parse("-e-mail").excluded == (Phrase(("e", "mail")),)


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("-5", "5"),
        ("Alien -Uncut", "Alien Uncut"),
        ('a -"b c" -- x-men - d', 'a "b c" -- x-men - d'),
        ("", ""),
    ],
)
def test_texts_become_queries_that_exclude_nothing(text: str, without: str) -> None:
    assert without_exclusions(text) == without
    assert not parse(without).excluded


def test_repeated_words_weigh_more() -> None:
    parsed = parse("new york new york x")
    assert parsed.multiplicities == (2, 2, 1)


def test_stop_words_are_left_out_while_another_word_remains() -> None:
    configuration: dict[str, object] = {"stop_words": ["the", "of"]}
    assert parse("lord of the rings", configuration=configuration).clauses == (
        Word("lord"),
        Word("rings", is_prefix=True, typos=1),
    )
    assert len(parse("of the", configuration=configuration).clauses) == 2
    assert parse("lord of the", configuration=configuration).clauses == (Word("lord"),)


@pytest.mark.parametrize(
    ("text", "num_words"),
    [
        ("", 0),
        ("case", 1),
        ("case case", 2),
        ("lord of the rings", 4),
        ('"green mile" tom', 3),
        ("case -of -the", 1),
        ("wi-fi", 2),
    ],
)
def test_all_words_that_are_wanted_are_typed_words(text: str, num_words: int) -> None:
    assert parse(text, configuration={"stop_words": ["the", "of"]}).num_words == num_words


def test_words_with_stop_words_between_them_have_their_synonyms() -> None:
    configuration: dict[str, object] = {
        "stop_words": ["the", "of"],
        "synonyms": {"bank of america": ["boa"], "the": ["le"]},
    }
    for text in ("bank of america", "bank america"):
        assert parse(text, configuration=configuration).clauses == (
            Word("bank", synonyms=(("boa",),)),
            Word("america", is_prefix=True, typos=1, synonyms=(("boa",),)),
        )
    assert parse("the", configuration=configuration).clauses == (
        Word("the", is_prefix=True, synonyms=(("le",),)),
    )


def test_unspaced_scripts_are_phrases_of_bigrams_where_all_words_must_match() -> None:
    assert parse("日本語").clauses == (Phrase(("日本", "本語"), is_prefix=True),)
    bag = parse("日本語", QueryOptions(match="any"))
    assert [type(clause) for clause in bag.clauses] == [Word, Word]
    assert parse("語").clauses == (Word("語", is_prefix=True),)


def test_runs_of_two_pieces_stay_apart() -> None:
    assert parse("日本 語学").clauses[0] == Word("日本")
    assert parse('"水" -水').clauses == parse("a -水").excluded == (Word("水", is_prefix=True),)
    assert parse('"a 水" b').clauses[0] == Phrase(("a", "水"), is_prefix=True)
    assert parse('"水 a" b').clauses[0] == Phrase(("水", "a"))


def test_synonyms_of_words_and_of_several_words() -> None:
    configuration: dict[str, object] = {"synonyms": [["tv", "television"], ["nyc", "new york"]]}
    assert parse("tv", configuration=configuration).clauses == (
        Word("tv", is_prefix=True, synonyms=(("television",),)),
    )
    assert parse("new york hotel", configuration=configuration).clauses[:2] == (
        Word("new", synonyms=(("nyc",),)),
        Word("york", synonyms=(("nyc",),)),
    )
    assert parse("new york", configuration=configuration).clauses[1].is_prefix
    # What closes a word closes one with synonyms too.
    for query in ("tv!", 'tv "new york"', "tv -hotel"):
        assert parse(query, configuration=configuration).clauses[0] == Word(
            "tv", synonyms=(("television",),)
        )
    assert parse("東京", configuration={"synonyms": [["東京", "tokyo"]]}).clauses == (
        Word("東京", is_prefix=True, synonyms=(("tokyo",),)),
    )
    assert parse("日本語", configuration={"synonyms": [["日本語", "japanese"]]}).clauses == (
        Word("日本 本語", synonyms=(("日本", "本語"), ("japanese",))),
    )


@pytest.mark.parametrize(
    ("match", "num_clauses", "required"),
    [("all", 4, 4), ("any", 4, 1), ("last", 4, 1), ("75%", 4, 3), ("1%", 4, 1), ("75%", 3, 2)],
)
def test_how_many_clauses_must_match(match: str, num_clauses: int, required: int) -> None:
    assert parse("a b c d", QueryOptions(match=match)).num_required(num_clauses) == required


def test_too_many_words_are_cut() -> None:
    whole = parse(" ".join(map(str, range(20))))
    assert (len(whole.clauses), whole.num_words_cut) == (20, 0)
    assert whole.clauses[-1] == Word("19", is_prefix=True)
    cut = parse(" ".join(map(str, range(18))) + ' "18 19 20" -21 22')
    assert cut.num_words_cut == 3
    assert cut.clauses[-1] == Phrase(("18", "19"))
    assert not cut.excluded
    assert parse(" ".join(map(str, range(23)))).clauses[-1] == Word("19")


@given(st.text("aé日本 -\"'.+", max_size=80))
def test_all_words_that_are_cut_are_counted(text: str) -> None:
    kept = sum(
        [len(words) for _, words in pieces_as_typed(text, ANALYZER)]  # each as if it were alone
    )
    assert parse(text).num_words_cut == max(0, kept - 20)


class _CountingAnalyzer(Analyzer):
    """Notes how many words, with their places, it made of a text at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.num_words: list[int] = []

    def tokenize_bytes(
        self, encoded: bytes, *, is_indexing: bool = False, words_max: int | None = None
    ) -> list[Token]:
        tokens = super().tokenize_bytes(encoded, is_indexing=is_indexing, words_max=words_max)
        self.num_words.append(len(tokens))
        return tokens


def test_a_long_run_is_not_split_beyond_the_words_that_a_query_may_have() -> None:
    """A text of 4,096 Chinese characters was split into all of its words, three times, in one go.

    That held up the event loop for 15 ms each time.
    """
    text, analyzer = "日本語の" * 1_024, _CountingAnalyzer()
    dictionary = QueryDictionary(IndexConfiguration(), analyzer)
    analyzer.num_words.clear()
    options = QueryOptions()
    parsed = run_to_completion(parse_query(text, options, dictionary, analyzer, words_max=20))
    assert (parsed.num_words, parsed.num_words_cut) == (20, 4_095 - 20)
    tried = [*relaxed(SearchParameters(query=text, match="auto"), dictionary, analyzer, 20)]
    assert [one.match for one in tried] == ["all", "any"]
    typed = typed_words(text, analyzer, 20)
    assert typed is not None
    assert len(typed[0]) == 20
    assert analyzer.num_words
    assert max(analyzer.num_words) == 20


def test_function_words_beyond_the_words_that_a_query_may_have_are_not_dropped() -> None:
    dictionary = QueryDictionary(IndexConfiguration(), ANALYZER)
    parameters = SearchParameters(query="green mile " * 10 + "of the", match="auto")
    tried = [*relaxed(parameters, dictionary, ANALYZER, 20)]
    assert [(one.match, one.drops_function_words) for one in tried] == [
        ("all", False),
        ("any", False),
    ]


def test_typos_begin_where_the_configuration_says() -> None:
    options = QueryOptions(prefix="none", typo_lengths=(4, 6))
    words = parse("lam lamp lamps yellow 1234", options).clauses
    assert [word.typos for word in words if isinstance(word, Word)] == [0, 1, 1, 2, 0]


@given(st.text(max_size=40))
def test_any_text_parses(text: str) -> None:
    parsed = parse(text[:20])
    assert all(word.text for word in words_of(parsed.clauses))
    assert len(parsed.multiplicities) == len(parsed.clauses)
