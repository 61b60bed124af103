"""Three hosts that hold some shards each, simulated: two copies of each of three shards.

Beside what befalls single processes and the log, whole hosts are killed, emptied and given other
shards, and the connections between hosts are cut and held. Every request names the newest seq that
any client has seen, and the same check judges as for one host.
"""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, ClassVar, TypeVar

import msgspec

import coordinator.process.coordinator_process
import coordinator.replication.replica
from common import data_directory
from common.shard_settings import ShardSettings
from coordinator.cluster.shard_copies import shown_shards
from coordinator.process.joining import log_checks
from coordinator.process.joining import start_decision as joining
from coordinator.replication.host.replica_file import held_shards, host_name, read_replica
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_stream import LogStream
from coordinator.replication.placement.placement_table import PlacementTable
from coordinator.settings import Settings
from tests.simulation.client import Client
from tests.simulation.fault_injector import FaultInjector
from tests.simulation.history import History
from tests.simulation.jetstream import FaultRates, JetStream
from tests.simulation.service import Machine
from tests.simulation.several_hosts import (
    NUM_HOSTS,
    SharedActor,
    inject_log_faults,
    read_everywhere,
    stop_faults,
)
from tests.simulation.simulation import Outcome, explained, run_all, turned_knobs
from tests.simulation.world import World

NUM_SHARDS = 3
PLACED = ((0, 1), (1, 2), (0, 2))
ORDER_SECONDS = 20.0
MOVED_SECONDS = 120.0

T = TypeVar("T")


class PlacedActor(SharedActor):
    """A client of hosts that hold some shards each."""

    cursors_may_end: ClassVar[bool] = True  # a host that is cut off takes its copies with it


class HostFaultInjector:
    """What befalls whole hosts, and the connections between them.

    Args:
        machines: all hosts.
        log: that they share.
        pause_seconds: between two faults, on average.
        only_moves: whether shards are moved, and nothing else happens.
    """

    def __init__(
        self,
        machines: list[Machine],
        log: JetStream,
        pause_seconds: float,
        *,
        only_moves: bool = False,
    ) -> None:
        self._machines = machines
        self._log = log
        self._only_moves = only_moves
        self._world = machines[0].world
        self._pause_seconds = pause_seconds
        self.is_over = False
        self.is_busy = False

    def run(self) -> None:
        """Let things go wrong; a strand of its own."""
        world, dice = self._world, self._world.random
        while not self.is_over:
            world.pause(at=world.now + dice.expovariate(1 / self._pause_seconds))
            if self.is_over:
                return
            self.is_busy = True
            harms = (self._kill, self._empty, self._place, self._hold, self._hold, self._cut)
            moves = (self._move, self._move, self._move)
            dice.choice(moves if self._only_moves else (*harms, *moves))()
            self.is_busy = False

    def _any(self) -> Machine:
        return self._world.random.choice(self._machines)

    def _kill(self) -> None:
        machine = self._any()
        machine.restart("the host loses power", partial(join, machine))

    def _empty(self) -> None:
        machine = self._any()

        def change() -> Coroutine[Any, Any, None]:
            shutil.rmtree(machine.data)
            return join(machine)

        machine.restart("the host burns", change)

    def _place(self) -> None:
        """Give a host other shards; each stays on some host."""
        machine = self._any()
        elsewhere = {
            one
            for other in self._machines
            if other is not machine
            for one in held_shards(other.settings, read_replica(other.data))
            if one in self._kept(other)
        }
        dice = self._world.random
        while True:
            chosen = {one for one in range(NUM_SHARDS) if dice.random() < 0.6}
            if chosen and chosen | elsewhere >= set(range(NUM_SHARDS)):
                break

        def change() -> Coroutine[Any, Any, None]:
            hold(machine, chosen)
            return join(machine)

        machine.restart("the host gets other shards", change)

    def _kept(self, machine: Machine) -> frozenset[int]:
        """Return the shards that a host holds and is to hold, as the table says."""
        content = self._log.rows["facetd-placement"]["table"][0]
        rows = msgspec.json.decode(content, type=PlacementTable).hosts.values()
        found = [row for row in rows if row.name == host_name(machine.settings)]
        return frozenset(found[0].shards) & found[0].target if found else frozenset()

    def _move(self) -> None:
        """Order a shard to be moved, to be held by one host more, or by one less."""
        dice = self._world.random
        names = [host_name(machine.settings) for machine in self._machines]
        source, target = dice.sample(names, 2)
        order: dict[str, Any] = {"shard": dice.randrange(NUM_SHARDS)}
        kind = dice.choice(("move", "move", "add", "remove"))
        if kind != "add":
            order["from"] = source
        if kind != "remove":
            order["to"] = target
        ordering = self._any()

        async def send() -> None:
            try:
                async with asyncio.timeout(ORDER_SECONDS):
                    client = Client(ordering.settings.port)
                    reply = await client.request("POST", "/_cluster/shards", order)
                self._world.note(f"order {order} -> {reply.status} {reply.error}")
                assert reply.status in (200, 400, 503), reply
            except (OSError, TimeoutError) as error:
                self._world.note(f"order {order} -> {error!r}")

        self._machines[0].start("operator", send)

    def _ends(self) -> list[Any]:
        one, other = self._world.random.sample(self._machines, 2)
        network = one.network
        return network.between(one.coordinator, other.coordinator) + network.between(
            other.coordinator, one.coordinator
        )

    def _cut(self) -> None:
        for end in self._ends():
            self._world.note(f"cut between hosts: {end.peer.loop.process.name}")
            self._machines[0].network.cut(end)

    def _hold(self) -> None:
        """Let nothing pass between two hosts for a while, or in one direction only."""
        dice = self._world.random
        seconds = dice.choice((0.1, 1.0, 8.0)) * dice.random()
        is_both = dice.random() < 0.5
        for end in self._ends():
            self._world.note(f"hold between hosts for {seconds:.3f} s")
            for held in (end, end.peer) if is_both else (end,):
                self._machines[0].network.hold(held, seconds)


