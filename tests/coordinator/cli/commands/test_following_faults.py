"""`facetd follow` and what administrators do: removed slots, other passwords, servers that hang."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from coordinator.command_line_client import Client
from tests.coordinator.cli.followers import (
    ask,
    execute,
    follow_once,
    following,
    items_of,
    run_follow,
    set_parameter,
    until,
)
from tests.coordinator.cli.postgres import PostgresServer, running_postgres
from tests.service import Service, run_command

_STATE = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'facetd_{}'"


def test_what_an_administrator_removes_is_made_again(
    service: Service, client: Client, url: str
) -> None:
    execute(url, "CREATE TABLE kept (id int PRIMARY KEY, n int)", "INSERT INTO kept VALUES (1, 0)")

    def follows(number: int) -> bool:
        return items_of(client, "kept") == {1: {"id": 1, "n": number}}

    with following(service, url, "kept") as follower:
        until(lambda: follows(0))
        execute(url, "DROP PUBLICATION facetd_kept", "UPDATE kept SET n = 1")
        until(lambda: follows(1))
        until(lambda: _is_slot_removed(url, "facetd_kept"))
        execute(url, "UPDATE kept SET n = 2")
        until(lambda: follows(2))
        assert follower.process.poll() is None
    # Nor does it matter while no follower runs: a log older than its publication cannot be read.
    execute(url, "DROP PUBLICATION facetd_kept", "UPDATE kept SET n = 3")
    assert "copying the table" in follow_once(
        service, url, "kept"
    )  # again, or what was interrupted
    assert follows(3)
    assert " 0 changes" in follow_once(service, url, "kept")


def _is_slot_removed(url: str, slot: str) -> bool:
    """Remove a slot, unless its reader is reading."""
    import psycopg

    try:
        execute(url, f"SELECT pg_drop_replication_slot('{slot}')")
    except psycopg.errors.ObjectInUse:
        return False
    return True


def test_the_slot_of_another_database_is_left_alone(service: Service, url: str) -> None:
    execute(url, "CREATE DATABASE second", "CREATE TABLE shared (id int PRIMARY KEY)")
    second = url.replace("/postgres?", "/second?")
    execute(second, "CREATE TABLE shared (id int PRIMARY KEY)")
    follow_once(service, url, "shared", "--index", "first", "--slot", "shared")
    for arguments in ((), ("--drop-slot",)):
        said = _refusal(
            service, second, "shared", "--index", "other", "--slot", "shared", *arguments
        )
        assert "a slot 'shared' already, of database postgres" in said
    assert " 0 changes" in follow_once(
        service, url, "shared", "--index", "first", "--slot", "shared"
    )


def _refusal(service: Service, url: str, table: str, *arguments: str) -> str:
    """Follow in vain; return what was said."""
    done = run_follow(service, url, table, *arguments, seconds=60)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_server_without_a_logical_log_is_refused(service: Service, tmp_path: Path) -> None:
    with running_postgres(tmp_path, "wal_level=replica") as postgres:
        execute(postgres.url, "CREATE TABLE plain (id int PRIMARY KEY)")
        said = _refusal(service, postgres.url, "plain")
        assert "wal_level = replica" in said
        assert "ALTER SYSTEM SET wal_level = logical" in said


def test_timeouts_for_the_requests_of_a_page_do_not_end_it(
    service: Service, client: Client, url: str
) -> None:
    execute(url, "CREATE TABLE long (id int PRIMARY KEY)", "INSERT INTO long VALUES (1)")
    query = "SELECT id FROM long, (SELECT pg_sleep(0.5)) AS pause"
    with_timeout = f"{url}&options=-cstatement_timeout%3D250"
    follow_once(service, with_timeout, "long", "--query", query)
    execute(url, "INSERT INTO long VALUES (2)")
    follow_once(service, with_timeout, "long", "--query", query)
    assert set(items_of(client, "long")) == {1, 2}


def test_a_query_that_fails_for_a_while_is_tried_again(
    service: Service, client: Client, url: str
) -> None:
    execute(
        url,
        "CREATE TABLE film (id int PRIMARY KEY, year int)",
        "CREATE TABLE title (id int, title text)",
        "INSERT INTO film VALUES (1, 1922)",
        "INSERT INTO title VALUES (1, 'Nosferatu'), (2, 'Metropolis')",
    )
    query = "SELECT id, title, year FROM film JOIN title USING (id)"
    with following(service, url, "film", "--query", query) as follower:
        until(lambda: len(items_of(client, "film")) == 1)
        execute(url, "ALTER TABLE title RENAME TO titles", "INSERT INTO film VALUES (2, 1927)")
        said = follower.until_said("trying again")
        assert 'relation "title" does not exist' in said
        time.sleep(2)  # several attempts, of which it says no more
        execute(url, "ALTER TABLE titles RENAME TO title")
        until(lambda: items_of(client, "film").get(2, {}).get("title") == "Metropolis")
        follower.process.terminate()
        assert follower.messages.read().count("trying again") == 0
    refused = "ALTER TABLE title RENAME TO titles"
    execute(url, refused, "INSERT INTO film VALUES (3, 1931)")
    assert 'relation "title" does not exist' in _refusal(service, url, "film", "--query", query)


def test_a_slot_that_lost_its_log_is_made_again(service: Service, client: Client, url: str) -> None:
    execute(url, "CREATE TABLE lost (id int PRIMARY KEY)", "INSERT INTO lost VALUES (1)")
    follow_once(service, url, "lost")
    set_parameter(url, "max_slot_wal_keep_size", "1MB")
    try:
        for id in range(2, 7):
            execute(url, f"INSERT INTO lost VALUES ({id})", "SELECT pg_switch_wal()")
        execute(url, "CHECKPOINT")
        assert ask(url, _STATE.format("lost")) == "lost"
    finally:
        execute(url, "ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    assert "the slot is gone" in follow_once(service, url, "lost")
    assert set(items_of(client, "lost")) == set(range(1, 7))


def test_a_follower_that_was_running_waits_for_its_lock(
    service: Service, client: Client, url: str
) -> None:
    """A server notices late that a session has vanished, and keeps its lock until then."""
    import psycopg

    execute(url, "CREATE TABLE locked (id int PRIMARY KEY)", "INSERT INTO locked VALUES (1)")
    with (
        following(service, url, "locked", waits={"LOCK_SECONDS": 1}) as follower,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        until(lambda: set(items_of(client, "locked")) == {1})
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'facetd follow facetd_locked'"
        )
        connection.execute("SELECT pg_advisory_lock(hashtext('facetd facetd_locked'))")
        connection.execute("INSERT INTO locked VALUES (2)")
        follower.until_said("another facetd follow")
        connection.close()
        until(lambda: set(items_of(client, "locked")) == {1, 2})


def test_a_database_of_any_bytes_may_have_texts(service: Service, client: Client, url: str) -> None:
    execute(url, "CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    anything = url.replace("/postgres?", "/bytes?")
    execute(
        anything,
        "CREATE TABLE named (name text PRIMARY KEY)",
        "INSERT INTO named VALUES (E'caf\\303\\251')",
    )
    follow_once(service, anything, "named")
    assert set(items_of(client, "named")) == {"café"}
    execute(anything, "INSERT INTO named VALUES (E'th\\351')")
    reason = 'invalid byte sequence for encoding "UTF8": 0xe9'
    assert reason in _refusal(service, anything, "named")
    loaded = run_command(
        *("load", anything, "--table", "named", "--index", "none"),
        *("--url", f"http://127.0.0.1:{service.port}"),
    )
    assert reason in loaded.stderr.decode()


def test_a_password_that_changes_is_waited_for(
    service: Service, client: Client, postgres: PostgresServer
) -> None:
    url = postgres.url
    execute(
        url,
        "CREATE ROLE clerk LOGIN SUPERUSER PASSWORD 'former'",
        "CREATE TABLE ledger (id int PRIMARY KEY)",
        "INSERT INTO ledger VALUES (1)",
    )
    postgres.require_password("clerk")
    with following(service, url.replace("postgres@", "clerk:former@"), "ledger") as follower:
        until(lambda: set(items_of(client, "ledger")) == {1})
        execute(
            url,
            "ALTER ROLE clerk PASSWORD 'next'",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'clerk'",
            "INSERT INTO ledger VALUES (2)",
        )
        assert "former" not in follower.until_said("password authentication failed")
        execute(url, "ALTER ROLE clerk PASSWORD 'former'")
        until(lambda: set(items_of(client, "ledger")) == {1, 2})


def test_a_follower_of_a_server_that_hangs_ends_at_the_second_signal(
    service: Service, client: Client, postgres: PostgresServer
) -> None:
    execute(postgres.url, "CREATE TABLE stuck (id int PRIMARY KEY)", "INSERT INTO stuck VALUES (1)")
    with following(service, postgres.url, "stuck") as follower:
        until(lambda: set(items_of(client, "stuck")) == {1})
        postgres.send_signal(signal.SIGSTOP)
        try:
            time.sleep(0.5)  # ten times the interval: it waits for an answer
            follower.process.terminate()
            with pytest.raises(subprocess.TimeoutExpired):
                follower.process.wait(1)
            follower.process.terminate()
            assert follower.process.wait(10) == -signal.SIGTERM
        finally:
            postgres.send_signal(signal.SIGCONT)
    execute(postgres.url, "INSERT INTO stuck VALUES (2)")
    follow_once(service, postgres.url, "stuck")
    assert set(items_of(client, "stuck")) == {1, 2}


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL", "USING INDEX toasted_by_number"])
def test_keys_and_unchanged_long_values_are_known_by_any_replica_identity(
    service: Service, client: Client, url: str, identity: str
) -> None:
    """A long value that an update leaves as it was is not in the log."""
    index = f"toasted-{identity.split()[0].lower()}"
    execute(
        url,
        "DROP TABLE IF EXISTS toasted",
        "CREATE TABLE toasted (id int PRIMARY KEY, number int NOT NULL, long text, n int)",
        "CREATE UNIQUE INDEX toasted_by_number ON toasted (number)",
        f"ALTER TABLE toasted REPLICA IDENTITY {identity}",
        "ALTER TABLE toasted ALTER COLUMN long SET STORAGE EXTERNAL",
        "INSERT INTO toasted SELECT i, i, repeat('x', 5000), 0 FROM generate_series(1, 5) AS i",
    )
    key = ("--id-field", "number") if "INDEX" in identity else ()
    follow_once(service, url, "toasted", "--index", index, *key)
    execute(
        url,
        "UPDATE toasted SET n = 1 WHERE id = 1",
        "UPDATE toasted SET id = 20, number = 20 WHERE id = 2",
        "BEGIN; UPDATE toasted SET id = 30, number = 30 WHERE id = 3; "
        "UPDATE toasted SET id = 3, number = 3 WHERE id = 4; COMMIT",
        "DELETE FROM toasted WHERE id = 5",
    )
    assert "copying" not in follow_once(service, url, "toasted", "--index", index, *key)
    numbers = {id: item["n"] for id, item in items_of(client, index).items()}
    assert numbers == {1: 1, 20: 0, 30: 0, 3: 0}
    assert {len(item["long"]) for item in items_of(client, index).values()} == {5000}


def test_a_table_whose_log_names_no_rows_is_refused(service: Service, url: str) -> None:
    execute(
        url,
        "CREATE TABLE unnamed (id int PRIMARY KEY)",
        "ALTER TABLE unnamed REPLICA IDENTITY NOTHING",
    )
    assert "REPLICA IDENTITY DEFAULT" in _refusal(service, url, "unnamed")
