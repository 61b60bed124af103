"""A batch divided over the shards."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.item_placement import shard_of_id
from common.protocol.write_operations_and_outcomes import Operation
from coordinator.write.partitioning import ItemOperation, divide, divide_operations, places_of


@given(
    items=st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 4)), max_size=40),
    gap=st.integers(0, 3),
)
def test_every_item_reaches_its_shard_in_order(items: list[tuple[bytes, int]], gap: int) -> None:
    payload = bytearray()
    starts, ends = [], []
    for text, _ in items:
        payload += b"," * gap
        starts.append(len(payload))
        payload += text
        ends.append(len(payload))
    parts = divide(
        np.frombuffer(payload + b"\n", np.uint8),
        np.array(starts, np.int64),
        np.array(ends, np.int64),
        np.array([shard for _, shard in items], np.int64),
        5,
    )
    for shard in range(5):
        expected = [i for i, (_, s) in enumerate(items) if s == shard]
        assert (shard in parts) == bool(expected)
        if expected:
            part = parts[shard]
            assert part.positions.tolist() == expected
            assert part.lengths.tolist() == [len(items[i][0]) for i in expected]
            assert bytes(part.payload) == b"".join(items[i][0] for i in expected)
            assert part.operations.tolist() == [Operation.PUT] * len(expected)


def test_single_operations_follow_their_ids() -> None:
    operations = [ItemOperation(Operation.DELETE, b"%d" % i, b"%d" % i) for i in range(20)]
    operations[7] = ItemOperation(Operation.MERGE, b"7", b'{"id":7}')
    parts = divide_operations(operations, 3, {7: b"version!"})
    for shard, part in parts.items():
        assert all(shard_of_id(operations[position].id, 3) == shard for position in part.positions)
    owner = parts[shard_of_id(b"7", 3)]
    ordinal = owner.positions.tolist().index(7)
    assert owner.versions == {ordinal: b"version!"}
    assert owner.operations[ordinal] == Operation.MERGE


def test_places_follow_each_other() -> None:
    assert places_of(3, 5, 2).tolist() == [(3 << 32) + 5, (3 << 32) + 6]
