"""`facetd follow` with a real PostgreSQL, killed at every corner."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coordinator.cli.sources.pgoutput import is_visible
from coordinator.clients.http_client import Client, ClientError, index_path
from tests.coordinator.cli.postgres import running_postgres
from tests.service import ROOT, Service

WAIT_SECONDS = 60.0
MARKER = 1_000_000
"""Id of a row that nothing else changes."""
WAITING_COMMITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
FOLLOWER_LOOKED_AT = (
    "SELECT query_start FROM pg_stat_activity WHERE application_name = 'facetd follow facetd_slow'"
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_postgres(
        tmp_path_factory.mktemp("pg"), "wal_level=logical", "max_replication_slots=100"
    ) as url:
        yield url


def _execute(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _ask(url: str, query: str) -> Any:
    """Return the first value of the first row; None if there is no row."""
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
        return None if row is None else row[0]


def _has(client: Client, index: str, id: int) -> bool:
    client.request("GET", f"/{index}/items/{id}")  # else an error, which `_until` ignores
    return True


def _command(service: Service, url: str, table: str, *arguments: str) -> list[str]:
    return [
        *(sys.executable, "-m", "coordinator", "follow", url, "--table", table),
        *("--url", f"http://127.0.0.1:{service.port}", "--interval", "0.05", *arguments),
    ]


def _once(service: Service, url: str, table: str, *arguments: str) -> str:
    """Follow to the end of the log; return what was said."""
    done = subprocess.run(
        _command(service, url, table, "--once", *arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@contextlib.contextmanager
def _following(
    service: Service, url: str, table: str, *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        _command(service, url, table, *arguments), cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _items(client: Client, index: str) -> dict[Any, Any]:
    lines = b"".join(client.stream(f"/{index}/items")).splitlines()
    items = [json.loads(line) for line in lines]
    found = {item["id"]: item for item in items}
    assert len(found) == len(items), "an item is there twice"
    return found


def _until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + WAIT_SECONDS
    while True:
        with contextlib.suppress(ClientError):
            if is_so():
                return
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def test_changes_arrive_with_their_types(service: Service, client: Client, url: str) -> None:
    _execute(
        url,
        "CREATE TABLE product (id bigint PRIMARY KEY, name text, price numeric, tags text[], "
        "big text)",
        "INSERT INTO product SELECT i, 'name ' || i, i / 4.0, ARRAY['a', 'b'], NULL "
        "FROM generate_series(1, 3000) AS i",
    )
    said = _once(service, url, "product")
    assert "copied 3,000 rows" in said
    assert _items(client, "product")[2] == {
        "id": 2, "name": "name 2", "price": 0.5, "tags": ["a", "b"],
    }  # fmt: skip
    _execute(
        url,
        "UPDATE product SET big = (SELECT string_agg(md5(i::text), '') FROM "
        "generate_series(1, 300) i) WHERE id = 7",
        "UPDATE product SET price = 99.5 WHERE id = 7",  # its big text is not in the log
        "DELETE FROM product WHERE id <= 5",
        "INSERT INTO product VALUES (9001, 'new', 1, '{}', NULL)",
        "UPDATE product SET id = 9002 WHERE id = 6",
        "CREATE TABLE other (id int)",
        "INSERT INTO other VALUES (1)",
    )
    said = _once(service, url, "product")
    assert "copied" not in said
    items = _items(client, "product")
    assert len(items) == 2996
    assert not items.keys() & {1, 2, 3, 4, 5, 6}
    assert items[9002]["name"] == "name 6"
    assert (items[7]["price"], len(items[7]["big"])) == (99.5, 9600)
    assert items[9001]["name"] == "new"
    # One transaction of many changes, then none at all.
    _execute(url, "UPDATE product SET name = 'all ' || id")
    assert "2,996 changes" in _once(service, url, "product")
    assert all(item["name"] == f"all {id}" for id, item in _items(client, "product").items())
    assert " 0 changes" in _once(service, url, "product")
    _execute(url, "TRUNCATE product", "INSERT INTO product (id, name) VALUES (1, 'again')")
    _once(service, url, "product")
    assert _items(client, "product") == {1: {"id": 1, "name": "again"}}


def test_rows_of_a_query_with_text_keys_are_followed(
    service: Service, client: Client, url: str
) -> None:
    _execute(
        url,
        "CREATE TABLE maker (id int, name text)",
        "INSERT INTO maker VALUES (1, '100% Acme')",
        "CREATE TABLE part (sku text PRIMARY KEY, maker int)",
        "INSERT INTO part VALUES ('a%b', 1), ('c{}', 1), ('17', 2)",
    )
    query = "SELECT sku, m.name FROM part p JOIN maker m ON m.id = p.maker WHERE m.name LIKE '1%'"
    arguments = ("--query", query, "--index", "parts")
    _once(service, url, "part", *arguments)
    assert set(_items(client, "parts")) == {"a%b", "c{}"}
    _execute(
        url,
        "UPDATE part SET maker = 2 WHERE sku = 'c{}'",
        "UPDATE part SET maker = 1 WHERE sku = '17'",
    )
    _once(service, url, "part", *arguments)
    assert _items(client, "parts")["17"] == {"id": "17", "sku": "17", "name": "100% Acme"}
    assert set(_items(client, "parts")) == {"a%b", "17"}


def test_a_kill_of_follower_or_service_neither_loses_nor_repeats(
    service: Service, client: Client, url: str
) -> None:
    _execute(
        url,
        "CREATE TABLE stock (id int PRIMARY KEY, amount int, note text)",
        "INSERT INTO stock SELECT i, 0, repeat('x', 200) FROM generate_series(1, 20000) AS i",
    )
    generator = random.Random(7)
    is_done = threading.Event()

    def change() -> None:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            number = 20_000
            while not is_done.wait(0.002):
                kind, id = generator.random(), generator.randrange(1, number)
                if kind < 0.3:
                    number += 1
                    connection.execute("INSERT INTO stock VALUES (%s, 1, 'new')", (number,))
                elif kind < 0.5:
                    connection.execute("DELETE FROM stock WHERE id = %s", (id,))
                elif kind < 0.97:
                    connection.execute("UPDATE stock SET amount = amount + 1 WHERE id = %s", (id,))
                else:
                    connection.execute(
                        "UPDATE stock SET amount = amount + 1 WHERE id %% 20 = %s", (id % 20,)
                    )

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for round_number in range(6):  # the first ones hit the copy, the later ones the changes
            with _following(service, url, "stock") as process:
                if round_number == 5:
                    assert process.stderr is not None
                    while "following" not in (line := process.stderr.readline()):
                        assert line, "it ended"
                time.sleep(generator.uniform(0.8, 2.5))
                if round_number in (2, 5):
                    service.kill_all()
                    service.start()
                if round_number == 5:
                    _execute(url, f"INSERT INTO stock VALUES ({MARKER}, 0, 'the service is back')")
                    _until(lambda: _has(client, "stock", MARKER))
                    assert process.poll() is None, "a follower outlives the service"
    finally:
        is_done.set()
        changer.join()
    _once(service, url, "stock")
    import psycopg

    with psycopg.connect(url) as connection:
        rows: dict[int, int] = dict(connection.execute("SELECT id, amount FROM stock").fetchall())
    assert {id: item["amount"] for id, item in _items(client, "stock").items()} == rows


def test_a_follower_runs_on_and_ends_at_a_signal(
    service: Service, client: Client, url: str
) -> None:
    _execute(url, "CREATE TABLE live (id int PRIMARY KEY)", "INSERT INTO live VALUES (1)")
    with _following(service, url, "live") as process:
        _until(lambda: set(_items(client, "live")) == {1})
        _execute(url, "INSERT INTO live VALUES (2)")
        _until(lambda: set(_items(client, "live")) == {1, 2})
        # The database ends all connections; the follower comes back.
        _execute(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'facetd follow facetd_live'",
            "DELETE FROM live WHERE id = 1",
        )
        _until(lambda: set(_items(client, "live")) == {2})
        second = subprocess.run(
            _command(service, url, "live"), cwd=ROOT, capture_output=True, check=False, timeout=60
        )
        assert second.returncode == 1
        assert b"another facetd follow" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_commit_that_others_do_not_see_yet_is_waited_for(
    service: Service, client: Client, url: str
) -> None:
    _execute(url, "CREATE TABLE slow (id int PRIMARY KEY)")
    _once(service, url, "slow")
    # The commit waits for a standby that does not exist: it is in the log and not visible.
    _execute(
        url, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"
    )
    writer = threading.Thread(target=_execute, args=(url, "INSERT INTO slow VALUES (1)"))
    try:
        with _following(service, url, "slow") as process:
            writer.start()
            # The commit is in the log, and the follower has looked at the log twice since.
            _until(lambda: _ask(url, WAITING_COMMITS))
            for _ in range(2):
                looked_at = _ask(url, FOLLOWER_LOOKED_AT)
                _until(lambda: _ask(url, FOLLOWER_LOOKED_AT) != looked_at)  # noqa: B023
            assert _items(client, "slow") == {}
            assert process.poll() is None
            _execute(url, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
            _until(lambda: set(_items(client, "slow")) == {1})
    finally:
        _execute(url, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        writer.join()


def test_what_cannot_be_resumed_is_copied_again(service: Service, client: Client, url: str) -> None:
    _execute(url, "CREATE TABLE again (id int PRIMARY KEY)", "INSERT INTO again VALUES (1), (2)")
    _once(service, url, "again")
    body = json.dumps({"name": "before"}).encode()
    client.request("POST", "/_snapshots", body)
    _execute(url, "INSERT INTO again VALUES (3)", "DELETE FROM again WHERE id = 1")
    _once(service, url, "again")
    assert set(_items(client, "again")) == {2, 3}
    # The index is set back; the server's log does not reach back so far.
    client.request("DELETE", "/again")
    body = json.dumps({"indexes": ["again"]}).encode()
    client.request("POST", "/_snapshots/before/restore", body)
    assert set(_items(client, "again")) == {1, 2}
    assert "no longer has the log of the changes" in _once(service, url, "again")
    assert set(_items(client, "again")) == {2, 3}
    # The slot is gone.
    _once(service, url, "again", "--drop-slot")
    _execute(url, "DELETE FROM again WHERE id = 2")
    assert "the slot is gone" in _once(service, url, "again")
    assert set(_items(client, "again")) == {3}


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


def _make_table(url: str, table: str) -> None:
    columns = "id int PRIMARY KEY, note text"
    _execute(url, "DROP TABLE IF EXISTS t, former, next, p, p1, p2")
    if table == "t":
        _execute(url, f"CREATE TABLE t ({columns})")
    else:
        _execute(
            url,
            f"CREATE TABLE p ({columns}) PARTITION BY RANGE (id)",
            "CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (3)",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (3) TO (100)",
        )
    _execute(url, f"INSERT INTO {table} SELECT i, 'note ' || i FROM generate_series(1, 5) AS i")


def _rows(url: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table as items, without ids."""
    rows = _ask(url, f"SELECT coalesce(json_agg(t ORDER BY 1), '[]') FROM {table} AS t")
    return _sorted([{k: v for k, v in row.items() if k not in ("id", "number")} for row in rows])


