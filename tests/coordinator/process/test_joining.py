"""What a host of several says before it starts."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from coordinator.process.joining import _warn_of_unknown_names
from coordinator.settings import Settings


def test_a_misspelled_server_of_the_log_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> list[Any]:
        if host != "a":
            raise socket.gaierror(-2, "Name or service not known")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    with caplog.at_level("WARNING", logger="facetd"):
        asyncio.run(_warn_of_unknown_names(Settings(log_url="nats://a:4222,bb:4222")))

    assert [record.fields["server"] for record in caplog.records] == ["bb"]  # type: ignore[attr-defined]
