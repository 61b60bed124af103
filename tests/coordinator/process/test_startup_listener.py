"""The port answers from the start, and the coordinator takes it over without a gap."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import time
from pathlib import Path

import pytest

from coordinator.http.security.cors import AllowedOrigins
from coordinator.process.startup_listener import CONNECTIONS_MAX, StartupListener, request_takeover
from tests.service import Service, free_port

NO_ORIGINS = AllowedOrigins(())


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_every_request_is_answered_until_the_bell_rings() -> None:
    startup_listener, port = StartupListener(NO_ORIGINS), free_port()
    startup_listener.begin("127.0.0.1", port)
    head, _, body = (await _ask(port, b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1" in head
    error = json.loads(body)["error"]
    assert (error["code"], error["status"]) == ("starting", 503)
    assert error["progress"]["seconds"] >= 0
    page = await _ask(port, b"GET /dashboard HTTP/1.1\r\nAccept: text/html\r\n\r\n")
    assert b'http-equiv="refresh"' in page
    assert (await _ask(port, b"HEAD / HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")
    assert await _ask(port, b"x" * 70_000) == b"", "no request"

    request_takeover(os.dup(startup_listener.takeover_end))
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            await _ask(port, b"GET / HTTP/1.1\r\n\r\n")
        except ConnectionRefusedError:
            break
        except ConnectionResetError:
            pass  # it was in the queue of the listener that ended
    with pytest.raises(ConnectionRefusedError):
        await _ask(port, b"GET / HTTP/1.1\r\n\r\n")
    assert startup_listener.takeover_end == -1
    startup_listener.end()


async def test_who_is_accepted_when_the_bell_rings_is_answered() -> None:
    loop = asyncio.get_running_loop()
    startup_listener, port = StartupListener(NO_ORIGINS), free_port()
    startup_listener.begin("127.0.0.1", port)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /_ready HTTP/1.1\r\n\r\n")
        request_takeover(os.dup(startup_listener.takeover_end))  # the loop sees both at once
        client.setblocking(False)
        async with asyncio.timeout(20):
            assert (await loop.sock_recv(client, 1_000)).startswith(b"HTTP/1.1 503 ")
    assert startup_listener.takeover_end == -1


async def test_pages_of_allowed_origins_learn_that_the_service_starts() -> None:
    startup_listener = StartupListener(AllowedOrigins(["https://Shop.example"]))
    port = free_port()
    startup_listener.begin("127.0.0.1", port)

    async def head(first: str, origin: str, more: str = "") -> bytes:
        asked = f"{first} /films/search HTTP/1.1\r\nHost: a\r\norigin: {origin}\r\n{more}\r\n"
        return (await _ask(port, asked.encode())).partition(b"\r\n\r\n")[0] + b"\r\n"

    wanted = "Access-Control-Request-Method: POST\r\n"
    shop = "https://shop.example"
    asked = await head("POST", shop)
    assert asked.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nAccess-Control-Allow-Origin: https://shop.example\r\n" in asked
    assert b"Retry-After\r\n" in asked, "exposed"
    preflight = await head("OPTIONS", shop, wanted)
    assert preflight.startswith(b"HTTP/1.1 204 ")
    assert b"Access-Control-Allow-Headers: Content-Type" in preflight
    for refused in (await head("POST", "https://x"), await head("OPTIONS", "https://x", wanted)):
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"Access-Control" not in refused
    assert (await head("OPTIONS", shop)).startswith(b"HTTP/1.1 503 ")
    startup_listener.end()


async def test_connections_that_say_nothing_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.process.startup_listener.READ_SECONDS", 600.0)
    startup_listener, port = StartupListener(NO_ORIGINS), free_port()
    startup_listener.begin("127.0.0.1", port)
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
    try:
        async with asyncio.timeout(20):
            assert await _ask(port, b"") == b"", "one more is closed at once"
    finally:
        for _, writer in held:
            writer.close()
    for reader, _ in held:
        await reader.read()
    assert (await _ask(port, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
    startup_listener.end()


async def test_an_address_that_cannot_be_had_is_an_error() -> None:
    startup_listener = StartupListener(NO_ORIGINS)
    with pytest.raises(OSError, match=r"203\.0\.113\.1"):
        startup_listener.begin("203.0.113.1", 1)
    startup_listener.end()
    startup_listener.end()


def test_a_service_answers_its_port_before_it_is_ready(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", 1, is_forked=False)
    service.start(wait=False)
    try:
        statuses = []
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
            try:
                connection.request("GET", "/_ready")
                answer = connection.getresponse()
                statuses.append(answer.status)
                document = json.loads(answer.read())
            except (OSError, http.client.HTTPException):
                continue
            finally:
                connection.close()
            if answer.status == 200:
                break
            assert document["error"]["code"] == "starting"
            assert "progress" in document["error"]
        assert statuses[-1] == 200
        assert statuses[0] == 503, "it answered before it could serve"
        assert service.terminate() == 0
    finally:
        service.kill_all()
