"""The power of three placed hosts is cut while clients write, and the log stays away.

Each host shows what replica.json names: at worst a second old, but one state of all shards, with
every write up to it and none after it. It still does when all shards have been killed once more.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from common.shard_settings import ShardSettings
from tests.simulation.client import Client
from tests.simulation.history import History
from tests.simulation.jetstream import JetStream
from tests.simulation.placed_hosts import (
    NUM_SHARDS,
    PLACED,
    PlacedActor,
    in_a_world,
    join,
    started,
)
from tests.simulation.service import PORT, Machine
from tests.simulation.several_hosts import NUM_HOSTS
from tests.simulation.simulation import run_all
from tests.simulation.workload import EVERYTHING, INDEX
from tests.simulation.world import World

NUM_WRITERS = 2
AWAY_SECONDS = 200.0
START_SECONDS = 30.0
"""Within which a host must answer without the log: it waits for it for three."""
HANGING_SECONDS_MAX = 0.5
KEYS = tuple(f"{n}" for n in range(6))


@dataclass(frozen=True, slots=True)
class PowerCut:
    """What a simulation was.

    Attributes:
        num_acknowledged: writes before the power was cut.
        num_hidden: those that a host did not show without the log, of all hosts together.
    """

    num_acknowledged: int
    num_hidden: int


@dataclass
class _Writer:
    """A client that writes all of its items at once, or a single one; version after version.

    Attributes:
        acknowledged: by key, seq and version of each write.
        unknown: by key, versions whose writes have no answer.
    """

    world: World
    number: int
    is_over: bool = False
    acknowledged: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    unknown: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    async def run(self) -> None:
        dice = self.world.random
        clients = [Client(PORT + number) for number in range(NUM_HOSTS)]
        version = 0
        while not self.is_over:
            version += 1
            some = KEYS if dice.random() < 0.5 else (dice.choice(KEYS),)
            keys = [f"w{self.number}-{len(some)}-{one}" for one in some]
            items = [{"id": key, "version": version} for key in keys]
            seq = 0
            try:
                reply = await dice.choice(clients).request("POST", f"/{INDEX}/items", items)
                if reply.status == 200:
                    seq = reply.json["seq"]
            except OSError:
                await asyncio.sleep(0.01)
            for key in keys:
                if seq:
                    self.acknowledged.setdefault(key, []).append((seq, version))
                else:
                    self.unknown[key].append(version)
            await asyncio.sleep(dice.expovariate(20))

    def check(self, seq: int, found: dict[str, int]) -> int:
        """Compare what a search shows at an entry of the log; return the number of later writes."""
        num_later = 0
        for key in self.acknowledged.keys() | self.unknown.keys():
            acknowledged = self.acknowledged.get(key, [])
            last = max((version for at, version in acknowledged if at <= seq), default=0)
            after = min((version for at, version in acknowledged if at > seq), default=1 << 60)
            possible = {last, *(one for one in self.unknown[key] if last < one < after)}
            assert found.get(key, 0) in possible, (key, seq, found.get(key), possible)
            num_later += sum(at > seq for at, _ in acknowledged)
        together = {found.get(f"w{self.number}-{len(KEYS)}-{one}") for one in KEYS}
        assert len(together) == 1, f"a torn write at {seq}: {together}"
        return num_later


def simulate_power_cut(seed: int, *, is_verbose: bool = False) -> PowerCut:
    """Run one simulation.

    Raises:
        SimulationFailed: with the seed and the end of the trace.
    """
    return in_a_world(_simulate, seed, "power", is_verbose=is_verbose)


def _simulate(world: World) -> PowerCut:
    dice = world.random
    settings = ShardSettings(flush_docs=dice.choice((2, 10, 4_096)), map_bytes_max=64 << 20)
    log = JetStream(world, connects_hosts=True)
    with ExitStack() as stack:
        stack.enter_context(log.standing_in())
        machines = started(world, settings, stack, PLACED)
        first = machines[0]
        actor = PlacedActor(log, [0], first, History(NUM_SHARDS), 0, 0)
        run_all(first, actor.create_index())
        for number in range(NUM_HOSTS):  # a host that has never served keeps no state
            run_all(first, _wait_ready(world, number))
        writers = [_Writer(world, number) for number in range(NUM_WRITERS)]
        keeper = world.new_process("power")
        world.spawn(keeper, "cut", partial(_cut, world, log, machines, writers))
        run_all(first, *(writer.run() for writer in writers))
        world.run(lambda: not keeper.strands)
        shown: list[tuple[int, dict[str, int]]] = []
        for machine in machines:
            run_all(first, _read(world, machine, shown))
        for machine in machines:
            for process in machine.shards:  # which may have more than searches see
                world.kill(process, "killed while the log is away")
        for machine in machines:
            run_all(first, _read(world, machine, shown))
        assert world.now < log.away_until
        num_hidden = sum(writer.check(*one) for writer in writers for one in shown)
        log.away_until = 0.0
        for machine in machines:
            run_all(first, _read(world, machine, shown, log.last_seq))
            assert not sum(writer.check(*shown[-1]) for writer in writers)
    num_acknowledged = sum(len(one) for writer in writers for one in writer.acknowledged.values())
    return PowerCut(num_acknowledged, num_hidden)


async def _wait_ready(world: World, number: int) -> None:
    """Wait until a host serves, without going to another one meanwhile, as an actor does."""
    client = Client(PORT + number)
    give_up_at = world.now + START_SECONDS
    while (await client.request("GET", "/_ready")).status != 200:
        assert world.now < give_up_at, f"host {number} is not ready"
        await asyncio.sleep(0.02)


def _cut(world: World, log: JetStream, machines: list[Machine], writers: list[_Writer]) -> None:
    """Cut the power of all hosts after a while, and let them start without the log.

    Right before, a shard of each host hangs: it lacks entries that the others have.
    """
    dice = world.random
    cut_at = world.now + dice.uniform(1.0, 4.0)
    world.pause(at=cut_at - dice.uniform(0.0, HANGING_SECONDS_MAX))
    for machine in machines:
        dice.choice(machine.shards).stopped_until = cut_at
    world.pause(at=cut_at)
    log.away_until = world.now + AWAY_SECONDS
    for writer in writers:
        writer.is_over = True
    starting = world.new_process("starts")
    for machine in machines:
        restart = partial(machine.restart, "the power is cut", partial(join, machine))
        world.spawn(starting, str(machine.number), restart)
    world.pause(lambda: not starting.strands)


async def _read(
    world: World, machine: Machine, shown: list[tuple[int, dict[str, int]]], seq: int = 0
) -> None:
    """Read everything from a host, once it has an entry; it must answer soon."""
    client = Client(machine.settings.port)
    give_up_at = world.now + START_SECONDS
    while True:
        last: Any = None
        try:
            reply = await client.request(
                "POST", f"/{INDEX}/search", EVERYTHING, headers=f"X-Min-Seq: {seq}\r\n"
            )
            if reply.status == 200:
                items = reply.json["data"]["items"]
                found = {one["id"]: one["version"] for one in items}
                shown.append((reply.json["meta"]["seq"], found))
                return
            last = reply.json
        except OSError as error:
            last = error
        assert world.now < give_up_at, f"host {machine.number} does not answer: {last}"
        await asyncio.sleep(0.1)
