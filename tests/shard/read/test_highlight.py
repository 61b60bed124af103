"""Marks in documents: what matched is marked, and nothing else; snippets show the best part."""

from __future__ import annotations

import html
import json
import re
import time
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.analysis.analyzer import Analyzer
from common.analysis.field_classes import FieldClasses
from common.protocol.messages import HighlightRequest, ScoredClause
from common.query_syntax_tree import NUM_MATCH_KINDS, Clause, MatchKind, Phrase, Word
from shard.query.scoring.bm25f import TIER_OF_KIND
from shard.read.highlight import mark_all
from shard.read.highlight_word_matching import QueryWords
from shard.read.marked_words import Marker
from shard.segment.text.vocabulary import TERM_PADDING, Vocabulary, finish_vocabulary
from tests.shard.query.text.naive_text_search import ENGLISH, VOCABULARY, WORDS, match_kind
from tests.shard.text_model import strings

ONES = (1.0,) * NUM_MATCH_KINDS


def mark(
    item: dict[str, Any],
    *clauses: Clause,
    fields: tuple[str, ...] | None = ("*",),
    snippets: tuple[tuple[str, int], ...] = (),
    searched: tuple[str, ...] | None = None,
    weights: tuple[float, ...] = ONES,
    pre: str = "[",
    post: str = "]",
    text_bytes_max: int = 1 << 20,
    item_bytes_max: int = 1 << 20,
) -> dict[str, Any]:
    scored = [
        ScoredClause(clause, (weights,) * (len(clause.words) if isinstance(clause, Phrase) else 1))
        for clause in clauses
    ]
    paths = searched if searched is not None else [path for path, _ in strings(item)]
    return mark_all(
        [json.dumps(item).encode()],
        Marker(scored, FieldClasses("english")),
        dict.fromkeys(paths, True),
        HighlightRequest(fields, snippets, pre, post, "…", text_bytes_max, item_bytes_max),
    )[0]


def marked(text: str, *clauses: Clause) -> str:
    return str(mark({"t": text}, *clauses, fields=("t",))["_highlight"]["t"])


class TestMarks:
    @pytest.mark.parametrize(
        ("text", "clause", "expected"),
        [
            ("The Green Mile", Word("green"), "The [Green] Mile"),
            ("Many green miles", Word("mile"), "Many green [miles]"),
            ("Shawshank redemption", Word("shaw", is_prefix=True), "[Shawshank] redemption"),
            ("Shawshank", Word("shewshank", typos=2), "[Shawshank]"),
            ("Cafés à Paris", Word("cafe"), "[Cafés] à Paris"),
            ("a car, an auto", Word("car", synonyms=(("auto",),)), "a [car], an [auto]"),
            (
                "in the United States of old",
                Word("usa", synonyms=(("united", "states"),)),
                "in the [United] [States] of old",
            ),
            ("green mile, green", Phrase(("green", "mile")), "[green] [mile], green"),
            ("green mileage", Phrase(("green", "mil"), is_prefix=True), "[green] [mileage]"),
            ("日本語の本", Phrase(("日本", "本語")), "[日本語]の本"),
            ("日本語の本", Word("日本"), "[日本]語の本"),
            ("nothing here", Word("green"), "nothing here"),
        ],
    )
    def test_marks_what_the_query_found(self, text: str, clause: Clause, expected: str) -> None:
        assert marked(text, clause) == expected

    def test_lesser_matches_are_left_alone_where_a_better_one_is(self) -> None:
        assert marked("house horse", Word("house", typos=1)) == "[house] horse"
        assert marked("horse", Word("house", typos=1)) == "[horse]"

    def test_matches_without_weight_have_no_mark(self) -> None:
        """An item with mouse is known: house, with another first letter, is no match for it."""
        item, mouse = {"t": "house mousse"}, Word("mouse", typos=1)
        of_known = tuple(float(kind < MatchKind.TYPO_2) for kind in MatchKind)
        assert mark(item, mouse, weights=of_known) == {"_highlight": {"t": "house [mousse]"}}
        assert mark({"t": "house"}, mouse, fields=("t",), weights=of_known) == {
            "_highlight": {"t": "house"}
        }
        assert mark({"t": "house"}, mouse) == {"_highlight": {"t": "[house]"}}

    def test_everything_but_the_marks_is_escaped(self) -> None:
        assert marked('<b>green</b> & "x"', Word("green")) == (
            "&lt;b&gt;[green]&lt;/b&gt; &amp; &quot;x&quot;"
        )

    def test_fields_that_are_not_searched_have_no_marks(self) -> None:
        item = {"a": "green", "b": "green"}
        marks = mark(item, Word("green"), fields=("a", "b"), searched=("a",))
        assert marks == {"_highlight": {"a": "[green]", "b": "green"}}

    def test_arrays_give_lists_and_objects_their_fields(self) -> None:
        item = {"tags": ["green", "red"], "author": {"name": "Green"}, "n": 3}
        marks = mark(item, Word("green"), fields=("tags", "author.name", "n", "absent"))
        assert marks == {"_highlight": {"tags": ["[green]", "red"], "author.name": "[Green]"}}

    def test_a_dotted_key_and_an_object_of_that_path_give_a_list(self) -> None:
        item = {"a.b": "red", "a": {"b": "green"}}
        assert mark(item, Word("green")) == {"_highlight": {"a.b": ["red", "[green]"]}}

    def test_a_star_stands_for_the_fields_with_marks(self) -> None:
        marks = mark({"a": "green", "b": "red"}, Word("green"))
        assert marks == {"_highlight": {"a": "[green]"}}

    @given(st.text(max_size=40), st.sampled_from(["a", "green", "日本", "é"]))
    def test_without_marks_the_text_is_the_escaped_source(self, text: str, word: str) -> None:
        clean = re.sub(r"[\[\]\ud800-\udfff]", "", text)
        result = marked(clean, Word(word, is_prefix=True))
        assert re.sub(r"[\[\]]", "", result) == html.escape(clean)


