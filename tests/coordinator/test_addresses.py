"""Addresses in settings: which are valid, and what is said of others."""

from __future__ import annotations

import contextlib
import re
import socket
from typing import Any

import pytest

from common.setting_conversion import SettingError
from coordinator.addresses import (
    is_loopback,
    local_url,
    log_servers,
    monitor_urls,
    parse_address,
    without_user,
)
from coordinator.http.listening import listen
from coordinator.settings import load
from facetd.calls import address_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [("127.0.0.1:7001", ("127.0.0.1", 7001)), ("[::1]:80", ("::1", 80)), ("a.b:1", ("a.b", 1))],
)
def test_addresses_are_split(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:0", "host:99999"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="HOST:PORT"):
        parse_address(text)


def test_the_first_server_of_the_log_gives_the_others_its_scheme() -> None:
    assert log_servers("nats://a:4222, b:4222,c") == ["nats://a:4222", "nats://b:4222", "nats://c"]
    assert log_servers("tls://a,nats://b:1") == ["tls://a", "nats://b:1"]
    assert log_servers("nats://user:p@ss@[::1]:4222/") == ["nats://user:p@ss@[::1]:4222/"]


def test_passwords_are_not_shown() -> None:
    assert without_user("nats://user:p@ss@a:4222") == "nats://a:4222"
    assert without_user(" b:4222") == "b:4222"
    with pytest.raises(SettingError) as caught:
        log_servers("nats://user:secret@a:port")
    assert "secret" not in str(caught.value)
    assert "'nats://a:port'" in str(caught.value)


def test_monitors_of_the_log_are_reached_over_http() -> None:
    assert monitor_urls(["a:8222", "https://b:8222/"]) == ["http://a:8222", "https://b:8222"]


LOG = "--log takes the servers of the log as nats://HOST:PORT or tls://HOST:PORT"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"log_url": "a"}, LOG),
        ({"log_url": "a:4222,b:4222"}, LOG),
        ({"log_url": "http://a:4222"}, LOG),
        ({"log_url": "nats://"}, LOG),
        ({"log_url": "nats://a:4222,b:4222x"}, "not 'b:4222x'"),
        ({"log_url": "nats://a:4222/path"}, LOG),
        ({"log_url": ","}, LOG),
        ({"log_monitors": ("nats://a:8222",)}, "log_monitors takes addresses such as"),
        ({"log_monitors": ("http://a:monitor",)}, "such as http://a:8222, not 'http://a:monitor'"),
        ({"shard_addresses": ("a",)}, "a shard address is HOST:PORT, for example 127.0.0.1:7001"),
        ({"rpc_listen": "3001"}, "rpc_listen is HOST:PORT, for example 10.0.0.1:3001, not 3001"),
        ({"rpc_advertise": "a:0"}, "rpc_advertise is HOST:PORT"),
        ({"allowed_hosts": ("a.org:3000",)}, "host names without scheme and port"),
        ({"allowed_hosts": ("https://a.org",)}, "host names without scheme and port"),
        ({"allowed_hosts": ("*",)}, "host names without scheme and port"),
        ({"allowed_origins": ("https://a.org/",)}, "allowed_origins takes origins without a path"),
        ({"allowed_origins": ("https://a.org#b",)}, "allowed_origins takes origins without a path"),
        ({"allowed_origins": ("a.org",)}, "such as https://shop.example"),
    ],
)
def test_a_malformed_address_is_refused_before_anything_starts(
    flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        load(flags, {})


def test_addresses_of_every_kind_are_accepted() -> None:
    settings, _ = load(
        {
            "allowed_hosts": ("a.org", "::1"),
            "allowed_origins": ("*", "null", "https://a.org:8443", "capacitor://localhost"),
            "rpc_listen": "[::1]:0",
        },
        {},
    )
    assert settings.rpc_address == ("::1", 0)


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.1", "example.org", "")))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:3000"),
        ("search.example", "http://search.example:3000"),
        ("::1", "http://[::1]:3000"),
        ("0.0.0.0", "http://127.0.0.1:3000"),
    ],
)
def test_a_service_is_reached_where_it_listens(host: str, url: str) -> None:
    assert local_url(host, 3000) == url


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_what_listens_on_all_addresses_is_reached_from_here(host: str) -> None:
    with contextlib.ExitStack() as closing:
        try:
            first, *_ = [closing.enter_context(one) for one in listen(host, 0)]
        except OSError:
            pytest.skip("needs IPv6")
        address = address_of(local_url(host, first.getsockname()[1]))
        socket.create_connection((address.host, address.port), timeout=10).close()
