"""A query with accents finds the same items, and ranks those with the same spelling first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import Index, Services, filled
from tests.service import Client

TEXTS = [
    "ma",
    "má",
    "mà",
    "má bạn",
    "mà bạn",
    "cafe noir",
    "café noir",
    "CAFE\u0301 au lait",
    "Muller",
    "Müller",
    "все",
    "всё",
    "أحمد",
    "احمد",
    "cafeteria",
]


SEARCHED = {"searchable_fields": ["text"]}
ITEMS = [{"id": i, "text": text, "even": i % 2 == 0} for i, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def texts(client: Client) -> Iterator[Index]:
    """Read only."""
    yield from filled(Index(client, "accents"), SEARCHED, ITEMS)


def found(index: Index, **parameters: Any) -> list[str]:
    return [item["text"] for item in index.search(**parameters)["data"]["items"]]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("má", ["má"]),
        ("ma\u0300", ["mà"]),
        ("MÁ BẠN", ["má bạn"]),
        ("café", ["café noir", "CAFE\u0301 au lait"]),
        ('"café"', ["café noir", "CAFE\u0301 au lait"]),
        ("müller", ["Müller"]),
        ("всё", ["всё"]),
        ("أحمد", ["أحمد"]),
    ],
)
def test_the_typed_accents_come_first_and_all_is_found(
    texts: Index, query: str, first: list[str]
) -> None:
    bare = {"má": "ma", "ma\u0300": "ma", "MÁ BẠN": "ma ban", "café": "cafe", '"café"': '"cafe"',
            "müller": "muller", "всё": "все", "أحمد": "احمد"}[query]  # fmt: skip
    hits = found(texts, query=query, per_page=50)
    assert sorted(hits[: len(first)]) == sorted(first)
    assert sorted(hits) == sorted(found(texts, query=bare, per_page=50))


def test_both_typed_spellings_count_and_a_bare_one_takes_all(texts: Index) -> None:
    assert found(texts, query="má mà", per_page=3) == ["má", "mà", "má bạn"]
    bare, mixed = (
        texts.search(query=query, show=["score"], per_page=50)["data"]["items"]
        for query in ("ma ma", "ma má")
    )
    assert bare == mixed


def test_a_spelling_is_explained_and_marked(texts: Index) -> None:
    hits = texts.search(query="café", show=["score_details"], highlight=["text"])["data"]["items"]
    best = hits[0]
    assert best["_highlight"]["text"] in ("<em>café</em> noir", "<em>CAFE\u0301</em> au lait")
    matches = {}
    for hit in hits:
        word = next(part for part in hit["_score_details"]["parts"] if part["kind"] == "word")
        matches[hit["text"]] = {one["match"]: one["term"] for one in word["occurrences"]}
        assert hit["_score"] == hit["_score_details"]["score"]
    assert matches["café noir"] == {"exact": "cafe", "spelling": "café"}
    assert matches["cafe noir"] == {"exact": "cafe"}


def test_spellings_are_no_words(texts: Index) -> None:
    """Nothing but the word itself leads to them: no typo, no letters inside, no suggestion."""
    assert sorted(texts.ids(query="caf", infix=True)) == [5, 6, 7, 14]
    assert texts.ids(query="ulle", infix=True, typo=0) == texts.ids(query="üllé", infix=True)
    suggested = texts.get("suggest", query="c").json["data"]["suggestions"]
    assert [one["text"] for one in suggested] == ["cafe", "cafeteria"]


def test_a_word_that_is_always_spelt_alike_is_scored_as_without_accents(index: Index) -> None:
    index.configure(SEARCHED)
    items = [*ITEMS, {"id": 90, "text": "über"}, {"id": 91, "text": "über alles"}]
    assert index.put(items).status == 200
    bare, typed = (
        index.search(query=query, show=["score"])["data"]["items"] for query in ("uber", "über")
    )
    assert bare == typed


def test_scores_are_the_same_for_any_number_of_shards(services: Services) -> None:
    """Also when the items with one of the spellings are deleted."""
    answers = []
    for num_shards in (1, 2, 3):
        client = services(num_shards).client()
        index = Index(client, f"accents-{num_shards}")
        index.configure({"searchable_fields": ["text"]})
        index.put([{"id": i, "text": text} for i, text in enumerate(TEXTS)])
        queries = ("má bạn", "café", "всё ma", '"má bạn"')
        shown = [index.search(query=one, match="any", show=["score"]) for one in queries]
        for gone in (1, 3, 11):
            client.delete(f"{index.path}/items/{gone}")
        shown += [index.search(query=one, match="any", show=["score"]) for one in queries]
        answers.append([one["data"]["items"] for one in shown])
        client.close()
    assert answers[0] == answers[1] == answers[2]
