"""RPC servers for tests: one with a handler of each kind, one that records writes."""

from __future__ import annotations

import asyncio
from types import NoneType
from typing import cast

import msgspec

from common.deadline import CALL_DEADLINE, Deadline
from common.errors import NotFound
from common.protocol.authentication import Authenticator
from common.protocol.messages import PROTOCOL_VERSION, GetRequest, GetResponse, Hello, Welcome
from common.protocol.methods import GET, Method
from common.protocol.server import Handler, RpcServer
from tests.transport import Link

HELLO = Hello(PROTOCOL_VERSION, "secret", 0, 2)
GET_LATER = Method("get_later", GetRequest, GetResponse)
TAKE = Method("take", GetRequest, GetResponse)
WAIT = Method("wait", NoneType, GetResponse)
READ_LONG = Method("read_long", GetRequest, GetResponse, can_be_given_up=True)
REFUSE = Method("refuse", NoneType, NoneType)
FAIL = Method("fail", NoneType, GetResponse)
WRONG = Method("wrong", NoneType, GetResponse)
DANCE = Method("dance", NoneType, NoneType)
NOTE = Method("note", NoneType, NoneType)


class ScriptedServer:
    """A server with a handler of each sort."""

    def __init__(self) -> None:
        self.gate: asyncio.Future[GetResponse] = asyncio.get_running_loop().create_future()
        self.reading: dict[bytes, Deadline] = {}
        self.server = RpcServer(
            (
                Handler(GET, lambda request: GetResponse(request.id)),
                Handler(GET_LATER, self.get_later),
                Handler(WAIT, lambda _: self.gate),
                Handler(READ_LONG, self.read_long),
                Handler(REFUSE, self.refuse),
                Handler(FAIL, lambda _: GetResponse(b"%d" % (1 // 0))),
                Handler(WRONG, lambda _: cast(GetResponse, object())),
            ),
            Authenticator(
                secret="secret", shard=0, num_shards=2, make_welcome=lambda: Welcome(4711, 12)
            ),
        )

    async def get_later(self, request: GetRequest) -> GetResponse:
        await asyncio.sleep(0)
        return GetResponse(request.id)

    async def read_long(self, request: GetRequest) -> GetResponse:
        """Go on until the gate opens."""
        self.reading[request.id] = CALL_DEADLINE.get()
        try:
            await asyncio.wait([self.gate])
            return GetResponse(request.id)
        finally:
            del self.reading[request.id]

    def refuse(self, _: None) -> None:
        raise NotFound("no such item", code="item_not_found", param="id", details={"id": 5})


class RecordingServer:
    """A server that notes what it gets, in order."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.server = RpcServer(
            (
                Handler(TAKE, self.take, self.attach),
                Handler(GET, lambda request: GetResponse(request.id)),
            ),
            Authenticator(
                secret="secret", shard=0, num_shards=2, make_welcome=lambda: Welcome(7, 0)
            ),
        )

    @staticmethod
    def attach(request: GetRequest, attachment: memoryview) -> GetRequest:
        return msgspec.structs.replace(request, id=request.id + bytes(attachment))

    def take(self, request: GetRequest) -> GetResponse:
        self.taken.append(request.id)
        return GetResponse(request.id)


def tap(link: Link) -> list[bytes]:
    """Collect what the client sends."""
    sent: list[bytes] = []
    write = link.near.write

    def write_and_collect(data: bytes | bytearray | memoryview) -> None:
        sent.append(bytes(data))
        write(data)

    link.near.write = write_and_collect  # type: ignore[method-assign]
    return sent


def get(text: bytes) -> GetRequest:
    return GetRequest(1, 2, text)
