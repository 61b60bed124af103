"""The values of a page give the same items together as one by one, whatever is in them."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import PayloadTooLarge
from shard.storage.item_batch_decoding import read_values
from shard.storage.lmdb_codecs import ITEM_HEADER_BYTES, ChecksumMismatch, check_value
from tests.shard.storage.values import CODES, encode_items, make_item, make_value

CODEC = 0x11
FRAMES = encode_items([make_item(number) for number in range(20)])


def read_one(record: int, value: bytes | None) -> bytes | None:
    """Return the item of a value by the slow way."""
    if value is None or len(value) <= ITEM_HEADER_BYTES:
        return None
    try:
        check_value(record, value)
    except ChecksumMismatch:
        return None
    return CODES.decode(value[ITEM_HEADER_BYTES:]) if value[4] == CODEC else None


VALUES = st.builds(
    make_value, st.integers(0, 3), st.sampled_from([CODEC, 0, 0x12]), st.sampled_from(FRAMES)
)
DAMAGED = st.builds(
    lambda value, where, byte: value[: where % len(value)] + byte + value[where % len(value) + 1 :],
    VALUES,
    st.integers(0, 200),
    st.binary(min_size=0, max_size=2),
)
RECORDS = st.integers(0, 3) | st.sampled_from([2**32 - 1, 2**32, 2**63, 2**64 - 1])


@given(st.lists(st.tuples(RECORDS, VALUES | DAMAGED | st.none() | st.binary(max_size=20))))
def test_together_as_one_by_one(page: list[tuple[int, bytes | None]]) -> None:
    records, values = [record for record, _ in page], [value for _, value in page]
    found = read_values(records, values, CODEC, CODES.decoding, sys.maxsize)
    assert found == [read_one(record, value) for record, value in page]


@pytest.mark.parametrize("record", [0, 7, 2**32, 2**64 - 1])
def test_a_checksum_belongs_to_its_record(record: int) -> None:
    value = make_value(record, CODEC, FRAMES[3])
    other = (record + 1) % 2**64
    found = read_values([record, other], [value, value], CODEC, CODES.decoding, sys.maxsize)
    assert found == [make_item(3), None]


def test_a_page_is_refused_by_its_size_before_it_is_decoded() -> None:
    values = [make_value(i, CODEC, FRAMES[i]) for i in range(10)]
    num_bytes = sum(len(make_item(i)) for i in range(10))
    assert len(read_values(range(10), values, CODEC, CODES.decoding, num_bytes)) == 10
    with pytest.raises(PayloadTooLarge, match="more than 64 MiB"):
        read_values(range(10), values, CODEC, CODES.decoding, num_bytes - 1)
