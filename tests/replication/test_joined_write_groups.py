"""Groups that a host applies together have the effects and outcomes of one after the other."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from common.errors import StorageFull
from common.protocol.messages import ApplyResponse, IndexEntry, JoinedGroups
from common.protocol.write_operations_and_outcomes import Operation
from common.shard_settings import ShardSettings
from coordinator.replication.applying.entry_applying import Applier
from coordinator.replication.applying.joined_write_groups import DividedGroup
from coordinator.replication.log.log_entries import WriteGroup, operations_of
from coordinator.settings import Settings
from coordinator.write.write_batch import WriteBatch
from shard.partition.partition import Partition
from shard.partition.write_operation_effects import version_of
from shard.partition.writer import Writer
from shard.segment.doc_records_and_places import places_of, records_of
from shard.storage.change_source_positions import read_positions
from shard.storage.newest_write_group_extent import Extent, read_extent

NUM_SHARDS = 2
KINDS = (
    Operation.PUT,
    Operation.PUT,
    Operation.DELETE,
    Operation.MERGE,
    Operation.REPLACE,
    Operation.UPSERT,
    Operation.PUT_KEEPING_ID,
)
_SETTINGS = ShardSettings(map_bytes_max=1 << 28)


def _fail(error: BaseException) -> None:
    raise AssertionError from error


class _Shard:
    """A shard of this process: one index, without a connection before it."""

    epoch = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.partition = Partition.create(folder, IndexEntry(1, "films", 1, {}), _SETTINGS)
        self.writer = Writer(self.partition, _fail)
        self.is_full = False
        self.num_commits = 0

    def reopen(self) -> None:
        """Start again, as after a kill."""
        self.close()
        self.partition = Partition.open(self.folder, 1, _SETTINGS)
        self.writer = Writer(self.partition, _fail)

    def close(self) -> None:
        self.writer.close()
        self.partition.close()

    async def call(self, method: Any, request: Any, *_: Any, **options: Any) -> ApplyResponse:
        if self.is_full and isinstance(request, JoinedGroups) and len(request.groups) > 1:
            raise StorageFull("the disk is full")
        if options["attachment"]:
            payload = memoryview(bytearray(b"".join(options["attachment"])))
            request = request.with_payload(payload)
        self.num_commits += 1
        return self.writer.apply(request)

    def content(self, id: bytes) -> bytes | None:
        newest = self.partition.newest
        found = self.writer._planner.locate(newest, {id})
        return newest.read_documents([found[id].record])[0] if id in found else None

    def extent(self) -> Extent | None:
        with self.partition.environment.read() as txn:
            return read_extent(txn)

    def state(self) -> Any:
        """Return everything that must be equal: items with their places, counters, positions."""
        items: list[tuple[int, bytes]] = []
        newest = self.partition.newest
        for view in newest.views:
            deleted = view.deleted or ()
            docs = [doc for doc in range(view.segment.num_docs) if doc not in deleted]
            records = records_of(view.segment)[docs]
            places = places_of(view.segment)[docs].tolist()
            items += zip(places, newest.read_documents(records), strict=True)
        with self.partition.environment.read() as txn:
            positions = {name: found[1] for name, found in read_positions(txn).items()}
        return sorted(items), self.partition.state.num_docs, positions


class _Host:
    """A host with shards in this process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.shards = {shard: _Shard(folder / str(shard)) for shard in range(NUM_SHARDS)}
        cluster: Any = SimpleNamespace(
            here=self.shards, placed=None, oldest_horizon=lambda index: 0
        )
        self.applier = Applier(cluster, Settings())

    async def apply(self, *turns: DividedGroup) -> list[tuple[list[int], frozenset[int]]]:
        found = await self.applier.apply(turns, turns[0].seq - 1)
        return [(outcomes.tolist(), text_ids) for outcomes, text_ids in found]

    @property
    def state(self) -> list[Any]:
        return [shard.state() for shard in self.shards.values()]

    def content(self, id: bytes) -> bytes | None:
        contents = [shard.content(id) for shard in self.shards.values()]
        return next((one for one in contents if one is not None), None)

    def close(self) -> None:
        for shard in self.shards.values():
            shard.close()