class TestSnippets:
    def test_shows_the_window_with_most_of_the_query(self) -> None:
        filler = " ".join(f"w{i}" for i in range(30))
        text = f"green {filler} green mile {filler}"
        marks = mark({"t": text}, Word("green"), Word("mile"), fields=None, snippets=(("t", 6),))
        assert marks == {"_snippet": {"t": "…w28 w29 [green] [mile] w0 w1…"}}

    def test_a_short_text_is_whole(self) -> None:
        marks = mark({"t": "(the green mile)"}, Word("mile"), fields=None, snippets=(("t", 9),))
        assert marks == {"_snippet": {"t": "(the green [mile])"}}

    def test_without_a_match_it_is_the_beginning(self) -> None:
        marks = mark({"t": "one two three four"}, Word("x"), fields=None, snippets=(("t", 2),))
        assert marks == {"_snippet": {"t": "one two…"}}

    @pytest.mark.parametrize(("word", "shown"), [(".net", "…[.NET]…"), ("net", "….[NET]…")])
    def test_a_word_with_a_symbol_is_shown_with_it(self, word: str, shown: str) -> None:
        item = {"t": "one two .NET three four"}
        marks = mark(item, Word(word), fields=None, snippets=(("t", 1),))
        assert marks == {"_snippet": {"t": shown}}

    def test_of_an_array_the_best_element(self) -> None:
        item = {"t": ["red", "a green mile"]}
        marks = mark(item, Word("mile"), fields=None, snippets=(("t", 5),))
        assert marks == {"_snippet": {"t": "a green [mile]"}}

    @pytest.mark.parametrize(
        "text",
        [
            "€" * 20_000,
            "€" * 20_000 + " green mile",
            "green " + "!" * 20_000 + " mile",
            "green" * 4_000,
        ],
    )
    def test_what_stands_between_words_and_endless_words_are_cut(self, text: str) -> None:
        words = Word("green"), Word("mile")
        marks = mark({"t": text}, *words, fields=None, snippets=(("t", 3),))["_snippet"]["t"]
        shown = re.sub(r"[\[\]…]", "", marks)
        assert shown in text
        assert 300 < len(shown.encode()) <= 3 * 128
        assert ("[green]" in marks or "[mile]" in marks) == (" " in text)


