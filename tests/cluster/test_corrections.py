"""A mistyped word finds the other forms of what was meant, on any number of shards."""

from __future__ import annotations

from typing import Any

from tests.cluster.conftest import Index, Services, answers_by_shards

ITEMS = [
    {"id": 1, "name": "guitar"},
    {"id": 2, "name": "guitars"},
    {"id": 3, "name": "three guitars and a case"},
    {"id": 4, "name": "printing"},
    {"id": 5, "name": "printed", "code": "guitars"},
    {"id": 6, "name": "lamp"},
    {"id": 7, "name": "photographers"},
    {"id": 8, "name": "photographer"},
]
ENGLISH = {"language": "english", "searchable_fields": ["name"]}
WHOLE = {"prefix": "none"}
"""As beginnings of words these would find more."""


def test_forms_of_what_was_meant_are_found(index: Index) -> None:
    assert index.configure(ENGLISH).status == 200
    assert index.put(ITEMS).status < 300

    assert index.ids(query="guitr", **WHOLE) == [1, 2, 3]  # guitars is two edits away
    assert index.ids(query="prinnting", **WHOLE) == [4, 5]
    assert index.ids(query="xhotographer", **WHOLE) == [
        8,
        7,
    ]  # another first letter counts as two typos
    assert index.ids(query="guitr", typo=0, **WHOLE) == []
    assert index.ids(query="lamq", **WHOLE) == []
    assert index.ids(query="guitr", match="any", **WHOLE) == [1, 2, 3]

    reply = index.search(
        query="guitr", **WHOLE, highlight={"fields": ["name"]}, show=["score_details"]
    )
    items = reply["data"]["items"]
    assert items[2]["_highlight"]["name"] == "three <em>guitars</em> and a case"
    matches = [one["_score_details"]["parts"][-1]["occurrences"][0]["match"] for one in items]
    assert matches == ["typo", "typo stem", "typo stem"]

    # A word that an item has is not mistyped.
    assert index.put([{"id": 9, "name": "guitr"}]).status < 300
    assert index.ids(query="guitr", **WHOLE)[0] == 9
    assert sorted(index.ids(query="guitr", **WHOLE)) == [1, 9]
    index.client.delete(f"{index.path}/items/9")
    assert index.ids(query="guitr", **WHOLE) == [1, 2, 3]

    # Without a language words have no other forms.
    assert index.configure({"searchable_fields": ["name"]}).status == 200
    assert index.ids(query="guitr", **WHOLE) == [1]


def test_a_function_word_does_not_tell_what_is_meant(index: Index) -> None:
    """Beside it, rare near words are as unlikely as in a query of one word."""
    index.configure({"searchable_fields": ["name"]})
    books = [{"id": i, "name": f"the great book of tolkien, volume {i}"} for i in range(12)]
    index.put([*books, {"id": 90, "name": "the talkin"}, {"id": 91, "name": "big talkin"}])

    assert index.ids(query="the tolkin", per_page=20)[:12] == list(range(12))
    assert index.ids(query="big tolkin")[0] == 91


def test_what_is_likely_to_be_meant_comes_first(services: Services) -> None:
    books = [{"id": i, "name": f"the great big book of tolkien volume {i}"} for i in range(12)]
    others = [{"id": 90, "name": "talkin"}, {"id": 91, "name": "talking"}]
    answers: list[Any] = []
    for count in (1, 2, 3):
        index = Index(services(count).client(), "likely")
        try:
            assert index.configure({"searchable_fields": ["name"]}).status == 200
            assert index.put([*others, *books]).status < 300
            for options in ({}, WHOLE):
                ids = index.ids(query="tolkin", per_page=20, **options)
                assert ids[:12] == list(range(12))
                assert ids[12:] == ([90, 91] if not options else [90])
            assert index.ids(query="tolkin -tolkien") == [90]
            asked = {"query": "tolkin", "match": "any", "show": ["score_details"]}
            answers.append(index.search(**asked, per_page=20)["data"]["items"])
        finally:
            index.client.delete(index.path)
            index.client.close()
    assert [item["id"] for item in answers[0]] == [*range(12), 90, 91]
    assert answers[0] == answers[1] == answers[2]


def test_forms_count_in_fields_that_have_the_language_and_allow_typos(index: Index) -> None:
    fields = {"searchable_fields": ["name", "code"], "field_typo_lengths": {"code": "none"}}
    assert index.configure({"language": "english", **fields}).status == 200
    assert index.put(ITEMS).status < 300
    assert sorted(index.ids(query="guitr", **WHOLE)) == [1, 2, 3]
    assert index.configure({**ENGLISH, "searchable_fields": ["name", "code"]}).status == 200
    assert sorted(index.ids(query="guitr", **WHOLE)) == [1, 2, 3, 5]


def test_answers_do_not_depend_on_the_number_of_shards(services: Services) -> None:
    answers = answers_by_shards(
        services,
        "corrections",
        ENGLISH,
        [{"id": i, "name": ITEMS[i % 8]["name"]} for i in range(40)],
        [
            {"query": query, "match": "any", "show": ["score_details"], "per_page": 40, **WHOLE}
            for query in ("guitr", "xhotographer lamp", "prinnting")
        ],
    )
    assert all(answers[0])
    assert answers[0] == answers[1] == answers[2] == answers[3]
