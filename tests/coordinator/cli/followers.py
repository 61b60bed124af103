"""What tests of `facetd follow` share: statements, followers, and what an index has."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Any, NamedTuple

from coordinator.command_line_client import Client, ClientError
from tests.forking import ForkedCommand
from tests.service import Service, run_command, start_command

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


def set_parameter(url: str, name: str, value: str) -> None:
    """Set a parameter of a PostgreSQL server, and wait until all of its processes have it.

    A new session has what the server's first process has, which told the others before it began
    the session. A checkpoint takes the checkpointer past that.
    """
    execute(url, f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()")
    until(lambda: ask(url, f"SELECT current_setting('{name}')") == value)
    execute(url, "CHECKPOINT")


class Follower(NamedTuple):
    """A `facetd follow` that runs.

    Attributes:
        process: its process.
        messages: what it says.
    """

    process: subprocess.Popen[bytes] | ForkedCommand
    messages: IO[str]

    def until_said(self, text: str) -> str:
        """Wait until it says something; return that line and those before it."""
        said = ""
        while text not in said:
            line = self.messages.readline()
            assert line, f"it ended: {said}"
            said += line
        return said


def follow_words(service: Service, url: str, table: str, *arguments: str) -> list[str]:
    """Return the words of a `facetd follow`."""
    return [
        *("follow", url, "--table", table, "--url", f"http://127.0.0.1:{service.port}"),
        *("--interval", "0.05", *arguments),
    ]


def impatient(words: Sequence[str], waits: Mapping[str, float]) -> tuple[Sequence[str], str]:
    """Return words, and the module that runs them, for shorter waits than a follower's own."""
    if not waits:
        return words, "coordinator"
    return [json.dumps(dict(waits)), *words], "tests.coordinator.cli.impatient_follower"


def run_follow(
    service: Service,
    url: str,
    table: str,
    *arguments: str,
    waits: Mapping[str, float] = MappingProxyType({}),
    seconds: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Follow to the end of the log, within this many seconds."""
    words, module = impatient(follow_words(service, url, table, "--once", *arguments), waits)
    done = run_command(*words, module=module, timeout=seconds)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
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
) -> Iterator[Follower]:
    """Run a follower, and kill it in the end."""
    words, module = impatient(follow_words(service, url, table, *arguments), waits)
    ours, theirs = os.pipe()
    with open(ours) as messages:
        try:
            process = start_command(*words, errors=theirs, module=module)
        finally:
            os.close(theirs)
        try:
            yield Follower(process, messages)
        finally:
            process.kill()
            process.wait()


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
