"""The address of a request's client: the one that trusted proxies name; of IPv6 the network.

Behind a proxy all sockets are the proxy's; where the setting `trusted_proxies` names it, the
address is the last one in X-Forwarded-For that is not a trusted proxy's. What stands before that is
the client's own claim. A subscriber has a /64 of IPv6, so that is what stands for a client.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

_SUBSCRIBER_BITS: Final = 64


class TrustedProxies:
    """Finds the address that a request comes from.

    Args:
        networks: addresses or networks (`10.0.0.0/8`) of proxies.

    Raises:
        ValueError: one of them is neither.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [ipaddress.ip_network(one, strict=False) for one in networks]

    def address(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the address of a request's client.

        Args:
            peer: address of its socket.
            forwarded: its X-Forwarded-For headers.
        """
        if not self._networks or not self._has(peer):
            return peer
        address = peer
        for one in reversed(",".join(forwarded).split(",")):
            named = _without_port(one.strip())
            if named is None:
                return address
            address = named
            if not self._has(address):
                return address
        return address

    def _has(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._networks)


def _without_port(text: str) -> str | None:
    """Return the address in `10.0.0.1`, `10.0.0.1:80`, `[::1]:80` or `::1`; None if invalid."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def client_of(address: str) -> str:
    """Return the address that stands for a client: that of its subscriber.

    Args:
        address: of its socket.
    """
    if ":" not in address:
        return address
    packed = ipaddress.IPv6Address(address.partition("%")[0])
    mapped = packed.ipv4_mapped
    if mapped is not None:
        return str(mapped)
    network = ipaddress.IPv6Network((packed, _SUBSCRIBER_BITS), strict=False)
    return str(network)