def hold(machine: Machine, shards: set[int]) -> None:
    """Let a host that does not run hold other shards."""
    machine.settings = dataclasses.replace(
        machine.settings, shards_here=shown_shards(sorted(shards))
    )
    machine.slots = {-1, *shards}
    machine.world.note(f"host {machine.number} holds {sorted(shards)} from now on")


async def join(machine: Machine) -> None:
    """Do what `facetd serve` does before it starts the processes of a host of several."""
    while True:
        try:
            await joining._join(machine.settings)
            break
        except log_checks.CannotJoin as error:
            machine.world.note(f"cannot join: {error}")
        await asyncio.sleep(1.0)
    data_directory.create(machine.data)
    data_directory.read_or_create_secret(machine.data)


async def all_moved(world: World, machines: list[Machine]) -> None:
    """Return once every shard is in place."""
    give_up_at = world.now + MOVED_SECONDS
    client = Client(machines[0].settings.port)
    while True:
        try:
            reply = await client.request("GET", "/_cluster")
            placement = reply.json["placement"] if reply.status == 200 else None
        except OSError:
            placement = None
        if placement is not None and not any(
            _is_possible(placement, one) for one in placement["moves"]
        ):
            return
        assert world.now < give_up_at, f"not moved after {MOVED_SECONDS} s: {placement}"
        await asyncio.sleep(0.5)


def _is_possible(placement: dict[str, Any], move: dict[str, Any]) -> bool:
    """Return False where a host shall give up the only copy: another one lost it by a setting."""
    placed = placement["shards"][move["shard"]]["placed"]
    return not (move["what"] == "gives up" and placed == [move["host"]])


@contextmanager
def _servers_not_looked_at() -> Iterator[None]:
    """The simulated servers of the log have no monitors."""
    real = log_checks.check_safe

    async def check_safe(stream: LogStream, info: StreamInfo | None, settings: Settings) -> None:
        """Believe it."""

    joining.check_safe = check_safe  # type: ignore[attr-defined]
    try:
        yield
    finally:
        joining.check_safe = real  # type: ignore[attr-defined]


@contextmanager
def _supervised() -> Iterator[None]:
    """`Machine` looks itself at what processes shall run."""
    real = coordinator.process.coordinator_process.process_starter
    coordinator.process.coordinator_process.process_starter = lambda supervisor: _do_nothing
    try:
        yield
    finally:
        coordinator.process.coordinator_process.process_starter = real


def _do_nothing() -> None:
    """Need no reminder."""


def simulate_placed(seed: int, *, is_verbose: bool = False) -> Outcome:
    """Run one simulation of hosts that hold some shards each.

    Raises:
        SimulationFailed: with the seed and the end of the trace.
    """
    return in_a_world(_simulate, seed, "placed", is_verbose=is_verbose)


def simulate_moves(seed: int, *, is_verbose: bool = False) -> Outcome:
    """Run one simulation of hosts that move their shards while clients write, and nothing fails.

    Far more of these moves come to an end between two writes than of `simulate_placed`.

    Raises:
        SimulationFailed: with the seed and the end of the trace.
    """
    return in_a_world(_simulate_moves, seed, "moves", is_verbose=is_verbose)


