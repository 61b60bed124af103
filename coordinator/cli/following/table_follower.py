"""Keeps an index equal to a table of PostgreSQL, through failures of both and of itself.

    copy    all rows ──▶ POST /{index}/index, then the position of the slot
    follow  changed rows + position ──▶ POST /{index}/items/changes ──▶ the slot may forget them

The position is stored in the same commit as the changes, by every shard. So wherever a kill strikes
this program, the service or the database, the next run knows what is stored. If the server's log no
longer reaches back so far (the index was restored or the slot re-created), everything is copied
again, and what the table no longer has is removed. So it is after changes that the log does not
have: another table, other columns or partitions, another query. With the position, the index keeps
what it was made of; both are compared before changes are stored, and every few seconds. Changes
name the index whose position was compared, so they are never stored in one that takes its name.

    7361…:0/1A2B3C:16385 9f86d081884c7d65     server : log position : table, hash of its shape
    7361…:copying:
"""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import FrameType
from typing import Final
from urllib.parse import quote

from common.item_ids import ID_BYTES_MAX
from coordinator.cli.escaped_output import echo
from coordinator.cli.following.followed_postgres_rows import Invisible
from coordinator.cli.following.postgres_table_changes import Batch, FollowedTable
from coordinator.cli.following.replication_slot import SlotState, lsn_number, lsn_text
from coordinator.cli.loading.configuration_options import show_warnings
from coordinator.cli.loading.proposed_configuration import offer_configuration
from coordinator.cli.sources.postgres_connection import Disconnected, UnknownName
from coordinator.cli.sources.source import SourceError, shown
from coordinator.command_line_client import Client, ClientError, index_path

IDS_AT_ONCE: Final = 1_000
BODY_BYTES_MAX: Final = 4 << 20
"""Size of one request with changes; a larger item is sent alone."""
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
_COPYING: Final = "copying"
_PASSING: Final = frozenset((0, 429, 502, 503, 504, 507))
"""HTTP statuses, and 0 for no answer, after which the same request may succeed later."""
_REFUSED: Final = frozenset((400, 413))
"""HTTP statuses of a request that has an item which cannot be stored."""

_Failure = Disconnected | UnknownName | ClientError


class _Replaced(Exception):
    """The index or the table is not what it was: begin again with what has its name now."""


@dataclass(frozen=True, slots=True)
class _Position:
    """What an index has of a table.

    Attributes:
        system: the database server.
        lsn: log position up to which everything is stored; `copying` in the middle of a copy.
        shape: of the table, and the query; "" from earlier versions.
    """

    system: str
    lsn: str
    shape: str = ""

    def __str__(self) -> str:
        return f"{self.system}:{self.lsn}:{self.shape}"


