"""Listening on every address of a host."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coordinator.http.listening import listen

LOOPBACK = (socket.AF_INET, ("127.0.0.1", 0))
LOOPBACK_6 = (socket.AF_INET6, ("::1", 0, 0, 0))
ABSENT = (socket.AF_INET, ("203.0.113.1", 0))
"""An address of a network for documentation, which no machine has."""


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@contextmanager
def _resolved(monkeypatch: pytest.MonkeyPatch, *found: tuple[int, object]) -> Iterator[None]:
    """Have every host name mean these addresses."""
    infos = [(family, socket.SOCK_STREAM, 6, "", address) for family, address in found]
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lambda *_, **__: infos)
        yield


@pytest.mark.skipif(not _has_ipv6(), reason="needs IPv6 on loopback")
def test_a_free_port_is_the_same_for_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    with _resolved(monkeypatch, LOOPBACK, LOOPBACK_6):
        first, second = listen("localhost", 0)
    with first, second:
        assert first.getsockname()[:2] == ("127.0.0.1", second.getsockname()[1])
        socket.create_connection(second.getsockname()[:2]).close()


def test_an_address_that_the_machine_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with _resolved(monkeypatch, ABSENT, LOOPBACK):
        (only,) = listen("localhost", 0)
    with only:
        assert only.getsockname()[0] == "127.0.0.1"
    with _resolved(monkeypatch, ABSENT), pytest.raises(OSError) as raised:  # noqa: PT011
        listen("localhost", 0)
    assert raised.value.errno == errno.EADDRNOTAVAIL


def test_a_port_that_is_taken_is_an_error_and_leaves_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            _resolved(monkeypatch, (socket.AF_INET, ("127.0.0.2", 0)), LOOPBACK),
            pytest.raises(OSError, match="in use"),
        ):
            listen("localhost", port)
        socket.create_server(("127.0.0.2", port)).close()  # which is free again
