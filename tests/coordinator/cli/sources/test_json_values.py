"""JSON values from text that comes in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.cli.sources import json_values
from coordinator.cli.sources.json_values import read_values

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
ITEMS = st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=6)


@given(ITEMS, st.booleans(), st.sampled_from([None, 2]), st.integers(1, 9))
def test_pieces_cut_anywhere_give_the_same_values(
    items: list[dict[str, object]], is_array: bool, indent: int | None, step: int
) -> None:
    texts = [json.dumps(item, ensure_ascii=step % 2 == 0, indent=indent) for item in items]
    text = f" [{' , '.join(texts)}] \n" if is_array else "\n".join(texts)
    data = text.encode("utf-8", "surrogatepass")
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    assert list(read_values(pieces)) == items


def test_values_need_no_array() -> None:
    assert list(read_values([b"1", b"2 3\n", b"[4,5][]", b'"\xc3', b'\xa4"'])) == [12, 3, 4, 5, "ä"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'[{"id": 1}, {"id": 2} {"id": 3}]', "after 2 items: expected , or ], found {"),
        (b'[{"id": 1}', "after 1 items: expected , or ], found the end"),
        (b"[1,]", "after 1 items: Expecting value"),
        (b'{"id": 1}\n{"id": 2', "after 1 items: Expecting ',' delimiter"),
        (b'{"id": 1}\n{"a": "\xff"}', "after 0 items: 'utf-8' codec can't decode byte 0xff"),
        (b"id,name\n1,a\n", "after 0 items: Expecting value"),
    ],
)
def test_what_is_not_json_is_an_error(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=r"after \d+ items: ") as caught:
        list(read_values([text]))
    assert str(caught.value).startswith(message)


def test_no_more_is_read_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "VALUE_CHARS_MAX", 1_000)
    num_read = 0

    def pieces() -> Iterator[bytes]:
        nonlocal num_read
        for piece in [b'{"id": 1}\n', *[b'"not json'] * 100_000]:
            num_read += 1
            yield piece

    values = read_values(pieces())
    assert next(values) == {"id": 1}
    assert num_read <= 2
    with pytest.raises(ValueError, match="after"):
        list(values)
    assert num_read < 1_000