CHARACTERS = (
    *(
        "👨\u200d👩\u200d👧\u200d👦",
        "👍🏽",
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "🇦🇹",
        "🇩🇪",
        "é",
        "q\u0323\u0307",
    ),
    *(
        "क्षि",
        "நி",
        "ที่",
        "กำ",
        "한",
        "\u1112\u1161\u11ab",
        "葛\U000e0100",
        "か\u3099",
        "a",
        " ",
        "…",
        "\r\n",
    ),
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
)
"""Each is seen as one."""


@given(st.lists(st.sampled_from(CHARACTERS), min_size=20, max_size=120), st.integers(0, 40))
def test_a_snippet_cuts_nothing_that_is_seen_as_one_character(parts: list[str], at: int) -> None:
    parts[at:at] = " ", "green", " "
    text = "".join(parts)
    places = set(accumulate(map(len, parts), initial=0))
    for bound in (1 << 20, 77):
        marks = mark(
            {"t": text}, Word("green"), fields=None, snippets=(("t", 1),), text_bytes_max=bound
        )
        shown = re.sub(r"[\[\]]", "", html.unescape(marks["_snippet"]["t"]))
        candidates = [shown[i:j] for i in (0, 1) for j in (len(shown), len(shown) - 1)]
        assert any(
            text.startswith(one, place) and place + len(one) in places
            for one in candidates
            for place in places
        ), (shown, text)


def test_past_the_bound_of_a_text_nothing_is_marked() -> None:
    text = "green éa <green> green"
    for bound, expected in (
        (5, "green éa &lt;green&gt; green"),  # possibly "greens"
        (6, "[green] éa &lt;green&gt; green"),
        (7, "[green] éa &lt;green&gt; green"),  # inside é
        (16, "[green] éa &lt;green&gt; green"),
        (17, "[green] éa &lt;[green]&gt; green"),
        (len(text.encode()), "[green] éa &lt;[green]&gt; [green]"),
    ):
        marks = mark({"t": text}, Word("green"), fields=("t",), text_bytes_max=bound)
        assert marks == {"_highlight": {"t": expected}}


def test_a_snippet_shows_only_what_was_looked_at() -> None:
    def snippet(bound: int) -> str:
        marks = mark(
            {"t": "one two three green"},
            Word("green"),
            fields=None,
            snippets=(("t", 9),),
            text_bytes_max=bound,
        )
        return str(marks["_snippet"]["t"])

    assert snippet(19) == "one two three [green]"
    assert snippet(8) == "one two …"
    assert snippet(2) == "…"


@pytest.mark.parametrize(
    "text", ["東京都庁 東京", "abc東京c++runs c++", "กรุงเทพ ｶﾀｶﾅ", "ﬁne straße"]
)
def test_wherever_a_text_is_cut_a_snippet_has_the_marks_of_the_whole(text: str) -> None:
    words = [Word(token.text) for token in Analyzer().tokenize(text)]
    for bound in range(len(text.encode()) + 1):
        marks = mark({"t": text}, *words, snippets=(("t", 50),), text_bytes_max=bound)
        whole = marks["_highlight"].get("t", text)
        snippet = marks["_snippet"]["t"].removesuffix("…")
        assert whole.startswith(snippet), (bound, snippet, whole)
        assert snippet.count("[") == whole.count("["), (bound, snippet, whole)


@given(st.text("aéč\u0301\u00ad\u200c\u200d\ufe0f東กู가سف 😀", max_size=12), st.data())
def test_a_text_that_is_cut_has_no_marks_that_the_whole_has_not(
    text: str, data: st.DataObject
) -> None:
    """Words may go on after characters that are ignored: soft hyphens, joiners, marks."""
    tokens = Analyzer().tokenize(text, is_indexing=True)
    words = [Word(token.text) for token in tokens if data.draw(st.booleans())]
    whole = characters(mark({"t": text}, *words, fields=("t",))["_highlight"]["t"])
    for bound in range(len(text.encode()) + 1):
        marks = mark({"t": text}, *words, snippets=(("t", 50),), text_bytes_max=bound)
        snippet = characters(marks["_snippet"]["t"].removesuffix("…"))
        for (shown, is_marked), (character, may_be_marked) in zip(snippet, whole, strict=False):
            assert (shown, is_marked <= may_be_marked) == (character, True), (bound, marks, whole)


