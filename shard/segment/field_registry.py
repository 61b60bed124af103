"""Numbers the paths of fields: a uint16 for each.

Questions it answers: (1) extraction, once per key of every item: which number has the path that was
just read, as bytes? (2) all others, rarely: which number has a path given as text, and vice versa?

A path is the keys from the item's top joined by "."; array indices are left out, so that the values
of ``{"authors": [{"name": …}, …]}`` all have the path ``authors.name``. ``{"a.b": 1}`` and ``{"a":
{"b": 1}}`` are one path on purpose: users write both.

The registry of an index only grows, so a number once assigned stays valid for every segment that
was ever written:

    paths         ["id", "title", "tags", "authors.name"]         number → text
    numbers       {"id": 0, …}                                    text → number
    path_bytes    idtitletagsauthors.name           the same for the kernel: bytes,
    path_offsets  0 2 7 11 23                       where each begins,
    path_hashes   hash of each (`field_path_hash`)  and open addressing over their hashes,
    slots         [-1, 2, -1, 0, 3, …]              at most half full, linear probing

Cost: a lookup in the kernel is one hash step a byte, one probe and one comparison, ≈ 15 ns for a
key of 8 bytes.

Bound: items whose keys are data (say, a map by user name) would use up all numbers. From
`NUM_LEARNED_MAX` paths on, new ones share the field `OVERFLOW_PATH`: their texts stay searchable,
and the remaining numbers are reserved for fields that a configuration names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.field_path_hash import hash_path
from common.index_configuration import OVERFLOW_PATH
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, U8Array, int64, uint64

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

NUM_FIELDS_MAX: Final = 65_535
NUM_LEARNED_MAX: Final = 60_000
"""Paths learned from items; the remaining numbers are reserved for paths that a configuration
names."""

_FORMER_OVERFLOW_PATH: Final = "*"
"""What `OVERFLOW_PATH` was in earlier versions; beyond `NUM_LEARNED_MAX`, no item's path was."""

_FOLD: Final = uint64(32)


@arguments
class PathTable(NamedTuple):
    """The paths, as kernels look them up; see the module."""

    path_bytes: NDArray[np.uint8]
    path_offsets: NDArray[np.int64]
    path_hashes: NDArray[np.uint64]
    slots: NDArray[np.int32]


@kernel(allocates=False)
def find_field(path_hash: U64, path: U8Array, length: int, table: PathTable) -> int:
    """Return the number of the path ``path[:length]``, or -1 if it has none."""
    path_bytes, path_offsets, path_hashes, slots = table
    mask = len(slots) - 1
    slot = int64(path_hash ^ (path_hash >> _FOLD)) & mask
    while True:
        field = int64(slots[slot])
        if field < 0:
            return -1
        if path_hashes[field] == path_hash:
            start = path_offsets[field]
            if path_offsets[field + 1] - start == length:
                byte = 0
                while byte < length and path[byte] == path_bytes[start + byte]:
                    byte += 1
                if byte == length:
                    return field
        slot = (slot + 1) & mask


class FieldRegistry:
    """The paths of one index on one shard, numbered by first appearance.

    One writer may register while others read: `paths` and the dictionary that `number` reads only
    grow. A search that extracts stored documents uses the arrays too: their paths have numbers, and
    a table that has to grow is replaced, not changed.

    Args:
        paths: get the numbers 0, 1, 2 and so on.

    Attributes:
        paths: path by field number; do not change it.
        table: the same for kernels; replaced when it has to grow.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.paths: list[str] = []
        self._numbers: dict[str, int] = {}
        self.table = PathTable(
            np.zeros(1024, np.uint8),
            np.zeros(65, np.int64),
            np.zeros(64, np.uint64),
            np.full(128, -1, np.int32),
        )
        for number, path in enumerate(paths):
            is_shared = path == _FORMER_OVERFLOW_PATH and number >= NUM_LEARNED_MAX
            self.register(OVERFLOW_PATH if is_shared else path)

    @property
    def num_fields(self) -> int:
        """How many paths have numbers; no `__len__`, or an empty registry would be falsy."""
        return len(self.paths)

    def number(self, path: str) -> int | None:
        """Return the number of a path, or None if no item or configuration ever had it."""
        return self._numbers.get(path)

    def learn(self, path: str) -> int:
        """Return the number of an item's path: a new one if there is room, else the shared one."""
        number = self._numbers.get(path)
        if number is None:
            number = self.register(path if len(self.paths) < NUM_LEARNED_MAX else OVERFLOW_PATH)
        return number

    @property
    def overflow_number(self) -> int:
        """The number that new paths share once there are too many; -1 before that."""
        return self.learn(OVERFLOW_PATH) if len(self.paths) >= NUM_LEARNED_MAX else -1

    def register(self, path: str) -> int:
        """Return the number of a path, assigning one if it has none yet.

        Raises:
            OverflowError: all numbers are assigned.
        """
        number = self._numbers.get(path)
        if number is not None:
            return number
        number = len(self.paths)
        if number >= NUM_FIELDS_MAX:
            raise OverflowError(f"an index has at most {NUM_FIELDS_MAX} fields")
        encoded = np.frombuffer(bytearray(path.encode()), np.uint8)
        start = int(self.table.path_offsets[number])
        self._reserve(number + 1, start + len(encoded))
        self.table.path_bytes[start : start + len(encoded)] = encoded
        self.table.path_offsets[number + 1] = start + len(encoded)
        self.table.path_hashes[number] = hash_path(encoded)
        _insert(number, self.table)
        self.paths.append(path)
        self._numbers[path] = number
        return number

    def _reserve(self, num_fields: int, num_bytes: int) -> None:
        """Make room in the arrays, by doubling; readers see only complete tables."""
        path_bytes, path_offsets, path_hashes, _ = self.table
        while num_bytes > len(path_bytes):
            path_bytes = np.concatenate([path_bytes, np.zeros_like(path_bytes)])
            self.table = self.table._replace(path_bytes=path_bytes)
        if num_fields > len(path_hashes):
            capacity = 2 * len(path_hashes)
            larger = PathTable(
                path_bytes,
                np.concatenate([path_offsets, np.zeros(capacity // 2, np.int64)]),
                np.concatenate([path_hashes, np.zeros_like(path_hashes)]),
                np.full(2 * capacity, -1, np.int32),
            )
            for number in range(len(self.paths)):
                _insert(number, larger)
            self.table = larger


def _insert(number: int, table: PathTable) -> None:
    """Put the number of a path, whose hash is in the table, into a free slot."""
    slots = table.slots
    path_hash = int(table.path_hashes[number])
    mask = len(slots) - 1
    slot = (path_hash ^ (path_hash >> 32)) & mask
    while slots[slot] >= 0:
        slot = (slot + 1) & mask
    slots[slot] = number
