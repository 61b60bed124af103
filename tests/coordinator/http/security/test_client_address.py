"""The address of a client: of its subscriber, and as trusted proxies name it."""

from __future__ import annotations

import pytest

from coordinator.http.security.client_address import TrustedProxies, client_of


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("", ""),
    ],
)
def test_subscribers_are_clients(address: str, client: str) -> None:
    assert client_of(address) == client


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("127.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("127.0.0.1", ["198.51.100.1, 192.0.2.7"], "192.0.2.7"),
        ("127.0.0.1", ["198.51.100.1", "192.0.2.7"], "192.0.2.7"),
        ("127.0.0.1", ["198.51.100.1, 192.0.2.7, 10.1.2.3"], "192.0.2.7"),
        ("127.0.0.1", ["10.1.2.3"], "10.1.2.3"),
        ("127.0.0.1", ["[2001:db8::1]:443"], "2001:db8::1"),
        ("127.0.0.1", ["192.0.2.7:5000"], "192.0.2.7"),
        ("::ffff:127.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", ["unknown"], "127.0.0.1"),
        ("127.0.0.1", ["192.0.2.7, nonsense"], "127.0.0.1"),
        ("192.0.2.9", ["192.0.2.7"], "192.0.2.9"),
    ],
)
def test_address_is_what_the_trusted_proxies_say(
    peer: str, forwarded: list[str], address: str
) -> None:
    assert TrustedProxies(["127.0.0.1", "10.0.0.0/8"]).address(peer, forwarded) == address
    assert TrustedProxies([]).address(peer, forwarded) == peer
