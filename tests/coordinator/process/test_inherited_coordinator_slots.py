"""Sockets of several coordinators."""

from __future__ import annotations

import os
import socket

import pytest

from coordinator.process.inherited_coordinator_slots import CoordinatorSlots


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="needs IPv6 on loopback")
def test_a_free_port_is_the_same_for_all_addresses_of_a_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [
        (family, socket.SOCK_STREAM, 6, "", address)
        for family, address in (
            (socket.AF_INET, ("127.0.0.1", 0)),
            (socket.AF_INET6, ("::1", 0, 0, 0)),
        )
    ]
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        slots = CoordinatorSlots("localhost", 0, 2)
    try:
        listeners = [one.listeners for one in slots.slots]
        ports = set()
        for descriptor in [fd for two in listeners for fd in two]:
            with socket.socket(fileno=os.dup(descriptor)) as copy:
                ports.add(copy.getsockname()[1])
    finally:
        slots.close()
    assert [len(two) for two in listeners] == [2, 2]
    assert len(ports) == 1
