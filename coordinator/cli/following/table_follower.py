"""Keeps an index equal to a table of PostgreSQL, through failures of both and of itself.

    copy    all rows ──▶ POST /{index}/index, then the position of the slot
    follow  changed rows + position ──▶ POST /{index}/items/changes ──▶ the slot may forget them

The position is stored in the same commit as the changes (`followed_index`). So wherever a kill
strikes this program, the service or the database, the next run knows what is stored. If the
server's log no longer reaches back so far (the index was restored or the slot re-created),
everything is copied again, and what the table no longer has is removed. So it is after changes that
the log does not have: another table, other columns or partitions, another query. With the position,
the index keeps what it was made of; both are compared before changes are stored, and every few
seconds.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import FrameType
from typing import Final

from coordinator.cli.escaped_output import echo
from coordinator.cli.following.followed_index import COPYING, FollowedIndex, Replaced, TablePosition
from coordinator.cli.following.followed_postgres_rows import Invisible
from coordinator.cli.following.postgres_table_changes import Batch, FollowedTable
from coordinator.cli.following.replication_slot import SlotState, lsn_number, lsn_text
from coordinator.cli.loading.configuration_options import show_warnings
from coordinator.cli.loading.proposed_configuration import offer_configuration
from coordinator.cli.sources.postgres_connection import Disconnected, UnknownName
from coordinator.cli.sources.source import SourceError
from coordinator.command_line_client import Client, ClientError

IDS_AT_ONCE: Final = 1_000
IDLE_BYTES_MAX: Final = 1 << 20
"""Of the server's log without changes to the table, after which the position is moved."""
LOCK_SECONDS: Final = 10.0
"""How long a follower that was killed may stay connected."""
RETRY_SECONDS: Final = (0.2, 1.0, 2.0, 5.0, 10.0)
"""Between attempts after a failure; the last one is repeated."""
INVISIBLE_SECONDS: Final = 0.02
CHECK_SECONDS: Final = 5.0
"""How often index and table are looked at while nothing changes; and how long an index may show an
older position, because the host that answers is slower than the others."""
ABSENT_SECONDS: Final = 600.0
"""How long an index may be gone: it is deleted before a restore, which may take minutes."""
_PASSING: Final = frozenset((0, 429, 502, 503, 504, 507))
"""HTTP statuses, and 0 for no answer, after which the same request may succeed later."""

_Failure = Disconnected | UnknownName | ClientError


