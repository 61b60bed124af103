"""Databases: the rows of a query or a table.

    shop.db                                SQLite, with Python's own library
    postgres://user:password@host/shop     PostgreSQL, with the extra facetd[postgres] (psycopg)
    mysql://user:password@host/shop        MySQL and MariaDB, with the extra facetd[mysql] (PyMySQL)

Rows are streamed, so a result may be larger than memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from coordinator.cli.sources.declared_type_conversion import DeclaredKinds
from coordinator.cli.sources.postgres_connection import (
    ROWS_AT_ONCE,
    open_connection,
    without_password,
)
from coordinator.cli.sources.rows_to_items import example_of, id_name, kind_of, to_items
from coordinator.cli.sources.source import (
    Column,
    ReadOptions,
    Source,
    SourceError,
    importing_extra,
)

NO_KINDS: Final[Mapping[str, str]] = MappingProxyType({})
_BOOLEANS: Final = ("boolean", "bool")
"""Declared types of SQLite whose values are 1 and 0."""
MYSQL_PORT: Final = 3306
_MYSQL_TINY: Final = 1
_MYSQL_BIT: Final = 16
_MYSQL_JSON: Final = 245
_TABLES: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
    "AND name NOT LIKE 'sqlite_%' ORDER BY name",
    "postgres": "SELECT CASE WHEN is_near THEN '' ELSE table_schema || '.' END || table_name "
    "FROM (SELECT *, table_schema = ANY (current_schemas(false)) AS is_near "
    "FROM information_schema.tables) AS found "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') "
    "ORDER BY is_near DESC, table_schema, table_name",
    "mysql": "SELECT CONCAT(IF(DATABASE() IS NULL, CONCAT(table_schema, '.'), ''), table_name) "
    "FROM information_schema.tables WHERE table_schema = DATABASE() OR DATABASE() IS NULL AND "
    "table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') "
    "ORDER BY table_schema, table_name",
}
"""By kind of database: a query for its tables, as `--table` names them."""
_TABLES_SHOWN: Final = 20
_MYSQL_NO_TABLE: Final = 1146
SCHEMES: Final = ("postgres", "postgresql", "mysql", "mariadb", "sqlite")


class ResultRow(NamedTuple):
    """One row of a result.

    Attributes:
        names: of the columns.
        values: of the row.
        declared: kinds of columns whose values do not show them: truth is a number in MySQL.
    """

    names: list[str]
    values: list[Any]
    declared: Mapping[str, str] = NO_KINDS


class _UnknownTable(SourceError):
    """The database has no such table."""


class Rows(Protocol):
    """From a query to rows; if only the first is wanted, the others are not transferred."""

    def __call__(self, query: str, *, only_first: bool = False) -> Iterator[ResultRow]:
        """Yield the rows of a query."""


def is_database(name: str) -> bool:
    """Return whether a name is the URL of a database."""
    scheme, mark, _ = name.partition("://")
    return bool(mark) and scheme.lower() in SCHEMES


def read(name: str, options: ReadOptions) -> Source:
    """Open a database by its URL.

    Raises:
        SourceError: its library is not installed, it cannot be reached, or the query is invalid.
    """
    scheme, _, rest = name.partition("://")
    scheme = scheme.lower()
    if scheme == "sqlite":
        return read_sqlite(unquote(rest), options)
    database = "postgres" if scheme.startswith("postgres") else "mysql"
    fetch = _postgres(name) if database == "postgres" else _mysql(name)
    shown_name = without_password(name)
    if options.query is None and options.table is None:
        tables = _tables(fetch, database)
        raise SourceError(f"name a --table of {shown_name}, or a --query; {_listed(tables)}")
    with _naming_tables(fetch, database):
        query = _query(options, '"' if database == "postgres" else "`")
        return _source(shown_name, fetch, query, options)


def read_sqlite(path: str, options: ReadOptions) -> Source:
    """Open a SQLite file; if it has a single table, read that one by default."""
    declared: dict[str, str] = {}

    def connect() -> sqlite3.Connection:
        try:
            return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
        except sqlite3.Error as error:
            raise SourceError(f"cannot open {path}: {error}") from error

    def fetch(query: str, *, only_first: bool = False) -> Iterator[ResultRow]:
        connection = connect()
        try:
            cursor = connection.execute(query)
            if cursor.description is None:
                raise SourceError(f"this query gives no rows: {query}")
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield ResultRow(names, list(row), declared)
        except sqlite3.Error as error:
            is_unknown = str(error).startswith("no such table")
            raise (_UnknownTable if is_unknown else SourceError)(f"{path}: {error}") from error
        finally:
            connection.close()

    if options.query is None and options.table is None:
        tables = _tables(fetch, "sqlite")
        if len(tables) != 1:
            raise SourceError(f"name a --table of {path}, or a --query; {_listed(tables)}")
        options = replace(options, table=tables[0])
    if options.query is None:
        table = _quoted(str(options.table), '"')
        columns = [row.values for row in fetch(f"PRAGMA table_info({table})")]
        declared = {
            str(name): "boolean" for _, name, kind, *_ in columns if kind.lower() in _BOOLEANS
        }
    with _naming_tables(fetch, "sqlite"):
        return _source(path, fetch, _query(options, '"'), options)


def _query(options: ReadOptions, quote: str) -> str:
    """Return the query that the command line specifies, or one for all rows of its table."""
    if options.query is not None:
        return options.query
    table = str(options.table)
    return "SELECT * FROM " + ".".join(_quoted(part, quote) for part in table.split("."))


def _tables(fetch: Rows, database: str) -> list[str]:
    """Return the tables of a database."""
    return [str(row.values[0]) for row in fetch(_TABLES[database])]


def _listed(tables: list[str]) -> str:
    """Return the names of tables for a message."""
    more = f" and {len(tables) - _TABLES_SHOWN:,} more" if len(tables) > _TABLES_SHOWN else ""
    return (
        f"its tables are {', '.join(tables[:_TABLES_SHOWN])}{more}" if tables else "it has no table"
    )


@contextmanager
def _naming_tables(fetch: Rows, database: str) -> Iterator[None]:
    """Add the tables that there are to an error about one that there is not."""
    try:
        yield
    except _UnknownTable as error:
        raise SourceError(f"{error}; {_listed(_tables(fetch, database))}") from error


def _quoted(name: str, quote: str) -> str:
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def _source(name: str, fetch: Rows, query: str, options: ReadOptions) -> Source:
    """Inspect the first row; return all rows as items."""
    rows = fetch(query, only_first=True)
    first = next(rows, None)
    names, values, declared = ResultRow([], []) if first is None else first
    for one in names:
        if names.count(one) > 1:
            raise SourceError(f"two columns are called {one!r}; rename one in the query: … AS name")
    id_column = id_name(names, options.id_field, "the result") if names else None
    for option, given in (("--type", options.kinds), ("--split", options.separators)):
        unknown = [one for one in given if names and one not in names]
        if unknown:
            raise SourceError(
                f"{option}: the result has no column {unknown[0]!r}; its columns are "
                f"{', '.join(names)}"
            )
    kinds = DeclaredKinds(options.kinds, options.separators, declared)

    def items() -> Iterator[bytes]:
        return to_items(
            (
                kinds.convert(dict(zip(names, row.values, strict=True)), f"row {number}")
                for number, row in enumerate(fetch(query), 1)
            ),
            id_column,
        )

    rows_close = getattr(rows, "close", None)
    if rows_close is not None:
        rows_close()
    columns = [
        Column(
            one,
            f"{kinds.columns.get(one) or kind_of(value)}{', the id' if one == id_column else ''}",
            0,
            example_of(value),
        )
        for one, value in zip(names, values, strict=True)
    ]
    return Source(name, items, columns, place_of=lambda number: f"row {number}")


def _postgres(url: str) -> Rows:
    """Return a function that fetches rows from PostgreSQL, with a server-side cursor."""
    with importing_extra("postgres", "PostgreSQL"):
        import psycopg

    def fetch(query: str, *, only_first: bool = False) -> Iterator[ResultRow]:
        try:
            with open_connection(url) as connection, connection.cursor("facetd") as cursor:
                cursor.itersize = 1 if only_first else ROWS_AT_ONCE
                cursor.execute(query.encode())
                names: list[str] = []
                for row in cursor:
                    names = names or [column.name for column in cursor.description or ()]
                    yield ResultRow(names, list(row))
        except psycopg.Error as error:
            # Without the place in the statement, which is that of our cursor, not the one typed.
            told = error.diag.message_primary or str(error).strip()
            is_unknown = isinstance(error, psycopg.errors.UndefinedTable)
            failure = _UnknownTable if is_unknown else SourceError
            raise failure(f"{without_password(url)}: {told}") from error

    return fetch


def _mysql(url: str) -> Rows:
    """Return a function that fetches rows from MySQL, unbuffered."""
    with importing_extra("mysql", "MySQL"):
        import pymysql
        from pymysql.cursors import SSCursor
    try:
        parts = urlsplit(url)
        port = parts.port or MYSQL_PORT
    except ValueError as error:
        raise SourceError(
            f"{without_password(url)} is not an address ({error}); write "
            "mysql://user:password@host:port/database"
        ) from error
    options = dict(parse_qsl(parts.query))

    def fetch(query: str, *, only_first: bool = False) -> Iterator[ResultRow]:
        try:
            connection = pymysql.connect(
                host=parts.hostname or "localhost",
                port=port,
                user=unquote(parts.username or "") or None,
                password=unquote(parts.password or ""),
                database=unquote(parts.path.lstrip("/")) or None,
                unix_socket=options.get("unix_socket"),
                charset="utf8mb4",
            )
            try:
                with connection.cursor(SSCursor) as cursor:
                    if only_first:  # closing the cursor reads the result to its end
                        cursor.execute("SET SESSION sql_select_limit = 1")
                    cursor.execute(query)
                    columns = cursor.description or ()
                    names = [column[0] for column in columns]
                    declared = {
                        column[0]: kind for column in columns if (kind := _mysql_kind(*column[1:4]))
                    }
                    for row in cursor:
                        yield ResultRow(names, list(row), declared)
            finally:
                connection.close()
        except pymysql.MySQLError as error:
            failure = _UnknownTable if error.args[0] == _MYSQL_NO_TABLE else SourceError
            raise failure(f"{without_password(url)}: {error.args[-1]}") from error
        except RuntimeError as error:
            if "cryptography" not in str(error):
                raise
            raise SourceError(
                f"{without_password(url)} takes passwords encrypted (caching_sha2_password), which "
                "needs a library that is not installed: pip install 'facetd[mysql]'"
            ) from error

    return fetch


def _mysql_kind(type_code: int, _: object, num_digits: int) -> str | None:
    """Return the kind of a column whose values do not show it; None for all others.

    TINYINT(1) is what BOOL stands for there, and the only width of an integer that MySQL keeps.
    """
    if type_code == _MYSQL_BIT:
        return "boolean" if num_digits == 1 else "integer"
    if type_code == _MYSQL_JSON:
        return "json"
    return "boolean" if type_code == _MYSQL_TINY and num_digits == 1 else None