def _rows_of_items(client: Client, index: str) -> list[dict[str, Any]]:
    items = _items(client, index).values()
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
    _once(service, url, table, *arguments)
    assert _rows_of_items(client, index) == _rows(url, table)
    _execute(url, *statements)
    said = _once(service, url, table, *arguments)
    assert "copying the table again" in said
    assert _rows_of_items(client, index) == _rows(url, table)
    # And the changes after it are followed.
    _execute(
        url,
        f"DELETE FROM {table} WHERE note::text LIKE '%2%'"
        if what not in ("column dropped", "column renamed", "type changed")
        else f"DELETE FROM {table} WHERE id = 2",
    )
    assert "copying" not in _once(service, url, table, *arguments)
    assert _rows_of_items(client, index) == _rows(url, table)
    _once(service, url, table, "--drop-slot", *arguments)


@pytest.mark.parametrize(
    "what", ["column added", "key renamed", "dropped and made again", "replaced by a rename"]
)
def test_a_running_follower_notices_what_happens_to_the_table(
    service: Service, client: Client, url: str, what: str
) -> None:
    table, statements = ALTERED[what]
    index = f"running {what}".replace(" ", "-")
    _make_table(url, table)
    with _following(service, url, table, "--index", index) as process:
        _until(lambda: _rows_of_items(client, index) == _rows(url, table))
        _execute(url, *statements)
        _until(lambda: _rows_of_items(client, index) == _rows(url, table))
        _execute(url, f"INSERT INTO {table} VALUES (60, 'later')")
        _until(lambda: _rows_of_items(client, index) == _rows(url, table))
        assert process.poll() is None
    _once(service, url, table, "--drop-slot", "--index", index)


