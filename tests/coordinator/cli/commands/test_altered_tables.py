"""`facetd follow` when the table itself, the query or the index becomes another one."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.cli.commands import follow_postgres
from coordinator.cli.following import table_follower
from coordinator.command_line_client import Client, index_path
from tests.coordinator.cli.followers import (
    Follower,
    ask,
    execute,
    follow_once,
    following,
    items_of,
    until,
)
from tests.service import Service

ALTERED: dict[str, tuple[str, tuple[str, ...]]] = {
    "column added": ("t", ("ALTER TABLE t ADD COLUMN stock int DEFAULT 5",)),
    "column dropped": ("t", ("ALTER TABLE t DROP COLUMN note",)),
    "column renamed": ("t", ("ALTER TABLE t RENAME COLUMN note TO remark",)),
    "key renamed": (
        "t",
        (
            "INSERT INTO t VALUES (8, 'before')",
            "ALTER TABLE t RENAME COLUMN id TO number",
            "INSERT INTO t VALUES (9, 'after')",
        ),
    ),
    "type changed": ("t", ("ALTER TABLE t ALTER COLUMN note TYPE int USING length(note)",)),
    "dropped and made again": (
        "t",
        (
            "DROP TABLE t",
            "CREATE TABLE t (id int PRIMARY KEY, note text)",
            "INSERT INTO t VALUES (2, 'new'), (7, 'other')",
        ),
    ),
    "replaced by a rename": (
        "t",
        (
            "CREATE TABLE next (id int PRIMARY KEY, note text)",
            "INSERT INTO next VALUES (2, 'new'), (7, 'other')",
            "BEGIN; ALTER TABLE t RENAME TO former; ALTER TABLE next RENAME TO t; COMMIT",
            "INSERT INTO former VALUES (50, 'of no interest')",
        ),
    ),
    "partition dropped": ("p", ("DROP TABLE p1",)),
    "partition emptied": ("p", ("TRUNCATE p1",)),
    "partition detached": ("p", ("ALTER TABLE p DETACH PARTITION p1",)),
    "partition attached": (
        "p",
        (
            "CREATE TABLE p2 (id int PRIMARY KEY, note text)",
            "INSERT INTO p2 VALUES (150, 'from elsewhere')",
            "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (100) TO (200)",
        ),
    ),
}
"""What happens to a table, and is not a change of rows in the log."""
SOON = {"CHECK_SECONDS": 0.5}
"""Until a follower looks at table and index, if nothing changes."""


def _make_table(url: str, table: str) -> None:
    columns = "id int PRIMARY KEY, note text"
    execute(url, "DROP TABLE IF EXISTS t, former, next, p, p1, p2")
    if table == "t":
        execute(url, f"CREATE TABLE t ({columns})")
    else:
        execute(
            url,
            f"CREATE TABLE p ({columns}) PARTITION BY RANGE (id)",
            "CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (3)",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (3) TO (100)",
        )
    execute(url, f"INSERT INTO {table} SELECT i, 'note ' || i FROM generate_series(1, 5) AS i")


def _rows(url: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table as items, without ids."""
    rows = ask(url, f"SELECT coalesce(json_agg(t ORDER BY 1), '[]') FROM {table} AS t")
    return _sorted([{k: v for k, v in row.items() if k not in ("id", "number")} for row in rows])


def _rows_of_items(client: Client, index: str) -> list[dict[str, Any]]:
    items = items_of(client, index).values()
    return _sorted([{k: v for k, v in one.items() if k not in ("id", "number")} for one in items])


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=json.dumps)


@pytest.mark.parametrize("what", ALTERED)
def test_what_happens_to_the_table_itself_reaches_the_index(
    service: Service, client: Client, url: str, what: str
) -> None:
    table, statements = ALTERED[what]
    index = f"altered {what}".replace(" ", "-")
    arguments = ("--index", index)
    _make_table(url, table)
    follow_once(service, url, table, *arguments)
    assert _rows_of_items(client, index) == _rows(url, table)
    execute(url, *statements)
    said = follow_once(service, url, table, *arguments)
    assert "copying the table again" in said
    assert _rows_of_items(client, index) == _rows(url, table)
    # And the changes after it are followed.
    execute(
        url,
        f"DELETE FROM {table} WHERE note::text LIKE '%2%'"
        if what not in ("column dropped", "column renamed", "type changed")
        else f"DELETE FROM {table} WHERE id = 2",
    )
    assert "copying" not in follow_once(service, url, table, *arguments)
    assert _rows_of_items(client, index) == _rows(url, table)


@pytest.mark.parametrize(
    "what", ["column added", "key renamed", "dropped and made again", "replaced by a rename"]
)
def test_a_running_follower_notices_what_happens_to_the_table(
    service: Service, client: Client, url: str, what: str
) -> None:
    table, statements = ALTERED[what]
    index = f"running {what}".replace(" ", "-")
    _make_table(url, table)
    with following(service, url, table, "--index", index, waits=SOON) as follower:
        until(lambda: _rows_of_items(client, index) == _rows(url, table))
        execute(url, *statements)
        until(lambda: _rows_of_items(client, index) == _rows(url, table))
        execute(url, f"INSERT INTO {table} VALUES (60, 'later')")
        until(lambda: _rows_of_items(client, index) == _rows(url, table))
        assert follower.process.poll() is None


