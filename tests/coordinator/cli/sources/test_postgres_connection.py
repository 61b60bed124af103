"""Rows of a real PostgreSQL, where Debian's package is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from coordinator.cli.sources import format_dispatch
from coordinator.cli.sources.source import ReadOptions, SourceError


@pytest.fixture
def tables(url: str) -> Iterator[None]:
    """Make a table, and another one in a schema that is not searched."""
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE TABLE product (id bigint, name text, price numeric, tags text[], "
            "made timestamptz, extra jsonb, photo bytea, code uuid)"
        )
        connection.execute(
            "INSERT INTO product SELECT i, 'name ' || i, i / 4.0, ARRAY['a', 'b'], "
            "'2026-01-02T03:04:05Z', '{\"k\": [1]}', '\\x00', "
            "'00000000-0000-0000-0000-000000000001' FROM generate_series(1, 5000) AS i"
        )
        connection.execute("CREATE SCHEMA shop")
        connection.execute("CREATE TABLE shop.orders AS SELECT 1 AS id")
    yield
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE product")
        connection.execute("DROP SCHEMA shop CASCADE")


@pytest.mark.usefixtures("tables")
def test_rows_are_streamed_with_their_types(url: str) -> None:
    source = format_dispatch.read(url, ReadOptions(table="public.product"))
    assert source.columns[0].name == "id"
    items = [json.loads(line) for line in b"".join(source.pieces()).splitlines()]
    assert len(items) == 5000
    assert {**items[1], "made": items[1]["made"][:10]} == {
        "id": 2,
        "name": "name 2",
        "price": 0.5,
        "tags": ["a", "b"],
        "made": "2026-01-02",
        "extra": {"k": [1]},
        "code": "00000000-0000-0000-0000-000000000001",
    }
    source = format_dispatch.read(
        url, ReadOptions(query="SELECT name AS id FROM product WHERE price > 1249")
    )
    assert len(b"".join(source.pieces()).splitlines()) == 4


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ReadOptions(query="SELEKT 1"), "syntax error"),
        (ReadOptions(table="none"), r'relation "none" does not exist; its tables are .*product'),
        (ReadOptions(), "name a --table of .*; its tables are .*product"),
        (ReadOptions(query="UPDATE pg_class SET relname = relname"), "syntax error"),
    ],
)
def test_a_wrong_query_is_told_as_the_database_tells_it(
    url: str, options: ReadOptions, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        list(format_dispatch.read(url, options).pieces())


@pytest.mark.usefixtures("tables")
def test_tables_out_of_reach_are_named_with_their_schema(url: str) -> None:
    with pytest.raises(SourceError, match=r"its tables are .*shop\.orders\Z"):
        format_dispatch.read(url, ReadOptions())
    source = format_dispatch.read(url, ReadOptions(table="shop.orders"))
    assert b"".join(source.pieces()) == b'{"id":1}\n'