def test_a_running_follower_waits_for_a_table_that_is_made_again(
    service: Service, client: Client, url: str
) -> None:
    _make_table(url, "t")
    with _following(service, url, "t", "--index", "gone") as process:
        _until(lambda: len(_items(client, "gone")) == 5)
        _execute(url, "DROP TABLE t")
        assert process.stderr is not None
        while "no table 't'" not in (line := process.stderr.readline()):
            assert line, "it ended"
        _execute(url, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (3)")
        _until(lambda: set(_items(client, "gone")) == {3})


def test_another_query_is_a_reason_to_copy(service: Service, client: Client, url: str) -> None:
    _make_table(url, "t")
    _once(service, url, "t", "--index", "asked", "--query", "SELECT id FROM t")
    said = _once(service, url, "t", "--index", "asked", "--query", "SELECT * FROM t WHERE id > 3")
    assert "query" in said
    assert _items(client, "asked") == {n: {"id": n, "note": f"note {n}"} for n in (4, 5)}


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_running_follower_notices_that_the_index_is_another(
    service: Service, client: Client, url: str, is_made_again: bool
) -> None:
    _make_table(url, "t")
    index = f"replaced-{is_made_again}"
    with _following(service, url, "t", "--index", index, "--replace") as process:
        assert process.stderr is not None
        while "following" not in (line := process.stderr.readline()):
            assert line, "it ended"
        assert len(_items(client, index)) == 5
        if is_made_again:
            client.request("DELETE", index_path(index))
            client.configure(index, {})
        else:
            client.request("POST", "/_snapshots", json.dumps({"name": "early"}).encode())
            _execute(url, "INSERT INTO t VALUES (6, 'six')")
            _until(lambda: len(_items(client, index)) == 6)
            client.request("DELETE", index_path(index))
            body = json.dumps({"indexes": [index]}).encode()
            client.request("POST", "/_snapshots/early/restore", body)
        _execute(url, "INSERT INTO t VALUES (7, 'seven')")
        _until(lambda: _rows_of_items(client, index) == _rows(url, "t"))


def test_values_that_python_lacks_are_texts(service: Service, client: Client, url: str) -> None:
    _execute(
        url,
        "CREATE TABLE extremes (id int PRIMARY KEY, day date, at timestamp, atz timestamptz, "
        "hour time, big numeric, document json)",
        "INSERT INTO extremes VALUES (1, 'infinity', '-infinity', 'infinity', '24:00', 1e400, "
        "('{\"a\": 1' || repeat('0', 5000) || '}')::json)",
    )
    expected = {
        "id": 1,
        "day": "infinity",
        "at": "-infinity",
        "atz": "infinity",
        "hour": "24:00:00",
        "big": "1" + "0" * 400,
        "document": '{"a": 1' + "0" * 5000 + "}",
    }
    _once(service, url, "extremes")
    assert _items(client, "extremes")[1] == expected
    _execute(
        url,
        "INSERT INTO extremes SELECT 2, day, at, atz, hour, big, document FROM extremes",
        "INSERT INTO extremes VALUES (3, '12000-01-01', '0044-03-15 BC', NULL, NULL, 1e400 + 0.5)",
    )
    _once(service, url, "extremes")
    assert _items(client, "extremes")[2] == expected | {"id": 2}
    assert _items(client, "extremes")[3] == {
        "id": 3, "day": "12000-01-01", "at": "0044-03-15 00:00:00 BC",
        "big": "1" + "0" * 400 + ".5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deep", "repeat('[', 100) || repeat(']', 100)"),
        ("deeper", "repeat('[', 300) || repeat(']', 300)"),
        ("half", """'"\\ud800"'"""),
        ("large", """'"' || repeat('x', 17000000) || '"'"""),
        ("huge", """'"' || repeat('x', 90000000) || '"'"""),
    ],
)
def test_a_row_of_which_the_service_does_not_say_the_number_is_left_out_alone(
    service: Service, client: Client, url: str, name: str, value: str
) -> None:
    table = f"refused_{name}"
    _execute(
        url,
        f"CREATE TABLE {table} (id int PRIMARY KEY, document json)",
        f"INSERT INTO {table} SELECT i, '1' FROM generate_series(0, 9) AS i",
    )
    _once(service, url, table)
    _execute(
        url,
        f"DELETE FROM {table} WHERE id < 3",
        f"INSERT INTO {table} SELECT i, '2' FROM generate_series(100, 199) AS i",
        f"UPDATE {table} SET document = ({value})::json WHERE id IN (5, 150)",
    )
    done = subprocess.run(
        _command(service, url, table, "--once"), cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"--skip-bad" in done.stderr
    said = _once(service, url, table, "--skip-bad")
    assert said.count("cannot be stored") == 2, said
    left = dict.fromkeys((3, 4, 6, 7, 8, 9), 1) | {id: 2 for id in range(100, 200) if id != 150}
    assert {id: item["document"] for id, item in _items(client, table).items()} == left
    assert " 0 changes" in _once(service, url, table)


def test_texts_of_another_encoding_are_followed(service: Service, client: Client, url: str) -> None:
    _execute(url, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    latin = url.replace("/postgres?", "/latin?")
    _execute(latin, "CREATE TABLE encoded (name text PRIMARY KEY)")
    _once(service, latin, "encoded")
    _execute(latin, "INSERT INTO encoded VALUES ('caf' || chr(233))")
    _once(service, latin, "encoded")
    assert set(_items(client, "encoded")) == {"café"}


def test_the_smallest_keys_are_kept(service: Service, client: Client, url: str) -> None:
    _execute(
        url,
        "CREATE TABLE small (id bigint PRIMARY KEY)",
        "INSERT INTO small VALUES ((-9223372036854775808)::bigint), (9223372036854775807), (0)",
    )
    client.configure("small", {})
    client.request("POST", "/small/items", b'[{"id": "-9223372036854775809"}]')
    _once(service, url, "small", "--replace")
    assert set(_items(client, "small")) == {"-9223372036854775808", 9223372036854775807, 0}


def test_the_session_of_a_killed_follower_is_not_waited_for(
    service: Service, client: Client, url: str
) -> None:
    _execute(url, "CREATE TABLE killed (id int PRIMARY KEY)")
    _once(service, url, "killed")
    _execute(url, "INSERT INTO killed SELECT generate_series(1, 300000)")
    with _following(service, url, "killed"):
        _until(
            lambda: _ask(
                url, "SELECT active FROM pg_replication_slots WHERE slot_name = 'facetd_killed'"
            )
        )
    _once(service, url, "killed")
    assert len(_items(client, "killed")) == 300_000


@pytest.mark.parametrize(
    ("statements", "arguments", "message"),
    [
        ((), (), "no table 'bad'"),
        (("CREATE TABLE bad (id int)",), (), "no primary key"),
        (("CREATE TABLE bad (id int)",), ("--id-field", "id"), "REPLICA IDENTITY FULL"),
        (("CREATE TABLE bad (a int, b int, PRIMARY KEY (a, b))",), (), "several columns (a, b)"),
        (("CREATE TABLE bad (id numeric PRIMARY KEY)",), (), "of type numeric"),
        (("CREATE TABLE bad (id int PRIMARY KEY)",), ("--id-field", "x"), "no column 'x'"),
        (
            (
                "CREATE TABLE bad (id text PRIMARY KEY)",
                "INSERT INTO bad VALUES (repeat('x', 300))",
            ),
            (),
            "1 to 256 bytes",
        ),
        (("CREATE TABLE bad (id int PRIMARY KEY)",), ("--slot", "Ä"), "a-z, 0-9 and _"),
    ],
)
def test_what_cannot_be_followed_is_told_and_leaves_no_index(
    service: Service,
    client: Client,
    url: str,
    statements: tuple[str, ...],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    _execute(url, "DROP TABLE IF EXISTS bad", *statements)
    before = client.request("GET", "/_indexes")["indexes"]
    done = subprocess.run(
        _command(service, url, "bad", "--once", "--index", f"bad-{abs(hash(message))}", *arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    after = client.request("GET", "/_indexes")["indexes"]
    assert [one["name"] for one in after] == [one["name"] for one in before]


def test_a_bad_row_ends_it_or_is_left_out(service: Service, client: Client, url: str) -> None:
    _execute(url, "CREATE TABLE rows (id text PRIMARY KEY)", "INSERT INTO rows VALUES ('a')")
    _once(service, url, "rows")
    _execute(url, "INSERT INTO rows VALUES ('b'), (repeat('x', 300)), ('c')")
    done = subprocess.run(
        _command(service, url, "rows", "--once"), cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"--skip-bad" in done.stderr
    said = _once(service, url, "rows", "--skip-bad")
    assert "cannot be stored" in said
    assert set(_items(client, "rows")) == {"a", "b", "c"}


def test_an_index_with_other_items_is_not_emptied(
    service: Service, client: Client, url: str
) -> None:
    _execute(url, "CREATE TABLE mine (id int PRIMARY KEY)", "INSERT INTO mine VALUES (1)")
    client.configure("mine", {})
    client.request("POST", "/mine/items", b'[{"id": 77}]')
    command = _command(service, url, "mine", "--once")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"--replace" in done.stderr
    assert set(_items(client, "mine")) == {77}
    _once(service, url, "mine", "--replace")
    assert set(_items(client, "mine")) == {1}


def test_a_snapshot_says_which_transactions_are_visible() -> None:
    snapshot = "100:105:100,103"
    assert [xid for xid in range(98, 108) if is_visible(xid, snapshot)] == [98, 99, 101, 102, 104]
    high = 3 << 32
    assert is_visible(4, f"{high + 5}:{high + 5}:")
    assert not is_visible(5, f"{high + 5}:{high + 5}:")
    assert is_visible(0xFFFF_FFFF, f"{high + 5}:{high + 5}:")
