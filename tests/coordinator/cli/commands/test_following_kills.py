"""`facetd follow` while the database, the service, the follower and its slot fail in any order."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from coordinator.command_line_client import Client
from tests.coordinator.cli.followers import (
    execute,
    follow_words,
    items_of,
    until,
)
from tests.coordinator.cli.postgres import PostgresServer, running_postgres
from tests.forking import ForkedCommand
from tests.service import Service, start_command

ROUNDS = 9
"""Each fault once."""
ROUNDS_LONG = 120
NUM_ROWS = 3_000
FETCH = "SELECT id, amount, note FROM stock"


def _item(row: tuple[Any, ...]) -> dict[str, Any]:
    members = zip(("id", "amount", "note"), row, strict=True)
    return {name: value for name, value in members if value is not None}


def _rows(url: str) -> dict[int, dict[str, Any]]:
    import psycopg

    with psycopg.connect(url) as connection:
        return {row[0]: _item(row) for row in connection.execute(FETCH.encode())}


class _Writer:
    """Changes the table in any way until it is paused; outlives the database."""

    def __init__(self, url: str, generator: random.Random) -> None:
        self._url = url
        self._generator = generator
        self._may_run = threading.Event()
        self._ends = threading.Event()
        self._is_paused = threading.Event()
        self._next_id = NUM_ROWS + 1
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._may_run.set()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._may_run.set()
        self._thread.join()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Wait until no transaction is open, and begin none."""
        self._is_paused.clear()
        self._may_run.clear()
        assert self._is_paused.wait(30)
        yield
        self._may_run.set()

    def _run(self) -> None:
        import psycopg

        while not self._ends.is_set():
            with (
                contextlib.suppress(psycopg.OperationalError),
                psycopg.connect(self._url, autocommit=True) as connection,
            ):
                while not self._ends.is_set():
                    if not self._may_run.is_set():
                        self._is_paused.set()
                        self._may_run.wait()
                    with connection.transaction():
                        for _ in range(self._generator.choice((1, 1, 1, 5))):
                            self._change(connection)
                    time.sleep(0.003)
            time.sleep(0.05)

    def _change(self, connection: Any) -> None:
        kind, id = self._generator.random(), self._generator.randrange(1, self._next_id)
        if kind < 0.25:
            connection.execute(
                "INSERT INTO stock VALUES (%s, 1, repeat('new', %s))",
                (self._next_id, self._generator.choice((1, 5000))),
            )
            self._next_id += 1
        elif kind < 0.4:
            connection.execute("DELETE FROM stock WHERE id = %s", (id,))
        elif kind < 0.55:  # another key
            connection.execute("UPDATE stock SET id = %s WHERE id = %s", (self._next_id, id))
            self._next_id += 1
        elif kind < 0.96:  # a long note is not in the log
            connection.execute("UPDATE stock SET amount = amount + 1 WHERE id = %s", (id,))
        elif kind < 0.998:
            connection.execute(
                "UPDATE stock SET amount = amount + 1 WHERE id %% 20 = %s", (id % 20,)
            )
        else:
            connection.execute("TRUNCATE stock")
            connection.execute(
                "INSERT INTO stock SELECT i, 7, NULL FROM generate_series(%s::int, %s) AS i",
                (self._next_id, self._next_id + NUM_ROWS),
            )
            self._next_id += NUM_ROWS + 1


class _KeptFollower:
    """A follower that is started again whenever it ends, as systemd would."""

    def __init__(self, words: list[str], said: Path) -> None:
        self._words = words
        self.said = said
        self._is_ending = threading.Event()
        self._process: subprocess.Popen[bytes] | ForkedCommand | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_ending.set()
        self.kill()
        self._thread.join()

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()

    def _run(self) -> None:
        while not self._is_ending.is_set():
            with self.said.open("ab") as said:
                self._process = start_command(*self._words, errors=said.fileno())
                if self._is_ending.is_set():
                    self._process.kill()
                status = self._process.wait()
                said.write(f"--- ended with {status}\n".encode())
            self._is_ending.wait(0.2)


@pytest.mark.parametrize(
    "num_rounds",
    [ROUNDS, pytest.param(ROUNDS_LONG, marks=(pytest.mark.long, pytest.mark.timeout(3600)))],
)
def test_whatever_fails_the_index_becomes_the_table(tmp_path: Path, num_rounds: int) -> None:
    """Each round, something fails while rows change; then the writer rests, and both are equal."""
    seed = int(os.environ.get("FACETD_TEST_SEED", "7"))
    generator = random.Random(seed)
    with (
        running_postgres(tmp_path / "pg", "wal_level=logical") as postgres,
        Service(tmp_path / "data", 2) as service,
    ):
        client = Client(f"http://127.0.0.1:{service.port}")
        url = postgres.url
        execute(
            url,
            "CREATE TABLE stock (id int PRIMARY KEY, amount int, note text)",
            f"INSERT INTO stock SELECT i, 0, 'first' FROM generate_series(1, {NUM_ROWS}) AS i",
        )
        words = follow_words(service, url, "stock")
        with (
            _Writer(url, generator) as writer,
            _KeptFollower(words, tmp_path / "said") as follower,
        ):
            faults = _faults(postgres, service, follower, generator)
            order = [*faults] * (num_rounds // len(faults) + 1)
            generator.shuffle(order)
            for number, name in enumerate(order[:num_rounds]):
                time.sleep(generator.uniform(0.0, 1.5))
                faults[name]()
                if generator.random() < 0.3:  # and another one, before the first is over
                    follower.kill()
                time.sleep(generator.uniform(0.0, 0.5))
                with writer.paused():
                    rows = _rows(url)
                    _until_equal(client, rows, f"seed {seed}, {number}: {name}", follower.said)


def _until_equal(client: Client, rows: dict[int, dict[str, Any]], when: str, said: Path) -> None:
    try:
        until(lambda: items_of(client, "stock") == rows)
    except AssertionError:
        items = items_of(client, "stock")
        wrong = [id for id in rows.keys() | items.keys() if rows.get(id) != items.get(id)]
        raise AssertionError(
            f"{when}: {len(wrong)} rows differ, such as {rows.get(wrong[0])} and "
            f"{items.get(wrong[0])}\n{said.read_text()[-3000:]}"
        ) from None


def _faults(
    postgres: PostgresServer,
    service: Service,
    follower: _KeptFollower,
    generator: random.Random,
) -> dict[str, Callable[[], None]]:
    """Return what can fail, by name."""
    url = postgres.url

    def restart_postgres(mode: str) -> None:
        postgres.stop(mode)
        time.sleep(generator.uniform(0.0, 1.0))
        postgres.start()

    def hang() -> None:
        postgres.send_signal(signal.SIGSTOP)
        time.sleep(generator.uniform(0.5, 2.0))
        postgres.send_signal(signal.SIGCONT)

    def kill(command: str) -> None:
        for pid in service.pids_of(command)[:1]:
            os.kill(pid, signal.SIGKILL)

    def drop_slot() -> None:
        execute(
            url,
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots",
            "SELECT pg_sleep(0.05)",
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active",
        )

    return {
        "follower killed": follower.kill,
        "PostgreSQL restarted": lambda: restart_postgres("fast"),
        "PostgreSQL crashed": lambda: restart_postgres("immediate"),
        "PostgreSQL hung": hang,
        "shard killed": lambda: kill("shard"),
        "coordinator killed": lambda: kill("coordinator"),
        "service killed": service.restart,
        "slot removed": drop_slot,
        "publication removed": lambda: execute(url, "DROP PUBLICATION IF EXISTS facetd_stock"),
    }
