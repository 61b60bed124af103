"""Counting the fields of an index, against the registry of the shards and a naive model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.json.item_scanner import ItemScanner
from common.limits import Limits
from coordinator.write.field_limit import FieldNames
from shard.segment.field_registry import FieldRegistry
from shard.segment.items.value_extraction import extract

KEYS = st.sampled_from(
    ["a", "b", "cc", "a.b", "é", 'x"y', "\\", "\n", "", "a\u0000", "id", "{", "]"]
)
VALUES = st.recursive(
    st.sampled_from([1, -1.5e-3, True, None, "", "a,b", '{"q":1}', "\\", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
ITEMS = st.dictionaries(KEYS.filter(lambda key: key != "id"), VALUES, max_size=5)


def paths_of(value: Any, base: str = "") -> set[str]:
    """Return the paths of all keys of a value."""
    found: set[str] = set()
    if isinstance(value, dict):
        for key, inner in value.items():
            path = f"{base}.{key}" if base else key
            found |= {path} | paths_of(inner, path)
    elif isinstance(value, list):
        for inner in value:
            found |= paths_of(inner, base)
    return found


def added(names: FieldNames, items: list[bytes]) -> list[bool]:
    """Add the fields of items; return which were refused."""
    sizes = np.array([len(item) for item in items], np.int64)
    ends = np.cumsum(sizes)
    payload = np.frombuffer(bytearray(b"".join(items)), np.uint8)
    refused: list[bool] = names.add_from(payload, ends - sizes, ends).tolist()
    return refused


@given(st.lists(ITEMS, min_size=1, max_size=8), st.integers(1, 20), st.booleans())
def test_as_the_model(items: list[dict[str, Any]], limit: int, is_ascii: bool) -> None:
    # (Whether a key that is empty stands under its parent or not is the kernel's own matter.)
    items = [one for one in items if not any("" in path.split(".") for path in paths_of(one))]
    known = {"a", "b.cc"} if limit > 1 else set()
    names = FieldNames(known, Limits(index_fields_max=limit))
    expected = []
    for item in items:
        new = known | paths_of(item)
        expected.append(len(new) > limit and new != known)
        if not expected[-1]:
            known = new

    encoded = [json.dumps(item, ensure_ascii=is_ascii).encode() for item in items]

    assert added(names, encoded) == expected
    assert names.num_fields == len(known)


@given(st.lists(ITEMS, min_size=1, max_size=8))
def test_as_the_registry_of_a_shard(items: list[dict[str, Any]]) -> None:
    encoded = [json.dumps(item).encode() for item in items]
    sizes = np.array([len(item) for item in encoded], np.int64)
    ends = np.cumsum(sizes)
    registry = FieldRegistry()
    extract(
        np.frombuffer(bytearray(b"".join(encoded)) + bytes(8), np.uint8),
        ends - sizes,
        ends,
        registry,
    )
    names = FieldNames((), Limits())

    assert not any(added(names, encoded))

    assert names.num_fields == registry.num_fields
    assert not any(added(FieldNames(registry.paths, Limits(index_fields_max=1)), encoded))


def test_table_grows_and_refuses_whole_items() -> None:
    names = FieldNames((), Limits(index_fields_max=1_000))
    fill = [json.dumps({f"f{i}": {f"g{j}": 0 for j in range(99)}}).encode() for i in range(11)]

    assert added(names, fill) == [False] * 10 + [True]
    assert names.num_fields == 1_000
    assert added(names, [*fill, b'{"f10":1}', b'{"f9":{"g5":[{}]}}']) == [False] * 10 + [
        True,
        True,
        False,
    ]


def test_repeated_keys_count_with_all_that_is_under_them() -> None:
    names = FieldNames((), Limits())
    added(names, [b'{"a":{"b":1},"a":{"c":2},"a":3}'])
    assert names.num_fields == 3


def test_refused_lines_become_errors_in_their_order() -> None:
    scanner = ItemScanner((), Limits())
    scanned = scanner.feed(b'{"id":1,"a":1}\n{"id":2,"b":1}\n{"id":}\n{"id":4}\n{"id":5,"c":1}\n')

    admitted = FieldNames((), Limits(index_fields_max=2)).admit(scanned, "line")

    assert admitted.lines.tolist() == [1, 4]
    assert [(one.position, one.code) for one in admitted.errors] == [
        (2, "too_many_index_fields"),
        (3, "invalid_json"),
        (5, "too_many_index_fields"),
    ]
    assert admitted.errors[0].message.startswith(
        "line 2: an index may have 2 (limit index_fields_max) fields"
    )
    assert len(admitted.id_hashes) == len(admitted.starts) == len(admitted.has_id) == 2
