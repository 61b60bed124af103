"""Reads that other hosts pass on to the shards of this one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from common.protocol.messages import GetResponse
from common.protocol.methods import SEARCH
from coordinator.replication.placement.peer_server import PeerServer, method_of
from tests.common.protocol.scripted_server import HELLO, READ_LONG, ScriptedServer, get
from tests.transport import connect
from tests.waiting import until


async def test_a_shard_learns_that_the_other_host_has_given_a_read_up() -> None:
    scripted = ScriptedServer()
    shard, _ = await connect(scripted.server, HELLO)
    local = SimpleNamespace(is_stopped=False, readable_from=lambda _: 0)
    host: Any = SimpleNamespace(
        cluster=SimpleNamespace(here={0: shard}, local_shards=local),
        catalog=SimpleNamespace(
            on_change=lambda _: None, indexes={"films": SimpleNamespace(number=1)}
        ),
        serving=SimpleNamespace(applied_seq=10),
    )
    unused: Any = None
    peer = PeerServer(host, unused, unused)
    given_up: Any = peer._read(0, READ_LONG, get(b"1"))
    wanted: Any = peer._read(0, READ_LONG, get(b"2"))
    await until(lambda: len(scripted.reading) == 2)

    given_up.cancel()
    await until(lambda: list(scripted.reading) == [b"2"])

    scripted.gate.set_result(GetResponse(None))
    assert (await wanted).document == b"2"


def test_what_can_be_given_up_at_a_shard_can_be_at_its_host() -> None:
    assert method_of(SEARCH, 3).name == "search/3"
    assert method_of(SEARCH, 3).can_be_given_up
