"""Databases as sources: tables, queries, kinds of values, addresses with passwords."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import gzip
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from coordinator.cli.sources import format_dispatch, rows_to_items
from coordinator.cli.sources.postgres_connection import without_password
from coordinator.cli.sources.rows_to_items import plain
from coordinator.cli.sources.source import ReadOptions, SourceError
from tests.coordinator.cli.sources.files import items_of, write


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "boolean"),
        (7, "integer"),
        (2**70, "text"),
        (1.5, "number"),
        (decimal.Decimal("1.50"), "number"),
        (decimal.Decimal("7"), "number"),
        ("a", "text"),
        (datetime.date(2026, 1, 2), "date"),
        (datetime.datetime(2026, 1, 2), "date"),
        (datetime.time(1, 2), "text"),
        ([1], "list"),
        ({"a": 1}, "json"),
        (uuid.UUID(int=1), "text"),
        (None, "null"),
        (b"x", "not loaded"),
        (float("nan"), "number"),
    ],
)
def test_values_of_databases_have_kinds(value: Any, kind: str) -> None:
    assert rows_to_items.kind_of(value) == kind


@pytest.mark.parametrize(
    ("value", "example"),
    [
        (["a", "ü"], '["a", "ü"]'),
        ({"w": 1}, '{"w": 1}'),
        (True, "true"),
        (decimal.Decimal("1.50"), "1.5"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        ("two\nlines", "two lines"),
        (b"x", ""),
        (None, ""),
    ],
)
def test_examples_are_shown_as_they_are_stored(value: Any, example: str) -> None:
    assert rows_to_items.example_of(value) == example


class TestDatabases:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Iterator[Path]:
        path = tmp_path / "shop.db"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE product (id INTEGER, name TEXT, price REAL, photo BLOB)")
        connection.execute("INSERT INTO product VALUES (1, 'sea', 2.5, x'00'), (2, NULL, 3, NULL)")
        connection.commit()
        yield path
        connection.close()

    def test_a_database_file_is_read_by_table_and_query(self, path: Path) -> None:
        expected = [{"id": 1, "name": "sea", "price": 2.5}, {"id": 2, "price": 3.0}]
        assert items_of(format_dispatch.read(str(path), ReadOptions())) == expected
        assert (
            items_of(format_dispatch.read(f"sqlite://{path}", ReadOptions(table="product")))
            == expected
        )
        packed = write(path.parent / "packed.db.gz", gzip.compress(path.read_bytes()))
        assert items_of(format_dispatch.read(packed, ReadOptions())) == expected
        found = format_dispatch.read(
            str(path), ReadOptions(query="SELECT name AS n FROM product WHERE id=1")
        )
        assert items_of(found) == [{"n": "sea"}]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"query": "SELEKT"}, "syntax error"),
            ({"table": "none"}, "no such table: none; its tables are product"),
            ({"query": "SELECT * FROM none"}, "no such table: none; its tables are product"),
            ({"query": "SELECT 1 AS a, 2 AS a"}, "two columns are called 'a'"),
            ({"id_field": "x"}, "no column 'x'; its columns are id, name"),
            ({"table": "PRODUCT", "id_field": "x"}, r"no column 'x'; its columns are [^;]*\Z"),
        ],
    )
    def test_mistakes_name_what_would_be_valid(
        self, path: Path, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(SourceError, match=message):
            items_of(format_dispatch.read(str(path), ReadOptions(**options)))

    def test_kinds_that_the_values_do_not_show_are_set_by_option(self, tmp_path: Path) -> None:
        path = str(tmp_path / "a.sqlite")
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE a (id INT, is_new BOOL, tags TEXT, more TEXT, day TEXT)")
        connection.execute("""INSERT INTO a VALUES (1, 1, 'x|y', '{"b": 2}', '31.12.2024')""")
        connection.execute("INSERT INTO a VALUES (2, 0, NULL, NULL, NULL)")
        connection.commit()
        options = ReadOptions(kinds={"more": "json", "day": "dmy"}, separators={"tags": "|"})
        first = {"id": 1, "is_new": True, "tags": ["x", "y"], "more": {"b": 2}, "day": "2024-12-31"}
        source = format_dispatch.read(path, options)
        assert [one.kind for one in source.columns] == [
            *("integer, the id", "boolean", "list", "json", "dmy")
        ]
        assert items_of(source) == [first, {"id": 2, "is_new": False}]
        asked = ReadOptions(query="SELECT is_new FROM a", kinds={"is_new": "boolean"})
        assert items_of(format_dispatch.read(path, asked)) == [{"is_new": True}, {"is_new": False}]
        long = ReadOptions(query=f"SELECT '[{2**70}]' AS n", kinds={"n": "json"})
        assert items_of(format_dispatch.read(path, long)) == [{"n": [str(2**70)]}]
        for wrong, message in (
            ({"day": "json"}, r"row 1: 'day' holds '31\.12\.2024', which is not of type json"),
            ({"dya": "dmy"}, "--type: the result has no column 'dya'; its columns are id"),
            ({"day": "date"}, "'date' is none of text, integer"),
        ):
            with pytest.raises(SourceError, match=message):
                items_of(format_dispatch.read(path, ReadOptions(kinds=wrong)))
        connection.execute("UPDATE a SET is_new = 7 WHERE id = 2")
        connection.commit()
        connection.close()
        with pytest.raises(SourceError, match="row 2: 'is_new' is declared as a boolean and holds"):
            items_of(format_dispatch.read(path, ReadOptions()))
        numbers = format_dispatch.read(path, ReadOptions(kinds={"is_new": "integer"}))
        assert [one["is_new"] for one in items_of(numbers)] == [1, 7]

    @pytest.mark.parametrize(
        "options", [{"delimiter": ";"}, {"decimal": ","}, {"encoding": "latin-1"}]
    )
    def test_options_about_texts_are_refused(self, path: Path, options: dict[str, Any]) -> None:
        for name in (str(path), f"sqlite://{path}", "postgres://a@127.0.0.1:1/x"):
            with pytest.raises(SourceError, match=f"--{next(iter(options))} is for"):
                format_dispatch.read(name, ReadOptions(table="product", **options))

    def test_several_tables_are_named(self, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE shop (id INTEGER)")
        connection.close()
        with pytest.raises(SourceError, match="its tables are product, shop"):
            format_dispatch.read(str(path), ReadOptions())

    @pytest.mark.parametrize(
        "url", ["postgres://a:secret@127.0.0.1:1/x", "mysql://a:secret@127.0.0.1:1/x"]
    )
    def test_a_server_that_is_not_there_is_told_without_its_password(self, url: str) -> None:
        for options in (ReadOptions(), ReadOptions(table="t")):
            with pytest.raises(SourceError, match=r"refused") as raised:
                format_dispatch.read(url, options)
            assert "secret" not in str(raised.value)
            assert ":…@" in str(raised.value)

    def test_a_refused_login_is_tried_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pymysql = pytest.importorskip("pymysql", reason="needs facetd[mysql]")
        tried = []

        def refuse(**options: Any) -> None:
            tried.append(options["host"])
            raise pymysql.err.OperationalError(1045, "Access denied")

        monkeypatch.setattr(pymysql, "connect", refuse)
        with pytest.raises(SourceError, match=r"Access denied\Z"):
            format_dispatch.read("mysql://a:wrong@db/x", ReadOptions(table="t"))
        assert tried == ["db"]

    def test_values_without_a_form_in_json_become_the_nearest_one(self) -> None:
        number = decimal.Decimal
        assert plain({"a": number("1.50"), "b": number("7"), "c": number("NaN"), "d": b"x"}) == {
            "a": 1.5,
            "b": 7,
        }
        assert plain([float("inf"), 2**70, {1}]) == [str(2**70), [1]]
        moment = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC)
        assert plain((moment, datetime.timedelta(minutes=2))) == [
            "2026-01-02T03:04:00+00:00",
            120.0,
        ]
        assert plain(uuid.UUID(int=1)) == "00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://a:b%40c@h/x", "postgres://a:…@h/x"),
        ("postgres://a@h/x", "postgres://a@h/x"),
        ("postgres://a:b:c@[::1/x", "postgres://a:…@[::1/x"),
        ("postgres://h/x?password=b&sslmode=require", "postgres://h/x?password=…&sslmode=require"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize("name", ["a#b.db", "a?b.db", "100%41.db"])
def test_a_database_may_have_any_name(tmp_path: Path, name: str) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / name)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER, x TEXT)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        connection.commit()
    for source in (str(tmp_path / name), f"sqlite://{quote(str(tmp_path / name))}"):
        assert items_of(format_dispatch.read(source, ReadOptions())) == [{"id": 1, "x": "a"}]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_library_that_a_password_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pymysql = pytest.importorskip("pymysql")

    def connect(**_: object) -> None:
        raise RuntimeError("'cryptography' package is required for caching_sha2_password")

    monkeypatch.setattr(pymysql, "connect", connect)
    with pytest.raises(SourceError, match=r"pip install 'facetd\[mysql\]'"):
        format_dispatch.read("mysql://me:secret@localhost/shop", ReadOptions(table="product"))
