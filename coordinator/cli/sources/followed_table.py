"""A table of PostgreSQL, followed by logical replication.

    publication + slot ──▶ which rows changed ──▶ these rows as they are now ──▶ items and removals

The server's log says *which* rows changed, by their key. What is stored is each row as it is when
its change is handled. So changes that are handled twice do no harm, a row never goes back to an
older state, values have the types that `facetd load` gives them, and a query may join other tables.

Everything uses SQL functions of an ordinary connection (`pg_logical_slot_peek_binary_changes`,
`pg_replication_slot_advance`): peeking consumes nothing, so what is not stored yet comes again.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from coordinator.cli.sources.databases import ROWS_AT_ONCE, without_password
from coordinator.cli.sources.pgoutput import Begin, Changed, Commit, Decoder, Truncated, is_visible
from coordinator.cli.sources.rows import to_items
from coordinator.cli.sources.source import SourceError

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

CHANGES_AT_ONCE: Final = 5_000
"""Changes after which a read of the log ends; it continues to the end of a transaction."""
KEY_TYPES: Final = (
    *("smallint", "integer", "bigint"),
    *("text", "character varying", "uuid"),
)
"""Types of a key that look the same in PostgreSQL's log and as the id of an item."""
_INTEGERS: Final = KEY_TYPES[:3]
_KEY: Final = "facetd key"


class Disconnected(Exception):
    """The database went away or refuses for the moment; to be tried again."""


class Invisible(Exception):
    """A transaction is in the log, and other sessions do not see it yet; to be tried again."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Changed rows.

    Attributes:
        items: by key, as JSON.
        gone: keys of rows that there are no more.
        end: log position up to which these and all earlier batches are complete; None in the
            middle of a transaction.
        is_truncated: whether the table was emptied among these changes: of all items, those that
            have no row are to be removed.
    """

    items: dict[str, bytes]
    gone: list[str]
    end: int | None
    is_truncated: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """The state of a replication slot: the log position up to which the server forgets."""

    confirmed: int
    is_new: bool


def lsn_text(lsn: int) -> str:
    """Return a log position as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFF_FFFF:X}"


def lsn_number(text: str) -> int:
    """Return a log position as a number."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