class TableFollower:
    """Stores the changes of one table.

    Args:
        client: of the service.
        index: name of the index to store into.
        slot_name: of the replication slot, which also names the source of the positions.
        skips_bad: whether rows that cannot be stored are left out.
        replaces: whether the index may have items that are not the table's.

    Attributes:
        has_followed: whether all of the table was stored once.
    """

    def __init__(
        self, client: Client, index: str, slot_name: str, *, skips_bad: bool, replaces: bool
    ) -> None:
        self._client = client
        self._name = index
        self._index = FollowedIndex(client, index, slot_name, self._say if skips_bad else None)
        self._slot_name = slot_name
        self._skips_bad = skips_bad
        self._replaces = replaces
        self.has_followed = False
        self._stopping = threading.Event()
        self._position = 0
        """Log position up to which everything is stored."""
        self._num_changes = 0
        """Rows that were stored or removed since the start."""
        self._system = ""
        self._shape = ""
        self._num_failures = 0
        """Since the log was last read to its end."""
        self._failure = ""
        """The last of them."""
        self._failing_since = 0.0
        """With this one, by `time.monotonic`."""

    def stop_on_signals(self) -> None:
        """Finish the current batch on SIGTERM or Ctrl-C, then end; at a second one, end at once."""

        def stop(number: int, _: FrameType | None) -> None:
            self._stopping.set()
            signal.signal(number, signal.SIG_DFL)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)

    def run(
        self,
        connect: Callable[[], closing[FollowedTable]],
        interval: float,
        *,
        once: bool,
        proposing: str,
    ) -> None:
        """Follow until told to stop, through failures of the database and of the service."""
        while not self._stopping.is_set():
            try:
                with connect() as table:
                    self._lock(table)
                    self._begin(table)
                    if not self.has_followed:
                        self._offer(proposing)
                        self._say("following; Ctrl-C stops" if not once else "following")
                        self.has_followed = True
                    self._follow(table, interval, once=once)
                return
            except Replaced:
                self._stopping.wait(RETRY_SECONDS[0])
            except (Disconnected, UnknownName, ClientError) as error:
                is_another = str(error) != self._failure
                if is_another:
                    self._failure, self._failing_since = str(error), time.monotonic()
                if not self.has_followed or not self._may_pass(error, once=once):
                    raise
                if is_another:
                    self._say(_waiting_for(error))
                seconds = RETRY_SECONDS[min(self._num_failures, len(RETRY_SECONDS) - 1)]
                self._num_failures += 1
                self._stopping.wait(seconds)

    def _may_pass(self, error: _Failure, *, once: bool) -> bool:
        """Return whether what failed may work again."""
        match error:
            case ClientError(code="index_not_found"):
                return not once and time.monotonic() < self._failing_since + ABSENT_SECONDS
            case ClientError():
                return error.status in _PASSING
            case UnknownName():  # a table that is being altered, a slot that was removed
                return not once
            case Disconnected():
                return True

    def _say(self, text: str) -> None:
        echo(f"facetd: {self._name}: {text}", err=True)

    def _lock(self, table: FollowedTable) -> None:
        """Wait for the lock of a follower that was killed.

        Raises:
            SourceError: another one is running.
            Disconnected: so it seems; but it may be a former session of this one, of which the
                server has not noticed yet that it vanished.
        """
        give_up_at = time.monotonic() + LOCK_SECONDS
        while not table.slot.lock():
            if time.monotonic() >= give_up_at:
                reason = Disconnected if self.has_followed else SourceError
                raise reason(
                    f"another facetd follow uses the slot {self._slot_name!r}; stop it, or name "
                    "another --slot"
                )
            self._stopping.wait(0.1)

    def _offer(self, proposing: str) -> None:
        show_warnings(self._client, self._name)
        offer_configuration(self._client, self._name, proposing)

    # --- the first copy

    def _begin(self, table: FollowedTable) -> None:
        """Find the position to continue from; copy the table if there is none.

        Raises:
            Replaced: the index was made again during the copy, and so must the copy be.
        """
        stored = self._index.find()
        former = "" if stored is None else stored.shape
        self._system, self._shape = table.system, table.rows.shape()
        slot = table.slot.open(former.partition(" ")[0], renew=former not in ("", self._shape))
        reason = self._reason_to_copy(table, slot, stored)
        if reason is None:
            assert stored is not None
            self._position = lsn_number(stored.lsn)
            if not stored.shape:
                self._index.store({}, position=self._position_at(self._position))
            if self._position > slot.confirmed:
                table.slot.advance(self._position)
            return
        num_items = self._index.num_items()
        if stored is None and num_items and not self._replaces:
            raise SourceError(
                f"index {self._name!r} has {num_items:,} items that may not be this table's; "
                "name a new --index, or use --replace to remove the items that the table lacks"
            )
        self._say(f"copying the table{reason}")
        copying = TablePosition(table.system, COPYING)
        self._index.store({}, position=copying)
        result = self._client.load(self._name, table.rows.all_rows(), skips_bad=self._skips_bad)
        self._say(f"copied {result['created'] + result['updated']:,} rows")
        for one in result["errors"]:
            self._say(f"left out: {one['message']}")
        if num_items:
            self._remove_missing(table)
        if not self._has_stored(copying):
            raise Replaced
        self._index.store({}, position=self._position_at(slot.confirmed))
        self._position = slot.confirmed

    def _reason_to_copy(
        self, table: FollowedTable, slot: SlotState, stored: TablePosition | None
    ) -> str | None:
        """Return why the table must be copied, as the end of a sentence; None if it need not."""
        if stored is None:
            return ""
        if stored.lsn == COPYING:
            return ", which was interrupted"
        if stored.system != table.system:
            return " again: it is in another database than before"
        if stored.shape not in ("", self._shape):
            return " again: table, columns, partitions or query are others than before"
        if slot.is_new:
            return " again: the slot is gone, and with it the changes since"
        if lsn_number(stored.lsn) < slot.confirmed:
            return " again: the database no longer has the log of the changes since this state"
        if lsn_number(stored.lsn) > table.slot.log_end():
            return " again: the database was set back to an earlier state"
        return None

    def _position_at(self, lsn: int) -> TablePosition:
        return TablePosition(self._system, lsn_text(lsn), self._shape)

    def _remove_missing(self, table: FollowedTable) -> None:
        """Remove the items that have no row."""
        num_removed = 0
        for ids in _parts(self._index.ids()):
            gone = table.rows.missing(ids)
            if gone:
                self._index.store({}, gone)
                num_removed += len(gone)
        if num_removed:
            self._say(f"removed {num_removed:,} items that have no row")

    # --- the changes

    def _follow(self, table: FollowedTable, interval: float, *, once: bool) -> None:
        """Store changes as they come; with `once`, those that there are now.

        Raises:
            Replaced: the index or the table is not what it was.
        """
        goal = table.slot.log_end()
        check_at = time.monotonic() + CHECK_SECONDS
        while not self._stopping.is_set():
            upto = table.slot.log_end()
            has_changes = False
            if upto > self._position:
                try:
                    with closing(table.changes(upto)) as batches:
                        for batch in batches:
                            if not has_changes:
                                self._check_unchanged(table)
                            has_changes = True
                            self._store_batch(table, batch)
                            if self._stopping.is_set():
                                return
                except Invisible:
                    self._stopping.wait(INVISIBLE_SECONDS)
                    continue
                if has_changes:
                    table.slot.advance(self._position)
                elif once or upto - self._position >= IDLE_BYTES_MAX:
                    self._check_unchanged(table)
                    self._index.store({}, position=self._position_at(upto))
                    self._position = upto
                    table.slot.advance(upto)
            self._num_failures, self._failure = 0, ""
            if once and not has_changes and upto >= goal:
                self._say(f"{self._num_changes:,} changes stored")
                return
            if not has_changes:
                if time.monotonic() >= check_at:
                    self._check_unchanged(table)
                    check_at = time.monotonic() + CHECK_SECONDS
                self._stopping.wait(interval)

    def _check_unchanged(self, table: FollowedTable) -> None:
        """Check that the index has what we have stored, and the table is still the same.

        Raises:
            Replaced: it does not, or is not.
        """
        position = self._position_at(self._position)
        if not self._has_stored(position) or table.rows.shape() != self._shape:
            raise Replaced

    def _has_stored(self, position: TablePosition) -> bool:
        """Return whether the same index has a position, at the latest after `CHECK_SECONDS`."""
        give_up_at = time.monotonic() + CHECK_SECONDS
        while not self._index.has(position):
            if self._stopping.is_set() or time.monotonic() >= give_up_at:
                return False
            self._stopping.wait(0.1)
        return True

    def _store_batch(self, table: FollowedTable, batch: Batch) -> None:
        """Store a batch, and its position with its last part."""
        if batch.is_truncated:
            self._remove_missing(table)
        position = None if batch.end is None else self._position_at(batch.end)
        self._index.store(batch.items, batch.gone, position)
        if batch.end is not None:
            self._position = batch.end
        self._num_changes += len(batch.items) + len(batch.gone)


def _waiting_for(error: _Failure) -> str:
    """Say why nothing is stored for now."""
    if isinstance(error, ClientError) and error.code == "index_not_found":
        return f"the index is gone; waiting for it to be restored, for {ABSENT_SECONDS:g} s"
    return f"trying again until it works: {error}"


def _parts(ids: Iterator[str]) -> Iterator[list[str]]:
    """Yield ids in lists of limited length."""
    part: list[str] = []
    for id in ids:
        part.append(id)
        if len(part) >= IDS_AT_ONCE:
            yield part
            part = []
    if part:
        yield part
