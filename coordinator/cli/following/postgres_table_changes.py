"""A table of PostgreSQL, followed by logical replication.

    slot ──▶ which rows changed ──▶ these rows as they are now ──▶ items and removals
    (replication_slot)                                (followed_postgres_rows)

The server's log says *which* rows changed, by their key. What is stored is each row as it is when
its change is handled. So changes that are handled twice do no harm, a row never goes back to an
older state, values have the types that `facetd load` gives them, and a query may join other tables.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from coordinator.cli.following.followed_postgres_rows import PostgresTable
from coordinator.cli.following.pgoutput import Begin, Changed, Commit, Truncated
from coordinator.cli.following.replication_slot import ReplicationSlot, application_name
from coordinator.cli.sources.postgres_connection import ROWS_AT_ONCE, PostgresConnection


@dataclass(frozen=True, slots=True)
class Batch:
    """Changed rows.

    Attributes:
        items: by key, as JSON.
        gone: keys of rows that no longer exist.
        end: log position up to which these and all earlier batches are complete; None in the
            middle of a transaction.
        is_truncated: whether the table was emptied among these changes: of all items, those that
            have no row are to be removed.
    """

    items: dict[str, bytes]
    gone: list[str]
    end: int | None
    is_truncated: bool = False


class FollowedTable:
    """A table, and the slot by which it is followed.

    Args:
        url: postgres://…
        table: name, possibly with its schema.
        slot: name of the slot and of the publication.
        id_field: column that has the ids; None: the primary key.
        query: gives the items; None: the table itself.

    Attributes:
        rows: as they are now.
        slot: says which of them have changed.
        system: identifies the database server.
    """

    def __init__(
        self, url: str, table: str, slot: str, *, id_field: str | None, query: str | None
    ) -> None:
        self._connections: list[PostgresConnection] = []
        try:
            log = self._connect(url, slot)
            connection = self._connect(url, slot)
            self.rows = PostgresTable(connection, table, id_field, query)
            self.slot = ReplicationSlot(connection, log, slot, self.rows.table)
            with connection.translated_errors():
                system = "SELECT system_identifier::text FROM pg_control_system()"
                (self.system,) = connection.one(system)
        except BaseException:
            self.close()
            raise

    def _connect(self, url: str, slot: str) -> PostgresConnection:
        connection = PostgresConnection(url, application_name(slot))
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()

    def changes(self, upto: int) -> Generator[Batch, None, None]:
        """Yield what changed after the slot's position; the slot stays where it is.

        Args:
            upto: log position to read to. It was reached if nothing is yielded.

        Raises:
            Disconnected, Invisible: try again.
            SourceError: the database refuses.
        """
        keys: dict[str, None] = {}
        xids: list[int] = []
        end: int | None = None
        is_truncated = False
        with closing(self.slot.events(upto, self.rows.key_column)) as events:
            for event in events:
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
        items = self.rows.read(keys, xids)
        return Batch(items, [key for key in keys if key not in items], end, is_truncated)
