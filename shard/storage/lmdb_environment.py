"""The LMDB environment of one index on one shard: its truth. No other module imports `lmdb`.

Questions it answers: which sub-database maps what to what; is the file whole; is there room?

    <folder of the index>/data.mdb
      documents    maps record (u64) to the stored item          stored_documents.py
      groups       maps seq (u64) to a recent write group         write_group_log.py
      tombstones   maps record >> 16 (u64) to deleted low halves tombstones.py
      meta         maps a name to a counter, a dictionary, ...   (state, dictionary/<n>)

Keys are big-endian, so that LMDB's byte order is the numbers' order and records are appended to the
right edge of the tree: a page is filled once and never split. Values begin with a checksum; see
lmdb_codecs.py and FORMAT.md.

Commits are always synchronous, and the map is never writable: without the first, a power loss could
destroy the database; with the second, a full disk could.

The map begins at `MAP_BYTES_MIN`, and grows by the factor `MAP_GROWTH` when a change finds it full:
a service may have hundreds of environments open, and the system may limit address space. LMDB moves
the map then, so no transaction may be open: the change is aborted, waits until no reader is inside
(`readers_writer_lock.py`), lets LMDB remap the file, and runs again. That is rare: three times up
to 64 GiB. Only `copy` takes long: it grows the map first, so that only a writer that needs still
more has to wait for it.

LMDB trusts its file: it opens a file of 0 bytes as an empty database, and a truncated one kills the
process with SIGBUS at the first read past its end. So `open` checks the two meta pages before LMDB
does (`lmdb_meta_page`). A whole file may still be an *older* one: the manifest, another file, names
a record and a transaction that it must have (`next_record` and `txn_id` of `IndexManifest`).

Costs (2-core virtual machine): 0.3 µs a read, 0.1 µs an appended value, 4 ms a commit of 20,000
values of 230 bytes, 0.3 to 2 ms a commit of one (the disk's sync).
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

import lmdb

from common.disk_errors import REFUSALS
from common.durable_files import write_again
from common.errors import InternalError, ServiceError, StorageFull, Unavailable
from common.process.glibc_malloc import on_new_pages
from common.process.mapped_pages import WHOLE_FILE, FilePart, Mapping, find_mappings, release_pages
from common.shard_settings import MAP_BYTES_DEFAULT
from shard.storage.lmdb_meta_page import MetaPage, read_meta_page
from shard.storage.lmdb_page_check import DamagedPage, Pages
from shard.storage.readers_writer_lock import ReadersWriterLock
from shard.storage.storage_errors import (
    DamagedEnvironment,
    StorageFailure,
    has_no_block,
    is_disk_full,
)

DATA_FILE = "data.mdb"
READERS_MAX = 126

MAP_BYTES_MIN = 16 << 20
"""Smallest size of a map."""
MAP_GROWTH = 16
"""Factor from each size of the map to the next; the last one is `map_bytes_max`."""
MAP_ROOM_FACTOR = 4
"""A copy begins with a map of this many times the file, because the map cannot grow meanwhile."""

ROOM_BYTES = 1 << 20
"""`reserve` writes as many zeros after the last page as the file has bytes, but at most these."""
ROOM_BYTES_MIN = 64 << 10
"""And at least these."""
ROOM_SHARE = 8
"""It writes them once less than 1 / `ROOM_SHARE` of them is left."""

T = TypeVar("T")


class SubDatabase(Enum):
    """The sub-databases of an environment."""

    DOCUMENTS = b"documents"
    GROUPS = b"groups"
    TOMBSTONES = b"tombstones"
    META = b"meta"


_WALKED_AT_OPEN = (SubDatabase.META, SubDatabase.GROUPS, SubDatabase.TOMBSTONES)


_DAMAGE = (lmdb.CorruptedError, lmdb.PageNotFoundError)
"""LMDB found a damaged page. It aborts this transaction only."""
_RAN_OUT = (lmdb.MemoryError, lmdb.ReadersFullError)
"""Memory or slots of the reader table: an error that says nothing about the file."""


def _unreadable(error: lmdb.Error) -> ServiceError:
    """Return the error to raise for a read that LMDB refuses."""
    if isinstance(error, lmdb.PanicError):  # after a failed commit, until the process has ended
        return Unavailable("the shard is restarting after a disk error; try again")
    if isinstance(error, _RAN_OUT):
        return Unavailable(f"the stored items of an index cannot be read now ({error}); try again")
    return InternalError(
        f"the stored items of an index are damaged ({error}): restore the index from a backup, "
        "or remove it",
        code="item_corrupt",
    )


def _refusal(error: lmdb.Error, path: Path) -> OSError | None:
    """Return the system error that an error of LMDB stands for; None if it is LMDB's own."""
    if "already open in this process" in str(error):
        return OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
    for number in REFUSALS:
        if os.strerror(number) in str(error):
            return OSError(number, os.strerror(number), str(path))
    return None