def test_a_running_follower_waits_for_a_table_that_is_made_again(
    service: Service, client: Client, url: str
) -> None:
    _make_table(url, "t")
    with following(service, url, "t", "--index", "gone", waits=SOON) as follower:
        until(lambda: len(items_of(client, "gone")) == 5)
        execute(url, "DROP TABLE t")
        follower.until_said("no table 't'")
        execute(url, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (3)")
        until(lambda: set(items_of(client, "gone")) == {3})


def test_another_query_is_a_reason_to_copy(service: Service, client: Client, url: str) -> None:
    _make_table(url, "t")
    follow_once(service, url, "t", "--index", "asked", "--query", "SELECT id FROM t")
    said = follow_once(
        service, url, "t", "--index", "asked", "--query", "SELECT * FROM t WHERE id > 3"
    )
    assert "query" in said
    assert items_of(client, "asked") == {n: {"id": n, "note": f"note {n}"} for n in (4, 5)}


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_running_follower_notices_that_the_index_is_another(
    service: Service, client: Client, url: str, is_made_again: bool
) -> None:
    _make_table(url, "t")
    index = f"replaced-{is_made_again}"
    with following(service, url, "t", "--index", index, "--replace", waits=SOON) as follower:
        follower.until_said("following")
        assert len(items_of(client, index)) == 5
        if is_made_again:
            client.request("DELETE", index_path(index))
            client.configure(index, {})
        else:
            client.request("POST", "/_snapshots", json.dumps({"name": "early"}).encode())
            execute(url, "INSERT INTO t VALUES (6, 'six')")
            until(lambda: len(items_of(client, index)) == 6)
            _restore(client, index, "early")
        execute(url, "INSERT INTO t VALUES (7, 'seven')")
        until(lambda: _rows_of_items(client, index) == _rows(url, "t"))


def test_a_follower_of_a_quiet_table_notices_that_the_index_is_an_earlier_one(
    service: Service, client: Client, url: str
) -> None:
    """It moved the position over other tables' changes, and rows stored since were lost."""
    _make_table(url, "t")
    index = "earlier"
    with following(service, url, "t", "--index", index, "--replace") as follower:
        follower.until_said("following")
        client.request("POST", "/_snapshots", json.dumps({"name": "quiet"}).encode())
        execute(url, "INSERT INTO t VALUES (6, 'six')")
        until(lambda: len(items_of(client, index)) == 6)
        with _stopped(follower):
            _restore(client, index, "quiet")
            execute(
                url,
                "DROP TABLE IF EXISTS others",
                "CREATE TABLE others (note text)",
                "INSERT INTO others SELECT repeat('x', 1000) FROM generate_series(1, 3000)",
            )
        assert len(items_of(client, index)) == 5
        until(lambda: _rows_of_items(client, index) == _rows(url, "t"))


def test_changes_are_not_stored_in_an_index_that_was_restored_a_moment_ago(
    service: Service, client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position was looked at before: rows stored since the snapshot were lost."""
    _make_table(url, "t")
    index = "restored-at-once"
    follow_once(service, url, "t", "--index", index)
    client.request("POST", "/_snapshots", json.dumps({"name": "at-once"}).encode())
    execute(url, "INSERT INTO t VALUES (6, 'six')")
    follow_once(service, url, "t", "--index", index)
    execute(url, "INSERT INTO t VALUES (7, 'seven')")
    is_restored = False
    request = Client.request

    def restore_before_it(
        client: Client, method: str, path: str, body: Any = None, **options: Any
    ) -> Any:
        nonlocal is_restored
        if path.endswith("/items/changes") and not is_restored:
            is_restored = True
            _restore(client, index, "at-once")
        return request(client, method, path, body, **options)

    monkeypatch.setattr(Client, "request", restore_before_it)
    monkeypatch.setattr(table_follower.TableFollower, "stop_on_signals", lambda _: None)
    arguments = (url, "--table", "t", "--index", index, "--once", "--url", client.url)
    follow_postgres.follow.main(arguments, standalone_mode=False)

    assert is_restored
    assert _rows_of_items(client, index) == _rows(url, "t")


@pytest.mark.parametrize("is_restored", [True, False])
def test_a_follower_waits_for_an_index_that_is_gone(
    service: Service, client: Client, url: str, is_restored: bool
) -> None:
    _make_table(url, "t")
    index = f"gone-{is_restored}"
    waits = {} if is_restored else {"ABSENT_SECONDS": 0.5}
    with following(service, url, "t", "--index", index, waits={**SOON, **waits}) as follower:
        until(lambda: len(items_of(client, index)) == 5)
        client.request("POST", "/_snapshots", json.dumps({"name": index}).encode())
        follower.until_said("following")
        client.request("DELETE", index_path(index))
        assert "the index is gone" in follower.messages.readline()
        if not is_restored:
            assert "index_not_found" in follower.messages.readline()
            assert follower.process.wait(20) == 1
            return
        body = json.dumps({"indexes": [index]}).encode()
        client.request("POST", f"/_snapshots/{index}/restore", body)
        execute(url, "INSERT INTO t VALUES (6, 'six')")
        until(lambda: _rows_of_items(client, index) == _rows(url, "t"))


@contextlib.contextmanager
def _stopped(follower: Follower) -> Iterator[None]:
    """Stop a follower for the time of the block: it does not see an index gone meanwhile."""
    follower.process.send_signal(signal.SIGSTOP)
    yield
    follower.process.send_signal(signal.SIGCONT)


def _restore(client: Client, index: str, snapshot: str) -> None:
    """Put an index back to what it was."""
    client.request("DELETE", index_path(index))
    body = json.dumps({"indexes": [index]}).encode()
    client.request("POST", f"/_snapshots/{snapshot}/restore", body)
