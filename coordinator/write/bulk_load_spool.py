"""Spool: the items of a bulk load on disk, after they are read and before they are written.

A bulk load changes nothing until its whole body has been read and validated, and the body may be
larger than memory. So its items wait in two unnamed files, which the system frees when the process
ends, however it ends.

    payload   the bytes of the body that hold items, chunk after chunk
    rows      four int64 per item: start in payload, end, hash of the id, whether it has one

One thread appends while another may close it: a load can end at any moment. A write to a file that
was closed meanwhile could reach another one that has its number by then, so `close` waits for it.

Nothing is synced, since none of it has to survive. But what is read back must be what was checked:
a body longer than the page cache comes from the disk, and the kernel tells only a sync that the
disk has refused a page, of which it then reads what was there before. So each piece has a checksum,
which is compared before any item of it is written.

Costs: the bytes pass the page cache once in each direction (about 0.5 µs for an item of 500 bytes).
Memory: the chunk being read or written.
"""

from __future__ import annotations

import errno
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from common.chunked_file_io import read_all, write_all
from common.disk_errors import explaining_disk_failure
from common.json.item_scanner import ScannedItems
from common.kernels.types import I64Array, U8Array
from coordinator.write.write_batch import Items

T = TypeVar("T", bound=np.generic)

_ROW_INTEGERS: Final = 4
_ROW_BYTES: Final = 8 * _ROW_INTEGERS
_CHUNK_ITEMS_MAX: Final = 65_536

_UNWRITTEN: Final = "the body was not taken in, and nothing was written"
_READ_IN_PART: Final = "the rest of the body was not written"


class _Piece(NamedTuple):
    """What one chunk of the body appended.

    Attributes:
        num_bytes: of payload.
        num_items: rows.
        checksum: of both.
    """

    num_bytes: int
    num_items: int
    checksum: int


class _Left(NamedTuple):
    """What has been read and not yielded yet.

    Attributes:
        payload: the bytes.
        rows: of its items, which begin after separators that may be left of the one before.
        begin: of these bytes in the whole payload.
        position: of the first row.
    """

    payload: U8Array
    rows: I64Array
    begin: int
    position: int


class Spool:
    """The spooled items of one bulk load.

    Args:
        folder: in the data directory, so that its disk and no other provides the space.

    Attributes:
        num_items: appended so far.
        num_bytes: of payload so far.
    """

    def __init__(self, folder: Path) -> None:
        with explaining_disk_failure(_UNWRITTEN):
            folder.mkdir(mode=0o700, exist_ok=True)
            # Both files stay open for the spool's lifetime.
            self._payload = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            self._rows = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self._in_use = threading.Lock()
        self._pieces: list[_Piece] = []
        self.num_items = 0
        self.num_bytes = 0

    def close(self) -> None:
        """Free the disk space: 0.3 s a gigabyte where other processes use the disk."""
        with self._in_use:
            self._payload.close()
            self._rows.close()

    def append(self, scanned: ScannedItems) -> None:
        """Append the valid items of a chunk of the body.

        Raises:
            StorageFull: the disk is full.
        """
        if scanned.num_items == 0:
            return
        first, last = int(scanned.starts[0]), int(scanned.ends[-1])
        offset = self.num_bytes - first
        rows = np.empty((scanned.num_items, _ROW_INTEGERS), np.int64)
        rows[:, 0] = scanned.starts + offset
        rows[:, 1] = scanned.ends + offset
        rows[:, 2] = scanned.id_hashes.view(np.int64)
        rows[:, 3] = scanned.has_id
        payload = scanned.payload[first:last]
        piece = _Piece(last - first, scanned.num_items, _checksum(payload, rows))
        with self._in_use, explaining_disk_failure(_UNWRITTEN):
            write_all(self._payload.fileno(), payload.data)
            write_all(self._rows.fileno(), rows.reshape(-1).data.cast("B"))
        self._pieces.append(piece)
        self.num_items += piece.num_items
        self.num_bytes += piece.num_bytes

    def chunks(self, num_bytes: int, num_items: int) -> Iterator[Items]:
        """Read the items back in order, in chunks.

        Args:
            num_bytes: upper bound of a chunk (a larger item forms a chunk alone).
            num_items: upper bound of a chunk.

        Raises:
            InternalError: the disk failed, or has other bytes than were written.
        """
        num_items = min(num_items, _CHUNK_ITEMS_MAX)
        waiting = deque(self._pieces)
        left = _Left(np.empty(0, np.uint8), np.empty((0, _ROW_INTEGERS), np.int64), 0, 0)
        while True:
            pieces: list[_Piece] = []
            num_rows, num_read = len(left.rows), len(left.payload)
            while waiting and num_rows < num_items and num_read < num_bytes:
                pieces.append(waiting.popleft())
                num_rows += pieces[-1].num_items
                num_read += pieces[-1].num_bytes
            if not num_rows:
                return
            with explaining_disk_failure(_READ_IN_PART):
                payload, rows, begin, position = self._read(left, pieces)
            fitting = int(np.searchsorted(rows[:, 1], int(rows[0, 0]) + num_bytes, side="right"))
            chunk, rows = np.split(rows, [max(min(fitting, num_items), 1)])
            first, last = int(chunk[0, 0]), int(chunk[-1, 1])
            yield Items(
                payload[first - begin : last - begin],
                chunk[:, 0] - first,
                chunk[:, 1] - first,
                chunk[:, 2].copy().view(np.uint64),
                chunk[:, 3].astype(np.bool_),
            )
            left = _Left(payload[last - begin :], rows, last, position + len(chunk))

    def _read(self, left: _Left, pieces: Sequence[_Piece]) -> _Left:
        """Return what is left of earlier pieces, and these after it.

        Raises:
            OSError: the disk failed, or has other bytes than were written.
        """
        payload = _with_room(left.payload, sum([one.num_bytes for one in pieces]))
        rows = _with_room(left.rows, sum([one.num_items for one in pieces]))
        at, row = len(left.payload), len(left.rows)
        for one in pieces:
            bytes_, its_rows = payload[at : at + one.num_bytes], rows[row : row + one.num_items]
            row_bytes = its_rows.reshape(-1).data.cast("B")
            read_all(self._payload.fileno(), bytes_.data, left.begin + at)
            read_all(self._rows.fileno(), row_bytes, (left.position + row) * _ROW_BYTES)
            if _checksum(bytes_, its_rows) != one.checksum:
                raise OSError(errno.EIO, "the disk has other bytes than were written")
            at, row = at + one.num_bytes, row + one.num_items
        return _Left(payload, rows, left.begin, left.position)


def _with_room(array: NDArray[T], num: int) -> NDArray[T]:
    """Return an array with room for more rows at its end."""
    longer = np.empty((len(array) + num, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _checksum(payload: U8Array, rows: I64Array) -> int:
    checksum = xxhash.xxh3_64(payload.data)
    checksum.update(rows.reshape(-1).data)
    return checksum.intdigest()
