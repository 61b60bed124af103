"""Three hosts that share a log, simulated: clients read and write at any of them.

Every request names the newest seq that any client has seen (`X-Min-Seq`), so what the hosts promise
together is what one host promises alone, and the same check judges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import coordinator.replication.replica  # noqa: F401 - the seams bind what is imported
from common.shard_settings import ShardSettings
from tests.simulation.cells import SILENCE
from tests.simulation.client import Client, Reply
from tests.simulation.fault_injector import FaultInjector
from tests.simulation.history import History
from tests.simulation.jetstream import FaultRates, JetStream
from tests.simulation.service import PORT, Machine
from tests.simulation.simulation import Outcome, explained, heal, run_all, turned_knobs
from tests.simulation.workload import INDEX, Actor
from tests.simulation.world import World

NUM_HOSTS = 3
SETTLED_SECONDS = 30.0
"""After which a write without an answer is in the log, or never will be."""


class SharedActor(Actor):
    """A client that uses any host, and sees what any client has seen."""

    def __init__(self, log: JetStream, seen: list[int], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._log = log
        self._seen = seen
        self._clients = [Client(PORT + number) for number in range(NUM_HOSTS)]
        self._at = 0

    def _choose(self) -> Any:
        self._at = self._dice.randrange(NUM_HOSTS)
        return super()._choose()

    async def _send(
        self, method: str, path: str, document: Any, text: bytes | None, headers: str = ""
    ) -> Reply | None:
        client = self._clients[self._at]
        headers += f"X-Min-Seq: {self._seen[0]}\r\n"
        try:
            reply = await client.request(method, path, document, text=text, headers=headers)
        except OSError:
            reply = None
        if reply is None or reply.status in SILENCE:
            self._at = self._dice.randrange(NUM_HOSTS)
            await asyncio.sleep(self._dice.expovariate(10))
        elif reply.status == 200 and isinstance(reply.json, dict):
            meta = reply.json.get("meta", {})
            answer = reply.json
            self._see(answer.get("seq") or answer.get("taskID") or meta.get("seq") or 0)
        return reply

    def go_to(self, number: int) -> None:
        """Use a host from now on, which must show what the log has."""
        self._at = number
        self._see(self._log.last_seq)

    def _see(self, seq: int) -> None:
        self._seen[0] = max(self._seen[0], seq)

    def _note_changed(self) -> None:
        self._see(self._log.last_seq)

    async def _wait_settled(self, reply: Reply | None, index: str = INDEX) -> None:
        await asyncio.sleep(SETTLED_SECONDS)
        self._see(self._log.last_seq)

    async def _wait_changed(self, reply: Reply | None) -> None:
        await self._wait_settled(reply)


class WritingActor(SharedActor):
    """A client that does little else than write, so that hosts fall behind."""

    def _choose(self) -> Any:
        super()._choose()
        return self._dice.choice(
            (self.put, self.put, self.replace, self.merge, self.delete, self.get, self.use_cell)
        )


def inject_log_faults(world: World, log: JetStream, injector: FaultInjector) -> None:
    """Inject faults into the log; a strand of its own."""
    dice = world.random
    while not injector.is_over:
        world.pause(at=world.now + dice.expovariate(1.0))
        seconds = dice.choice((0.05, 0.5, 4.0)) * dice.random()
        if dice.random() < 0.3:
            world.note(f"the log has no leader for {seconds:.3f} s")
            log.away_until = world.now + seconds
            log.end_consumers()
        else:
            living = [one for one in log.clients if not one.is_gone]
            if living:
                client = dice.choice(living)
                world.note(f"{client.process.name} loses the log for {seconds:.3f} s")
                client.cut(seconds)


def stop_faults(
    log: JetStream, machines: Sequence[Machine], injectors: Sequence[FaultInjector]
) -> None:
    """Stop all faults, of the log and of the hosts."""
    log.fault_rates = FaultRates()
    log.away_until = 0.0
    for machine, injector in zip(machines, injectors, strict=True):
        injector.is_over = True
        heal(machine)


def read_everywhere(machine: Machine, actor: SharedActor) -> None:
    """Have a client read all that is in the log, from one host after the other."""
    for number in range(NUM_HOSTS):
        actor.go_to(number)
        run_all(machine, actor.read_in_the_end())


def simulate_hosts(
    seed: int, *, is_verbose: bool = False, ignores_ids: bool = False, is_busy: bool = False
) -> Outcome:
    """Run one simulation of three hosts.

    Args:
        seed: of the schedule.
        is_verbose: whether to print each step.
        ignores_ids: whether the log stores twice what is published twice.
        is_busy: whether many clients write, and more goes wrong, so that hosts fall behind.

    Raises:
        SimulationFailed: with the seed and the end of the trace.
    """
    world = World(seed, is_verbose=is_verbose)
    kind = "busy" if is_busy else "hosts"
    with explained(world, f"python -m tests.simulation {kind} {seed}"), turned_knobs(world.random):
        return _simulate(world, ignores_ids=ignores_ids, is_busy=is_busy)


def _simulate(world: World, *, ignores_ids: bool, is_busy: bool) -> Outcome:
    dice = world.random
    num_shards = dice.choice((1, 1, 2))
    settings = ShardSettings(flush_docs=dice.choice((2, 10, 4_096)), map_bytes_max=64 << 20)
    history = History(num_shards)
    log = JetStream(world, ignores_ids=ignores_ids)
    seen = [0]
    with ExitStack() as stack:
        stack.enter_context(log.standing_in())
        machines: list[Machine] = []
        for _ in range(NUM_HOSTS):
            beside = machines[-1] if machines else None
            machine = Machine(
                world, num_shards, settings, 0, beside=beside, log_url="nats://simulated:4222"
            )
            machines.append(stack.enter_context(machine))
        first = machines[0]
        actors = [
            (WritingActor if is_busy else SharedActor)(
                log, seen, first, history, number, dice.choice((10, 25))
            )
            for number in range(8 if is_busy else dice.choice((2, 3)))
        ]
        run_all(first, actors[0].create_indexes())
        log.fault_rates = FaultRates(0.02, 0.05, 0.05, 0.02, 0.01)
        pauses = (1.0, 4.0) if is_busy else (4.0, 15.0)
        injectors = [FaultInjector(machine, dice.choice(pauses)) for machine in machines]
        keeper = world.new_process("faults")
        for injector in injectors:
            world.spawn(keeper, "chance", injector.run)
        world.spawn(keeper, "log", partial(inject_log_faults, world, log, injectors[0]))
        run_all(first, *(actor.run() for actor in actors))
        stop_faults(log, machines, injectors)
        read_everywhere(first, actors[0])
        history.check()
    return Outcome.of(world, history, first)
