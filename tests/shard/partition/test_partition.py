"""One index on a shard behaves like a dict: through writes, merges, crashes and damaged files.

A crash is simulated by closing the environment without writing what is in memory; what LMDB has
committed stays, segments in memory are lost.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from common.protocol.write_operations_and_outcomes import Operation, Outcome
from shard.indexes.closed_index_facts import ClosedIndex
from shard.partition.merge_and_flush import flush, work
from shard.partition.reindex import Reindex
from tests.shard.partition.local_shard import SETTINGS, Shard, facet_counts, index_entry, live_items

_ADDING = (
    Operation.PUT,
    Operation.UPSERT,
    Operation.UPSERT_CHANGES,
    Operation.PUT_KEEPING_ID,
)


_MERGING = (
    Operation.MERGE,
    Operation.UPSERT,
    Operation.MERGE_CHANGES,  # of plain values, which replace those that are there
    Operation.UPSERT_CHANGES,
)


_KEEPING_ID = (Operation.REPLACE_KEEPING_ID, Operation.PUT_KEEPING_ID)


class PartitionMachine(RuleBasedStateMachine):
    """Random operations on one partition and on a dict."""

    folder: Path
    make_folder: Callable[[], Path]

    @initialize()
    def start(self) -> None:
        self.shard = Shard(self.make_folder() / "index-1", index_entry(aggregations={"color": {}}))
        self.model: dict[str, dict[str, Any]] = {}
        self.past: dict[int, dict[str, dict[str, Any]]] = {0: {}}
        self.revision = 1

    def _note(self) -> None:
        self.past = {self.shard.seq - 1: self.past.get(self.shard.seq - 1, {})}
        self.past[self.shard.seq] = dict(self.model)

    @rule(
        ids=st.lists(st.integers(0, 120), min_size=1, max_size=90),
        value=st.integers(0, 5),
        color=st.sampled_from(["r", "g", "ä"]),
    )
    def put(self, ids: list[int], value: int, color: str) -> None:
        items = [
            {"id": one, "value": value, "color": color, "at": at} for at, one in enumerate(ids)
        ]
        outcomes = self.shard.put(*items)
        for item, outcome in zip(items, outcomes, strict=True):
            is_known = str(item["id"]) in self.model
            assert outcome == (Outcome.UPDATED if is_known else Outcome.CREATED)
            self.model[str(item["id"])] = item
        self._note()

    @rule(
        steps=st.lists(
            st.tuples(st.sampled_from(Operation), st.integers(0, 120), st.integers(0, 9)),
            min_size=1,
            max_size=12,
        )
    )
    def mixed(self, steps: list[tuple[Operation, int, int]]) -> None:
        operations: list[tuple[Operation, dict[str, Any] | str]] = []
        expected = []
        for operation, id, value in steps:
            key = str(id)
            # (The id that only names an item has the form in which ids are shown: a number.)
            is_text = value % 2 and operation not in _KEEPING_ID
            item: dict[str, Any] = {"id": key if is_text else id, f"v{value % 3}": value}
            operations.append((operation, key if operation == Operation.DELETE else item))
            stored = self.model.get(key)
            if stored is None and operation not in _ADDING:
                expected.append(Outcome.NOT_FOUND)
            elif operation == Operation.DELETE:
                del self.model[key]
                expected.append(Outcome.DELETED)
            elif stored is None:
                self.model[key] = item
                expected.append(Outcome.CREATED)
            else:
                if operation not in (Operation.PUT, Operation.REPLACE):
                    item = {**item, "id": stored["id"]}
                if operation in _MERGING:
                    item = {**stored, **item}
                self.model[key] = item
                expected.append(Outcome.UPDATED)
        assert self.shard.apply(*operations) == expected
        self._note()

    @rule()
    def merge(self) -> None:
        self.shard.merge()

    @rule()
    def one_step_of_merging(self) -> None:
        work(self.shard.partition, is_idle=False)

    @rule()
    def purge(self) -> None:
        self.shard.writer.purge()

    @rule()
    def flush(self) -> None:
        self.shard.writer.retire_open_segment()
        flush(self.shard.partition)

    @rule()
    def reopen(self) -> None:
        self.shard.close()
        self.shard.open()

    @rule()
    def crash(self) -> None:
        self.shard.crash()
        self.shard.open()

    @rule(data=st.data())
    def crash_and_damage(self, data: st.DataObject) -> None:
        self.shard.crash()
        files = sorted(self.shard.folder.glob("*.seg")) + sorted(
            self.shard.folder.glob("MANIFEST.json")
        )
        if files:
            path = data.draw(st.sampled_from(files))
            content = bytearray(path.read_bytes())
            position = data.draw(st.integers(0, len(content) - 1))
            content[position] ^= data.draw(st.integers(1, 255))
            path.write_bytes(content)
        self.shard.open()

    @precondition(lambda self: self.revision < 4)
    @rule(facets=st.sets(st.sampled_from(["color", "value", "v1"])))
    def configure(self, facets: set[str]) -> None:
        self.revision += 1
        entry = index_entry(
            self.revision, aggregations={facet: {} for facet in facets} | {"color": {}}
        )
        reindex = Reindex(self.shard.partition, entry)
        reindex.run()
        reindex.finish()

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "shard"):
            return
        partition = self.shard.partition
        for horizon, expected in self.past.items():
            snapshot = partition.snapshot_at(horizon)
            live = {key: item for key, (item, _) in live_items(snapshot).items()}
            assert live == expected
        colors: dict[str, int] = {}
        for item in self.model.values():
            if "color" in item:
                colors[item["color"]] = colors.get(item["color"], 0) + 1
        assert facet_counts(partition.newest, "color") == colors
        assert partition.state.num_docs == len(self.model)

    def teardown(self) -> None:
        if hasattr(self, "shard"):
            self.shard.crash()


def test_partition_equals_a_dict(tmp_path_factory: pytest.TempPathFactory) -> None:
    PartitionMachine.make_folder = staticmethod(lambda: tmp_path_factory.mktemp("partition"))
    run_state_machine_as_test(
        PartitionMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_an_index_that_is_closed_leaves_no_descriptor_open(shard: Shard) -> None:
    """A shard opens and closes thousands: it would run out of them."""
    shard.put(*[{"id": number, "color": "red"} for number in range(90)])
    shard.close()

    def num_open_after(times: int) -> int:
        for _ in range(times):
            assert ClosedIndex.of(shard.folder, SETTINGS.map_bytes_max).num_docs == 90
            shard.open()
            assert len(shard.live()) == 90
            shard.close()
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = num_open_after(2)
    assert num_open_after(5) == before
