"""The names in Host and Origin headers."""

from __future__ import annotations

from coordinator.http.security.host_and_origin import host_name, is_same_origin


def test_host_names() -> None:
    for host, name in {
        "Example.org": "example.org",
        "example.org:80": "example.org",
        "127.0.0.1:3000": "127.0.0.1",
        "[::1]:3000": "::1",
        "[::1]": "::1",
        "[::1": "",
    }.items():
        assert host_name(host) == name


def test_same_origin() -> None:
    assert is_same_origin("http://localhost:3000", "LOCALHOST:3000")
    for origin in ("http://localhost", "null", "localhost:3000", "ftp://localhost:3000", ""):
        assert not is_same_origin(origin, "localhost:3000")
