"""The rows of a table of PostgreSQL, by the key that their items have as id."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from coordinator.cli.following.pgoutput import is_visible
from coordinator.cli.sources.postgres_connection import (
    ROWS_AT_ONCE,
    PostgresConnection,
    UnknownName,
)
from coordinator.cli.sources.rows_to_items import to_items
from coordinator.cli.sources.source import SourceError

if TYPE_CHECKING:
    from psycopg import sql

KEY_TYPES: Final = (
    *("smallint", "integer", "bigint"),
    *("text", "character varying", "uuid"),
)
"""Types of a key that look the same in PostgreSQL's log and as the id of an item."""
SHAPE_CHARS: Final = 16
_INTEGERS: Final = KEY_TYPES[:3]
_KEY: Final = "facetd key"


class Invisible(Exception):
    """A transaction is in the log, and other sessions do not see it yet; to be tried again."""


class PostgresTable:
    """The rows of a table, or of a query over it.

    Args:
        connection: to the database.
        table: name, possibly with its schema.
        id_field: column that has the ids; None: the primary key.
        query: gives the items; None: the table itself.

    Attributes:
        table: its name, found in the database.
        key_column: column that has the ids.

    Raises:
        UnknownName: there is no such table.
        SourceError: its rows cannot be told apart.
        Disconnected: the server is away.
    """

    def __init__(
        self, connection: PostgresConnection, table: str, id_field: str | None, query: str | None
    ) -> None:
        self._connection = connection
        self._query = query
        with connection.translated_errors():
            self.table = self._find_table(table)
            self.key_column, self._key_type = self._find_key(id_field)

    def _find_table(self, name: str) -> sql.Identifier:
        """Find a table by its name, as `--table` of `facetd load` has it."""
        from psycopg import sql

        parts = name.split(".", 1)
        found = self._connection.raw.execute(
            "SELECT n.nspname, c.relname, c.oid, c.relreplident FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p') AND c.relname = %s AND "
            "(n.nspname = %s OR %s AND pg_table_is_visible(c.oid))",
            (parts[-1], parts[0] if len(parts) > 1 else "", len(parts) == 1),
        ).fetchone()
        if found is None:  # yet, or for a moment: its owner may be replacing it
            raise UnknownName(f"the database has no table {name!r} (a view cannot be followed)")
        *self._names, self._oid, self._identity = found
        return sql.Identifier(*self._names)

    def _find_key(self, id_field: str | None) -> tuple[str, str]:
        """Return name and type of the column that has the ids, which the log must name too."""
        if self._identity == "n":
            raise SourceError(
                "the table has REPLICA IDENTITY NOTHING, so PostgreSQL does not say which rows "
                "change; send ALTER TABLE … REPLICA IDENTITY DEFAULT"
            )
        index = "indisreplident" if self._identity == "i" else "indisprimary"
        named = [
            str(name)
            for (name,) in self._connection.raw.execute(
                "SELECT a.attname FROM pg_index i JOIN pg_attribute a "
                f"ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.{index} "
                "AND i.indrelid = %s".encode(),
                (self._oid,),
            )
        ]
        key = id_field or (named[0] if len(named) == 1 else None)
        if key is None:
            what = f"a key of several columns ({', '.join(named)})" if named else "no primary key"
            raise SourceError(
                f"the table has {what}; name the column with the ids by --id-field, and send "
                "ALTER TABLE … REPLICA IDENTITY FULL"
            )
        found = self._connection.raw.execute(
            "SELECT format_type(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END, NULL) "
            "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
            "WHERE a.attrelid = %s AND a.attname = %s AND NOT a.attisdropped",
            (self._oid, key),
        ).fetchone()
        if found is None:
            raise SourceError(f"--id-field: the table has no column {key!r}")
        if self._identity != "f" and key not in named:
            raise SourceError(
                f"PostgreSQL's log does not say which {key!r} a removed row had; send ALTER TABLE "
                "… REPLICA IDENTITY FULL"
            )
        (kind,) = found
        if kind not in KEY_TYPES:
            raise SourceError(
                f"column {key!r} is of type {kind}, and ids are one of {', '.join(KEY_TYPES)}; "
                "name another by --id-field"
            )
        return key, str(kind)

    def shape(self) -> str:
        """Return object id, and a hash, of what changes items although no row changes.

        These are the table that has the name now, its columns, its partitions (attached, detached,
        dropped or emptied: the log names no rows then), and the query.
        """
        with self._connection.translated_errors():
            oid, found = self._connection.one(
                "WITH RECURSIVE named AS (SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))"
                "::oid AS oid), part(oid) AS (SELECT inhrelid FROM pg_inherits JOIN named ON "
                "inhparent = named.oid UNION SELECT inhrelid FROM pg_inherits JOIN part ON "
                "inhparent = part.oid) "
                "SELECT (SELECT oid::text FROM named), concat_ws('; ', "
                "(SELECT string_agg(concat_ws(' ', attnum, attname, atttypid, atttypmod), ', ' "
                "ORDER BY attnum) FROM pg_attribute WHERE attrelid = (SELECT oid FROM named) "
                "AND attnum > 0 AND NOT attisdropped), "
                "(SELECT string_agg(concat_ws(' ', oid, pg_relation_filenode(oid)), ', ' "
                "ORDER BY oid) FROM part))",
                *self._names,
            )
        shape = f"{found}; {self.key_column}; {self._query or ''}"
        return f"{oid} {hashlib.sha256(shape.encode()).hexdigest()[:SHAPE_CHARS]}"

    def all_rows(self) -> Iterator[bytes]:
        """Yield all rows as items, one per line, in pieces."""
        from psycopg import sql

        connection = self._connection.raw

        def rows() -> Iterator[dict[str, Any]]:
            with connection.transaction(), connection.cursor("facetd_copy") as cursor:
                cursor.itersize = ROWS_AT_ONCE
                cursor.execute(sql.SQL("SELECT * FROM {}").format(self._items()))
                names: list[str] = []
                for row in cursor:
                    names = names or [column.name for column in cursor.description or ()]
                    yield dict(zip(names, row, strict=True))

        with self._connection.translated_errors():
            yield from to_items(rows(), self.key_column)

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Return those of the ids that no row has."""
        possible = [id for id in ids if self._may_be_key(id)]
        with self._connection.translated_errors():
            from psycopg import sql

            found = self._connection.raw.execute(
                sql.SQL(
                    "SELECT {key}::text FROM {items} WHERE {key} = ANY({ids}::text[]::{type}[])"
                ).format(
                    key=sql.Identifier(self.key_column),
                    items=self._items(),
                    ids=sql.Literal(possible),
                    type=sql.SQL(_type(self._key_type)),
                )
            )
            there = {str(row[0]) for row in found}
        return [id for id in ids if id not in there]

    def _may_be_key(self, id: str) -> bool:
        if self._key_type in _INTEGERS:
            bits = {"smallint": 15, "integer": 31, "bigint": 63}[self._key_type]
            return (
                re.fullmatch(r"-?[0-9]{1,19}", id) is not None
                and -(1 << bits) <= int(id) < 1 << bits
            )
        if self._key_type == "uuid":
            try:
                uuid.UUID(id)
            except ValueError:
                return False
        return "\0" not in id

    def _items(self) -> sql.Composable:
        """Return what the items are selected from."""
        if self._query is None:
            return self.table
        from psycopg import sql

        text: Any = self._query.strip().rstrip(";")  # (the server needs the type of a literal)
        return sql.SQL("({}) AS facetd_items").format(sql.SQL(text))

    def read(self, keys: Sequence[str], xids: Sequence[int]) -> dict[str, bytes]:
        """Return the rows of some keys as items, by key; those that are gone are missing.

        Args:
            keys: of the rows.
            xids: transactions that must be visible.

        Raises:
            Invisible: some are not visible yet.
        """
        from psycopg import sql

        connection = self._connection.raw
        with self._connection.translated_errors(), connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            (snapshot,) = self._connection.one("SELECT pg_current_snapshot()::text")
            if not all(is_visible(xid, snapshot) for xid in xids):
                raise Invisible
            if not keys:
                return {}
            cursor = connection.execute(
                sql.SQL(
                    "SELECT *, {key}::text AS {alias} FROM {items} "
                    "WHERE {key} = ANY({keys}::text[]::{type}[])"
                ).format(
                    key=sql.Identifier(self.key_column),
                    alias=sql.Identifier(_KEY),
                    items=self._items(),
                    keys=sql.Literal(list(keys)),
                    type=sql.SQL(_type(self._key_type)),
                )
            )
            names = [column.name for column in cursor.description or ()]
            found = {}
            for row in cursor:
                members = dict(zip(names, row, strict=True))
                key = str(members.pop(_KEY))
                found[key] = b"".join(to_items([members], self.key_column)).rstrip(b"\n")
            return found


def _type(name: str) -> Any:
    """Return a type of the table of types, which needs no quotes."""
    assert name in KEY_TYPES
    return name
