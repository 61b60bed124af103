"""The array of items within JSON text of one object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.cli.sources.items_path import inner_arrays, only_array
from coordinator.cli.sources.source import SourceError
from tests.coordinator.cli.sources.files import items_of, read

ANSWER = """{
  "took": [3, {"at": ["x"]}], "ite\\u006ds": [ {"n": "]}\\"["} ],
  "data": {"items": [[1]], "rows": [
    {"id": 1, "items": [{"id": 7}]},
    {"id": 2, "t": "\\\\"}
  ], "more": [{"id": 9}]}
}
"""


def cut(text: bytes, size: int) -> list[bytes]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def test_arrays_of_objects_are_found_by_their_paths() -> None:
    assert inner_arrays(ANSWER.encode()) == ["items", "data.rows", "data.more"]
    assert inner_arrays(b'[{"a": [{"b": 1}]}]') == []
    assert inner_arrays(b'{"a": [{"b": 1}, {"b"') == ["a"]


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_what_is_around_the_array_becomes_spaces(size: int) -> None:
    text = ANSWER.encode()
    found = b"".join(only_array(cut(text, size), "data.rows"))
    assert json.loads(found) == json.loads(text)["data"]["rows"]
    assert len(found) == len(text)
    assert found.index(b"[") == text.index(b'"rows": [') + len('"rows": ')
    assert [i for i, byte in enumerate(found) if byte == 10] == [
        i for i, byte in enumerate(text) if byte == 10
    ]


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.recursive(st.integers() | st.text(max_size=4), lambda one: st.lists(one, max_size=3)),
        max_size=3,
    ),
    st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5)), max_size=4),
    st.integers(1, 9),
)
def test_any_array_is_found_among_any_members(
    around: dict[str, Any], wanted: list[dict[str, str]], size: int
) -> None:
    document = {**around, "in": {**around, "the items": wanted}, "z": around}
    for text in (json.dumps(document), json.dumps(document, ensure_ascii=False)):
        found = b"".join(
            only_array(cut(text.encode("utf-8", "surrogatepass"), size), "in.the items")
        )
        assert json.loads(found.decode("utf-8", "surrogatepass")) == wanted


def test_the_items_of_a_file_are_those_of_the_array(tmp_path: Path) -> None:
    for path, ids in (("data.rows", [1, 2]), ("data.more", [9])):
        source = read(tmp_path, ANSWER, "a.json", items_path=path)
        assert [item["id"] for item in source.sample] == ids
        assert [item["id"] for item in items_of(source)] == ids
    source = read(tmp_path, ANSWER, "a.json", items_path="data.rows", id_field="t")
    with pytest.raises(SourceError, match="item 0: 't' must hold"):
        items_of(source)
    marked = read(tmp_path, ANSWER.encode("utf-16"), "a.json", items_path="data.rows")
    assert len(items_of(marked)) == 2


def test_a_path_without_an_array_names_those_that_are_there(tmp_path: Path) -> None:
    source = read(tmp_path, ANSWER, "a.json", items_path="data")
    with pytest.raises(
        SourceError, match=r"has no array 'data'; it has items, data\.rows, data\.m"
    ):
        items_of(source)
    with pytest.raises(SourceError, match=r"has no array 'a'$"):
        items_of(read(tmp_path, '[{"a": [{}]}]', "a.json", items_path="a"))
    with pytest.raises(SourceError, match=r"--items is for JSON; .* is CSV"):
        read(tmp_path, "a,b\n1,2\n", items_path="a")
    with pytest.raises(SourceError, match=r"--items is for JSON; .* is SQLITE"):
        read(tmp_path, "", "a.db", items_path="a")
