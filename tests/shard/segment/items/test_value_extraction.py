"""The values of a batch's items, against a naive walk over decoded ones."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.index_configuration import OVERFLOW_PATH
from common.value_kinds_and_facet_keys import Shape, ValueKind, facet_key
from shard.segment import field_registry
from shard.segment.field_registry import FieldRegistry, find_field
from shard.segment.items.numbers_and_facet_keys import canonical_keys, parse_numbers
from shard.segment.items.value_extraction import Extraction, extract
from tests.shard.json_items import items

Value = tuple[int, str, ValueKind, Shape, Any]


def extract_all(
    documents: list[bytes], registry: FieldRegistry | None = None, *, only: str = ""
) -> Extraction:
    payload = np.frombuffer(bytearray(b"\n".join(documents)), np.uint8)
    sizes = np.array([len(document) for document in documents], np.int64)
    starts = np.cumsum(sizes + 1) - sizes - 1
    return extract(payload, starts, starts + sizes, registry or FieldRegistry(), only=only)


def span(extraction: Extraction, value: int) -> bytes:
    return extraction.text[extraction.start[value] : extraction.end[value]].tobytes()


def decoded(extraction: Extraction, registry: FieldRegistry) -> list[Value]:
    """The extraction in Python objects."""
    result: list[Value] = []
    for value in range(len(extraction.doc)):
        kind = ValueKind(extraction.kind[value])
        text = span(extraction, value)
        content: Any = text.decode() if kind == ValueKind.STRING else orjson.loads(text)
        path = registry.paths[extraction.field[value]]
        result.append(
            (int(extraction.doc[value]), path, kind, Shape(extraction.shape[value]), content)
        )
    return result


def kind_of(value: Any) -> ValueKind:
    match value:
        case str():
            return ValueKind.STRING
        case True:
            return ValueKind.TRUE
        case False:
            return ValueKind.FALSE
        case None:
            return ValueKind.NULL
        case int():
            return ValueKind.INTEGER
        case float():
            return ValueKind.FLOAT
        case list():
            return ValueKind.EMPTY_ARRAY
        case _:
            return ValueKind.EMPTY_OBJECT


def naive(doc: int, value: Any, path: str | None, num_arrays: int, way: int) -> list[Value]:
    """The same by recursion over the decoded item."""
    if isinstance(value, dict) and (value or path is None):
        way = max(way, min(num_arrays, 2))
        return [
            found
            for key, inner in value.items()
            for found in naive(doc, inner, key if path is None else f"{path}.{key}", 0, way)
        ]
    if isinstance(value, list) and value:
        return [found for inner in value for found in naive(doc, inner, path, num_arrays + 1, way)]
    assert path is not None
    shape = Shape.NESTED if num_arrays > 1 else Shape(max(way, num_arrays))
    return [(doc, path, kind_of(value), shape, value)]


def naive_values(documents: list[bytes]) -> list[Value]:
    return [
        value
        for doc, document in enumerate(documents)
        for value in naive(doc, orjson.loads(document), None, 0, 0)
    ]


def in_one_order(values: list[Value]) -> list[str]:
    """Dictionaries keep a duplicate key's first place, the extraction its last: compare without
    order."""
    return sorted(map(repr, values))


@given(st.lists(items(), min_size=1, max_size=4))
@example([b'{"a":{},"a":{"":1,"b":2},"a.b":[{"c":1},3]}'])
@example([b'{"\\u0061.b":"\\u0062","a":{"\\u0062":{"b":[]}}}'])
@example([b'{"x":{"a":"}","b":["]",{}]},"a":"last"}', b'{"x":[[],-1.5e3,null]}'])
def test_extraction_gives_the_values_of_the_decoded_items(documents: list[bytes]) -> None:
    """Values, ids, numbers, facet keys and single paths: drawing items takes most of the time."""
    registry = FieldRegistry()
    extraction = extract_all(documents, registry)
    values = decoded(extraction, registry)

    assert in_one_order(values) == in_one_order(naive_values(documents))
    assert np.all(np.diff(extraction.doc.astype(np.int64)) >= 0)
    check_ids(extraction, documents)
    check_numbers(extraction, values)
    check_facet_keys(extraction, values)
    check_each_path_alone(documents)


def check_ids(extraction: Extraction, documents: list[bytes]) -> None:
    """The extraction finds the canonical ids."""
    found = [
        extraction.text[start:end].tobytes()
        for start, end in zip(extraction.id_start, extraction.id_end, strict=True)
    ]
    assert found == [str(orjson.loads(document).get("id", "")).encode() for document in documents]


def check_numbers(extraction: Extraction, values: list[Value]) -> None:
    """Numbers are parsed like Python does, and nothing else is a number."""
    parsed = parse_numbers(extraction, np.arange(len(extraction.doc)))
    for value, number in zip(values, parsed.tolist(), strict=True):
        is_number = isinstance(value[4], int | float)
        assert number == float(value[4]) if is_number else math.isnan(number)


def check_facet_keys(extraction: Extraction, values: list[Value]) -> None:
    """Canonical keys are the facet keys."""
    arena, offsets = canonical_keys(extraction, np.arange(len(extraction.doc)))
    keys = [arena[start:end].tobytes().decode() for start, end in pairwise(offsets)]
    assert keys == [facet_key(value[4]) or "" for value in values]


def values_of(extraction: Extraction, field: int) -> list[tuple[Any, ...]]:
    """All that is known of the values of one field."""
    return [
        (
            int(extraction.doc[value]),
            ValueKind(extraction.kind[value]),
            Shape(extraction.shape[value]),
            int(extraction.start[value]),
            span(extraction, value),
        )
        for value in np.flatnonzero(extraction.field == field).tolist()
    ]


def check_each_path_alone(documents: list[bytes]) -> None:
    """Extract the values of each path alone: they are those of the whole extraction."""
    registry = FieldRegistry()
    everything = extract_all(documents, registry)
    paths = list(registry.paths)
    for field, path in enumerate(paths):
        alone = extract_all(documents, registry, only=path)

        assert values_of(alone, field) == values_of(everything, field)
    assert registry.paths == paths


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b'{"a": 1}', [("a", Shape.SCALAR)]),
        (b'{"a": [1, 2]}', [("a", Shape.ELEMENT), ("a", Shape.ELEMENT)]),
        (b'{"a": [[1], 2]}', [("a", Shape.NESTED), ("a", Shape.ELEMENT)]),
        (b'{"a": {"b": 1}}', [("a.b", Shape.SCALAR)]),
        (b'{"a": {"b": [1]}}', [("a.b", Shape.ELEMENT)]),
        (b'{"a": [{"b": 1}]}', [("a.b", Shape.ELEMENT)]),
        (b'{"a": [{"b": [1]}]}', [("a.b", Shape.ELEMENT)]),
        (b'{"a": [{"b": [[1]]}]}', [("a.b", Shape.NESTED)]),
        (b'{"a": [[{"b": 1}]]}', [("a.b", Shape.NESTED)]),
        (
            b'{"a": [[{"b": 1}], 2], "c": 3}',
            [("a.b", Shape.NESTED), ("a", Shape.ELEMENT), ("c", Shape.SCALAR)],
        ),
        (b'{"a": []}', [("a", Shape.SCALAR)]),
    ],
)
def test_shape_says_how_a_value_hangs_on_its_key(
    item: bytes, expected: list[tuple[str, Shape]]
) -> None:
    registry = FieldRegistry()

    extraction = extract_all([item], registry)

    assert [(value[1], value[3]) for value in decoded(extraction, registry)] == expected


def test_last_of_duplicate_keys_wins_with_all_that_hangs_on_it() -> None:
    registry = FieldRegistry()

    extraction = extract_all(
        [b'{"id":1,"a":{"b":[1,2],"b":3},"c":4,"a":{"d":5},"id":"x"}'], registry
    )

    assert [value[1::3] for value in decoded(extraction, registry)] == [
        ("c", 4),
        ("a.d", 5),
        ("id", "x"),
    ]
    assert extraction.text[extraction.id_start[0] : extraction.id_end[0]].tobytes() == b"x"


class _Members(list[tuple[str, Any]]):
    """The members of an object, in order; keys may be repeated."""


pairs: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 9) | st.just([]) | st.just({}),
    lambda values: (
        st.lists(values, max_size=3)
        | st.lists(st.tuples(st.sampled_from(["a", "b", "a.b", "b.a", "a.a.b", ""]), values)).map(
            _Members
        )
    ),
    max_leaves=12,
)


def written(value: Any) -> str:
    if isinstance(value, _Members):
        return "{" + ",".join(f'"{key}":{written(inner)}' for key, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value)


@given(st.lists(st.lists(st.tuples(st.sampled_from(["a", "b", "a.b"]), pairs)), max_size=3))
@example([[("a.b", 1), ("a", _Members([("b", 2)])), ("a.b", 3)]])
@example([[("a", [_Members([("b", 1)]), _Members([("b", 2), ("b", 3)])]), ("a.b", 4)]])
@example([[("a", _Members([("b", 1)])), ("b", 2), ("a", 3), ("a.b", 4)]])
@example([[("a", _Members([("a", _Members([("b", 1)])), ("a", _Members([]))]))]])
def test_the_last_of_duplicate_keys_wins_whatever_else_has_its_path(
    members: list[list[tuple[str, Any]]],
) -> None:
    """Among all paths, and for each of them alone.

    A value was kept whose key came again after an object with the same path.

    Of `{"a.b": 1, "a": {"b": 2}, "a.b": 3}`, 1 was searched and counted, but not shown.
    """
    documents = [written(_Members(one)).encode() for one in members]
    registry = FieldRegistry()
    extraction = extract_all(documents, registry)

    assert in_one_order(decoded(extraction, registry)) == in_one_order(naive_values(documents))
    check_each_path_alone(documents)


def test_values_of_one_path_are_found_among_paths_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(field_registry, "NUM_LEARNED_MAX", 2)

    check_each_path_alone([b'{"a":1,"b":2,"c":{"d":3,"a":4},"d":[5]}'])


def test_field_numbers_stay_when_batches_bring_new_paths() -> None:
    registry = FieldRegistry()
    extract_all([b'{"a":1,"b":{"c":2}}'], registry)
    before = list(registry.paths)

    extract_all([b'{"z":1,"b":{"c":2,"d":3},"a":4}'] * 2, registry)

    assert registry.paths[: len(before)] == before
    assert set(registry.paths) == {"a", "b", "b.c", "z", "b.d"}
    assert FieldRegistry(registry.paths).number("b.d") == registry.number("b.d")


def test_dotted_key_and_nested_key_are_one_path() -> None:
    registry = FieldRegistry()

    extraction = extract_all([b'{"a.b":1}', b'{"a":{"b":2}}'], registry)

    assert len(set(extraction.field.tolist())) == 1


def test_many_new_paths_in_one_item() -> None:
    registry = FieldRegistry()
    item = {f"key {number}": number for number in range(512)}

    extraction = extract_all([json.dumps(item).encode()] * 3, registry)

    assert registry.paths == list(item)
    assert extraction.field.tolist() == list(range(512)) * 3


def test_paths_beyond_the_limit_share_one_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_registry, "NUM_LEARNED_MAX", 3)
    registry = FieldRegistry()

    extraction = extract_all([b'{"a":1,"b":2,"c":3,"d":4,"e":{"f":5}}'], registry)
    configured = registry.register("configured")

    paths = [registry.paths[field] for field in extraction.field]
    assert paths == ["a", "b", "c", OVERFLOW_PATH, OVERFLOW_PATH]
    assert registry.number("configured") == configured


def test_the_field_that_paths_share_is_found_in_what_earlier_versions_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(field_registry, "NUM_LEARNED_MAX", 3)

    registry = FieldRegistry(["a", "b", "c", "configured", "*"])

    assert registry.learn("d") == registry.number(OVERFLOW_PATH) == 4
    assert registry.number("*") is None
    assert FieldRegistry(["a", "*", "c", "d"]).number("*") == 1


class _WatchedRegistry(FieldRegistry):
    """A registry that looks all of its paths up in each table that readers can see."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "table":
            for number, path in enumerate(self.paths):
                encoded = np.frombuffer(bytearray(path.encode()), np.uint8)
                path_hash = self.table.path_hashes[number]
                assert find_field(path_hash, encoded, len(encoded), self.table) == number


def test_readers_never_see_a_table_that_lacks_a_path() -> None:
    registry = _WatchedRegistry(f"field {number}" for number in range(300))
    assert registry.num_fields == 300
    assert len(registry.table.path_hashes) > 256


def test_registry_is_full_at_65535_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_registry, "NUM_FIELDS_MAX", 2)
    registry = FieldRegistry(["a", "b"])

    assert registry.register("a") == 0
    with pytest.raises(OverflowError):
        registry.register("c")


def test_empty_batch_has_no_values() -> None:
    extraction = extract_all([])

    assert extraction.num_docs == 0
    assert len(extraction.doc) == 0
