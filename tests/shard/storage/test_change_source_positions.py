"""The positions of followed sources in LMDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shard.storage.change_source_positions import (
    read_positions,
    roll_back_positions,
    write_positions,
)
from shard.storage.lmdb_environment import Environment


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    environment = Environment.create(tmp_path, 1 << 20)
    yield environment
    environment.close()


def _write(environment: Environment, seq: int, **positions: str) -> None:
    with environment.write() as txn:
        write_positions(txn, seq, positions, num_max=3)


def _read(environment: Environment) -> dict[str, tuple[int, str]]:
    with environment.read() as txn:
        return read_positions(txn)


def test_the_newest_position_counts(environment: Environment) -> None:
    assert _read(environment) == {}
    _write(environment, 3, a="1")
    _write(environment, 5, a="2", b="x")
    assert _read(environment) == {"a": (5, "2"), "b": (5, "x")}
    _write(environment, 6, b="")
    assert _read(environment) == {"a": (5, "2")}


def test_the_source_that_wrote_least_recently_is_forgotten(environment: Environment) -> None:
    for seq, source in enumerate("abcad", 1):
        _write(environment, seq, **{source: str(seq)})
    assert _read(environment) == {"a": (4, "4"), "c": (3, "3"), "d": (5, "5")}


def test_an_earlier_state_has_the_earlier_position(environment: Environment) -> None:
    _write(environment, 3, a="1", b="x")
    _write(environment, 5, a="2")
    _write(environment, 6, c="y")
    with environment.write() as txn:
        roll_back_positions(txn, 4)
    assert _read(environment) == {"a": (3, "1"), "b": (3, "x")}
    with environment.write() as txn:
        roll_back_positions(txn, 2)
    assert _read(environment) == {}