def characters(marks: str) -> list[tuple[str, bool]]:
    """Return each character, and whether it is marked."""
    found = []
    is_marked = False
    for one in marks:
        if one in "[]":
            is_marked = one == "["
        else:
            found.append((one, is_marked))
    return found


@given(st.lists(WORDS, min_size=1, max_size=3))
def test_a_word_is_marked_in_the_tier_in_which_the_search_matches_it(words: list[Word]) -> None:
    tokens = Analyzer().tokenize(" ".join([*VOCABULARY, "rainbow", "seat", "statoin"]))
    terms = sorted({token.text for token in tokens})
    joined = np.frombuffer(bytearray("".join(terms).encode()) + bytes(TERM_PADDING), np.uint8)
    starts = np.array([0, *accumulate(len(term.encode()) for term in terms)], np.int64)
    vocabulary = Vocabulary(finish_vocabulary(joined, starts))
    query_words = QueryWords(words)
    similar = query_words.similar(vocabulary)
    matches = query_words.matches(vocabulary, similar, ENGLISH.class_of("a"))
    for ordinal, term in enumerate(terms):
        kinds = [match_kind(term, word, "english") for word in words]
        expected = {i: TIER_OF_KIND[kind] for i, kind in enumerate(kinds) if kind is not None}
        assert dict(matches.get(ordinal, ())) == expected, term


@pytest.mark.parametrize("path", ["x", "", "a", "a.b", "a.b.c", "a.", "d"])
def test_a_named_field_is_found_whatever_else_is_shown(path: str) -> None:
    text = "a green one"
    item = {"": {"": {"x": text}}, "a.b": text, "a": {"b": [{"c": text}], "": text}, "d": 1}
    all_fields = mark(item, Word("green"), fields=("*", path))["_highlight"]
    expected = {path: all_fields[path]} if path in all_fields else {}
    assert mark(item, Word("green"), fields=(path,))["_highlight"] == expected


def test_past_the_bound_of_an_item_nothing_is_marked() -> None:
    item = {"a": "green " * 10, "b": "green " * 10, "c": "green"}
    marks = mark(item, Word("green"), fields=("a", "b", "c"), item_bytes_max=90)["_highlight"]
    assert [marks[name].count("[green]") for name in "abc"] == [10, 5, 0]
    assert marks["b"].count("green") == 10


@pytest.mark.parametrize("clause", [Word("aa"), Phrase(("aa",) * 9), Word("ab", typos=1)])
def test_the_cost_of_marks_grows_with_their_number(clause: Clause) -> None:
    """Each mark once copied those after it: 156 KB took longer than a request may."""

    def seconds(text: str) -> float:
        started = time.process_time()
        mark({"t": text}, clause, fields=("t",), snippets=(("t", 30),))
        return time.process_time() - started

    seconds("aa")
    tenth = min(seconds("aa " * 6_000) for _ in range(2))
    assert seconds("aa " * 60_000) < 40 * tenth


def test_what_few_words_of_a_text_cost_is_to_split_it() -> None:
    """Each word once became an object: with ten times as long texts, a word took 2 µs."""
    text = "".join(f"w{i % 5000} " for i in range(100_000))
    marker = Marker([ScoredClause(Word("w7"), (ONES,))], FieldClasses("english"))
    request = HighlightRequest(("t",), (), "[", "]", "…", 1 << 20, 1 << 20)
    item = json.dumps({"t": text}).encode()

    def seconds() -> float:
        started = time.process_time()
        mark_all([item], marker, {"t": True}, request)
        return time.process_time() - started

    def seconds_to_tokenize() -> float:
        started = time.process_time()
        Analyzer().words(text)
        return time.process_time() - started

    assert min(seconds() for _ in range(3)) < 2 * min(seconds_to_tokenize() for _ in range(3))
