"""The scanner of items: what it accepts, counts and refuses, however a body is cut into chunks."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from common.item_placement import hash_id
from common.json.item_scanner import (
    ItemError,
    ItemScanner,
    ScannedItems,
    canonical_id,
    scan_item,
    validate_item,
)
from common.limits import DEFAULT_LIMITS, Limits
from tests.shard.json_items import items


@st.composite
def damaged_items(draw: st.DrawFn) -> bytes:
    """An item with some bytes replaced, inserted or removed."""
    item = bytearray(draw(items()))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(item)))
        removed = draw(st.integers(0, 2))
        item[position : position + removed] = draw(
            st.binary(max_size=2)
            | st.sampled_from(b'" \\ , } ] { [ : - 0 . e \n \\u \\ud800 \\udc00'.split(b" "))
            | st.sampled_from([b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"])
        )
    return bytes(item)


punctuation = '{"a": {"id": } ] [ , " \\ \\u00e9 \\ud83c \\udfac - 0 1 . e + é 🎬'
json_like = st.lists(
    st.sampled_from(punctuation.split())
    | st.sampled_from(["true", "false", "null", " ", "\n", "\x1f", "\x7f"])
).map(lambda parts: "".join(parts).encode())


def codes_of(item: bytes) -> set[str]:
    """The codes with which an item may be refused, by orjson and a walk over the decoded item."""
    try:
        orjson.loads(item)
    except orjson.JSONDecodeError as error:
        # orjson stops at an infinite number; there may be worse after it.
        codes = {"invalid_json", "invalid_number"}
        return codes if "infinity" in str(error) else {"invalid_json"}
    codes = set[str]()
    # "-0" is an integer, but not written as an id's digits.
    pairs = json.loads(
        item, object_pairs_hook=Pairs, parse_int=lambda text: -1 if text == "-0" else int(text)
    )
    if not isinstance(pairs, Pairs):
        codes.add("invalid_item")
    else:
        ids = [value for key, value in pairs.pairs if key == "id"]
        if ids and not is_id(ids[-1]):
            codes.add("invalid_id")
        if num_fields(pairs) > 512:
            codes.add("too_many_fields")
    walk(pairs, 1, codes)
    return codes


def num_fields(value: Any) -> int:
    """Count keys, nested ones too; of an array, those of its element with the most."""
    if isinstance(value, Pairs):
        return sum(1 + num_fields(inner) for _, inner in value.pairs)
    return max(map(num_fields, value), default=0) if isinstance(value, list) else 0


@dataclass
class Pairs:
    pairs: list[tuple[str, Any]]


def is_id(value: Any) -> bool:
    if isinstance(value, str):
        return 1 <= len(value.encode()) <= 256
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def walk(value: Any, depth: int, codes: set[str]) -> None:
    if isinstance(value, Pairs | list) and depth > 64:
        codes.add("too_deep")
    if isinstance(value, Pairs):
        for key, inner in value.pairs:
            if len(key.encode()) > 256:
                codes.add("invalid_item")
            walk(inner, depth + 1, codes)
    elif isinstance(value, list):
        for inner in value:
            walk(inner, depth + 1, codes)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        codes.add("invalid_number")


@given(items() | damaged_items() | json_like | st.binary(max_size=12))
@example(b'{"a":1.7976931348623158e308}')
@example(b'{"a":1.7976931348623159e308}')
@example(b'{"a":17976931348623158079372897140530341507993413271003782693617377898044e241}')
@example(b'{"a":0.000017976931348623157e313}')
@example(b'{"a":-1e309,"b":1e-999999999999}')
@example(b'{"a":0e999999999999999999999}')
@example(b'{"a":' + b"9" * 309 + b".0}")
@example(b'{"a":' + b"1" + b"0" * 308 + b".0}")
@example(b'{"a":18446744073709551615,"b":-9223372036854775808}')
@example(b'{"a":18446744073709551616}')
@example(b'{"a":-9223372036854775809}')
@example(b'{"a":-18446744073709551615}')
@example(b'{"\\u0069\\u0064":"\\u0061"}')
@example(b'{"i\\u0064":[]}')
@example(b'{"id":9223372036854775808}')
@example(b'{"id":1,"id":-1}')
@example(b'{"id":-1,"id":1}')
@example(b'{"a":"\\ud83c\\udfac"}')
@example(b"\xef\xbb\xbf{}")
def test_exactly_what_orjson_accepts_is_accepted_within_the_limits(item: bytes) -> None:
    error = validate_item(item)

    codes: set[str | None] = {*codes_of(item)}
    assert (error.code if error else None) in (codes if codes else {None}), error


@given(items() | json_like)
@example(b'{"a":1,"b":{"c":1},"d":[{"e":1},{"e":2,"f":3},[[{"g":[{}]}]]]}')
@example(b'{"a":[{"b":1,"c":2},{"d":3}],"e":[[],[{"f":{"g":1}}]]}')
@example(b'{"a":[],"b":{},"c":[{}]}')
def test_fields_are_counted_through_objects_and_arrays(item: bytes) -> None:
    pairs = json.loads(item, object_pairs_hook=Pairs) if not codes_of(item) else None
    if not isinstance(pairs, Pairs):
        return
    number = num_fields(pairs)

    if number:
        assert validate_item(item, limits=Limits(item_fields_max=number)) is None
    if number > 1:
        error = validate_item(item, limits=Limits(item_fields_max=number - 1))
        assert error is not None
        assert error.code == "too_many_fields"
        assert f"{number - 1} (limit item_fields_max) fields" in error.message


@given(st.text(max_size=300).filter(bool), st.booleans())
def test_id_of_any_text_is_its_utf8(text: str, ensure_ascii: bool) -> None:
    item = json.dumps({"x": 1, "id": text}, ensure_ascii=ensure_ascii).encode()

    if len(text.encode()) <= 256:
        assert canonical_id(item) == text.encode()
    else:
        error = validate_item(item)
        assert error is not None
        assert error.code == "invalid_id"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b"{}", None),
        (b'{"id":0}', b"0"),
        (b'{"id":9223372036854775807}', b"9223372036854775807"),
        (b'{"id":"5"}', b"5"),
        (b'{"a":{"id":1}}', None),
        (b'{"a":[{"id":1}],"id":"x"}', b"x"),
        (b'{"id":1,"id":"last"}', b"last"),
        (b' {"id" : 7 } ', b"7"),
    ],
)
def test_canonical_id_of_an_item(item: bytes, expected: bytes | None) -> None:
    assert canonical_id(item) == expected


@pytest.mark.parametrize(
    ("item", "code", "byte", "identifier"),
    [
        (b"", "invalid_json", 1, None),
        (b'{"a":1', "invalid_json", 7, None),
        (b'{"a":1,}', "invalid_json", 8, None),
        (b'{"a" 1}', "invalid_json", 6, None),
        (b"{'a':1}", "invalid_json", 2, None),
        (b'{"id":"x","a":nul}', "invalid_json", 15, "x"),
        (b'{"a":"\x01"}', "invalid_json", 7, None),
        (b'{"a":"\xff"}', "invalid_json", 7, None),
        (b'{"a":NaN}', "invalid_json", 6, None),
        (b'{"a":1}{}', "invalid_json", 8, None),
        (b"[]", "invalid_item", 1, None),
        (b'"text"', "invalid_item", 1, None),
        (b"12", "invalid_item", 1, None),
        (b'{"id":3,"a":1e999}', "invalid_number", 13, "3"),
        (b'{"a":99999999999999999999}', "invalid_number", 6, None),
        (b'{"id":null}', "invalid_id", 7, None),
        (b'{"id":""}', "invalid_id", 8, None),
        (b'{"id":1.0}', "invalid_id", 7, None),
        (b'{"id":-1}', "invalid_id", 7, None),
        (b'{"id":-0}', "invalid_id", 7, None),
        (b'{"id":true}', "invalid_id", 7, None),
        (b'{"id":{}}', "invalid_id", 7, None),
        (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "too_deep", 69, None),
        (b"[" * 1100, "too_deep", 1025, None),
    ],
)
def test_error_says_what_and_where(
    item: bytes, code: str, byte: int, identifier: str | None
) -> None:
    error = validate_item(item)

    assert error is not None
    assert (error.code, error.byte, error.id) == (code, byte, identifier)
    assert error.message.startswith(f"byte {byte}: ")


def test_limits_are_reached_but_not_passed() -> None:
    deepest = b'{"a":' + b"[" * 63 + b"]" * 63 + b"}"
    widest = json.dumps({f"f{number}": 1 for number in range(512)}).encode()
    longest_key = json.dumps({"é" * 128: 1}, ensure_ascii=True).encode()
    wider = json.dumps({f"f{number}": 1 for number in range(513)}).encode()
    longer_key = json.dumps({"é" * 128 + "x": 1}).encode()

    assert [validate_item(item) for item in (deepest, widest, longest_key)] == [None] * 3
    assert [getattr(validate_item(item), "code", None) for item in (wider, longer_key)] == [
        "too_many_fields",
        "invalid_item",
    ]


def test_only_arrays_of_named_fields_are_limited() -> None:
    values = list(range(1001))
    items_ = [
        {"tags": values},
        {"other": values},
        {"tags": values[1:]},
        {"tags": {"tags": values}},
        {"tags": [values]},
        {"other": 1, "t\x00gs": values},
    ]

    errors = [validate_item(orjson.dumps(item), ["x", "tags", "t\x00gs"]) for item in items_]

    codes = [error and error.code for error in errors]
    assert codes == ["too_many_values", None, None, None, None, "too_many_values"]


# --- bodies ---------------------------------------------------------------------------------------

Outcome = list[tuple[Any, ...]]


def scan(
    chunks: list[bytes], limited: tuple[str, ...] = (), limits: Limits = DEFAULT_LIMITS
) -> Outcome:
    """The items and errors of a body, by position."""
    scanner = ItemScanner(limited, limits)
    batches = [scanner.feed(chunk) for chunk in chunks] + [scanner.finish()]
    found: Outcome = []
    for batch in batches:
        found += outcome(batch)
    assert scanner.num_bytes == sum(map(len, chunks)) or scanner.is_broken
    return sorted(found, key=lambda entry: entry[0])


def outcome(batch: ScannedItems) -> Outcome:
    good: Outcome = [
        (int(batch.lines[i]), batch.item(i), bool(batch.has_id[i]), int(batch.id_hashes[i]))
        for i in range(batch.num_items)
    ]
    return good + [(error.position, error.code, error.byte, error.id) for error in batch.errors]


def expected_outcome(position: int, item: bytes) -> tuple[Any, ...]:
    error = scan_item(item)
    assert not isinstance(error, ItemError)
    return (position, item, error is not None, 0 if error is None else hash_id(error))


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=6)))
    return [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


NUM_ITEMS_MAX = 5
"""Of a body: what a cut can fall between is there in a few; drawing items is what takes time."""
one_line_items = items().map(lambda item: item.replace(b"\n", b" "))
spaces = st.sampled_from([b"", b" ", b"\t", b"\r"])


@given(
    st.data(),
    st.lists(one_line_items | st.just(b""), max_size=NUM_ITEMS_MAX),
    st.booleans(),
    st.booleans(),
)
def test_lines_give_their_items_for_any_chunking(
    data: st.DataObject, lines: list[bytes], ends_with_feed: bool, has_mark: bool
) -> None:
    padded = [data.draw(spaces) + line + data.draw(spaces) for line in lines]
    body = b"\n".join(padded) + (b"\n" if ends_with_feed and lines else b"")
    body = (b"\xef\xbb\xbf" if has_mark else b"") + body

    found = scan(data.draw(chunked(body)))

    expected = [expected_outcome(number, line) for number, line in enumerate(lines, 1) if line]
    assert found == expected


@given(st.data(), st.lists(items(), max_size=NUM_ITEMS_MAX))
def test_array_gives_its_items_for_any_chunking(data: st.DataObject, members: list[bytes]) -> None:
    space = data.draw(st.sampled_from([b"", b" ", b"\n"]))
    body = space + b"[" + space + (space + b"," + space).join(members) + space + b"]" + space

    found = scan(data.draw(chunked(body)))

    assert found == [expected_outcome(index, item) for index, item in enumerate(members)]


@given(st.data(), st.lists(damaged_items() | one_line_items, max_size=NUM_ITEMS_MAX), st.booleans())
def test_chunking_changes_nothing_about_broken_bodies(
    data: st.DataObject, members: list[bytes], is_array: bool
) -> None:
    body = b"[" + b",".join(members) + b"]" if is_array else b"\n".join(members)

    assert scan(data.draw(chunked(body))) == scan([body])


@given(st.data(), st.text(" \t\r\n", max_size=20), st.sampled_from([b"{}", b"{]", b"[{]"]))
def test_white_space_before_the_first_item_counts_for_any_chunking(
    data: st.DataObject, space: str, item: bytes
) -> None:
    body = space.encode() + item
    scanner = ItemScanner()

    found = scan(data.draw(chunked(body)))
    errors = scanner.feed(body).errors + scanner.finish().errors

    first_line = space.rfind("\n") + 1
    assert [position for position, *_ in found] == [
        0 if item.startswith(b"[") else 1 + space.count("\n")
    ]
    assert [error.byte for error in errors] == {
        b"{}": [],
        b"{]": [len(space) - first_line + 2],
        b"[{]": [len(space) + 3],
    }[item]


def test_blank_lines_before_the_first_item_are_not_kept() -> None:
    scanner = ItemScanner(limits=Limits(item_bytes_max=100))
    blank = b" \r\n" * 50_000
    tracemalloc.start()
    try:
        for _ in range(40):
            assert not scanner.feed(blank).errors
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * len(blank)
    assert scanner.feed(b'{"id":1}\n').lines.tolist() == [40 * 50_000 + 1]


def test_a_first_line_of_white_space_may_be_as_long_as_an_item() -> None:
    scanner = ItemScanner(limits=Limits(item_bytes_max=100))
    assert not scanner.feed(b" " * 100).errors
    assert [error.code for error in scanner.feed(b" ").errors] == ["invalid_item"]
    assert scanner.feed(b' \n{"id":1}\n').lines.tolist() == [2]


@given(
    st.lists(damaged_items().map(lambda item: item.replace(b"\n", b" ")), max_size=NUM_ITEMS_MAX)
)
def test_each_line_is_judged_alone(lines: list[bytes]) -> None:
    body = b"{}\n" + b"\n".join(lines)

    found = {
        position: first if isinstance(first, str) else None for position, first, *_ in scan([body])
    }

    errors = {number: validate_item(line) for number, line in enumerate(lines, 2)}
    assert found == {1: None} | {
        number: error and error.code
        for number, error in errors.items()
        if lines[number - 2].strip(b" \t\r")
    }


def test_lines_after_a_bad_one_are_scanned() -> None:
    found = scan([b'{"id":1}\n{"id":2,}\n{"id":', b'-3}\n\n{"id":4} x\n5\n{"id":"six"}'])

    assert found == [
        (1, b'{"id":1}', True, hash_id(b"1")),
        (2, "invalid_json", 9, "2"),
        (3, "invalid_id", 7, None),
        (5, "invalid_json", 10, "4"),
        (6, "invalid_item", 1, None),
        (7, b'{"id":"six"}', True, hash_id(b"six")),
    ]


def test_item_must_stand_on_one_line() -> None:
    found = scan([b'{"id":1,\n"a":2}\n'])

    assert [entry[:2] for entry in found] == [(1, "invalid_json"), (2, "invalid_json")]


def test_broken_member_ends_an_array() -> None:
    found = scan([b'[{"id":1},{"id":-1},5,{"id":"3"},{"id":4,},{"id":5}]'])

    assert found == [
        (0, b'{"id":1}', True, hash_id(b"1")),
        (1, "invalid_id", 17, None),
        (2, "invalid_item", 21, None),
        (3, b'{"id":"3"}', True, hash_id(b"3")),
        (4, "invalid_json", 42, "4"),
    ]


@pytest.mark.parametrize(
    ("body", "position", "byte"),
    [
        (b"[", 0, 2),
        (b"[{}", 1, 4),
        (b"[{},", 1, 5),
        (b'[{"a":', 0, 7),
        (b"[{}] x", 1, 6),
        (b"[{} {}]", 1, 5),
        (b"[,{}]", 0, 2),
        (b"[{},]", 1, 5),
        (b"[}", 0, 2),
    ],
)
def test_array_must_be_whole(body: bytes, position: int, byte: int) -> None:
    expected = (position, "invalid_json", byte, None)

    assert scan([body])[-1] == expected
    assert scan([bytes([character]) for character in body])[-1] == expected


@pytest.mark.parametrize("body", [b"", b"  \n ", b"\xef\xbb\xbf", b"[]", b" [ ] \n", b"\n\n"])
def test_body_without_items(body: bytes) -> None:
    assert scan([body]) == []


def test_item_that_is_too_long_is_refused() -> None:
    limits = Limits(item_bytes_max=50)
    long_item = b'{"id":1,"a":"' + b"x" * 60 + b'"}'

    lines = scan([b"{}\n", long_item[:55], long_item[55:], b"\n{}\n"], limits=limits)
    array = scan([b"[{},", long_item[:55]], limits=limits)

    assert [entry[:2] for entry in lines] == [(1, b"{}"), (2, "invalid_item"), (3, b"{}")]
    assert [entry[:2] for entry in array] == [(0, b"{}"), (1, "invalid_item")]


def test_hash_is_that_of_the_package() -> None:
    (entry,) = scan([b'{"id":"\\u00e9"}'])

    assert entry[3] == xxhash.xxh64_intdigest("é".encode())
