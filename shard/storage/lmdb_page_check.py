"""Checks the pages of a sub-database before LMDB walks through them.

LMDB's pages carry no checksums. A lookup in a damaged page is an error; but a cursor that steps
into one fails an assertion, which ends the process, or reads past the map. So a reader that walks
through a sub-database checks each page first: is it the one that its parent names, and do its nodes
lie within it? The content of a node is covered by the checksum of its value.

    page   | number u64 | u16 | flags u16 | lower u16 | upper u16 | offsets u16 … ) free ( nodes |
           0            8     10          12          14          16            lower    upper
    node   | low u16 | high u16 | flags u16 | key size u16 | key | a leaf's data … |

    branch   low, high, flags: number of the child page (48 bits)
    leaf     low, high: size of the data (32 bits); flags: 1, it is the number of the page where the
             data begins; 2, it is a sub-database: | 40 bytes | root page u64 |

The pages are those of the newest transaction. None of them is reused while a reader is open that
began before the check.

Cost: 4 µs a page.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

_BRANCH: Final = 1
_LEAF: Final = 2
_HEADER: Final = struct.Struct("<QHHHH")
_NODE: Final = struct.Struct("<HHHH")
_BIG_DATA: Final = 1
_SUB_DATABASE: Final = 2
_ROOT_OFFSET: Final = 40
_DEPTH_MAX: Final = 32
"""LMDB's own limit."""
NO_PAGE: Final = (1 << 64) - 1
END: Final = b"\xff" * 512
"""Greater than any key."""


class DamagedPage(Exception):
    """A page is not the one that its parent names, or its nodes do not lie within it."""


class Pages:
    """The pages of a data.mdb.

    Args:
        path: of the file.
        page_size: in bytes.
        num_pages: of the newest transaction.
    """

    def __init__(self, path: Path, page_size: int, num_pages: int) -> None:
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._page_size = page_size
        self._num_pages = num_pages

    def root_of(self, main_root: int, name: bytes) -> int:
        """Return the root page of a sub-database; `NO_PAGE` if it is empty.

        Raises:
            DamagedPage: a page of the tree of sub-databases is damaged, or the name is missing.
        """
        for at, size, flags in self._leaf_nodes(main_root):
            start = at + _NODE.size
            if self._data[start : start + size] == name and flags & _SUB_DATABASE:
                root = start + size + _ROOT_OFFSET
                return int.from_bytes(self._data[root : root + 8], "little")
        raise DamagedPage(f"it has no sub-database {name.decode()}")

    def uppers(self, root: int, first: bytes = b"") -> Iterator[bytes]:
        """Check the leaves of a tree, in order, from the first that can have a key.

        Args:
            root: page of the tree; `NO_PAGE`: the tree is empty.
            first: the key.

        Yields:
            For each leaf, once it is checked: an upper bound of its keys, which is a lower bound of
            those of the next leaf.

        Raises:
            DamagedPage: the next leaf, or a branch that leads to it, is damaged.
        """
        if root != NO_PAGE:
            for page, starts, upper in self._leaves(root, first, END, 0):
                self._check_leaf(page, starts)
                yield upper

    def _leaf_nodes(self, root: int) -> Iterator[tuple[int, int, int]]:
        """Yield offset in the file, key size and flags of each node of a tree's leaves."""
        for page, starts, _ in self._leaves(root, b"", END, 0):
            self._check_leaf(page, starts)
            for start in starts.tolist():
                at = page * self._page_size + start
                _, _, flags, key_size = _NODE.unpack_from(self._data, at)
                yield at, key_size, flags

    def _leaves(
        self, page: int, first: bytes, upper: bytes, depth: int
    ) -> Iterator[tuple[int, NDArray[np.int64], bytes]]:
        """Yield the leaves below a page, with the offsets of their nodes and an upper bound."""
        starts, is_branch = self._nodes(page)
        if not is_branch:
            yield page, starts, upper
            return
        if depth == _DEPTH_MAX:
            raise DamagedPage(f"page {page} is too deep")
        children = [self._child(page, start) for start in starts.tolist()]
        uppers = [key for _, key in children[1:]] + [upper]
        for (child, _), upper_of_child in zip(children, uppers, strict=True):
            if upper_of_child > first:
                yield from self._leaves(child, first, upper_of_child, depth + 1)

    def _child(self, page: int, start: int) -> tuple[int, bytes]:
        """Return a child of a branch, and the lower bound of its keys."""
        at = page * self._page_size + start
        low, high, top, key_size = _NODE.unpack_from(self._data, at)
        if start + _NODE.size + key_size > self._page_size:
            raise DamagedPage(f"page {page}: a key is longer than the page")
        key = self._data[at + _NODE.size : at + _NODE.size + key_size]
        return low | high << 16 | top << 32, key

    def _nodes(self, page: int) -> tuple[NDArray[np.int64], bool]:
        """Return the offsets of the nodes of a page, and whether it is a branch."""
        at = page * self._page_size
        if page >= self._num_pages or at + self._page_size > len(self._data):
            raise DamagedPage(f"page {page} is past the end")
        number, _, flags, lower, upper = _HEADER.unpack_from(self._data, at)
        is_whole = (
            number == page
            and flags & (_BRANCH | _LEAF) in (_BRANCH, _LEAF)
            and _HEADER.size <= lower <= upper <= self._page_size
        )
        if not is_whole:
            raise DamagedPage(f"page {page} has a damaged header")
        count = (lower - _HEADER.size) // 2
        starts = np.frombuffer(self._data, np.uint16, count, at + _HEADER.size).astype(np.int64)
        if not count or starts.min() < upper or starts.max() + _NODE.size > self._page_size:
            raise DamagedPage(f"page {page}: a node is not within it")
        return starts, bool(flags & _BRANCH)

    def _check_leaf(self, page: int, starts: NDArray[np.int64]) -> None:
        """Check that keys and data lie within their page, or on existing pages."""
        whole = np.frombuffer(self._data, np.uint8, self._page_size, page * self._page_size)
        fields = [
            whole[starts + i].astype(np.int64) | whole[starts + i + 1].astype(np.int64) << 8
            for i in range(0, _NODE.size, 2)
        ]
        low, high, flags, key_sizes = fields
        sizes = low | high << 16
        is_big = flags & _BIG_DATA != 0
        ends = starts + _NODE.size + key_sizes + np.where(is_big, 8, sizes)
        if ends.max() > self._page_size:
            raise DamagedPage(f"page {page}: the data of a node is not within it")
        for node in np.flatnonzero(is_big).tolist():
            at = page * self._page_size + int(starts[node] + _NODE.size + key_sizes[node])
            first = int.from_bytes(self._data[at : at + 8], "little")
            num_pages = -(-(_HEADER.size + int(sizes[node])) // self._page_size)
            if first + num_pages > self._num_pages:
                raise DamagedPage(f"page {page}: the data of a node is past the end")
