"""A replication slot of PostgreSQL: which rows of a table have changed, in the order of the log.

Everything uses SQL functions of an ordinary connection (`pg_logical_slot_peek_binary_changes`,
`pg_replication_slot_advance`): peeking consumes nothing, so what is not stored yet comes again.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coordinator.cli.following.pgoutput import Decoder, Event
from coordinator.cli.sources.postgres_connection import (
    ROWS_AT_ONCE,
    PostgresConnection,
    RightMissing,
)
from coordinator.cli.sources.source import SourceError

if TYPE_CHECKING:
    from psycopg import sql

CHANGES_AT_ONCE: Final = 5_000
"""Changes after which a read of the log ends; it continues to the end of a transaction."""


@dataclass(frozen=True, slots=True)
class SlotState:
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


def application_name(slot: str) -> str:
    """Return how the server's list of sessions names those that follow by a slot."""
    return f"facetd follow {slot}"[:63]  # the server cuts it


class ReplicationSlot:
    """A slot, and the publication of the same name.

    Args:
        connection: to the database.
        log: another one, in which a transaction is open while changes are read.
        name: of both.
        table: the published one.
    """

    def __init__(
        self,
        connection: PostgresConnection,
        log: PostgresConnection,
        name: str,
        table: sql.Identifier,
    ) -> None:
        self._connection = connection
        self._log = log
        self._name = name
        self._table = table

    def lock(self) -> bool:
        """Keep other followers off the slot while this one is connected.

        Returns:
            False if there is another one, or if the session of one that was killed still reads the
            log; then that session is told to end.
        """
        with self._connection.translated_errors():
            name = f"facetd {self._name}"
            if not self._connection.one("SELECT pg_try_advisory_lock(hashtext(%s))", name)[0]:
                return False
            ended = self._connection.raw.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_replication_slots "
                "JOIN pg_stat_activity ON pid = active_pid "
                "WHERE slot_name = %s AND database = current_database() AND application_name = %s",
                (self._name, application_name(self._name)),
            ).fetchall()
            return not ended

    def open(self, former: str = "", *, renew: bool = False) -> SlotState:
        """Make publication and slot where they are missing; a slot that lost its log is re-created.

        So is the slot of a table that was dropped, replaced or altered: its log may lack what
        happened to the table that has the name now, and has rows with columns of other names. And
        so is the slot of a publication that was dropped: the server reads no log that is older
        than the publication.

        Args:
            former: object id of the table that was followed so far; "" if unknown.
            renew: whether the table was altered.

        Raises:
            SourceError: the server is not set up for it, the user may not do it, or the slot is for
                something else.
        """
        try:
            return self._open(former, renew=renew)
        except RightMissing as error:
            raise SourceError(f"{error}; {self._rights()}") from error

    def _rights(self) -> str:
        """Return what the user must be granted, as the statements to send."""
        with self._connection.translated_errors():
            database, user = self._connection.one(
                "SELECT quote_ident(current_database()), quote_ident(current_user)"
            )
        return (
            f"following needs GRANT CREATE ON DATABASE {database} TO {user}, ALTER ROLE {user} "
            f"REPLICATION, and the ownership of {self._table.as_string(None)}"
        )

    def _open(self, former: str, *, renew: bool) -> SlotState:
        with self._connection.translated_errors():
            (level,) = self._connection.one("SELECT current_setting('wal_level')")
            if level != "logical":
                raise SourceError(
                    f"the database has wal_level = {level}, and following needs logical: send "
                    "ALTER SYSTEM SET wal_level = logical, and restart PostgreSQL"
                )
            found = self._row()
            is_published = self._is_published(former)
            if found is not None and (renew or not is_published or found[1] == "lost"):
                self._connection.execute("SELECT pg_drop_replication_slot(%s)", self._name)
                found = None
            if not is_published:  # without a slot, so that a kill from here on leads to a copy
                self._publish()
            is_new = found is None
            if found is None:
                self._connection.execute(
                    "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", self._name
                )
                found = self._row()
                assert found is not None
            return SlotState(lsn_number(str(found[0])), is_new)

    def drop(self) -> None:
        """Remove slot and publication: the server keeps no log for this follower any more."""
        with self._connection.translated_errors():
            if self._row() is not None:
                self._connection.execute("SELECT pg_drop_replication_slot(%s)", self._name)
            from psycopg import sql

            self._connection.execute(
                sql.SQL("DROP PUBLICATION IF EXISTS {}").format(self._publication())
            )

    def _row(self) -> tuple[Any, ...] | None:
        """Return position and state of the log of the slot; None if there is none.

        Raises:
            SourceError: it is not ours. (A server has one list of slots for all its databases.)
        """
        found = self._connection.raw.execute(
            "SELECT confirmed_flush_lsn, wal_status, plugin, database, current_database() "
            "FROM pg_replication_slots WHERE slot_name = %s",
            (self._name,),
        ).fetchone()
        if found is None:
            return None
        position, state, plugin, database, our_database = found
        if plugin != "pgoutput" or database != our_database:
            raise SourceError(
                f"there is a slot {self._name!r} already, of database {database} and plug-in "
                f"{plugin}; name another --slot"
            )
        return position, state

    def _is_published(self, former: str) -> bool:
        """Return whether the publication is there, and for this table."""
        from psycopg import sql

        known = self._connection.raw.execute(
            "SELECT schemaname, tablename, format('%%I.%%I', schemaname, tablename)::regclass::oid "
            "FROM pg_publication_tables WHERE pubname = %s",
            (self._name,),
        ).fetchall()
        if any(self._table == sql.Identifier(*names) for *names, _ in known):
            return True
        if [str(oid) for *_, oid in known] in ([], [former]):
            return False
        listed = ", ".join(".".join(names) for *names, _ in known)
        raise SourceError(
            f"slot and publication {self._name!r} are for {listed}; name another --slot"
        )

    def _publish(self) -> None:
        """Publish the table that has the name now, and no other."""
        from psycopg import sql

        query = "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = %s)"
        (exists,) = self._connection.one(query, self._name)
        statement = (
            "ALTER PUBLICATION {} SET TABLE {}"
            if exists
            else "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
        )
        self._connection.execute(sql.SQL(statement).format(self._publication(), self._table))

    def _publication(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(self._name)

    def log_end(self) -> int:
        """Return the position up to which the server's log is on disk."""
        with self._connection.translated_errors():
            return lsn_number(str(self._connection.one("SELECT pg_current_wal_flush_lsn()")[0]))

    def events(self, upto: int, key_column: str) -> Generator[Event, None, None]:
        """Yield what happened after the slot's position; the slot stays where it is.

        Args:
            upto: log position to read to. It was reached if nothing is yielded.
            key_column: identifies the rows of the table.

        Raises:
            Disconnected: try again.
            SourceError: the database refuses.
        """
        decoder = Decoder(key_column)
        with (
            self._log.translated_errors(),
            self._log.raw.transaction(),
            self._log.raw.cursor("facetd_log") as cursor,
        ):
            cursor.itersize = ROWS_AT_ONCE
            cursor.execute(
                "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::text::pg_lsn, "
                "%s, 'proto_version', '1', 'publication_names', %s)",
                (self._name, lsn_text(upto), CHANGES_AT_ONCE, f'"{self._name}"'),
            )
            for (message,) in cursor:
                yield from decoder.decode(bytes(message))

    def advance(self, position: int) -> None:
        """Let the server forget its log up to a position."""
        with self._connection.translated_errors():
            self._connection.execute(
                "SELECT pg_replication_slot_advance(%s, %s::text::pg_lsn)",
                self._name,
                lsn_text(position),
            )
