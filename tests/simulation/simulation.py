"""One seed, from the first configuration to the last check."""

from __future__ import annotations

import gc
import importlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from common.shard_settings import ShardSettings
from tests.simulation.fault_injector import FaultInjector
from tests.simulation.history import History
from tests.simulation.service import Machine
from tests.simulation.workload import Actor
from tests.simulation.world import World

KNOBS: Final[dict[str, tuple[int, ...]]] = {
    "shard.partition.writer.OPEN_SEGMENT_DOCS_MAX": (1, 4, 128),
    "shard.partition.write_group_planner.PLAN_SINGLY_MAX": (0, 3, 64),
    "shard.storage.lmdb_codecs.ITEMS_AT_ONCE": (1, 2_048),
    "shard.partition.writer.PURGE_RECORDS_MAX": (1, 5, 1_000),
    "shard.partition.writer.GROUPS_UNCOMPACTED_MAX": (0, 3, 256),
    "shard.partition.writer.DELETED_UNCOMPACTED_MAX": (0, 5, 4_096),
    "shard.partition.merge_flush_and_purge_scheduler.PURGEABLE_MAX": (0, 10, 20_000),
    "shard.partition.snapshots_in_use.NEWEST_KEPT": (1, 2, 4),
    "shard.partition.snapshots_in_use.ASKED_KEPT": (1, 4),
    "shard.partition.stored_item_batches.BATCH_ITEMS_MAX": (1, 5, 16_384),
    "shard.partition.derived_files.PIECES_MAX": (1, 2, 8),
    "shard.segment.text.prefix_lists.ENTRIES_MIN": (1, 4, 8_192),
    "shard.segment.text.bitset_postings.DOCS_MIN": (1, 4_096),
    "shard.segment.text.bitset_postings.DOCS_PER_ENTRY_MAX": (2, 16),
    "shard.segment.text.bitset_postings.PREFIX_DOCS_PER_ENTRY_MAX": (2, 16),
    "shard.partition.merge_policy.TIER_DOCS_MIN": (1, 4, 128),
    "shard.partition.merge_policy.DELETED_DOCS_MIN": (0, 1_000),
    "coordinator.read.scatter.INLINE_HITS_MAX": (0, 40),
}
"""Limits that are set low by chance, so that what happens beyond them happens to few items too."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation was."""

    digest: int
    num_steps: int
    num_acknowledged: int
    num_unknown: int
    num_reads: int
    num_deaths: int
    seconds: float

    @classmethod
    def of(cls, world: World, history: History, machine: Machine) -> Outcome:
        """Return the outcome of a simulation; deaths are counted of one machine."""
        return cls(
            world.digest,
            world.num_steps,
            history.num_acknowledged,
            sum(one.seq is None for own in history.writes.values() for one in own),
            len(history.reads) + len(history.gets),
            len(machine.deaths),
            world.now - 1_000,
        )


class SimulationFailed(AssertionError):
    """A simulation shows a mistake; says how to see it again."""


def simulate(seed: int, *, is_verbose: bool = False) -> Outcome:
    """Run one simulation.

    Raises:
        SimulationFailed: with the seed and the end of the trace.
    """
    world = World(seed, is_verbose=is_verbose)
    with explained(world, f"python -m tests.simulation {seed}"), turned_knobs(world.random):
        return _simulate(world)


@contextmanager
def explained(world: World, command: str = "") -> Iterator[None]:
    """Simulate in the body of a `with`; a failure shows the end of the trace.

    Args:
        world: of the simulation.
        command: runs it again.

    Raises:
        SimulationFailed: the body fails.
    """
    gc.disable()  # when garbage goes must not depend on what ran before,
    gc.freeze()  # nor what goes when this world is taken down, which is quick then
    try:
        yield
    except (KeyboardInterrupt, pytest.fail.Exception):
        raise  # a test's timeout is no answer of the simulation
    except BaseException as error:
        lines = [f"seed {world.seed}: {type(error).__name__}: {error}", *world.trace]
        if command:
            lines.append(f"again: {command}")
        raise SimulationFailed("\n".join(lines)) from error
    finally:
        gc.unfreeze()
        gc.enable()


def _simulate(world: World) -> Outcome:
    dice = world.random
    num_shards = dice.choice((1, 2, 2, 3))
    num_clients = dice.choice((1, 2, 4, 6))
    settings = ShardSettings(
        flush_docs=dice.choice((2, 10, 4_096)),
        idle_ms=dice.choice((20, 300)),
        map_bytes_max=64 << 20,
    )
    history = History(num_shards)
    world.note(f"{num_shards} shards, {num_clients} clients, {settings}")
    with Machine(world, num_shards, settings, dice.choice((0, 1 << 20))) as machine:
        num_operations = dice.choice((15, 40))
        actors = [Actor(machine, history, number, num_operations) for number in range(num_clients)]
        run_all(machine, actors[0].create_indexes())
        injector = FaultInjector(machine, dice.choice((0.1, 0.5, 2.0)))
        keeper = world.new_process("faults")
        if dice.random() < 0.9:
            world.spawn(keeper, "chance", injector.run)
        run_all(machine, *(actor.run() for actor in actors))
        injector.is_over = True
        heal(machine)
        run_all(machine, actors[0].read_in_the_end())
        for process in (machine.coordinator, *machine.shards):
            world.kill(process, "killed in the end")
        run_all(machine, actors[0].read_in_the_end())
        history.check()
    return Outcome.of(world, history, machine)


def run_all(machine: Machine, *jobs: Any) -> None:
    """Run coroutines, each in a process of its own, until all are done."""
    processes = [
        machine.start(f"client {number}", partial(_given, job))[0]
        for number, job in enumerate(jobs)
    ]
    for process in processes:
        process.awaited_by.append(machine.world.current)
    machine.world.run(lambda: all(process.is_dead for process in processes), is_woken=True)


def _given(job: Any) -> Any:
    return job


def heal(machine: Machine) -> None:
    """Let nothing go wrong any more."""
    for process in (machine.coordinator, *machine.shards):
        process.stopped_until = 0.0
        process.steps_left = None


@contextmanager
def turned_knobs(dice: random.Random) -> Iterator[None]:
    """Set each limit to one of its values for the body of a `with`."""
    former: list[tuple[Any, str, int]] = []
    try:
        for name, values in KNOBS.items():
            module_name, _, constant = name.rpartition(".")
            module = importlib.import_module(module_name)
            former.append((module, constant, getattr(module, constant)))
            setattr(module, constant, dice.choice(values))
        yield
    finally:
        for module, constant, value in former:
            setattr(module, constant, value)
