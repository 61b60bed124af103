"""The log of groups and the tombstones equal a set of dead records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import InternalError
from shard.storage.lmdb_environment import Environment, SubDatabase
from shard.storage.tombstones import purge_records, read_tombstones
from shard.storage.write_group_log import (
    Group,
    State,
    append_group,
    compact_groups,
    read_groups,
    read_state,
    write_state,
)


def _group(seq: int, deleted: list[int], outcomes: bytes = b"\0") -> Group:
    return Group(seq, 10 * seq, 3, np.array(deleted, np.uint64), outcomes)


@pytest.fixture
def environment(tmp_path: Path):  # type: ignore[no-untyped-def]
    environment = Environment.create(tmp_path, 1 << 30)
    yield environment
    environment.close()


def test_groups_come_back_in_order(environment: Environment) -> None:
    groups = [_group(3, [1, 70_000], b"\1\2"), _group(9, [], b"\0\0\0"), _group(10, [2], b"")]
    with environment.write() as txn:
        for group in groups:
            append_group(txn, group)

    with environment.read() as txn:
        found = read_groups(txn)

    assert [(g.seq, g.first_record, g.num_records, g.outcomes) for g in found] == [
        (g.seq, g.first_record, g.num_records, g.outcomes) for g in groups
    ]
    assert [g.deleted.tolist() for g in found] == [g.deleted.tolist() for g in groups]


def test_state_is_zero_at_first_and_comes_back(environment: Environment) -> None:
    with environment.write() as txn:
        assert read_state(txn) == State()
        write_state(txn, State(5, 6, 2, 4))

    with environment.read() as txn:
        assert read_state(txn) == State(5, 6, 2, 4)


def test_damaged_state_is_noticed(environment: Environment) -> None:
    with environment.write() as txn:
        write_state(txn, State(5, 6, 2, 4))
        value = bytearray(txn.get(SubDatabase.META, b"state") or b"")
        value[-1] ^= 1
        txn.put(SubDatabase.META, b"state", bytes(value))

    with environment.read() as txn, pytest.raises(InternalError):
        read_state(txn)


_records = st.sets(st.one_of(st.integers(0, 300), st.integers(65_500, 66_000), st.just(1 << 40)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(_records, _records), max_size=6))
def test_tombstones_are_what_was_compacted_and_not_purged(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[set[int], set[int]]]
) -> None:
    environment = Environment.create(tmp_path_factory.mktemp("log"), 1 << 30)
    dead: set[int] = set()
    for seq, (deleted, purged) in enumerate(steps, 1):
        with environment.write() as txn:
            append_group(txn, _group(seq, sorted(deleted)))
        with environment.write() as txn:
            state = compact_groups(txn, State(), read_groups(txn))
            assert state.seq_compacted == seq
            purge_records(txn, np.array(sorted(purged), np.uint64))
        dead = (dead | deleted) - purged
        with environment.read() as txn:
            assert read_tombstones(txn).tolist() == sorted(dead)
            assert read_groups(txn) == []
    environment.close()
