"""The meta pages of data.mdb, read without LMDB, which trusts them.

    page 0, 1:  | header 16 | magic u32 | version u32 | address u64 | map size u64
                | free tree 48 (first u32: page size) | main tree 48 | last page u64 | txn id u64

The page with the greater transaction number is the current one. The file must not end before its
last page.

A commit whose meta page the device refuses leaves bytes that no later one can tell from good ones:
LMDB puts the former transaction number back, in memory, while the disk may have the new page whole.
Which of the two the file *has* shows in the roots only, so `digest` covers all of both pages.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import xxhash

from shard.storage.storage_errors import DamagedEnvironment

_META = struct.Struct("<II Q Q 48s 48s Q Q")
_META_MAGIC = 0xBEEFC0DE
_PAGE_HEADER_BYTES = 16
_META_BYTES = _PAGE_HEADER_BYTES + _META.size
_META_PAGES = 2


@dataclass(frozen=True, slots=True)
class MetaPage:
    """A meta page of data.mdb."""

    page_size: int
    last_page: int
    txn_id: int
    main_root: int
    """Root page of the tree that names the sub-databases."""
    digest: str
    """Of what is used of both pages: any commit changes it, also one that failed."""

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Where both meta pages begin in the file, and how many of their bytes are used."""
        return tuple((number * self.page_size, _META_BYTES) for number in range(_META_PAGES))


def read_meta_page(path: Path | str) -> MetaPage:
    """Read the newer meta page of a data.mdb, without LMDB.

    Raises:
        DamagedEnvironment: the file is missing, truncated, empty, or not LMDB's.
        OSError: it cannot be read, which says nothing about its content.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise DamagedEnvironment(f"{path} is missing: restore it from a backup") from error
    try:  # (A start does this for each index; a file object would take twice as long.)
        size = os.fstat(file).st_size
        content = os.pread(file, _META_BYTES, 0)
        first = _parse_meta(content)
        if first is None:
            raise DamagedEnvironment(
                f"{path} is empty or damaged ({size} bytes): restore it from a backup, "
                "or remove the index"
            )
        other = os.pread(file, _META_BYTES, first.page_size)
        second = _parse_meta(other)
    finally:
        os.close(file)
    newest = first if second is None or first.txn_id > second.txn_id else second
    expected = (max(newest.last_page, _META_PAGES - 1) + 1) * newest.page_size
    if size < expected:
        raise DamagedEnvironment(
            f"{path} is truncated: {size} bytes instead of {expected}: restore it from a backup"
        )
    return replace(newest, digest=xxhash.xxh3_64_hexdigest(content + other))


def _parse_meta(page: bytes) -> MetaPage | None:
    if len(page) < _META_BYTES:
        return None
    content = _META.unpack_from(page, _PAGE_HEADER_BYTES)
    magic, _, _, _, free_tree, main_tree, last_page, txn_id = content
    page_size = int.from_bytes(free_tree[:4], "little")
    if magic != _META_MAGIC or not 512 <= page_size <= 65536:
        return None
    return MetaPage(
        page_size=page_size,
        last_page=last_page,
        txn_id=txn_id,
        main_root=int.from_bytes(main_tree[-8:], "little"),
        digest="",
    )
