"""Infix matching in words and codes: in configured fields, or where requested."""

from __future__ import annotations

from tests.cluster.conftest import Index

ITEMS = [
    {"id": 1, "name": "fußballtrikot", "sku": "LP3201X"},
    {"id": 2, "name": "ball", "sku": "AB-99"},
    {"id": 3, "name": "ballkleid", "sku": "xlp32"},
]


def test_any_part_of_a_word_is_found(index: Index) -> None:
    assert index.configure({"infix": ["sku"]}).status == 200
    assert index.put(ITEMS).status < 300

    assert index.ids(query="3201 ") == [1]
    assert index.ids(query="lp32") == [1, 3]  # as the beginning first
    assert index.ids(query="01 ") == []  # two letters
    assert index.ids(query='"3201"') == []  # as typed
    assert index.ids(query="ball", prefix="none") == [2]  # other fields: whole words
    assert sorted(index.ids(query="ball", prefix="none", infix=True)) == [1, 2, 3]
    assert index.ids(query="ball", infix=True) == [2, 3, 1]
    assert index.ids(query="3201 ", infix=False) == []
    assert index.ids(query="trikot ", infix=True, search_fields=["sku"]) == []
    found = index.search(query="3201 ", show=["score_details"], highlight={"fields": ["sku"]})
    item = found["data"]["items"][0]
    assert "infix" in str(item["_score_details"])
    assert "<em>" in str(item["_highlight"])

    assert index.configure({"infix": True}).status == 200
    assert index.ids(query="trikot ") == [1]
    assert index.post("search", {"query": "x", "infix": ["sku"]}).status == 400
    assert index.get("search", query="leid ", infix="true").json["pagination"]["total"] == 1
    assert index.get("configuration", effective="true").json["infix"] is True


def test_scores_are_the_same_where_nothing_is_found_inside(index: Index) -> None:
    """A tier that no document can have separates the others by nothing."""
    assert index.configure({}).status == 200
    assert index.put([*ITEMS, {"id": 4, "name": "bell"}]).status < 300

    def scores(**parameters: object) -> list[float]:
        items = index.search(query="bell", typo=2, show=["score_details"], **parameters)
        return [item["_score"] for item in items["data"]["items"]]

    plain = scores(search_fields=["name"], prefix="none")
    assert len(plain) == 2
    assert plain == scores(search_fields=["name"], prefix="none", infix=False)
    index.configure({"infix": ["sku"]})
    assert plain == scores(search_fields=["name"], prefix="none")
    item = index.search(query="bell", typo=2, prefix="none", show=["score_details"])
    tier = item["data"]["items"][0]["_score_details"]["parts"][0]
    assert tier["kind"] == "tier"
    assert tier["tier"] == "typed"
