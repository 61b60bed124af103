"""Full text: words, phrases, typos, options, ranking, stop words and synonyms.

One row of the interface after another, against real processes with 1 and 3 shards.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import Index


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("green", {1}),
        ("GREEN mile", {1}),
        ("mile green", {1}),
        ("green fight", set()),
        ("amelie", {5}),
        ("AMÉLIE", {5}),
        ("crime", {1, 2}),
        ("drama green", {1}),
        ("f", {2, 3, 4}),
        ("fig", {4}),
        ("fig club", {4}),
        ("club fig", {4}),
        ("poulian", {5}),
        ("forest", {3}),
        ("se7en", {6}),
        ("se8en", set()),
        ('"green mile"', {1}),
        ('"mile green"', set()),
        ("drama -green", {3, 4}),
        ('drama -"fight club"', {1, 3}),
        ("-drama", {2, 5, 6}),
        ("zzzzz", set()),
        ("green zzzzz", {1}),
        ('green "zzzzz"', set()),
        ('"zzzzz" green', set()),
        ('green -"zzzzz"', {1}),
        ("", {1, 2, 3, 4, 5, 6}),
        ("!?", {1, 2, 3, 4, 5, 6}),
    ],
)
def test_query_text_selects_items(shared_films: Index, query: str, expected: set[int]) -> None:
    assert set(shared_films.ids(query=query)) == expected


def test_ignored_words_are_named(shared_films: Index) -> None:
    assert shared_films.search(query="green zzzzz")["meta"]["ignored_words"] == ["zzzzz"]
    assert shared_films.search(query="green")["meta"]["ignored_words"] == []


def test_quoted_words_are_never_ignored(shared_films: Index) -> None:
    answer = shared_films.search(query='green zzzzz "qqqqq"')
    assert answer["pagination"]["total"] == 0
    assert answer["meta"]["ignored_words"] == ["zzzzz"]
    assert shared_films.ids(query='green "qqqqq"', match="any") == [1]
    assert shared_films.ids(query='"qqqqq" green', match="last") == []
    explained = shared_films.post("explain", {"id": 1, "query": 'green "qqqqq"'}).json["data"]
    assert explained["reasons"] == [{"kind": "word", "param": "query", "text": '"qqqqq"'}]


def test_cjk_is_found_by_any_part(index: Index) -> None:
    index.configure({})
    index.put([{"id": 1, "t": "東京都庁舎"}, {"id": 2, "t": "京都の寺"}, {"id": 3, "t": "ﾄｳｷｮｳ"}])

    assert set(index.ids(query="京都")) == {1, 2}
    assert index.ids(query="都庁") == [1]
    assert index.ids(query="東京都庁舎") == [1]
    assert index.ids(query="京庁") == []
    assert index.ids(query="トウキョウ") == [3]


def test_a_single_character_is_found_in_quotes_excluded_and_with_synonyms(index: Index) -> None:
    index.configure({"synonyms": [["京", "capital"]]})
    texts = ["東京都庁舎", "京都の寺", "hello 京都 world", "world", "京"]
    index.put([{"id": i, "t": text} for i, text in enumerate(texts)])

    assert set(index.ids(query="京", prefix="none")) == {0, 1, 2, 4}
    assert set(index.ids(query='"京"', prefix="none")) == {0, 1, 2, 4}
    assert index.ids(query='"hello 京"', prefix="none") == [2]
    assert index.ids(query='"京 world"') == []
    assert index.ids(query="world -京") == index.ids(query='world -"京"') == [3]
    assert index.ids(query='-"hello 京"') == [0, 1, 3, 4]
    assert index.ids(query="寺 京", prefix="none", highlight=True) == [1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"prefix": "none", "query": "gree"}, set()),
        ({"prefix": "all", "query": "gre mil"}, {1}),
        ({"prefix": "last", "query": "gre mil"}, {1}),
        ({"typo": 0, "query": "forest"}, set()),
        ({"typo": 1, "query": "clib "}, {4}),
        ({"typo": 2, "query": "frrrst gump"}, {3}),
        ({"match": "any", "query": "green fiction"}, {1, 2}),
        ({"match": "last", "query": "green fiction"}, {1}),
        ({"match": "50%", "query": "green fiction"}, {1, 2}),
        ({"match": "75%", "query": "-drama"}, {2, 5, 6}),
        ({"match": "any", "query": "-drama"}, {2, 5, 6}),
        ({"match": "75%", "query": "green drama fiction mile"}, {1}),
    ],
)
def test_options_widen_or_narrow_what_a_text_selects(
    shared_films: Index, options: dict[str, Any], expected: set[int]
) -> None:
    assert set(shared_films.ids(**options)) == expected


def test_every_string_is_searchable_unless_fields_are_named(index: Index) -> None:
    item = {"id": 1, "a": "one", "b": ["two", {"c": "three"}], "d": {"e": ["four"]}, "n": 5}
    index.configure({})
    index.put([item])
    everything = [len(index.ids(query=word)) for word in ("one", "two", "three", "four")]

    index.configure({"searchable_fields": ["a^3", "d.e"]})
    named = [len(index.ids(query=word)) for word in ("one", "two", "three", "four")]

    index.configure({"searchable_fields": ["b", "d"]})
    inside = [len(index.ids(query=word)) for word in ("one", "two", "three", "four")]

    index.configure({"searchable_fields": ["a^3", "*"]})
    others = [len(index.ids(query=word)) for word in ("one", "two", "three", "four")]

    assert everything == others == [1, 1, 1, 1]
    assert named == [1, 0, 0, 1]
    assert inside == [0, 1, 1, 1]


def test_ranking_prefers_names_then_words_that_are_near(index: Index) -> None:
    index.configure({"searchable_fields": ["name^5", "text"]})
    index.put(
        [
            {"id": "typo", "text": "chocolade cake"},
            {"id": "prefix", "text": "chocolates cake"},
            {"id": "apart", "text": "chocolate and a rather long way to the cake"},
            {"id": "near", "text": "a rather long way to and the chocolate cake"},
            {"id": "name", "name": "chocolate cake"},
        ]
    )

    assert index.ids(query="cake chocolate")[0] == "name"
    assert index.ids(query="chocolate cake")[:3] == ["name", "near", "apart"]
    # What a whole last word begins is near what it is: here in a much shorter text.
    ids = index.ids(query="cake chocolate")
    assert (ids[0], ids[-1]) == ("name", "typo")
    assert ids.index("near") < ids.index("apart")
    assert index.ids(query="cake chocolat")[-1] == "typo"


def test_irregular_plurals_are_forms_of_their_words(index: Index) -> None:
    index.configure({"language": "english"})
    texts = ("women's shoes", "a mouse", "mice", "No Country for Old Men", "mouses")
    index.put([{"id": i, "t": text} for i, text in enumerate(texts)])
    assert index.ids(query="woman shoe") == index.ids(query="womens shoes") == [0]
    assert index.ids(query="mouse", prefix="none") == [1, 2, 4]
    assert index.ids(query="mice", prefix="none") == [2, 4, 1]
    assert index.ids(query="no country for old man") == [3]
    marked = index.search(query="mouse", highlight={"fields": ["t"]})["data"]["items"]
    assert {one["_highlight"]["t"] for one in marked} == {
        "a <em>mouse</em>",
        "<em>mice</em>",
        "<em>mouses</em>",
    }


def test_stop_words_synonyms_and_language_apply_to_data_already_there(index: Index) -> None:
    index.configure({})
    index.put([{"id": 1, "t": "running television"}, {"id": 2, "t": "the runs"}])
    before = [index.ids(query=text, prefix="none") for text in ("the television", "tv", "run")]

    index.configure(
        {"language": "english", "stop_words": ["the"], "synonyms": [["tv", "television"]]}
    )

    assert before == [[], [], []]
    assert index.ids(query="tv") == [1]
    assert set(index.ids(query="run ", prefix="none")) == {1, 2}
    assert index.ids(query="the television") == [1]


def test_a_field_exists_unless_it_is_null(index: Index) -> None:
    index.configure({})
    there: list[Any] = ["", [], [""], {}, {"b": None}, 0, False]
    index.put([{"id": i, "a": value} for i, value in enumerate(there)])
    index.put([{"id": 50, "a": None}, {"id": 51, "a": [None]}, {"id": 52}])

    assert index.ids(filters={"a": {"exists": True}}) == list(range(len(there)))
    assert index.ids(filters={"a": {"exists": False}}) == [50, 51, 52]


def test_synonyms_of_several_words_find_more_never_less(index: Index) -> None:
    items = [
        {"id": 1, "name": "dark house of a knight"},
        {"id": 2, "name": "a knight"},
        {"id": 3, "name": "knight"},
    ]
    index.configure({})
    index.put(items)
    assert index.ids(query="dark knight") == [1]
    index.configure({"synonyms": [["couch", "dark knight"]]})
    assert index.ids(query="dark knight") == index.ids(query="dark kniht") == [1]
    assert index.search(query="dark knight")["meta"]["ignored_words"] == []
    index.put([{"id": 4, "name": "couch"}, {"id": 5, "name": "the dark knight"}])
    assert index.ids(query="dark knight") == [5, 1, 4]
    assert index.ids(query="couch") == [4, 5]
    assert index.ids(query="a dark knight") == [1]


@pytest.mark.parametrize("synonym", ["notebook", "portable computer"])
def test_a_synonym_never_outranks_the_typed_word(index: Index, synonym: str) -> None:
    index.configure({"synonyms": [["laptop", synonym]]})
    index.put([{"id": f"s{i}", "name": synonym} for i in range(3)])
    texts = ("gaming laptop", "laptop bag", "grey " * 15 + "laptop")
    index.put([{"id": f"w{i}", "name": text} for i, text in enumerate(texts)])

    answer = index.search(query="laptop", show=["score_details"])

    items = answer["data"]["items"]
    assert {one["id"][0] for one in items[:3]} == {"w"}
    assert {one["id"] for one in items[3:]} == {"s0", "s1", "s2"}
    (part,) = (one for one in items[-1]["_score_details"]["parts"] if one["kind"] == "word")
    assert [one["match"] for one in part["occurrences"]] == ["synonym"]
    assert part["frequency"] == sum(one["frequency"] * one["gain"] for one in part["occurrences"])
    reversed_ids = index.ids(query=synonym)
    assert {one[0] for one in reversed_ids[:3]} == {"s"}


def test_scores_know_only_live_items(index: Index) -> None:
    index.configure({})
    index.put([{"id": i, "t": f"word{i % 7} word{i % 3} filler"} for i in range(40)])
    fresh = index.search(query="word1 word2", show=["score"], match="any", per_page=100)
    index.put([{"id": 100 + i, "t": "word1 word1 word2 " * 5} for i in range(40)])
    for i in range(40):
        index.client.delete(f"{index.path}/items/{100 + i}")

    after = index.search(query="word1 word2", show=["score"], match="any", per_page=100)

    assert after["data"]["items"] == fresh["data"]["items"]
