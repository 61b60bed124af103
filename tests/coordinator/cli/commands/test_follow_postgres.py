"""`facetd follow` with a real PostgreSQL, killed at every corner."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from typing import Any

import pytest

from coordinator.cli.following.pgoutput import is_visible
from coordinator.command_line_client import Client
from tests.coordinator.cli.followers import (
    WAIT_SECONDS,
    ask,
    execute,
    follow_once,
    following,
    items_of,
    run_follow,
    set_parameter,
    until,
)
from tests.service import Service

MARKER = 1_000_000
"""Id of a row that nothing else changes."""
WAITING_COMMITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
FOLLOWER_LOOKED_AT = (
    "SELECT query_start FROM pg_stat_activity WHERE application_name = 'facetd follow facetd_slow'"
)

READER_OF_KILLED = (
    "SELECT pid FROM pg_replication_slots JOIN pg_stat_activity ON pid = active_pid "
    "WHERE slot_name = 'facetd_killed' AND query LIKE '%facetd_log%'"
)
TOLD_TO_END = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'facetd follow facetd_killed' "
    "AND query LIKE 'SELECT pg_terminate_backend%'"
)


def _has(client: Client, index: str, id: int) -> bool:
    client.request("GET", f"/{index}/items/{id}")  # else an error, which `until` ignores
    return True


def _first_answer(url: str, query: str) -> Any:
    """Wait until a query has a row; return what is in it."""
    found: Any = None

    def is_there() -> bool:
        nonlocal found
        found = ask(url, query)
        return found is not None

    until(is_there)
    return found


def test_changes_arrive_with_their_types(service: Service, client: Client, url: str) -> None:
    execute(
        url,
        "CREATE TABLE product (id bigint PRIMARY KEY, name text, price numeric, tags text[], "
        "big text)",
        "INSERT INTO product SELECT i, 'name ' || i, i / 4.0, ARRAY['a', 'b'], NULL "
        "FROM generate_series(1, 3000) AS i",
    )
    said = follow_once(service, url, "product")
    assert "copied 3,000 rows" in said
    assert items_of(client, "product")[2] == {
        "id": 2, "name": "name 2", "price": 0.5, "tags": ["a", "b"],
    }  # fmt: skip
    execute(
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
    said = follow_once(service, url, "product")
    assert "copied" not in said
    items = items_of(client, "product")
    assert len(items) == 2996
    assert not items.keys() & {1, 2, 3, 4, 5, 6}
    assert items[9002]["name"] == "name 6"
    assert (items[7]["price"], len(items[7]["big"])) == (99.5, 9600)
    assert items[9001]["name"] == "new"
    # One transaction of many changes, then none at all.
    execute(url, "UPDATE product SET name = 'all ' || id")
    assert "2,996 changes" in follow_once(service, url, "product")
    assert all(item["name"] == f"all {id}" for id, item in items_of(client, "product").items())
    assert " 0 changes" in follow_once(service, url, "product")
    execute(url, "TRUNCATE product", "INSERT INTO product (id, name) VALUES (1, 'again')")
    follow_once(service, url, "product")
    assert items_of(client, "product") == {1: {"id": 1, "name": "again"}}


def test_rows_of_a_query_with_text_keys_are_followed(
    service: Service, client: Client, url: str
) -> None:
    execute(
        url,
        "CREATE TABLE maker (id int, name text)",
        "INSERT INTO maker VALUES (1, '100% Acme')",
        "CREATE TABLE part (sku text PRIMARY KEY, maker int)",
        "INSERT INTO part VALUES ('a%b', 1), ('c{}', 1), ('17', 2)",
    )
    query = "SELECT sku, m.name FROM part p JOIN maker m ON m.id = p.maker WHERE m.name LIKE '1%'"
    arguments = ("--query", query, "--index", "parts")
    follow_once(service, url, "part", *arguments)
    assert set(items_of(client, "parts")) == {"a%b", "c{}"}
    execute(
        url,
        "UPDATE part SET maker = 2 WHERE sku = 'c{}'",
        "UPDATE part SET maker = 1 WHERE sku = '17'",
    )
    follow_once(service, url, "part", *arguments)
    assert items_of(client, "parts")["17"] == {"id": "17", "sku": "17", "name": "100% Acme"}
    assert set(items_of(client, "parts")) == {"a%b", "17"}


def test_a_kill_of_follower_or_service_neither_loses_nor_repeats(
    service: Service, client: Client, url: str
) -> None:
    execute(
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
                        "UPDATE stock SET amount = amount + 1 WHERE id %% 200 = %s", (id % 200,)
                    )

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for round_number in range(4):  # the first ones hit the copy, the last one the changes
            with following(service, url, "stock") as follower:
                if round_number == 3:
                    follower.until_said("following")
                time.sleep(generator.uniform(0.8, 2.5))
                if round_number in (1, 3):
                    service.kill_all()
                    service.start()
                if round_number == 3:
                    execute(url, f"INSERT INTO stock VALUES ({MARKER}, 0, 'the service is back')")
                    until(lambda: _has(client, "stock", MARKER))
                    assert follower.process.poll() is None, "a follower outlives the service"
    finally:
        is_done.set()
        changer.join()
    follow_once(service, url, "stock")
    import psycopg

    with psycopg.connect(url) as connection:
        rows: dict[int, int] = dict(connection.execute("SELECT id, amount FROM stock").fetchall())
    assert {id: item["amount"] for id, item in items_of(client, "stock").items()} == rows


def test_a_follower_runs_on_and_ends_at_a_signal(
    service: Service, client: Client, url: str
) -> None:
    execute(url, "CREATE TABLE live (id int PRIMARY KEY)", "INSERT INTO live VALUES (1)")
    with following(service, url, "live") as follower:
        until(lambda: set(items_of(client, "live")) == {1})
        execute(url, "INSERT INTO live VALUES (2)")
        until(lambda: set(items_of(client, "live")) == {1, 2})
        # The database ends all connections; the follower comes back.
        execute(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'facetd follow facetd_live'",
            "DELETE FROM live WHERE id = 1",
        )
        until(lambda: set(items_of(client, "live")) == {2})
        second = run_follow(service, url, "live", waits={"LOCK_SECONDS": 1}, seconds=60)
        assert second.returncode == 1
        assert "another facetd follow" in second.stderr
        follower.process.send_signal(signal.SIGTERM)
        assert follower.process.wait(20) == 0


def test_a_commit_that_others_do_not_see_yet_is_waited_for(
    service: Service, client: Client, url: str
) -> None:
    execute(url, "CREATE TABLE slow (id int PRIMARY KEY)")
    follow_once(service, url, "slow")
    # The commit waits for a standby that does not exist: it is in the log and not visible.
    set_parameter(url, "synchronous_standby_names", "nobody")
    writer = threading.Thread(target=execute, args=(url, "INSERT INTO slow VALUES (1)"))
    try:
        with following(service, url, "slow") as follower:
            writer.start()
            # The commit is in the log, and the follower has looked at the log twice since.
            until(lambda: ask(url, WAITING_COMMITS))
            for _ in range(2):
                looked_at = ask(url, FOLLOWER_LOOKED_AT)
                until(lambda: ask(url, FOLLOWER_LOOKED_AT) != looked_at)  # noqa: B023
            assert items_of(client, "slow") == {}
            assert follower.process.poll() is None
            execute(url, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
            until(lambda: set(items_of(client, "slow")) == {1})
    finally:
        execute(url, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        writer.join()


def test_what_cannot_be_resumed_is_copied_again(service: Service, client: Client, url: str) -> None:
    execute(url, "CREATE TABLE again (id int PRIMARY KEY)", "INSERT INTO again VALUES (1), (2)")
    follow_once(service, url, "again")
    body = json.dumps({"name": "before"}).encode()
    client.request("POST", "/_snapshots", body)
    execute(url, "INSERT INTO again VALUES (3)", "DELETE FROM again WHERE id = 1")
    follow_once(service, url, "again")
    assert set(items_of(client, "again")) == {2, 3}
    # The index is set back; the server's log does not reach back so far.
    client.request("DELETE", "/again")
    body = json.dumps({"indexes": ["again"]}).encode()
    client.request("POST", "/_snapshots/before/restore", body)
    assert set(items_of(client, "again")) == {1, 2}
    assert "no longer has the log of the changes" in follow_once(service, url, "again")
    assert set(items_of(client, "again")) == {2, 3}
    # The slot is gone.
    follow_once(service, url, "again", "--drop-slot")
    execute(url, "DELETE FROM again WHERE id = 2")
    assert "the slot is gone" in follow_once(service, url, "again")
    assert set(items_of(client, "again")) == {3}


def test_a_user_without_the_rights_is_told_which_to_grant(service: Service, url: str) -> None:
    execute(
        url,
        "CREATE ROLE clerk LOGIN",
        "CREATE TABLE granted (id int PRIMARY KEY)",
        "ALTER TABLE granted OWNER TO clerk",
    )
    as_clerk = url.replace("//postgres@", "//clerk@")
    for missing, grant in (
        ("permission denied for database", "GRANT CREATE ON DATABASE postgres TO clerk"),
        ("replication", "ALTER ROLE clerk REPLICATION"),
    ):
        said = run_follow(service, as_clerk, "granted").stderr
        assert missing in said
        assert grant in said
        execute(url, grant)
    assert "copied 0 rows" in follow_once(service, as_clerk, "granted")


def test_values_that_python_lacks_are_texts(service: Service, client: Client, url: str) -> None:
    execute(
        url,
        "CREATE TABLE extremes (id int PRIMARY KEY, day date, at timestamp, atz timestamptz, "
        "hour time, big numeric, document json, sizes int4range, spans datemultirange)",
        "INSERT INTO extremes VALUES (1, 'infinity', '-infinity', 'infinity', '24:00', 1e400, "
        "('{\"a\": 1' || repeat('0', 5000) || '}')::json, '[36,41)', "
        "'{[2024-01-01,2024-02-01)}')",
    )
    expected = {
        "id": 1,
        "day": "infinity",
        "at": "-infinity",
        "atz": "infinity",
        "hour": "24:00:00",
        "big": "1" + "0" * 400,
        "document": '{"a": 1' + "0" * 5000 + "}",
        "sizes": "[36,41)",
        "spans": "{[2024-01-01,2024-02-01)}",
    }
    follow_once(service, url, "extremes")
    assert items_of(client, "extremes")[1] == expected
    execute(
        url,
        "INSERT INTO extremes SELECT 2, day, at, atz, hour, big, document, sizes, spans "
        "FROM extremes",
        "INSERT INTO extremes VALUES (3, '12000-01-01', '0044-03-15 BC', NULL, NULL, 1e400 + 0.5)",
    )
    follow_once(service, url, "extremes")
    assert items_of(client, "extremes")[2] == expected | {"id": 2}
    assert items_of(client, "extremes")[3] == {
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
        pytest.param("huge", """'"' || repeat('x', 90000000) || '"'""", marks=pytest.mark.long),
    ],
)
def test_a_row_of_which_the_service_does_not_say_the_number_is_left_out_alone(
    service: Service, client: Client, url: str, name: str, value: str
) -> None:
    table = f"refused_{name}"
    execute(
        url,
        f"CREATE TABLE {table} (id int PRIMARY KEY, document json)",
        f"INSERT INTO {table} SELECT i, '1' FROM generate_series(0, 9) AS i",
    )
    follow_once(service, url, table)
    execute(
        url,
        f"DELETE FROM {table} WHERE id < 3",
        f"INSERT INTO {table} SELECT i, '2' FROM generate_series(100, 199) AS i",
        f"UPDATE {table} SET document = ({value})::json WHERE id IN (5, 150)",
    )
    done = run_follow(service, url, table)
    assert done.returncode == 1
    assert "--skip-bad" in done.stderr
    said = follow_once(service, url, table, "--skip-bad")
    assert said.count("cannot be stored") == 2, said
    left = dict.fromkeys((3, 4, 6, 7, 8, 9), 1) | {id: 2 for id in range(100, 200) if id != 150}
    assert {id: item["document"] for id, item in items_of(client, table).items()} == left
    assert " 0 changes" in follow_once(service, url, table)


def test_texts_of_another_encoding_are_followed(service: Service, client: Client, url: str) -> None:
    execute(url, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    latin = url.replace("/postgres?", "/latin?")
    execute(latin, "CREATE TABLE encoded (name text PRIMARY KEY)")
    follow_once(service, latin, "encoded")
    execute(latin, "INSERT INTO encoded VALUES ('caf' || chr(233))")
    follow_once(service, latin, "encoded")
    assert set(items_of(client, "encoded")) == {"café"}


def test_the_smallest_keys_are_kept(service: Service, client: Client, url: str) -> None:
    execute(
        url,
        "CREATE TABLE small (id bigint PRIMARY KEY)",
        "INSERT INTO small VALUES ((-9223372036854775808)::bigint), (9223372036854775807), (0)",
    )
    client.configure("small", {})
    client.request("POST", "/small/items", b'[{"id": "-9223372036854775809"}]')
    follow_once(service, url, "small", "--replace")
    assert set(items_of(client, "small")) == {"-9223372036854775808", 9223372036854775807, 0}


def test_the_session_of_a_killed_follower_is_not_waited_for(
    service: Service, client: Client, url: str
) -> None:
    execute(url, "CREATE TABLE killed (id int PRIMARY KEY)", "CREATE TABLE unpublished (id int)")
    follow_once(service, url, "killed")
    # The server reads these too, so a follower's session is seen, and paused, while it reads.
    execute(
        url,
        "INSERT INTO unpublished SELECT generate_series(1, 500000)",
        "INSERT INTO killed VALUES (1)",
    )
    with following(service, url, "killed"):
        session = _first_answer(url, READER_OF_KILLED)
        os.kill(session, signal.SIGSTOP)
    try:
        with following(service, url, "killed", "--once") as second:
            until(lambda: ask(url, TOLD_TO_END) > 0)
            assert second.process.poll() is None
            os.kill(session, signal.SIGCONT)
            assert second.process.wait(WAIT_SECONDS) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(session, signal.SIGCONT)
    assert set(items_of(client, "killed")) == {1}


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
    execute(url, "DROP TABLE IF EXISTS bad", *statements)
    before = client.request("GET", "/_indexes")["indexes"]
    done = run_follow(
        service, url, "bad", "--index", f"bad-{abs(hash(message))}", *arguments, seconds=60
    )
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    after = client.request("GET", "/_indexes")["indexes"]
    assert [one["name"] for one in after] == [one["name"] for one in before]


def test_a_bad_row_ends_it_or_is_left_out(service: Service, client: Client, url: str) -> None:
    execute(url, "CREATE TABLE rows (id text PRIMARY KEY)", "INSERT INTO rows VALUES ('a')")
    follow_once(service, url, "rows")
    execute(url, "INSERT INTO rows VALUES ('b'), (repeat('x', 300)), ('c')")
    done = run_follow(service, url, "rows")
    assert done.returncode == 1
    assert "--skip-bad" in done.stderr
    said = follow_once(service, url, "rows", "--skip-bad")
    assert "cannot be stored" in said
    assert set(items_of(client, "rows")) == {"a", "b", "c"}


def test_an_index_with_other_items_is_not_emptied(
    service: Service, client: Client, url: str
) -> None:
    execute(url, "CREATE TABLE mine (id int PRIMARY KEY)", "INSERT INTO mine VALUES (1)")
    client.configure("mine", {})
    client.request("POST", "/mine/items", b'[{"id": 77}]')
    done = run_follow(service, url, "mine")
    assert done.returncode == 1
    assert "--replace" in done.stderr
    assert set(items_of(client, "mine")) == {77}
    follow_once(service, url, "mine", "--replace")
    assert set(items_of(client, "mine")) == {1}


def test_a_snapshot_says_which_transactions_are_visible() -> None:
    snapshot = "100:105:100,103"
    assert [xid for xid in range(98, 108) if is_visible(xid, snapshot)] == [98, 99, 101, 102, 104]
    high = 3 << 32
    assert is_visible(4, f"{high + 5}:{high + 5}:")
    assert not is_visible(5, f"{high + 5}:{high + 5}:")
    assert is_visible(0xFFFF_FFFF, f"{high + 5}:{high + 5}:")
