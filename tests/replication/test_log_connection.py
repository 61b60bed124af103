"""Connecting to the log ends in time, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from coordinator.replication import log_connection
from coordinator.replication.log_connection import LogConnection
from coordinator.replication.log_errors import LogAway

SECONDS = 1.2
"""For which one server is tried, with the shorter CONNECT_SECONDS of the tests."""


async def test_servers_that_refuse_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_connection, "CONNECT_SECONDS", 0.2)
    assert await gives_up() < SECONDS + 1


async def test_a_refusal_in_the_moment_of_giving_up_does_not_prolong_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_connection, "CONNECT_SECONDS", 0.2)
    begun_at = time.monotonic()

    async def refuse(**_: Any) -> Any:
        left = begun_at + SECONDS - time.monotonic()
        if 0 < left < 0.15:
            await asyncio.sleep(left / 2)
            time.sleep(0.2)  # noqa: ASYNC251 - the process has no core: then all is due at once
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", refuse)
    assert await gives_up() < SECONDS + 2


async def gives_up() -> float:
    """Return after how many seconds a connection is given up."""
    begun_at = time.monotonic()
    connecting = asyncio.ensure_future(LogConnection("nats://127.0.0.1:9").connect())
    await asyncio.wait([connecting], timeout=8)
    seconds = time.monotonic() - begun_at
    is_done = connecting.done()
    connecting.cancel()
    with pytest.raises(LogAway):
        await connecting
    assert is_done
    return seconds
