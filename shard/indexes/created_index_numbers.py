"""The numbers of the indexes that a shard has created, kept in `shard.json`.

A start looks for the folder of each; a folder without a number is a leftover of a crash.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from common.data_directory import DataDirectoryError
from common.durable_files import sync_folder
from shard.storage.manifest import (
    FORMAT,
    SHARD_FILE,
    ShardManifest,
    UnreadableManifest,
    read_manifest,
    read_shard_manifest,
    write_manifest,
)


class CreatedIndexes:
    """The indexes that the shard has created; all methods are thread-safe.

    Args:
        folder: of the shard.
        shard: its ordinal.
        num_shards: number of shards.
        seq_max: returns the highest write sequence on disk, over all indexes.

    Attributes:
        numbers: of the indexes; replaced, never changed.
    """

    def __init__(
        self, folder: Path, shard: int, num_shards: int, seq_max: Callable[[], int]
    ) -> None:
        self.numbers: set[int] = set()
        self._folder = folder
        self._shard = shard
        self._num_shards = num_shards
        self._seq_max = seq_max
        self._adding: set[int] = set()
        self._lock = threading.Lock()

    def read(self) -> int:
        """Read the file, or make it; return the highest write sequence that it names.

        Raises:
            DataDirectoryError: the file was made for another shard, cannot be read, or is missing
                although there are indexes.
        """
        path = self._folder / SHARD_FILE
        manifest = read_shard_manifest(self._folder)
        if manifest is None:
            if any(self._folder.glob("index-*/data.mdb")):
                raise DataDirectoryError(
                    f"{path} is missing, but there are indexes next to it; restore it from a backup"
                )
            manifest = ShardManifest(FORMAT, self._shard, self._num_shards, ())
            write_manifest(path, manifest)
        else:  # A killed process may not have synced its name, and what it lacks is removed.
            sync_folder(self._folder)
        if (manifest.shard, manifest.num_shards) != (self._shard, self._num_shards):
            raise DataDirectoryError(
                f"{self._folder} is shard {manifest.shard} of {manifest.num_shards}, "
                f"not shard {self._shard} of {self._num_shards}; restore it from a backup"
            )
        self.numbers = set(manifest.indexes)
        return manifest.seq_max

    def write(self, folder: Path) -> None:
        """Write the file to a folder: the shard's, or that of a backup."""
        write_manifest(
            folder / SHARD_FILE,
            ShardManifest(
                FORMAT, self._shard, self._num_shards, tuple(sorted(self.numbers)), self._seq_max()
            ),
        )

    def add(self, number: int) -> None:
        """Add an index; those that are made at the same time share a write."""
        self._adding.add(number)
        try:
            with self._lock:
                if number not in self.numbers:
                    self._change_to(self.numbers | self._adding)
        finally:
            self._adding.discard(number)

    def remove(self, number: int) -> None:
        """Remove an index."""
        with self._lock:
            self._change_to(self.numbers - {number})

    def remove_if_named(self, number: int) -> None:
        """Remove an index that a failed making may have added."""
        with self._lock:
            if self._may_name(number):
                self._change_to(self.numbers - {number})

    def _may_name(self, number: int) -> bool:
        """Return whether the file names an index, or may: the next start will look for it then.

        A failed write may have changed the file: if only the sync after it failed.
        """
        try:
            manifest = read_manifest(self._folder / SHARD_FILE, ShardManifest)
        except (OSError, UnreadableManifest):
            return True
        return manifest is not None and number in manifest.indexes

    def _change_to(self, numbers: set[int]) -> None:
        """Change which indexes there are, on disk and then here."""
        former, self.numbers = self.numbers, numbers
        try:
            self.write(self._folder)
        except BaseException:
            self.numbers = former
            raise