def in_a_world(simulate: Callable[[World], T], seed: int, name: str, *, is_verbose: bool) -> T:
    """Run a simulation; a failure shows how to replay it by its name on the command line."""
    world = World(seed, is_verbose=is_verbose)
    with (
        explained(world, f"python -m tests.simulation {name} {seed}"),
        turned_knobs(world.random),
        _servers_not_looked_at(),
        _supervised(),
    ):
        return simulate(world)


def simulate_start_after_power_cut(seed: int) -> None:
    """Have one host that holds a shard alone take another one, from hosts that wait for its own.

    Raises:
        SimulationFailed: they wait for each other.
    """
    world = World(seed)
    with explained(world), turned_knobs(world.random), _servers_not_looked_at():
        _start_after_power_cut(world)


def _start_after_power_cut(world: World) -> None:
    log = JetStream(world, connects_hosts=True)
    with ExitStack() as stack:
        stack.enter_context(log.standing_in())
        machines = started(
            world, ShardSettings(map_bytes_max=64 << 20), stack, ((0,), (1,), (1, 2))
        )
        first = machines[0]
        actors = [
            PlacedActor(log, [0], first, History(NUM_SHARDS), number, 0)
            for number in range(NUM_HOSTS)
        ]
        run_all(first, actors[0].create_index())

        def change(machine: Machine) -> Coroutine[Any, Any, None]:
            if machine is first:
                hold(machine, {0, 1})
            return join(machine)

        keeper = world.new_process("power cut")
        for machine in machines:
            restart = partial(machine.restart, "the power is cut", partial(change, machine))
            world.spawn(keeper, str(machine.number), restart)
        world.run(lambda: not keeper.strands, 300.0)
        assert not keeper.strands, "a host does not start"
        for number, actor in enumerate(actors):
            actor._at = number
            run_all(first, actor._wait_ready())


def started(
    world: World, settings: ShardSettings, stack: ExitStack, placed: tuple[tuple[int, ...], ...]
) -> list[Machine]:
    """Start hosts."""
    machines: list[Machine] = []
    for shards in placed:
        machine = Machine(
            world,
            NUM_SHARDS,
            settings,
            0,
            beside=machines[-1] if machines else None,
            log_url="nats://simulated:4222",
            shards_here=shards,
        )
        machines.append(stack.enter_context(machine))
    return machines


def _simulate(world: World) -> Outcome:
    dice = world.random
    settings = ShardSettings(flush_docs=dice.choice((2, 10, 4_096)), map_bytes_max=64 << 20)
    history = History(NUM_SHARDS)
    log = JetStream(world, connects_hosts=True)
    seen = [0]
    with ExitStack() as stack:
        stack.enter_context(log.standing_in())
        machines = started(world, settings, stack, PLACED)
        first = machines[0]
        actors = [
            PlacedActor(log, seen, first, history, number, dice.choice((8, 20)))
            for number in range(dice.choice((2, 3)))
        ]
        run_all(first, actors[0].create_indexes())
        log.fault_rates = FaultRates(0.02, 0.05, 0.05, 0.02, 0.01)
        injectors = [FaultInjector(machine, dice.choice((6.0, 20.0))) for machine in machines]
        of_hosts = HostFaultInjector(machines, log, dice.choice((3.0, 8.0)))
        keeper = world.new_process("faults")
        for injector in injectors:
            world.spawn(keeper, "chance", injector.run)
        world.spawn(keeper, "hosts", of_hosts.run)
        world.spawn(keeper, "log", partial(inject_log_faults, world, log, injectors[0]))
        run_all(first, *(actor.run() for actor in actors))
        of_hosts.is_over = True
        stop_faults(log, machines, injectors)
        world.run(lambda: not of_hosts.is_busy)
        run_all(first, all_moved(world, machines))
        read_everywhere(first, actors[0])
        history.check()
    return Outcome.of(world, history, first)


def _simulate_moves(world: World) -> Outcome:
    settings = ShardSettings(map_bytes_max=64 << 20)
    history = History(NUM_SHARDS)
    log = JetStream(world, connects_hosts=True)
    with ExitStack() as stack:
        stack.enter_context(log.standing_in())
        machines = started(world, settings, stack, PLACED)
        first = machines[0]
        seen = [0]
        actors = [PlacedActor(log, seen, first, history, number, 60) for number in range(2)]
        run_all(first, actors[0].create_indexes())
        moves = HostFaultInjector(machines, log, 1.0, only_moves=True)
        keeper = world.new_process("moves")
        world.spawn(keeper, "moves", moves.run)
        run_all(first, *(actor.run() for actor in actors))
        moves.is_over = True
        world.run(lambda: not moves.is_busy)
        run_all(first, all_moved(world, machines))
        read_everywhere(first, actors[0])
        history.check()
    return Outcome.of(world, history, first)