class FollowedTable:
    """A table, and the slot by which it is followed.

    Args:
        url: postgres://…
        table: name, possibly with its schema.
        slot: name of the slot and of the publication.
        id_field: column that has the ids; None: the primary key.
        query: gives the items; None: the table itself.

    Attributes:
        system: identifies the database server.
        key_column: column that has the ids.
    """

    def __init__(
        self, url: str, table: str, slot: str, *, id_field: str | None, query: str | None
    ) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise SourceError(
                "PostgreSQL needs a library that is not installed: pip install 'facetd[postgres]'"
            ) from error
        self._psycopg = psycopg
        self._url = url
        self._slot = slot
        self._query = query
        self._log = self._connect()
        self._rows = self._connect()
        try:
            with self._translated_errors():
                self._table = self._find_table(table)
                self.key_column, self._key_type = self._find_key(id_field)
                system = "SELECT system_identifier::text FROM pg_control_system()"
                (self.system,) = self._one(system)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
        self._rows.close()

    # --- set up

    def lock(self) -> bool:
        """Keep other followers off the slot while this one is connected; False: there is one."""
        with self._translated_errors():
            name = f"facetd {self._slot}"
            return bool(self._one("SELECT pg_try_advisory_lock(hashtext(%s))", name)[0])

    def open_slot(self) -> Slot:
        """Make publication and slot where they are missing; a slot that lost its log is re-created.

        Raises:
            SourceError: the server is not set up for it.
        """
        (level,) = self._one("SELECT current_setting('wal_level')")
        if level != "logical":
            raise SourceError(
                f"the database has wal_level = {level}, and following needs logical: send "
                "ALTER SYSTEM SET wal_level = logical, and restart PostgreSQL"
            )
        with self._translated_errors():
            self._publish()
            found = self._slot_row()
            if found is not None and found[1] == "lost":
                self._execute("SELECT pg_drop_replication_slot(%s)", self._slot)
                found = None
            if found is not None and found[2] != "pgoutput":
                raise SourceError(
                    f"there is a slot {self._slot!r} already, of plug-in {found[2]}; name another "
                    "--slot"
                )
            is_new = found is None
            if found is None:
                self._execute(
                    "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", self._slot
                )
                found = self._slot_row()
                assert found is not None
            return Slot(lsn_number(str(found[0])), is_new)

    def drop_slot(self) -> None:
        """Remove slot and publication: the server keeps no log for this follower any more."""
        with self._translated_errors():
            if self._slot_row() is not None:
                self._execute("SELECT pg_drop_replication_slot(%s)", self._slot)
            sql = self._psycopg.sql
            self._execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(self._publication()))

    def _slot_row(self) -> tuple[Any, ...] | None:
        """Return position, state of the log, and plug-in of the slot."""
        return self._rows.execute(
            "SELECT confirmed_flush_lsn, wal_status, plugin FROM pg_replication_slots "
            "WHERE slot_name = %s",
            (self._slot,),
        ).fetchone()

    def _publish(self) -> None:
        """Make the publication, unless it is there."""
        sql = self._psycopg.sql
        known = self._rows.execute(
            "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s",
            (self._slot,),
        ).fetchall()
        if not known:
            self._execute(
                sql.SQL(
                    "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
                ).format(self._publication(), self._table)
            )
        elif self._table not in [sql.Identifier(*names) for names in known]:
            listed = ", ".join(".".join(names) for names in known)
            raise SourceError(
                f"slot and publication {self._slot!r} are for {listed}; name another --slot"
            )

    def _publication(self) -> sql.Identifier:
        return self._psycopg.sql.Identifier(self._slot)

    def _find_table(self, name: str) -> sql.Identifier:
        """Find a table by its name, as `--table` of `facetd load` has it."""
        parts = name.split(".", 1)
        found = self._rows.execute(
            "SELECT n.nspname, c.relname, c.oid, c.relreplident FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p') AND c.relname = %s AND "
            "(n.nspname = %s OR %s AND pg_table_is_visible(c.oid))",
            (parts[-1], parts[0] if len(parts) > 1 else "", len(parts) == 1),
        ).fetchone()
        if found is None:
            raise SourceError(f"the database has no table {name!r} (a view cannot be followed)")
        schema, table, self._oid, self._identity = found
        return self._psycopg.sql.Identifier(schema, table)

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
            for (name,) in self._rows.execute(
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
        found = self._rows.execute(
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

    # --- rows

    def all_rows(self) -> Iterator[bytes]:
        """Yield all rows as items, one per line, in pieces."""

        def rows() -> Iterator[dict[str, Any]]:
            with self._rows.transaction(), self._rows.cursor("facetd_copy") as cursor:
                cursor.itersize = ROWS_AT_ONCE
                cursor.execute(self._psycopg.sql.SQL("SELECT * FROM {}").format(self._items()))
                names: list[str] = []
                for row in cursor:
                    names = names or [column.name for column in cursor.description or ()]
                    yield dict(zip(names, row, strict=True))

        with self._translated_errors():
            yield from to_items(rows(), self.key_column)

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Return those of the ids that no row has."""
        possible = [id for id in ids if self._may_be_key(id)]
        with self._translated_errors():
            sql = self._psycopg.sql
            found = self._rows.execute(
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
            return re.fullmatch(r"-?[0-9]{1,19}", id) is not None and abs(int(id)) < 1 << bits
        if self._key_type == "uuid":
            try:
                uuid.UUID(id)
            except ValueError:
                return False
        return "\0" not in id

    def _items(self) -> sql.Composable:
        """Return what the items are selected from."""
        from psycopg import sql

        if self._query is None:
            return self._table
        text: Any = self._query.strip().rstrip(";")  # (the server needs the type of a literal)
        return sql.SQL("({}) AS facetd_items").format(sql.SQL(text))

    def _read(self, keys: Sequence[str], xids: Sequence[int]) -> dict[str, bytes]:
        """Return the rows of some keys as items.

        Raises:
            Invisible: some of the transactions are not visible yet.
        """
        sql = self._psycopg.sql
        connection = self._rows
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            (snapshot,) = self._one("SELECT pg_current_snapshot()::text")
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

    # --- changes

    def log_end(self) -> int:
        """Return the position up to which the server's log is on disk."""
        with self._translated_errors():
            return lsn_number(str(self._one("SELECT pg_current_wal_flush_lsn()")[0]))

    def changes(self, upto: int) -> Iterator[Batch]:
        """Yield what changed after the slot's position; the slot stays where it is.

        Args:
            upto: log position to read to. It was reached if nothing is yielded.

        Raises:
            Disconnected, Invisible: try again.
            SourceError: the database refuses.
        """
        decoder = Decoder(self.key_column)
        keys: dict[str, None] = {}
        xids: list[int] = []
        end: int | None = None
        is_truncated = False
        with (
            self._translated_errors(),
            self._log.transaction(),
            self._log.cursor("facetd_log") as cursor,
        ):
            cursor.itersize = ROWS_AT_ONCE
            cursor.execute(
                "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::text::pg_lsn, "
                "%s, 'proto_version', '1', 'publication_names', %s)",
                (self._slot, lsn_text(upto), CHANGES_AT_ONCE, f'"{self._slot}"'),
            )
            for (message,) in cursor:
                for event in decoder.decode(bytes(message)):
                    match event:
                        case Begin(xid):
                            xids.append(xid)
                            end = None
                        case Changed(key):
                            keys[key] = None
                        case Truncated():
                            is_truncated = True
                        case Commit(end):
                            pass
                if len(keys) >= ROWS_AT_ONCE:
                    yield self._batch(list(keys), xids, end, is_truncated)
                    keys.clear()
                    del xids[:-1]  # the last one may continue
                    is_truncated = False
            if xids:
                yield self._batch(list(keys), xids, end, is_truncated)

    def _batch(
        self, keys: Sequence[str], xids: Sequence[int], end: int | None, is_truncated: bool
    ) -> Batch:
        items = self._read(keys, xids)
        return Batch(items, [key for key in keys if key not in items], end, is_truncated)

    def advance(self, position: int) -> None:
        """Let the server forget its log up to a position."""
        with self._translated_errors():
            self._execute(
                "SELECT pg_replication_slot_advance(%s, %s::text::pg_lsn)",
                *(self._slot, lsn_text(position)),
            )

    # --- connections

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        with self._translated_errors():
            return self._psycopg.connect(
                self._url, autocommit=True, application_name=f"facetd follow {self._slot}"
            )

    def _execute(self, query: Any, *values: Any) -> None:
        self._rows.execute(query, values or None)

    def _one(self, query: str, *values: Any) -> tuple[Any, ...]:
        row = self._rows.execute(query.encode(), values or None).fetchone()
        assert row is not None
        return row

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise our errors instead of the library's."""
        try:
            yield
        except self._psycopg.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: psycopg.Error) -> SourceError | Disconnected:
        """Return what to raise for an error of the database."""
        text = f"{without_password(self._url)}: {str(error).strip()}"
        state = error.sqlstate
        # No state: the connection; 08, 57P: it ends; 55006: the slot is in use; 40: conflict.
        if (
            state is None
            or state[:2] in ("08", "40", "53")
            or state[:3] == "57P"
            or state == "55006"
        ):
            return Disconnected(text)
        return SourceError(text)


def _type(name: str) -> Any:
    """Return a type of the table of types, which needs no quotes."""
    assert name in KEY_TYPES
    return name
