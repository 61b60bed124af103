"""Typos by field: how long words must be, and fields that are matched only as typed."""

from __future__ import annotations

from tests.cluster.conftest import Index

ITEMS = [
    {"id": 1, "name": "printer", "code": "abcdefg"},
    {"id": 2, "name": "prunter", "code": "printed"},
    {"id": 3, "name": "lamp", "code": "plain"},
]


def test_typos_count_in_the_fields_that_allow_them(index: Index) -> None:
    document = {"field_typo_lengths": {"code": "none", "name": [4, 6]}}
    assert index.configure(document).status == 200
    assert index.put(ITEMS).status < 300

    assert index.ids(query="printer ") == [1, 2]  # not 3's code, one edit away
    assert index.ids(query="abcdegf ") == []
    assert index.ids(query="abcd") == [1]  # as the beginning of a word it counts
    assert index.ids(query="lomp ") == [3]
    assert index.ids(query="lomp ", search_fields=["code"]) == []
    assert index.ids(query="printer ", typo=0) == [1]
    marked = index.search(query="printer ", highlight={"fields": ["name", "code"]})
    marks = [item["_highlight"] for item in marked["data"]["items"]]
    assert "<em>prunter</em>" in str(marks[1])
    assert "<em>printed</em>" not in str(marks[1])

    assert index.configure({}).status == 200
    assert index.ids(query="lomp ") == []
    assert index.ids(query="lomp ", typo_lengths=[4, 8]) == [3]
    assert sorted(index.ids(query="printer ")) == [1, 2]
    assert index.ids(query="printer ", typo_lengths=[8, 9]) == [1]
    assert index.post("search", {"query": "x", "typo_lengths": [2, 9]}).status == 400
    assert index.get("search", query="lomp ", typo_lengths="4,8").json["pagination"]["total"] == 1
