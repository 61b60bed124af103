"""A log line names the requests that it is about, wherever the work for them runs."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from common.errors import InternalError, Unavailable
from common.process import logs
from common.process.logs import Log
from common.process.request_id_context import REQUEST_IDS, carried
from common.protocol.authentication import Authenticator
from common.protocol.messages import PROTOCOL_VERSION, GetRequest, GetResponse, Hello, Welcome
from common.protocol.methods import Method
from common.protocol.server import Handler, RpcServer
from tests.transport import connect

_log = Log("x")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("facetd")
    before = root.handlers[:], root.level, ours.level
    token = REQUEST_IDS.set(())
    yield
    REQUEST_IDS.reset(token)
    root.handlers[:], root.level, ours.level = before


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("ids", "text", "members"),
    [
        ((), "", {}),
        (("a-1",), " request_id=a-1", {"request_id": "a-1"}),
        (('x" y',), r' request_id="x\" y"', {"request_id": 'x" y'}),
        (("a", "b\n"), r' request_ids=["a", "b\n"]', {"request_ids": ["a", "b\n"]}),
    ],
)
def test_line_has_the_ids_in_both_styles(
    capsys: pytest.CaptureFixture[str],
    ids: tuple[str, ...],
    text: str,
    members: dict[str, object],
) -> None:
    REQUEST_IDS.set(ids)
    for style in ("text", "json"):
        logs.configure("shard-0", style=style)
        _log.warning("slow", took=1)
    readable, structured = _lines(capsys)
    assert readable.partition("slow")[2] == f'" took=1{text}'
    record = json.loads(structured)
    assert {name: record[name] for name in record if name.startswith("request")} == members


def test_thread_knows_only_what_is_carried_to_it() -> None:
    with ThreadPoolExecutor(1) as thread:
        REQUEST_IDS.set(("a",))
        assert thread.submit(carried(REQUEST_IDS.get)).result() == ("a",)
        assert thread.submit(REQUEST_IDS.get).result() == ()


def method(name: str) -> Method[GetRequest, GetResponse]:
    return Method(name, GetRequest, GetResponse)


class _Shard:
    """Notes for whom each call is; answers at once, later, from a thread, or not."""

    def __init__(self, slow_ms: int = 0) -> None:
        self.seen: list[tuple[str, ...]] = []
        self.thread = ThreadPoolExecutor(1)
        self.server = RpcServer(
            (
                Handler(method("now"), self.now),
                Handler(method("later"), self.later),
                Handler(method("in_thread"), self.in_thread),
                Handler(method("fail"), self.fail),
                Handler(method("refuse"), self.refuse),
            ),
            Authenticator(secret="s", shard=0, num_shards=1, make_welcome=lambda: Welcome(1, 0)),
            slow_ms,
        )

    def now(self, _: object) -> GetResponse:
        self.seen.append(REQUEST_IDS.get())
        return GetResponse(b"")

    async def later(self, _: object) -> GetResponse:
        await asyncio.sleep(0.002)
        return self.now(_)

    async def in_thread(self, _: object) -> GetResponse:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, carried(lambda: self.now(_)))

    async def fail(self, _: object) -> GetResponse:
        await asyncio.sleep(0)
        raise ValueError("bug")

    def refuse(self, _: object) -> GetResponse:
        try:
            raise OSError("why")
        except OSError as error:
            raise InternalError("the disk refused it") from error


HELLO = Hello(PROTOCOL_VERSION, "s", 0, 1)
GET = GetRequest(1, 2, b"5")


async def test_calls_of_one_connection_keep_their_ids_apart() -> None:
    shard = _Shard()
    client, _ = await connect(shard.server, HELLO)
    calls: list[asyncio.Future[GetResponse]] = []
    for ids in (("a",), ("b", "c"), ()):
        REQUEST_IDS.set(ids)
        calls += [client.call(method(one), GET) for one in ("later", "now", "in_thread")]
    await asyncio.gather(*calls)
    assert sorted(shard.seen) == sorted([("a",), ("b", "c"), ()] * 3)


async def test_lines_of_a_call_name_its_requests(capsys: pytest.CaptureFixture[str]) -> None:
    shard = _Shard(slow_ms=1)
    client, _ = await connect(shard.server, HELLO)
    logs.configure("shard-0", style="json")
    for ids, name in (
        (("bug",), "fail"),
        (("disk",), "refuse"),
        (("slow", "too"), "later"),
        (("quick",), "now"),
    ):
        REQUEST_IDS.set(ids)
        await asyncio.gather(client.call(method(name), GET), return_exceptions=True)
    REQUEST_IDS.set(("unheard",))
    unheard = asyncio.gather(client.call(method("later"), GET), return_exceptions=True)
    client.close("enough")
    await unheard

    # On a busy machine the failing calls are slow ones too.
    lines = [json.loads(line) for line in _lines(capsys)]
    bug, disk = (
        next(line for line in lines if line["event"] == event)
        for event in ("handler failed", "call failed")
    )
    slow = next(line for line in lines if "request_ids" in line)
    assert bug["request_id"] == "bug"
    assert "ValueError: bug" in bug["traceback"]
    assert disk["request_id"] == "disk"
    assert "OSError: why" in disk["traceback"]
    assert (slow["event"], slow["request_ids"]) == ("slow call", ["slow", "too"])
    assert slow["took_ms"] >= 1


async def test_broken_frame_is_nobodys(capsys: pytest.CaptureFixture[str]) -> None:
    """The connection outlives the call that it had before."""
    shard = _Shard()
    client, link = await connect(shard.server, HELLO)
    logs.configure("shard-0", style="json")
    REQUEST_IDS.set(("innocent",))
    await client.call(method("now"), GET)
    unanswered = client.call(method("later"), GET)
    link.near.write(b"\x01\x00\x00\x00\xc1")
    await asyncio.wait([unanswered])
    assert isinstance(unanswered.exception(), Unavailable)
    (record,) = (json.loads(line) for line in _lines(capsys) if "undecodable" in line)
    assert "request_id" not in record
