"""Rows of a real MariaDB, where Debian's package is installed; MySQL speaks the same protocol."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.source import ReadOptions, SourceError

START_SECONDS = 60


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    pymysql = pytest.importorskip("pymysql", reason="needs facetd[mysql]")
    server, install = shutil.which("mariadbd", path=_path()), shutil.which("mariadb-install-db")
    if server is None or install is None:
        pytest.skip("needs MariaDB: apt-get install mariadb-server")
    user = "mysql" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    folder = Path("/tmp") / f"facetd-mariadb-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        data, socket_path = folder / "data", folder / "socket"
        options = [f"--datadir={data}", f"--user={user}"]
        subprocess.run(
            [install, *options, "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True,
            capture_output=True,
        )
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *(server, "--no-defaults", *options, "--skip-networking"),
                    *(f"--socket={socket_path}", f"--pid-file={folder / 'pid'}"),
                    "--innodb-flush-log-at-trx-commit=0",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            give_up_at = time.monotonic() + START_SECONDS
            while True:
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(str(socket_path))  # (the library leaves a refused one open)
                    break
                assert time.monotonic() < give_up_at
                time.sleep(0.1)
            connection = pymysql.connect(unix_socket=str(socket_path), user="root")
            with connection, connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
                cursor.execute(
                    "CREATE TABLE shop.product (id BIGINT PRIMARY KEY, name VARCHAR(100), "
                    "price DECIMAL(10, 2), made DATE, is_new BOOL, photo BLOB, `order` INT)"
                )
                cursor.executemany(
                    "INSERT INTO shop.product VALUES (%s, %s, %s, '2026-01-02', 1, x'00', %s)",
                    [(i, f"Käse {i} 🧀", i / 4, i % 3) for i in range(1, 5001)],
                )
                cursor.execute(
                    "CREATE TABLE shop.flags (id INT PRIMARY KEY, stars TINYINT(1), small TINYINT, "
                    "one BIT(1), many BIT(9), tags VARCHAR(50))"
                )
                cursor.execute(
                    "INSERT INTO shop.flags VALUES (1, 1, 1, b'1', b'100000001', 'a, b'), "
                    "(2, 0, 0, b'0', b'0', ''), (3, NULL, NULL, NULL, NULL, NULL), "
                    "(4, 5, 5, b'1', b'11', 'c')"
                )
                connection.commit()
            yield f"mysql://root@localhost/shop?unix_socket={quote(str(socket_path), safe='')}"
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin"


def test_rows_are_streamed_with_their_types(url: str) -> None:
    source = format_dispatch.read(url, ReadOptions(table="product"))
    assert [column.name for column in source.columns][:2] == ["id", "name"]
    items = [json.loads(line) for line in b"".join(source.pieces()).splitlines()]
    assert len(items) == 5000
    assert items[1] == {
        "id": 2,
        "name": "Käse 2 🧀",
        "price": 0.5,
        "made": "2026-01-02",
        "is_new": True,
        "order": 2,
    }


def test_rows_of_a_query_become_items(url: str) -> None:
    query = "SELECT name AS id FROM product WHERE price > 1249 AND name LIKE 'K%'"
    source = format_dispatch.read(url, ReadOptions(query=query))
    assert len(b"".join(source.pieces()).splitlines()) == 4
    source = format_dispatch.read(
        url.replace("mysql:", "mariadb:"), ReadOptions(table="shop.product")
    )
    assert source.columns[0].name == "id"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ReadOptions(query="SELEKT 1"), "SQL syntax"),
        (ReadOptions(table="none"), "doesn't exist; its tables are flags, product"),
        (ReadOptions(), "name a --table of .*; its tables are flags, product"),
    ],
)
def test_a_wrong_query_is_told_as_the_database_tells_it(
    url: str, options: ReadOptions, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        list(format_dispatch.read(url, options).pieces())


def test_without_a_database_its_tables_are_named_with_theirs(url: str) -> None:
    with pytest.raises(SourceError, match=r"its tables are shop\.flags, shop\.product\Z"):
        format_dispatch.read(url.replace("/shop?", "/?"), ReadOptions())


def test_truth_is_a_number_there_and_a_boolean_here(url: str) -> None:
    def items(**options: Any) -> list[dict[str, Any]]:
        source = format_dispatch.read(url, ReadOptions(**options))
        return [json.loads(line) for line in b"".join(source.pieces()).splitlines()]

    three = "SELECT * FROM flags WHERE id < 4 ORDER BY id"
    first = {"id": 1, "stars": True, "small": 1, "one": True, "many": 257, "tags": "a, b"}
    second = {"id": 2, "stars": False, "small": 0, "one": False, "many": 0, "tags": ""}
    assert items(query=three) == [first, second, {"id": 3}]
    kinds = {
        column.name: column.kind
        for column in format_dispatch.read(url, ReadOptions(query=three)).columns
    }
    assert (kinds["stars"], kinds["small"], kinds["one"]) == ("boolean", "integer", "boolean")

    with pytest.raises(SourceError, match=r"row 4: 'stars' is declared as a boolean and holds '5'"):
        items(table="flags")
    listed = items(table="flags", kinds={"stars": "integer"}, separators={"tags": ","})
    assert [one.get("stars") for one in listed] == [1, 0, None, 5]
    assert [one.get("tags") for one in listed] == [["a", "b"], [], None, ["c"]]


def test_only_the_first_row_is_read_to_see_the_columns(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pymysql.connections

    packets = []
    read = pymysql.connections.Connection._read_packet

    def count(*arguments: Any) -> Any:
        packets.append(1)
        return read(*arguments)

    monkeypatch.setattr(pymysql.connections.Connection, "_read_packet", count)
    format_dispatch.read(url, ReadOptions(table="product"))
    assert len(packets) < 100
