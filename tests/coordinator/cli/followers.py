"""What tests of `facetd follow` share: statements, followers, and what an index has."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from coordinator.command_line_client import Client, ClientError
from tests.service import ROOT, Service

WAIT_SECONDS = 60.0


def execute(url: str, *statements: str) -> None:
    """Run statements, each in its own transaction."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def ask(url: str, query: str) -> Any:
    """Return the first value of the first row; None if there is no row."""
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
        return None if row is None else row[0]


def follow_command(
    service: Service,
    url: str,
    table: str,
    *arguments: str,
    waits: Mapping[str, float] = MappingProxyType({}),
) -> list[str]:
    """Return the words of a `facetd follow`, which may wait for shorter than it does by itself."""
    program = (
        ("tests.coordinator.cli.impatient_follower", json.dumps(dict(waits)))
        if waits
        else ("coordinator",)
    )
    return [
        *(sys.executable, "-m", *program, "follow", url, "--table", table),
        *("--url", f"http://127.0.0.1:{service.port}", "--interval", "0.05", *arguments),
    ]


def run_follow(
    service: Service, url: str, table: str, *arguments: str, seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Follow to the end of the log, within this many seconds."""
    return subprocess.run(
        follow_command(service, url, table, "--once", *arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def follow_once(service: Service, url: str, table: str, *arguments: str) -> str:
    """Follow to the end of the log; return what was said."""
    done = run_follow(service, url, table, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stderr


@contextlib.contextmanager
def following(
    service: Service,
    url: str,
    table: str,
    *arguments: str,
    waits: Mapping[str, float] = MappingProxyType({}),
) -> Iterator[subprocess.Popen[str]]:
    """Run a follower, and kill it in the end."""
    command = follow_command(service, url, table, *arguments, waits=waits)
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def items_of(client: Client, index: str) -> dict[Any, Any]:
    """Return all items by id; none is there twice."""
    lines = b"".join(client.stream(f"/{index}/items")).splitlines()
    items = [json.loads(line) for line in lines]
    found = {item["id"]: item for item in items}
    assert len(found) == len(items), "an item is there twice"
    return found


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; errors of the service count as no."""
    give_up_at = time.monotonic() + WAIT_SECONDS
    while True:
        with contextlib.suppress(ClientError):
            if is_so():
                return
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
