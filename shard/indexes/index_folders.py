"""The folders of a shard's indexes, and the file that names them.

    <shard folder>/shard.json        the numbers of the indexes that this shard has made
    <shard folder>/index-<number>/   one partition each

To make an index: first the folder, then its number in shard.json. A client that creates an index
need not wait for that, and a crash before it loses nothing: no write is acknowledged earlier. To
drop an index: remove the number from shard.json, then the folder. So a folder without a number is a
leftover of a crash and is removed. A number without a folder is a loss: the shard refuses to start
rather than serve an empty index.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from common import data_directory
from common.process.logs import Log
from common.protocol.messages import IndexEntry
from common.shard_settings import ShardSettings
from shard.indexes.closed_index_facts import ClosedIndex
from shard.indexes.created_index_numbers import CreatedIndexes
from shard.partition.backup_and_restore import put_back
from shard.partition.opening_progress import OpeningProgress
from shard.partition.partition import Partition
from shard.storage.storage_errors import is_disk_full

_log = Log("shard")

NEW_BYTES = 64 << 10
"""About what an empty index takes on the disk."""


class IndexFolders:
    """The indexes of a shard on disk; methods may run on any thread.

    Args:
        folder: of the shard.
        shard: its ordinal.
        num_shards: number of shards.
        settings: of the shard.
        seq_of_open: returns the highest write sequence of the open indexes.

    Attributes:
        folder: of the shard.
    """

    def __init__(
        self,
        folder: Path,
        shard: int,
        num_shards: int,
        settings: ShardSettings,
        seq_of_open: Callable[[], int],
    ) -> None:
        self.folder = folder
        self._shard = shard
        self._settings = settings
        self._seq_of_open = seq_of_open
        self._seq_noted = 0
        self._created = CreatedIndexes(folder, shard, num_shards, lambda: self.seq_max)

    @property
    def numbers(self) -> set[int]:
        """Numbers of the indexes that were made; never changed in place."""
        return self._created.numbers

    @property
    def seq_max(self) -> int:
        """The highest write sequence on disk, over all indexes."""
        return max(self._seq_noted, self._seq_of_open())

    def note_seq(self, seq: int) -> None:
        """Note the write sequence of an index that is not open, or soon will not be."""
        self._seq_noted = max(self._seq_noted, seq)

    def read(self) -> dict[int, ClosedIndex]:
        """Read what is there, remove leftovers; return the indexes by number.

        Raises:
            DataDirectoryError: it was made for another shard, or by a newer program, or an index
                is missing.
            DamagedEnvironment: a data.mdb is damaged.
        """
        self.note_seq(self._created.read())
        for name in os.listdir(self.folder):
            text = name.removeprefix("index-")  # (An "index-7.old" is the operator's.)
            if text != name and text.isdecimal() and int(text) not in self.numbers:
                _log.warning("leftover of an unfinished change removed", folder=name)
                shutil.rmtree(self.folder / name)
        found = {}
        for number in sorted(self.numbers):
            # (Of thousands, joining paths as such would take a quarter of the time.)
            closed = ClosedIndex.of(f"{self.folder}/index-{number}", self._settings.map_bytes_max)
            found[number] = closed
            self.note_seq(closed.seq_max)
        return found

    def path(self, number: int) -> Path:
        """Return the folder of an index."""
        return self.folder / f"index-{number}"

    def write_manifest(self, folder: Path) -> None:
        """Write to a folder which indexes this shard has."""
        self._created.write(folder)

    def open(self, number: int, opening: OpeningProgress) -> Partition:
        """Open an index; large segments are verified when they are touched.

        Raises:
            DamagedEnvironment, OSError: as `Partition.open`; a refusal of the system says what to
                do.
        """
        return Partition.open(
            self.path(number), number, self._settings, on_first_touch=True, opening=opening
        )

    def explained(self, error: Exception) -> Exception:
        """Return an error of opening an index with what to do about it."""
        if isinstance(error, OSError) and not is_disk_full(error):
            return data_directory.refusal_explained(self.folder, error)
        return error  # (Where there is no room, a later start may find some.)

    def has_room(self) -> bool:
        """Return whether the disk has room for another index."""
        return self._settings.leave_room(self.folder, NEW_BYTES)

    def make(self, entry: IndexEntry) -> Partition:
        """Make an index, empty or from a snapshot; if that fails, nothing is left of it.

        Raises:
            OSError, StorageFailure: the disk refused it.
            InternalError: the snapshot is damaged.
        """
        path = self.path(entry.number)
        self.clear(entry.number)
        partition = None
        try:
            if entry.source is None:
                partition = Partition.create(path, entry, self._settings)
            else:
                self.note_seq(entry.source.seq)
                partition = put_back(path, entry, self._shard, self._settings)
            self._created.add(entry.number)
        except BaseException:
            if partition is not None:
                partition.close()
            with contextlib.suppress(OSError):  # then the next making, or start, removes it
                self.clear(entry.number)
            raise
        return partition

    def clear(self, number: int) -> None:
        """Remove what a failed making has left."""
        path = self.path(number)
        if path.exists():
            self._created.remove_if_named(number)
            shutil.rmtree(path)

    def remove_number(self, number: int) -> None:
        """Remove the number of an index: from now on it is dropped, whatever happens."""
        self._created.remove(number)

    def remove(self, number: int) -> None:
        """Remove the folder of an index whose number was removed."""
        shutil.rmtree(self.path(number), ignore_errors=True)
