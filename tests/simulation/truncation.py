"""Three hosts whose log loses confirmed entries at its end: no host shows what the others lack.

That is what facetd refuses a log without `sync_interval: always` for; it may happen all the same
(a copy that was put back, disks that lie). A host that has applied an entry that was lost must
stop: soon after the log has given its number again, or as soon as a server that is still starting
can no longer be the reason. All others go on, and are equal to what the log has now.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from common.shard_settings import ShardSettings
from coordinator.replication.following.gapless_message_reader import FORGOTTEN_SECONDS
from coordinator.replication.log.log_entries import Kind, WriteGroup, decode_entry, unpack
from tests.oracle.items import Item
from tests.simulation.client import Client, Reply
from tests.simulation.jetstream import Client as Connection
from tests.simulation.jetstream import JetStream
from tests.simulation.service import PORT, Machine
from tests.simulation.simulation import explained, run_all
from tests.simulation.workload import EVERYTHING, INDEX, READY_SECONDS
from tests.simulation.world import World

NUM_HOSTS = 3
NUM_WRITES = 8
STOPPED = "replica_stopped"
AWAY_SECONDS = 10_000.0
NOTICED_SECONDS = FORGOTTEN_SECONDS + 10
"""Within which a host sees that its consumer has ended and compares where it goes on, or that the
log does not get back what it had."""


def simulate_truncation(seed: int, *, is_verbose: bool = False) -> int:
    """Run one simulation; return how many hosts have stopped.

    Raises:
        SimulationFailed: with the seed and the end of the trace.
    """
    world = World(seed, is_verbose=is_verbose)
    world.expected_errors.add("this host stops serving")
    with explained(world):
        return _simulate(world)


def _simulate(world: World) -> int:
    dice = world.random
    log = JetStream(world)
    with ExitStack() as stack:
        stack.enter_context(log.standing_in())
        machines: list[Machine] = []
        for _ in range(NUM_HOSTS):
            beside = machines[-1] if machines else None
            settings = ShardSettings(map_bytes_max=64 << 20)
            url = "nats://simulated:4222"
            machine = Machine(world, 1, settings, 0, beside=beside, log_url=url)
            # Only the clients write.
            machine.settings = dataclasses.replace(machine.settings, log_compare_seconds=0.0)
            machines.append(stack.enter_context(machine))
        run_all(machines[0], _create(world))
        run_all(machines[0], *(_write(world, number, 0) for number in range(NUM_HOSTS)))
        run_all(machines[0], _wait_all(world, log, range(NUM_HOSTS)))
        had = log.last_seq
        away = dice.sample(range(NUM_HOSTS), dice.randint(0, 2))
        present = [number for number in range(NUM_HOSTS) if number not in away]
        clients = {number: _connection(log, machines[number]) for number in away}
        for client in clients.values():
            client.cut(AWAY_SECONDS)
        run_all(machines[0], *(_write(world, number, 1) for number in present))
        run_all(machines[0], _wait_all(world, log, present))
        num_lost = dice.randint(1, min(log.last_seq - had + 2, log.last_seq - 2))
        beyond = [number in present or num_lost > log.last_seq - had for number in range(NUM_HOSTS)]
        log.truncate(num_lost)
        for client in clients.values():
            client.cut_until = world.now
        if all(beyond):
            _refill(log, num_lost + dice.randint(0, 2))
        else:  # a host that has none of it writes what takes its place
            writing = [number for number in away if not beyond[number]]
            run_all(machines[0], *(_write(world, number, 2) for number in writing))
        found: list[Reply] = []
        run_all(machines[0], asyncio.sleep(NOTICED_SECONDS))
        run_all(machines[0], _read_all(world, log, found))
        truth = _items_of(log)
        num_stopped = 0
        for number, (reply, is_beyond) in enumerate(zip(found, beyond, strict=True)):
            if reply.status != 200:
                assert reply.error == STOPPED, (number, reply)
                num_stopped += 1
                continue
            assert not is_beyond, f"host {number} serves although it has applied what was lost"
            items = {item["id"]: item for item in reply.json["data"]["items"]}
            assert items == truth, (number, items, truth)
        return num_stopped


def _connection(log: JetStream, machine: Machine) -> Connection:
    """Return the connection of a host to the log."""
    return next(one for one in log.clients if one.process is machine.coordinator)


def _refill(log: JetStream, num: int) -> None:
    """Store other entries under the numbers of those that were lost."""
    content = log.entries[-1][1]
    for number in range(num):
        log._publish(content, f"other-{number}")


async def _create(world: World) -> None:
    give_up_at = world.now + READY_SECONDS
    clients = [Client(PORT + number) for number in range(NUM_HOSTS)]
    for client in clients:
        while (await _ask(client, "GET", "/_ready")).status != 200:
            assert world.now < give_up_at, "not ready"
            await asyncio.sleep(0.05)
    while (await _ask(clients[0], "POST", f"/{INDEX}/configuration", {})).status != 200:
        assert world.now < give_up_at, "no index"
        await asyncio.sleep(0.05)


async def _write(world: World, host: int, generation: int) -> None:
    """Write through one host; whatever it answers."""
    client = Client(PORT + host)
    for number in range(NUM_WRITES):
        item = {"id": f"w{host}-{number % 3}", "version": 100 * generation + number}
        await _ask(client, "POST", f"/{INDEX}/items", item)
        await asyncio.sleep(world.random.expovariate(50))


async def _wait_all(world: World, log: JetStream, hosts: Iterable[int]) -> None:
    """Wait until hosts have the whole log."""
    found: list[Reply] = []
    await _read_all(world, log, found, hosts)
    assert all(reply.status == 200 for reply in found), found


async def _read_all(
    world: World, log: JetStream, found: list[Reply], hosts: Iterable[int] = range(NUM_HOSTS)
) -> None:
    """Ask each host for everything, once it has stopped or has the whole log."""
    for host in hosts:
        client = Client(PORT + host)
        give_up_at = world.now + 10 * READY_SECONDS
        while True:
            headers = f"X-Min-Seq: {log.last_seq}\r\n"
            reply = await _ask(client, "POST", f"/{INDEX}/search", EVERYTHING, headers)
            if reply.status == 200 or (reply.status == 503 and reply.error == STOPPED):
                break
            assert world.now < give_up_at, (host, reply)
            await asyncio.sleep(1.0)
        found.append(reply)


async def _ask(
    client: Client, method: str, path: str, document: Any = None, headers: str = ""
) -> Reply:
    try:
        return await client.request(method, path, document, headers=headers)
    except OSError:
        return Reply(503, {"error": {"code": "unreachable"}})


def _items_of(log: JetStream) -> dict[str, Item]:
    """Return what the entries of the log make, read by the code of their format alone."""
    items: dict[str, Item] = {}
    for _, content, _ in log.entries:
        entry = decode_entry(content)
        if entry.kind != Kind.WRITE:
            continue
        group = unpack(entry.kind, entry.checksum, [entry.content])
        assert isinstance(group, WriteGroup)
        start = 0
        for position in range(group.num_operations):
            length = int.from_bytes(group.lengths[4 * position : 4 * position + 4], "little")
            item = json.loads(group.payload[start : start + length])
            items[item["id"]] = item
            start += length
    return items