def _shut(env: lmdb.Environment, closed: threading.Event) -> None:
    env.close()
    closed.set()


class Transaction:
    """A transaction of an environment; values are returned as copies.

    Methods may raise errors of LMDB, which the transaction's context translates.
    """

    __slots__ = ("_databases", "_txn")

    def __init__(self, txn: lmdb.Transaction, databases: dict[SubDatabase, Any]) -> None:
        self._txn = txn
        self._databases = databases

    @property
    def id(self) -> int:
        """Number of the newest transaction that this one sees; of its own, if it writes."""
        return int(self._txn.id())

    def get(self, database: SubDatabase, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return cast(bytes | None, self._txn.get(key, db=self._databases[database]))

    def put(self, database: SubDatabase, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self._txn.put(key, value, db=self._databases[database])

    def append(self, database: SubDatabase, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Append pairs whose keys ascend and are greater than every existing key.

        Raises:
            StorageFailure: a key is not greater than the last one.
        """
        with self._txn.cursor(self._databases[database]) as cursor:
            consumed, added = cursor.putmulti(items, append=True)
        if consumed != added:
            raise StorageFailure("a record number was given twice")

    def delete(self, database: SubDatabase, key: bytes) -> bool:
        """Remove a key; return whether it existed."""
        return bool(self._txn.delete(key, db=self._databases[database]))

    def items(
        self, database: SubDatabase, start: bytes = b"", *, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield pairs in key order.

        Args:
            database: the sub-database.
            start: first possible key; empty: the first one with the prefix.
            prefix: the first key without it ends the walk.
        """
        with self._txn.cursor(self._databases[database]) as cursor:
            if not cursor.set_range(start or prefix):
                return
            for key, value in cast(Iterator[tuple[bytes, bytes]], cursor):
                if not key.startswith(prefix):
                    return
                yield key, value

    def count(self, database: SubDatabase) -> int:
        """Return the number of keys."""
        return int(self._txn.stat(self._databases[database])["entries"])

    def num_pages(self, database: SubDatabase) -> int:
        """Return the number of its pages."""
        stat = self._txn.stat(self._databases[database])
        return int(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])


class Environment:
    """An open environment.

    Attributes:
        folder: that contains data.mdb.
        map_bytes_max: greatest size of data.mdb.
        closed: set once the file is unmapped and may be opened again.
    """

    def __init__(
        self,
        folder: Path,
        env: lmdb.Environment,
        map_bytes_max: int,
        fill: Callable[[Transaction], None] | None = None,
    ) -> None:
        self.folder = folder
        self.map_bytes_max = map_bytes_max
        self._env = env
        self._map_bytes = int(env.info()["map_size"])
        self._writing = threading.Lock()
        self._map_lock = ReadersWriterLock()
        with env.begin(write=True) as txn:  # one for all: in a new file each is two syncs
            self._databases = {one: env.open_db(one.value, txn) for one in SubDatabase}
            if fill is not None:
                fill(Transaction(txn, self._databases))
        self._page_size: int = env.stat()["psize"]
        self._last_txn_id = int(env.info()["last_txnid"])
        self._size_seen = 0
        self._mappings: list[Mapping] | None = None
        # LMDB's environment closes when the last user of this object has dropped it. A process may
        # open a file only once, so `closed` says when LMDB has unmapped it: shortly after that.
        self.closed = threading.Event()
        self._close = weakref.finalize(self, _shut, env, self.closed)
        self._close.atexit = False

    @classmethod
    def create(
        cls,
        folder: Path,
        map_bytes_max: int = MAP_BYTES_DEFAULT,
        *,
        fill: Callable[[Transaction], None] | None = None,
    ) -> Environment:
        """Create an environment in a folder that has none.

        Args:
            folder: of the environment.
            map_bytes_max: greatest size of data.mdb.
            fill: writes the first content, in the transaction that creates the sub-databases.

        Raises:
            DamagedEnvironment: the folder has one.
            StorageFailure: the disk is full, or the device failed.
            OSError: the system refused to open it.
        """
        if (folder / DATA_FILE).exists():
            raise DamagedEnvironment(f"{folder / DATA_FILE} exists already")
        try:
            return cls._open(folder, map_bytes_max, fill)
        except DamagedEnvironment as error:  # nothing exists that could be damaged
            raise StorageFailure(str(error), is_full=has_no_block(folder)) from error

    @classmethod
    def open(
        cls, folder: Path, map_bytes_max: int = MAP_BYTES_DEFAULT, *, synced_meta: str = ""
    ) -> Environment:
        """Check and open the environment of a folder; free the slots of dead readers.

        What a killed process wrote may be in the page cache only. It is on disk before anything
        reads it: a result that was shown must survive a power loss, and a group that is sent again
        is acknowledged without being written again. LMDB syncs all pages of a commit before the
        meta page that names them, so only that page can be missing on the disk.

        Or be there although LMDB has taken it back: if the device refuses a meta page, but has it,
        the disk names a commit whose pages the next one overwrites. So it is not enough that the
        last transaction is known to be synced: the other meta page must be, too.

        Args:
            folder: of the environment.
            map_bytes_max: greatest size of data.mdb.
            synced_meta: digest of meta pages that are known to be on disk; if the file has these,
                it is not synced again.

        Raises:
            DamagedEnvironment: data.mdb is missing, empty, truncated, damaged, or not LMDB's.
            StorageFailure: the device refused the sync.
            Unavailable: memory ran out.
            OSError: the system refused to open it.
        """
        meta = read_meta_page(folder / DATA_FILE)
        try:
            if meta.digest != synced_meta:
                write_again(folder / DATA_FILE, meta.places)
        except OSError as error:
            if error.errno in REFUSALS:
                raise
            raise StorageFailure(f"{folder / DATA_FILE}: sync: {error.strerror}") from error
        file_bytes = (meta.last_page + 1) * meta.page_size
        environment = cls._open(folder, map_bytes_max, file_bytes=file_bytes)
        try:
            environment._env.reader_check()
            with environment.read():
                for _ in environment.look_ahead(*_WALKED_AT_OPEN):
                    pass
        except BaseException as error:
            environment.close()
            if isinstance(error, InternalError):
                raise DamagedEnvironment(f"{environment.data_path}: {error.message}") from error
            raise
        return environment

    @classmethod
    def _open(
        cls,
        folder: Path,
        map_bytes_max: int,
        fill: Callable[[Transaction], None] | None = None,
        *,
        file_bytes: int = 0,
    ) -> Environment:
        try:
            with on_new_pages():  # LMDB's lists of free and changed pages: 3 MB, hardly used
                env = lmdb.open(
                    str(folder),
                    map_size=_map_bytes_for(file_bytes, map_bytes_max),
                    max_dbs=len(SubDatabase),
                    max_readers=READERS_MAX,
                    sync=True,
                    metasync=True,
                    writemap=False,
                    readahead=False,
                    meminit=False,
                    max_spare_txns=4,
                )
            try:
                return cls(folder, env, map_bytes_max, fill)
            except BaseException:
                env.close()
                raise
        except lmdb.DiskError as error:
            raise StorageFailure(f"{folder / DATA_FILE}: {error}", is_full=True) from error
        except lmdb.Error as error:
            refused = _refusal(error, folder / DATA_FILE)
            if refused is not None:
                raise refused from error
            raise DamagedEnvironment(
                f"{folder / DATA_FILE} does not open ({error}): restore it from a backup, or "
                "remove the index"
            ) from error

    @property
    def data_path(self) -> Path:
        """The file that holds the truth."""
        return self.folder / DATA_FILE

    def close(self) -> None:
        """Unmap the file; no transaction may be open."""
        self._mappings = []
        self._close()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Open a read transaction; a short one, because its pages cannot be reused meanwhile.

        Raises:
            InternalError: LMDB found the file damaged.
            Unavailable: a commit has failed, and the process is about to end; or memory ran out.
        """
        try:
            with self._map_lock.reading(), self._env.begin() as txn:
                yield Transaction(txn, self._databases)
        except lmdb.Error as error:
            raise _unreadable(error) from error

    def look_ahead(self, *databases: SubDatabase, first: bytes = b"") -> Iterator[bytes]:
        """Check the pages that a walk will read, one leaf at a time; within a transaction.

        Args:
            databases: to walk through.
            first: first key of the walk.

        Yields:
            Upper bounds; see `Pages.uppers`.

        Raises:
            InternalError: item_corrupt, the next page is damaged; LMDB would end the process there.
        """
        meta = read_meta_page(self.data_path)
        pages = Pages(self.data_path, meta.page_size, meta.last_page + 1)
        try:
            for database in databases:
                yield from pages.uppers(pages.root_of(meta.main_root, database.value), first)
        except DamagedPage as error:
            raise InternalError(
                f"the pages of {DATA_FILE} are damaged ({error}): restore the index from a backup, "
                "or remove it",
                code="item_corrupt",
            ) from error

    def get_many(self, database: SubDatabase, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys, None for missing ones, from one transaction.

        It does without the objects of `read`, because every search that returns items calls it.

        Raises:
            InternalError: LMDB found the file damaged.
            Unavailable: a commit has failed, and the process is about to end; or memory ran out.
        """
        tree = self._databases[database]
        self._map_lock.enter()
        try:
            with self._env.begin() as txn:
                get = txn.get
                return cast(list[bytes | None], [get(key, None, tree) for key in keys])
        except lmdb.Error as error:
            raise _unreadable(error) from error
        finally:
            self._map_lock.leave()

    def _grow(self, map_bytes: int) -> None:
        """Enlarge the map, once no transaction is open.

        Raises:
            StorageFull: there is not enough address space; the map has not changed.
            StorageFailure: LMDB could not map the file again; the process must end.
        """
        try:  # LMDB unmaps first, and would be left without a map
            mmap.mmap(-1, map_bytes, mmap.MAP_PRIVATE, prot=0).close()
        except (OSError, OverflowError) as error:
            raise StorageFull(
                "the index cannot grow: memory or address space ran out (ulimit -v)"
            ) from error
        with self._map_lock.alone():
            try:
                self._env.set_mapsize(map_bytes)
            except lmdb.Error as error:
                raise self._failure(error) from error
            self._map_bytes = map_bytes
            self._mappings = None

    def _abort(self, txn: lmdb.Transaction) -> None:
        with self._map_lock.alone():
            txn.abort()

    def change(self, work: Callable[[Transaction], T]) -> T:
        """Run a function in a write transaction, commit, and return its result; the map may grow.

        Args:
            work: called again, with a new transaction, after the map has grown.

        Raises:
            StorageFull: the map is full and cannot grow; nothing was changed.
            InternalError: a page is damaged; nothing was changed.
            StorageFailure: the commit failed; the state on disk is unknown until a reopen.
        """
        while True:
            map_bytes = self._map_bytes
            try:
                with self.write() as txn:
                    return work(txn)
            except StorageFull:
                if map_bytes >= self.map_bytes_max:
                    raise
            with self._writing:
                if self._map_bytes == map_bytes:
                    self._grow(_map_bytes_for(map_bytes + 1, self.map_bytes_max))

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Open the write transaction: commit and sync it at the end, abort it on an exception.

        Raises:
            StorageFull: the map is full; nothing was changed.
            InternalError: a page is damaged; nothing was changed.
            StorageFailure: the commit failed; the state on disk is unknown until a reopen.
        """
        with self._writing:
            try:
                txn = self._env.begin(write=True)
            except lmdb.Error as error:
                raise self._failure(error) from error
            try:
                yield Transaction(txn, self._databases)
            except BaseException as error:
                self._abort(txn)
                if isinstance(error, lmdb.Error):
                    raise self._refused(error) from error
                raise
            txn_id = txn.id()
            try:
                txn.commit()
            except lmdb.Error as error:
                raise self._refused(error) from error
            # (LMDB does not keep the number of a transaction that changed nothing.)
            self._last_txn_id = min(txn_id, int(self._env.info()["last_txnid"]))

    def _refused(self, error: lmdb.Error) -> Exception:
        """Return the error to raise for a write that LMDB refuses."""
        if isinstance(error, lmdb.MapFullError):
            return self._full()
        return _unreadable(error) if isinstance(error, _DAMAGE) else self._failure(error)

    def _failure(self, error: lmdb.Error) -> StorageFailure:
        """Return the error to raise for a write that the device refused.

        LMDB reports a short write on a full disk as an input/output error, so the free space is
        checked too.
        """
        is_full = isinstance(error, lmdb.DiskError) or has_no_block(self.folder)
        return StorageFailure(f"{self.data_path}: {error}", is_full=is_full)

    def _full(self) -> StorageFull:
        return StorageFull(
            f"the index has reached its greatest size of {self.map_bytes_max} bytes on a shard: "
            "delete items, or raise the limit and restart"
        )

    def reserve(self) -> None:
        """Write zeros after the last page, for the next small commits; on the write thread.

        The sync of a commit that extends the file waits for the file system's journal, and so for
        all other writes to the disk: 1 to 10 ms instead of 0.2. So the file grows by up to 256
        pages at a time. A full disk is not an error here, and neither is a process without file
        descriptors or memory: a commit needs none.

        Raises:
            OSError: the device failed.
        """
        end = self.file_bytes()
        room = min(ROOM_BYTES, max(ROOM_BYTES_MIN, end))
        if self._size_seen - end >= room // ROOM_SHARE:  # an open file never shrinks
            return
        try:
            with self.data_path.open("r+b", buffering=0) as file:
                size = self._size_seen = os.fstat(file.fileno()).st_size
                if size - end < room // ROOM_SHARE:
                    self._size_seen += os.pwrite(file.fileno(), bytes(end + room - size), size)
        except OSError as error:
            if not is_disk_full(error) and error.errno not in REFUSALS:
                raise

    def file_bytes(self) -> int:
        """Return the bytes of data.mdb up to its last page, free pages included."""
        with self._map_lock.reading():
            return int((self._env.info()["last_pgno"] + 1) * self._page_size)

    def bytes_used(self) -> int:
        """Return the bytes of pages in use, without free ones.

        Raises:
            InternalError, Unavailable: as `read`.
        """
        with self.read() as txn:
            num_pages = sum(map(txn.num_pages, SubDatabase))
        return (16 + num_pages) * self._page_size  # and meta pages, free list, roots

    def uses_more_than(self, num_bytes: int) -> bool:
        """Return whether pages in use have more bytes; counts them only if the file has more."""
        return self.file_bytes() > num_bytes and self.bytes_used() > num_bytes

    def release_pages(self, part: FilePart = WHOLE_FILE) -> None:
        """Release the resident pages of a part of the file; see `mapped_page_release`."""
        file_bytes = self.file_bytes()
        with self._map_lock.reading():
            if self._mappings is None:
                self._mappings = find_mappings(self.data_path)
            for mapping in self._mappings:
                release_pages(mapping, part, file_bytes)

    def num_readers(self) -> int:
        """Return the most slots of the reader table that were ever in use."""
        with self._map_lock.reading():
            return int(self._env.info()["num_readers"])

    def last_txn_id(self) -> int:
        """Return the number of the last transaction that is known to be on disk.

        LMDB's own number would not do: it may be that of a commit which another thread still syncs.
        """
        return self._last_txn_id

    def meta_at_rest(self) -> MetaPage | None:
        """Return the meta page while nothing is being written; else None.

        It and the other one are on disk, unless a commit has failed: `read` raises then.
        """
        if not self._writing.acquire(blocking=False):
            return None
        try:
            return read_meta_page(self.data_path)
        finally:
            self._writing.release()

    def copy(self, folder: Path) -> None:
        """Write a compact, consistent copy of data.mdb into a folder; writes go on meanwhile.

        Raises:
            StorageFull: there is not enough address space to enlarge the map first.
            StorageFailure: the copy could not be written; this environment has not changed.
        """
        with self._writing:
            wanted = _map_bytes_for(MAP_ROOM_FACTOR * self.file_bytes(), self.map_bytes_max)
            if wanted > self._map_bytes:
                self._grow(wanted)
            self._map_lock.begin_copy()
        try:
            self._env.copy(str(folder), compact=True)
        except lmdb.Error as error:
            raise self._failure(error) from error
        finally:
            self._map_lock.end_copy()


def _map_bytes_for(num_bytes: int, map_bytes_max: int) -> int:
    """Return the smallest size of a map for this many bytes, at most `map_bytes_max`."""
    map_bytes = MAP_BYTES_MIN
    while map_bytes < num_bytes:
        map_bytes *= MAP_GROWTH
    return min(map_bytes, map_bytes_max)
