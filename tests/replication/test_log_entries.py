"""Entries of the log are decoded as encoded, for any number of shards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.item_placement import hash_id
from common.protocol.write_operations_and_outcomes import Operation
from coordinator.catalog.catalog_state import CatalogState
from coordinator.replication.log.log_entries import (
    CatalogChange,
    EntryError,
    Kind,
    LogEntry,
    WriteGroup,
    checksum_of,
    decode_entry,
    encode_entry,
    operations_of,
    pack,
    unpack,
)
from coordinator.write.write_batch import Items, WriteBatch

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(list(Operation)), st.binary(min_size=1, max_size=9), st.binary(max_size=30)
    ),
    min_size=1,
    max_size=20,
)


def items_of(contents: Sequence[bytes], ids: Sequence[bytes | None]) -> Items:
    """Return items with something between them, as a scanned body has it."""
    payload = b",".join(contents) + b"]"
    ends = np.cumsum([len(one) + 1 for one in contents]) - 1
    starts = ends - [len(one) for one in contents]
    return Items(
        np.frombuffer(payload, np.uint8).copy(),
        starts.astype(np.int64),
        ends.astype(np.int64),
        np.array([0 if id is None else hash_id(id) for id in ids], np.uint64),
        np.array([id is not None for id in ids], np.bool_),
    )


async def group_of(*all_items: Items) -> WriteGroup:
    batches = [WriteBatch(len(one.starts), 0, items=one) for one in all_items]
    return WriteGroup.of(7, batches)


def put_together(group: WriteGroup, num_shards: int) -> list[tuple[int, bytes, bytes | None]]:
    """Return the operations of a group by position: kind, content, version."""
    found: dict[int, tuple[int, bytes, bytes | None]] = {}
    for part in group.divide(num_shards, 5).values():
        end = np.cumsum(part.lengths)
        for ordinal, position in enumerate(part.positions.tolist()):
            content = bytes(part.payload)[end[ordinal] - part.lengths[ordinal] : end[ordinal]]
            found[position] = (
                int(part.operations[ordinal]),
                content,
                part.versions.get(ordinal),
            )
    assert sorted(found) == list(range(len(found)))
    return [found[position] for position in sorted(found)]


@given(OPERATIONS, OPERATIONS, st.integers(1, 5), st.data())
def test_a_group_is_the_same_on_any_number_of_shards(
    first: list[tuple[Operation, bytes, bytes]],
    second: list[tuple[Operation, bytes, bytes]],
    num_shards: int,
    data: st.DataObject,
) -> None:
    positions = data.draw(st.sets(st.integers(0, len(second) - 1)))
    versions = {position: bytes([position]) * 8 for position in positions}
    group = asyncio.run(group_of(operations_of(first), operations_of(second, versions)))
    copy = unpack(Kind.WRITE, checksum_of(pack(group)), [pack(group)])
    assert copy == group
    expected: list[tuple[int, bytes, bytes | None]] = []
    expected += [(int(kind), content, None) for kind, _, content in first]
    expected += [
        (int(kind), content, versions.get(position))
        for position, (kind, _, content) in enumerate(second)
    ]
    assert put_together(group, num_shards) == expected


def test_items_without_id_are_placed_by_their_number() -> None:
    contents = [b'{"a":%d}' % number for number in range(50)]
    items = items_of(contents, [None] * 25 + [b"%d" % number for number in range(25)])
    group = asyncio.run(group_of(items))
    for num_shards in (1, 2, 3):
        assert put_together(group, num_shards) == [(0, content, None) for content in contents]
        divided = items.divide(num_shards, 5)
        for shard, part in group.divide(num_shards, 5).items():
            assert part.positions.tolist() == divided[shard].positions.tolist()


def test_damage_is_noticed() -> None:
    group = asyncio.run(group_of(operations_of([(Operation.PUT, b"1", b'{"id":1}')])))
    packed = pack(group)
    entry = decode_entry(encode_entry(LogEntry(Kind.WRITE, "a-1", packed, checksum_of(packed))))
    with pytest.raises(EntryError, match="checksum"):
        unpack(entry.kind, entry.checksum, [packed[:-1] + b"?"])
    with pytest.raises(EntryError, match="newer"):
        decode_entry(encode_entry(LogEntry(99, "a-2", b"")))
    with pytest.raises(EntryError):
        decode_entry(b"nonsense")


def test_a_change_of_the_catalog_is_what_differs() -> None:
    before = CatalogState()
    for name in ("a", "b", "c"):
        before = before.with_index(before.new_entry(name, {"typo": 0}))
    before = before.with_aliases({"x": "a"}).with_section("keys", {"k": {"actions": ["search"]}})
    after = before.without_index("b")
    after = after.with_index(after.new_entry("c", {"typo": 1}))
    after = after.with_index(after.new_entry("d", {}))
    after = after.with_aliases({"x": None, "y": "d"}).with_section("keys", {})
    change = CatalogChange.between(before, after)
    assert [index.name for index in change.put] == ["c", "d"]
    assert unpack(Kind.CATALOG, checksum_of(pack(change)), [pack(change)]) == change
    assert change.applied_to(before) == after
    assert CatalogChange.between(before, before.with_aliases({"z": "c"})).sections == {}
