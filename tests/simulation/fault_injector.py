"""What goes wrong in a simulation: kills, signals, processes without time, broken connections."""

from __future__ import annotations

from typing import Any

from tests.simulation.service import Machine
from tests.simulation.world import Process


class FaultInjector:
    """Kills, stops and disconnects the processes of a machine, at random moments.

    Args:
        machine: whose processes fail.
        pause_seconds: between two faults, on average.
    """

    def __init__(self, machine: Machine, pause_seconds: float) -> None:
        self._machine = machine
        self._world = machine.world
        self._pause_seconds = pause_seconds
        self.is_over = False

    def run(self) -> None:
        """Inject faults until it is over; a strand of its own."""
        world, dice = self._world, self._world.random
        while True:
            world.pause(at=world.now + dice.expovariate(1 / self._pause_seconds))
            if self.is_over:
                return
            dice.choice(
                (
                    self._kill,
                    self._kill,
                    self._kill,
                    self._terminate,
                    self._stop,
                    self._cut,
                    self._hold,
                    self._hold,
                )
            )()

    def _victim(self) -> Process:
        return self._world.random.choice((*self._machine.shards, self._machine.coordinator))

    def _kill(self) -> None:
        """Kill a process, some steps from now."""
        dice = self._world.random
        victim = self._victim()
        if victim.steps_left is None:
            victim.steps_left = int(dice.expovariate(1 / dice.choice((20, 200))))

    def _terminate(self) -> None:
        victim = self._victim()
        if not victim.is_dead:
            self._world.note(f"SIGTERM to {victim.name}")
            self._machine.loop_of(victim).terminate()

    def _stop(self) -> None:
        """Give a process no time for a while, possibly so long that the coordinator kills it."""
        dice = self._world.random
        seconds = dice.choice((0.02, 0.3, 3.0, 15.0)) * dice.random()
        victim = self._victim()
        self._world.note(f"{victim.name} stands still for {seconds:.3f} s")
        victim.stopped_until = self._world.now + seconds

    def _ends(self) -> list[Any]:
        machine = self._machine
        if not machine.shards:
            return []  # its host is being started
        shard = self._world.random.choice(machine.shards)
        return machine.network.between(machine.coordinator, shard)

    def _cut(self) -> None:
        for end in self._ends():
            self._world.note(f"cut to {end.peer.loop.process.name}")
            self._machine.network.cut(end)

    def _hold(self) -> None:
        dice = self._world.random
        for end in self._ends():
            seconds = dice.choice((0.01, 0.1, 2.0)) * dice.random()
            self._world.note(f"hold to {end.peer.loop.process.name} for {seconds:.3f} s")
            self._machine.network.hold(dice.choice((end, end.peer)), seconds)
