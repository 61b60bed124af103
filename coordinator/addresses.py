"""Addresses in settings: read them, say which would be valid, and where a service then is."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import SplitResult, urlsplit

from common.setting_conversion import SettingError

PORT_MAX: Final = 65_535
LOG_SCHEMES: Final = ("nats", "tls")
_ANY_ADDRESS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where to connect to what listens on all addresses; `::` stands for those of IPv6 alone."""


def parse_address(
    text: str, what: str = "a shard address", example: str = "127.0.0.1:7001", port_min: int = 1
) -> tuple[str, int]:
    """Split `host:port` (`[::1]:7000` for IPv6).

    Args:
        text: to split.
        what: it is, for the error.
        example: of a valid one, for the error.
        port_min: 0 if a free port may be asked for.

    Raises:
        SettingError: it is malformed.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_number = port.isascii() and port.isdigit()
    if not _is_host(host) or not is_number or not port_min <= int(port) <= PORT_MAX:
        raise SettingError(f"{what} is HOST:PORT, for example {example}, not {text}")
    return host, int(port)


def log_servers(text: str) -> list[str]:
    """Return the URLs of the log's servers.

    Args:
        text: URLs with commas between; only the first needs a scheme, which is that of all.

    Raises:
        SettingError: one is malformed.
    """
    servers = [server.strip() for server in text.split(",") if server.strip()]
    scheme = servers[0].partition("://")[0] if servers and "://" in servers[0] else ""
    urls = [server if "://" in server else f"{scheme}://{server}" for server in servers]
    for server, url in zip(servers or [text], urls or [""], strict=True):
        parts = _split(url)
        if parts is None or parts.scheme not in LOG_SCHEMES or parts.path not in ("", "/"):
            raise SettingError(
                "--log takes the servers of the log as nats://HOST:PORT or tls://HOST:PORT, with "
                "commas between, for example nats://a:4222,b:4222,c:4222, not "
                f"{without_user(server)!r}"
            )
    return urls


def without_user(address: str) -> str:
    """Return an address without its user and password."""
    scheme, between, rest = address.strip().rpartition("://")
    return f"{scheme}{between}{rest.rpartition('@')[2]}"


def monitor_urls(addresses: Iterable[str]) -> list[str]:
    """Return the URLs at which servers of the log show their configuration.

    Raises:
        SettingError: one is malformed.
    """
    urls = [one if "://" in one else f"http://{one}" for one in addresses]
    for url in urls:
        parts = _split(url)
        if parts is None or parts.scheme not in ("http", "https") or parts.path.strip("/"):
            raise SettingError(
                f"log_monitors takes addresses such as http://a:8222, not {without_user(url)!r}"
            )
    return [url.rstrip("/") for url in urls]


def check_host_names(names: Iterable[str]) -> None:
    """Refuse what can stand in no Host header, apart from its port.

    Raises:
        SettingError: one is not a host name.
    """
    for name in names:
        if not _is_host(name) or "*" in name or name.count(":") == 1:
            raise SettingError(
                "allowed_hosts takes host names without scheme and port, such as search.example, "
                f"not {name!r}"
            )


def check_origins(origins: Iterable[str]) -> None:
    """Refuse what no browser sends as the origin of a page.

    Raises:
        SettingError: one is not an origin.
    """
    for origin in origins:
        if origin in ("*", "null"):
            continue
        parts = _split(origin)
        whole = "" if parts is None else f"{parts.scheme}://{parts.netloc}"
        if origin.lower() != whole.lower() or "@" in whole:
            raise SettingError(
                "allowed_origins takes origins without a path, such as https://shop.example, or "
                f"'*' for any, not {origin!r}"
            )


def local_url(host: str, port: int) -> str:
    """Return the URL, for this machine, of a service that listens on an address."""
    host = _ANY_ADDRESS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on can be reached only from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it has no host, or a port that is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if port == 0 or not _is_host(parts.hostname or ""):
        return None
    return parts


def _is_host(text: str) -> bool:
    """Return whether a text may be a host name or an address: it is resolved only when used."""
    return bool(text) and not any(one.isspace() or one in "/@,?#" for one in text)
