"""The index that follows a table: what it has of it, and how changes are stored in it.

    7361…:0/1A2B3C:16385 9f86d081884c7d65     server : log position : table, hash of its shape
    7361…:copying:

Such a position is stored in the same commit as the changes, by every shard. Changes name the index
whose position was found, so they are never stored in one that has taken its name since.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from common.item_ids import ID_BYTES_MAX
from coordinator.cli.sources.source import shown
from coordinator.command_line_client import Client, ClientError, index_path

BODY_BYTES_MAX: Final = 4 << 20
"""Size of one request with changes; a larger item is sent alone."""
COPYING: Final = "copying"
_REFUSED: Final = frozenset((400, 413))
"""HTTP statuses of a request that has an item which cannot be stored."""


class Replaced(Exception):
    """The index or the table is not what it was: begin again with what has its name now."""


@dataclass(frozen=True, slots=True)
class TablePosition:
    """What an index has of a table.

    Attributes:
        system: the database server.
        lsn: log position up to which everything is stored; `COPYING` in the middle of a copy.
        shape: of the table, and the query; "" from earlier versions.
    """

    system: str
    lsn: str
    shape: str = ""

    def __str__(self) -> str:
        return f"{self.system}:{self.lsn}:{self.shape}"


class FollowedIndex:
    """An index, through the client.

    Args:
        client: of the service.
        name: of the index.
        source: names the source of its positions.
        on_left_out: told of a row that cannot be stored; None: the first one ends the follower.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        source: str,
        on_left_out: Callable[[str], None] | None,
    ) -> None:
        self._client = client
        self._path = index_path(name)
        self._source = source
        self._on_left_out = on_left_out
        self._number = 0  # of the index that is followed into

    def find(self) -> TablePosition | None:
        """Find the index that has the name, for all that follows; return its position, if any."""
        self._number, position = self._stored()
        return position

    def has(self, position: TablePosition) -> bool:
        """Return whether it is still the same index, and has this position."""
        return self._stored() == (self._number, position)

    def _stored(self) -> tuple[int, TablePosition | None]:
        """Return the index's number, and the position that it has; None if it has none."""
        answer = self._client.request("GET", f"{self._path}/positions")
        text = answer["positions"].get(self._source)
        return answer["index_number"], None if text is None else TablePosition(*text.split(":", 2))

    def num_items(self) -> int:
        """Return how many items it has."""
        count: int = self._client.request("GET", self._path)["items"]
        return count

    def ids(self) -> Iterator[str]:
        """Yield the ids of all items, as texts."""
        rest = b""
        for piece in self._client.stream(f"{self._path}/items?fields={quote('id')}"):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                item = json.loads(line)
                if "id" in item:
                    yield str(item["id"])

    def store(
        self,
        items: Mapping[str, bytes],
        gone: Sequence[str] = (),
        position: TablePosition | None = None,
    ) -> None:
        """Store changes in requests of limited size; the last has the removals and the position.

        Args:
            items: new states, by id.
            gone: ids of items to remove.
            position: of the changes, if they end there.

        Raises:
            Replaced: it is another index by now.
            ClientError: the service refuses.
        """
        *before, last = list(_by_size(items)) or [{}]
        for part in before:
            self._store_group(list(part.items()), [], None)
        self._store_group(list(last.items()), gone, position)

    def _store_group(
        self, items: list[tuple[str, bytes]], gone: Sequence[str], position: TablePosition | None
    ) -> None:
        """Send one group of changes; leave out bad items if that is wanted."""
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
                        self._store_group(part, [], None)
                    items = []
                    continue
                key, _ = items.pop(int(bad[1]) if bad else 0)
                self._leave_out(key, error)
                if len(key.encode()) <= ID_BYTES_MAX:
                    gone.append(key)

    def _send(
        self, items: list[tuple[str, bytes]], gone: list[str], position: TablePosition | None
    ) -> None:
        """Send one request with changes, for the index that was found and no other."""
        body = b'{"put":[%b],"delete":%b,"index_number":%d' % (
            b",".join(item for _, item in items),
            json.dumps(gone).encode(),
            self._number,
        )
        if position is not None:
            source = {"source": self._source, "position": str(position)}
            body += b"," + json.dumps(source).encode()[1:]
        else:
            body += b"}"
        try:
            self._client.request("POST", f"{self._path}/items/changes", body)
        except ClientError as error:
            if error.code == "index_replaced":
                raise Replaced from error
            raise

    def _leave_out(self, key: str, error: ClientError) -> None:
        """Say which row cannot be stored; end, unless such rows are left out."""
        message = f"the row {shown(key)} cannot be stored: {error}"
        if self._on_left_out is None:
            raise ClientError(
                f"{message}; change the row, or leave such rows out by --skip-bad",
                status=error.status,
                code=error.code,
            ) from error
        self._on_left_out(message)


def _by_size(items: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
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