def _random_group(dice: random.Random, seq: int, host: _Host) -> DividedGroup:
    """Return a group: of single operations, or of many items, some without an id."""
    operations: list[tuple[Operation, bytes, bytes]] = []
    versions: dict[int, bytes] = {}
    for ordinal in range(dice.choice((1, 1, 2, 5, 90))):
        id = str(dice.randrange(12 if ordinal < 5 else 500)).encode()
        kind = dice.choice(KINDS) if ordinal < 5 else Operation.PUT
        is_text = dice.random() < 0.3 and kind != Operation.PUT_KEEPING_ID
        stored_id: Any = id.decode() if is_text else int(id)
        item = {"id": stored_id, "n": dice.randrange(9), f"f{dice.randrange(3)}": seq}
        operations.append((kind, id, id if kind == Operation.DELETE else orjson.dumps(item)))
        if dice.random() < 0.25:
            content = host.content(id)
            is_right = content is not None and dice.random() < 0.7
            versions[ordinal] = version_of(content) if is_right and content else b"12345678"
    for id in (b"1000", b"1004"):  # a host that counts twice is found
        increment = orjson.dumps({"id": int(id), "seen": {"_operation": "Increment", "value": 1}})
        operations.append((Operation.UPSERT_CHANGES, id, increment))
    positions = {"feed": str(seq)} if dice.random() < 0.1 else None
    batch = WriteBatch(
        len(operations), 0, items=operations_of(operations, versions), positions=positions
    )
    group = WriteGroup.of(1, [batch])
    return DividedGroup(seq, group, group.divide(NUM_SHARDS, seq))


@pytest.mark.parametrize("seed", range(12))
async def test_together_is_as_one_after_the_other(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    singly, together = _Host(tmp_path / "singly"), _Host(tmp_path / "together")
    expected, turns = [], []
    for number in range(40):
        turn = _random_group(dice, 3 + 2 * number, singly)
        expected += await singly.apply(turn)
        turns.append(turn)
    found = []
    left = list(turns)
    while left:
        count = dice.choice((1, 2, 10, 40))
        found += await together.apply(*left[:count])
        del left[:count]
        if dice.random() < 0.3:
            for shard in together.shards.values():
                shard.reopen()
    assert found == expected
    assert together.state == singly.state
    for host in (singly, together):
        host.close()


async def test_what_a_shard_has_already_is_skipped(tmp_path: Path) -> None:
    dice = random.Random(5)
    singly, killed = _Host(tmp_path / "singly"), _Host(tmp_path / "killed")
    expected, turns = [], []
    for number in range(30):
        turn = _random_group(dice, 10 + number, singly)
        expected += await singly.apply(turn)
        turns.append(turn)
    # Only shard 0 has applied the first groups together when the host is killed.
    has_all = dict(killed.shards)
    killed.shards.pop(1)
    some = [
        DividedGroup(seq, group, {0: parts[0]}) for seq, group, parts in turns[:20] if 0 in parts
    ]
    await killed.apply(*some)
    killed.shards[1] = has_all[1]
    killed.shards[0].reopen()
    extent = killed.shards[0].extent()
    assert extent is not None
    assert extent.first == some[0].seq

    found = await killed.apply(*turns)

    assert killed.state == singly.state
    assert found[20:] == expected[20:]
    again = await killed.apply(*turns)  # the confirmation was lost
    assert [outcomes for outcomes, _ in again[20:]] == [outcomes for outcomes, _ in expected[20:]]
    assert killed.state == singly.state
    for host in (singly, killed):
        host.close()


async def test_groups_that_have_no_room_together_are_applied_one_by_one(tmp_path: Path) -> None:
    dice = random.Random(6)
    singly, full = _Host(tmp_path / "singly"), _Host(tmp_path / "full")
    turns = [_random_group(dice, 10 + number, singly) for number in range(10)]
    expected = [one for turn in turns for one in await singly.apply(turn)]
    full.shards[0].is_full = True

    assert await full.apply(*turns) == expected

    assert full.state == singly.state
    assert full.shards[0].num_commits > 5
    assert full.shards[1].num_commits == 1
    extents = [shard.extent() for shard in full.shards.values()]
    assert extents == 2 * [Extent(19, 9, 10, (0, 1))]
    for host in (singly, full):
        host.close()
