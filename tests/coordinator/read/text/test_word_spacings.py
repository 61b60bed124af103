"""Together or apart: the spacings that the letters allow, and those worth looking up."""

from __future__ import annotations

import pytest

from common.analysis.analyzer import Analyzer
from common.index_configuration_parser import parse_configuration
from common.process.cooperative_scheduler import run_to_completion
from coordinator.read.text.query_dictionary import QueryDictionary
from coordinator.read.text.query_parser import ParsedQuery, QueryOptions, parse_query
from coordinator.read.text.word_spacings import Spacing, cut_in_two, is_worthwhile

ANALYZER = Analyzer()


def parsed_query(
    text: str, options: QueryOptions | None = None, **configuration: object
) -> ParsedQuery:
    index, _ = parse_configuration(configuration)
    dictionary = QueryDictionary(index, ANALYZER)
    return run_to_completion(
        parse_query(text, options or QueryOptions(), dictionary, ANALYZER, words_max=20)
    )


def spacings(text: str, options: QueryOptions | None = None, **configuration: object) -> set[str]:
    parsed = parsed_query(text, options, **configuration)
    in_two = [cut_in_two(word, cut) for word in parsed.cuttable for cut in range(1, len(word))]
    return {" ".join(one.words) for one in (*parsed.spacings, *in_two) if one is not None}


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("spiderman", {"spider man", "s piderman", "spiderma n"}),
        ("xmen", {"x men"}),
        ("lap top", {"laptop"}),
        ("wi-fi", {"wifi"}),
        ("hp364", {"hp 364"}),
        ("hp 364", {"hp364"}),
        ("hp364xl", {"hp 364 xl", "hp 364xl"}),
        ("hp 364 xl", {"hp364xl"}),
        ("usb2.0", {"usb 2"}),
        ("20000", {"20 000"}),
        ("1234567", {"1 234 567"}),
        ("20,000 leagues", {"20000"}),
        ("439-02348-3", {"439023483"}),
        ("isbn 978-0-261-10320-7", {"9780261103207"}),
        ("0-14-044433-X", {"014044433x"}),
        ("jrr", {"j r r"}),
        ("u.s.a.", {"usa", "us", "sa"}),
        ("ocean's", {"oceans"}),
        ("oceans", {"ocean s"}),
    ],
)
def test_words_are_split_and_joined(text: str, some: set[str]) -> None:
    assert some <= spacings(text)


@pytest.mark.parametrize(
    ("text", "none"),
    [
        ("2015", {"20 15", "201 5"}),
        ("usb 2.0", {"20"}),
        ("1 5", {"15"}),
        ("1-2 12-14", {"12", "1214"}),
        ("439 02348 3", {"439023483"}),
        ("12345-12345-12345-12345-12345", {"1234512345123451234512345"}),
        ("mile9000", {"mile90 00"}),
        ("dark blue night", {"darkbluenight"}),
        ("x" * 25, {"x " + "x" * 24}),
        ("東京 都", {"東京都"}),
    ],
)
def test_numbers_runs_and_long_words_stay_as_they_are(text: str, none: set[str]) -> None:
    assert not none & spacings(text)


def test_quoted_and_excluded_words_are_taken_as_typed() -> None:
    assert spacings('"lap top"') == set()
    assert "laptop" not in spacings('lap "top"')
    assert "laptop" not in spacings("lap -top")
    assert "laptop" not in spacings('lap "x y" top')
    assert "laptop" not in spacings('lap top "top"')


def test_without_typos_words_are_taken_as_typed() -> None:
    assert spacings("spiderman lap top", QueryOptions(typo=0)) == set()


def test_words_around_a_stop_word_are_not_neighbours() -> None:
    assert "laptop" not in spacings("lap the top", stop_words=["the"])


def test_a_split_must_be_frequent_beside_the_word() -> None:
    split = Spacing(("wifi",), ("wi", "fi"))
    assert is_worthwhile(split, 302, [12])
    assert is_worthwhile(split, 1, [0])
    assert is_worthwhile(split, 2, [20])
    assert not is_worthwhile(split, 2, [21])
    assert not is_worthwhile(split, 0, [0])


def test_function_words_are_not_joined_unless_typed_together() -> None:
    assert "about" not in spacings("a bout")
    assert "into" not in spacings("in to")
    assert "into" in spacings("in-to")
    assert "ai" in spacings("a i")  # initials
    assert "zumal" in spacings("zu mal")
    assert "zumal" not in spacings("zu mal", language="german")
    assert is_worthwhile(Spacing(("head", "phones"), ("headphones",)), 1, [50, 15_000])