@dataclass(slots=True)
class TableFollower:
    """Stores the changes of one table.

    Attributes:
        client: of the service.
        index: to store into.
        slot_name: of the replication slot, which also names the source of the positions.
        skips_bad: whether rows that cannot be stored are left out.
        replaces: whether the index may have items that are not the table's.
        position: log position up to which everything is stored.
        num_changes: rows that were stored or removed since the start.
        has_followed: whether all of the table was stored once.
    """

    client: Client
    index: str
    slot_name: str
    skips_bad: bool
    replaces: bool
    position: int = 0
    num_changes: int = 0
    has_followed: bool = False
    _stopping: threading.Event = field(default_factory=threading.Event)
    _index_number: int = 0  # of the index that is followed into
    _system: str = ""
    _shape: str = ""
    _num_failures: int = 0  # since the log was last read to its end
    _failure: str = ""  # the last of them
    _failing_since: float = 0.0  # with this one, `time.monotonic`

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
            except _Replaced:
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
        echo(f"facetd: {self.index}: {text}", err=True)

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
                    f"another facetd follow uses the slot {self.slot_name!r}; stop it, or name "
                    "another --slot"
                )
            self._stopping.wait(0.1)

    def _offer(self, proposing: str) -> None:
        show_warnings(self.client, self.index)
        offer_configuration(self.client, self.index, proposing)

    # --- the first copy

    def _begin(self, table: FollowedTable) -> None:
        """Find the position to continue from; copy the table if there is none.

        Raises:
            _Replaced: the index was made again during the copy, and so must the copy be.
        """
        path = index_path(self.index)
        self._index_number, stored = self._stored()
        former = "" if stored is None else stored.shape
        self._system, self._shape = table.system, table.rows.shape()
        slot = table.slot.open(former.partition(" ")[0], renew=former not in ("", self._shape))
        reason = self._reason_to_copy(table, slot, stored)
        if reason is None:
            assert stored is not None
            self.position = lsn_number(stored.lsn)
            if not stored.shape:
                self._store([], [], self._text(self.position))
            if self.position > slot.confirmed:
                table.slot.advance(self.position)
            return
        num_items = self.client.request("GET", path)["items"]
        if stored is None and num_items and not self.replaces:
            raise SourceError(
                f"index {self.index!r} has {num_items:,} items that may not be this table's; "
                "name a new --index, or use --replace to remove the items that the table lacks"
            )
        self._say(f"copying the table{reason}")
        copying = _Position(table.system, _COPYING)
        self._store([], [], str(copying))
        result = self.client.load(self.index, table.rows.all_rows(), skips_bad=self.skips_bad)
        self._say(f"copied {result['created'] + result['updated']:,} rows")
        for one in result["errors"]:
            self._say(f"left out: {one['message']}")
        if num_items:
            self._remove_missing(table)
        if not self._has_stored(copying):
            raise _Replaced
        self._store([], [], self._text(slot.confirmed))
        self.position = slot.confirmed

    def _stored(self) -> tuple[int, _Position | None]:
        """Return the index's number, and the position that it has; None if it has none."""
        answer = self.client.request("GET", f"{index_path(self.index)}/positions")
        text = answer["positions"].get(self.slot_name)
        return answer["index_number"], None if text is None else _Position(*text.split(":", 2))

    def _reason_to_copy(
        self, table: FollowedTable, slot: SlotState, stored: _Position | None
    ) -> str | None:
        """Return why the table must be copied, as the end of a sentence; None if it need not."""
        if stored is None:
            return ""
        if stored.lsn == _COPYING:
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

    def _text(self, position: int) -> str:
        return str(_Position(self._system, lsn_text(position), self._shape))

    def _remove_missing(self, table: FollowedTable) -> None:
        """Remove the items that have no row."""
        num_removed = 0
        for ids in _parts(self._ids()):
            gone = table.rows.missing(ids)
            if gone:
                self._store([], gone, None)
                num_removed += len(gone)
        if num_removed:
            self._say(f"removed {num_removed:,} items that have no row")

    def _ids(self) -> Iterator[str]:
        """Yield the ids of all items, as texts."""
        rest = b""
        for piece in self.client.stream(f"{index_path(self.index)}/items?fields={quote('id')}"):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                item = json.loads(line)
                if "id" in item:
                    yield str(item["id"])

    # --- the changes

    def _follow(self, table: FollowedTable, interval: float, *, once: bool) -> None:
        """Store changes as they come; with `once`, those that there are now.

        Raises:
            _Replaced: the index or the table is not what it was.
        """
        goal = table.slot.log_end()
        check_at = time.monotonic() + CHECK_SECONDS
        while not self._stopping.is_set():
            upto = table.slot.log_end()
            has_changes = False
            if upto > self.position:
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
                    table.slot.advance(self.position)
                elif once or upto - self.position >= IDLE_BYTES_MAX:
                    self._check_unchanged(table)
                    self._store([], [], self._text(upto))
                    self.position = upto
                    table.slot.advance(upto)
            self._num_failures, self._failure = 0, ""
            if once and not has_changes and upto >= goal:
                self._say(f"{self.num_changes:,} changes stored")
                return
            if not has_changes:
                if time.monotonic() >= check_at:
                    self._check_unchanged(table)
                    check_at = time.monotonic() + CHECK_SECONDS
                self._stopping.wait(interval)

    def _check_unchanged(self, table: FollowedTable) -> None:
        """Check that the index has what we have stored, and the table is still the same.

        Raises:
            _Replaced: it does not, or is not.
        """
        position = _Position(self._system, lsn_text(self.position), self._shape)
        if not self._has_stored(position) or table.rows.shape() != self._shape:
            raise _Replaced

    def _has_stored(self, position: _Position) -> bool:
        """Return whether the same index has a position, at the latest after `CHECK_SECONDS`."""
        give_up_at = time.monotonic() + CHECK_SECONDS
        while self._stored() != (self._index_number, position):
            if self._stopping.is_set() or time.monotonic() >= give_up_at:
                return False
            self._stopping.wait(0.1)
        return True

    def _store_batch(self, table: FollowedTable, batch: Batch) -> None:
        """Store a batch, and its position with its last part."""
        if batch.is_truncated:
            self._remove_missing(table)
        position = None if batch.end is None else self._text(batch.end)
        parts = list(_by_size(batch.items)) or [{}]
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            self._store(
                list(part.items()), batch.gone if is_last else [], position if is_last else None
            )
        if batch.end is not None:
            self.position = batch.end
        self.num_changes += len(batch.items) + len(batch.gone)

    def _store(
        self, items: list[tuple[str, bytes]], gone: Sequence[str], position: str | None
    ) -> None:
        """Send one group of changes; leave out bad items if that is wanted.

        Raises:
            ClientError: the service refuses.
        """
        items = list(items)
        gone = [key for key in gone if 1 <= len(key.encode()) <= ID_BYTES_MAX]
        while True:
            try:
                self._send(items, gone, position)
                return
            except ClientError as error:
                if error.status not in _REFUSED or not items:
                    raise
                bad = re.fullmatch(r"put\[(\d+)\]", str(error.details.get("param", "")))
                if bad is None and (len(items) > 1 or gone or position is not None):
                    # It does not say what is wrong: each half by itself, then the rest.
                    half = len(items) // 2
                    for part in filter(None, (items[:half], items[half:])):
                        self._store(part, [], None)
                    items = []
                    continue
                key, _ = items.pop(int(bad[1]) if bad else 0)
                self._leave_out(key, error)
                if len(key.encode()) <= ID_BYTES_MAX:
                    gone.append(key)

    def _send(self, items: list[tuple[str, bytes]], gone: list[str], position: str | None) -> None:
        """Send one request with changes, for the index that `_begin` has found and no other.

        Raises:
            _Replaced: it is another one by now.
            ClientError: the service refuses.
        """
        body = b'{"put":[%b],"delete":%b,"index_number":%d' % (
            b",".join(item for _, item in items),
            json.dumps(gone).encode(),
            self._index_number,
        )
        if position is not None:
            source = {"source": self.slot_name, "position": position}
            body += b"," + json.dumps(source).encode()[1:]
        else:
            body += b"}"
        try:
            self.client.request("POST", f"{index_path(self.index)}/items/changes", body)
        except ClientError as error:
            if error.code == "index_replaced":
                raise _Replaced from error
            raise

    def _leave_out(self, key: str, error: ClientError) -> None:
        """Say which row cannot be stored; end, unless such rows are left out."""
        message = f"the row {shown(key)} cannot be stored: {error}"
        if not self.skips_bad:
            raise ClientError(
                f"{message}; change the row, or leave such rows out by --skip-bad",
                status=error.status,
                code=error.code,
            ) from error
        self._say(message)


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


def _by_size(items: dict[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Yield items in dicts of limited size."""
    part: dict[str, bytes] = {}
    num_bytes = 0
    for key, item in items.items():
        if part and num_bytes + len(item) > BODY_BYTES_MAX:
            yield part
            part, num_bytes = {}, 0
        part[key] = item
        num_bytes += len(item)
    if part:
        yield part
