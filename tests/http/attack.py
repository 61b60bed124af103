"""Malicious clients: run as a program beside a test, `python -m tests.http.attack PORT`.

Opens 1,024 connections of all kinds, prints "ready", and keeps them up until its input ends: what
the service closes is opened again, what it answers is mostly not read.

    idle       connected, says nothing
    head       half of a request's head, a byte more every second
    body       half of a JSON body, a byte more every second
    bulk       half of a line of a bulk load, a byte more every second
    deaf       searches without end on one connection, reads none of the answers
    flood      the same, reads the answers as fast as they come
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
from collections.abc import Callable, Coroutine

from tests.http.raw_requests import get, request

NUM_CONNECTIONS = 1_024
NUM_DEAF = 8
NUM_FLOODS = 4
AT_ONCE = 64
"""Connections that are opened together."""
PIPELINED = 64
"""Searches that a flood has under way on its connection."""

SEARCH = get("/films/search", query="star", facet_fields="tags")
SLOW = {
    "idle": b"",
    "head": b"POST /films/search HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "body": request("POST", "/films/search", b'{"query":"', "Content-Length: 5000"),
    "bulk": request(
        "POST",
        "/films/index",
        b'{"id":1,"a":"',
        "Content-Length: 500000",
        content_type="text/plain",
    ),
}

Client = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


def slow(beginning: bytes) -> Client:
    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        while not reader.at_eof():
            await asyncio.sleep(1.0)
            if beginning:
                writer.write(b"x")
                await writer.drain()

    return run


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    while True:
        writer.write(SEARCH * PIPELINED)
        await writer.drain()


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(SEARCH * PIPELINED)
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        writer.write(SEARCH)


async def keep_up(port: int, client: Client, has_begun: asyncio.Event) -> None:
    """Run a client on a connection, and on the next one when that has ended."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            has_begun.set()
            try:
                await client(reader, writer)
            finally:
                writer.close()
        await asyncio.sleep(0.1)


async def main(port: int) -> None:
    async with asyncio.TaskGroup() as group:
        kinds = [slow(beginning) for beginning in SLOW.values()]
        num_slow = NUM_CONNECTIONS - NUM_DEAF - NUM_FLOODS
        clients = [kinds[i % len(kinds)] for i in range(num_slow)]
        clients += [deaf] * NUM_DEAF + [flood] * NUM_FLOODS
        tasks = []
        for first in range(0, len(clients), AT_ONCE):
            some = clients[first : first + AT_ONCE]
            begun = [asyncio.Event() for _ in some]
            for client, has_begun in zip(some, begun, strict=True):
                tasks.append(group.create_task(keep_up(port, client, has_begun)))
            for has_begun in begun:
                await has_begun.wait()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8_192), hard))
    asyncio.run(main(int(sys.argv[1])))
