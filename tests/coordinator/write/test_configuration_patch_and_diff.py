"""Patches of a configuration, and what they changed and removed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.write.configuration_patch_and_diff import changes, merged, removals

_NAMES = st.sampled_from("abc")
_LEAVES = st.one_of(st.integers(0, 3), st.booleans(), st.lists(st.integers(0, 2), max_size=2))
_DOCUMENTS = st.recursive(
    st.dictionaries(_NAMES, _LEAVES, max_size=3),
    lambda inner: st.dictionaries(_NAMES, st.one_of(_LEAVES, inner), max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [  # from RFC 7396, where both are objects
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merging_is_that_of_rfc_7396(
    document: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert merged(document, patch) == expected


@given(_DOCUMENTS, _DOCUMENTS)
def test_changes_name_every_difference_and_only_these(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    found = changes(before, after)
    assert changes(before, before) == []
    for change in found:
        for document, side in ((before, "before"), (after, "after")):
            value: Any = document
            for name in change["path"].split("."):
                value = value.get(name) if isinstance(value, dict) else None
            assert value == change[side]
    rebuilt = before
    for change in found:
        patch: Any = change["after"]
        for name in reversed(change["path"].split(".")):
            patch = {name: patch}
        rebuilt = merged(rebuilt, patch)
    assert rebuilt == after or any(isinstance(change["after"], dict) for change in found)


def test_removals_name_what_was_there_and_is_gone() -> None:
    assert removals({"a": {"b": {}}, "c": [], "d": 1}, {"d": 2}) != []
    assert removals({"a": {}, "c": []}, {}) == []
