"""An HTTP client that sends any bytes, and reads what comes back without forgiving anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, NamedTuple

READ_SECONDS = 20.0


class Reply(NamedTuple):
    """One response."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code."""
        code: str = self.json["error"]["code"]
        return code


class RawConnection:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> RawConnection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 26))

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def send(self, data: bytes, *, half_closes: bool = False) -> None:
        # A failure means: answered before it was read to the end. The answer is there.
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            if half_closes:
                self.writer.write_eof()
            await self.writer.drain()

    async def read(self, *, is_head: bool = False) -> Reply:
        """Read one final response."""
        async with asyncio.timeout(READ_SECONDS):
            while True:
                head = await self.reader.readuntil(b"\r\n\r\n")
                status_line, *lines = head.decode("latin-1").split("\r\n")[:-2]
                version, status, _ = status_line.split(" ", 2)
                assert version == "HTTP/1.1"
                headers = {}
                for line in lines:
                    name, _, value = line.partition(": ")
                    headers[name.lower()] = value
                if status != "100":
                    break
            return Reply(int(status), headers, await self._body(int(status), headers, is_head))

    async def _body(self, status: int, headers: dict[str, str], is_head: bool) -> bytes:
        if is_head or status in (204, 304):
            return b""
        if headers.get("transfer-encoding") != "chunked":
            return await self.reader.readexactly(int(headers["content-length"]))
        body = b""
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            chunk = await self.reader.readexactly(size + 2)
            assert chunk.endswith(b"\r\n")
            if size == 0:
                return body
            body += chunk[:-2]


async def exchange(port: int, data: bytes, *, half_closes: bool = False) -> Reply:
    """Send one request on a connection of its own."""
    connection = await RawConnection.open(port)
    try:
        await connection.send(data, half_closes=half_closes)
        return await connection.read(is_head=data.startswith(b"HEAD"))
    finally:
        await connection.close()
