"""What is said of an address on which nothing can listen."""

from __future__ import annotations

import errno

import pytest

from coordinator.process.port_conflict import PortHolder, port_taken
from coordinator.settings import Settings


@pytest.mark.parametrize(
    ("number", "holder", "message"),
    [
        (
            errno.EADDRINUSE,
            PortHolder("nginx (process 8)", False),
            "Address already in use by nginx (process 8); choose another --port or --host",
        ),
        (errno.EACCES, None, "Permission denied; choose another --port or --host; ports below "),
    ],
)
def test_a_port_says_what_to_do(number: int, holder: PortHolder | None, message: str) -> None:
    found = port_taken(Settings(port=80), OSError(number, "of the library"), holder)
    assert found.startswith(f"cannot listen on 127.0.0.1:80: {message}")
    assert ("proxy" in found) == (number == errno.EACCES)
