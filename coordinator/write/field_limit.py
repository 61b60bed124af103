r"""The number of fields of an index, and whether the items of a batch may add new ones.

Question it answers, before a write is sent: which items would take the index past
`index_fields_max`? Every field of an index costs each search of all fields some microseconds, and
items whose keys are data (a map by user name) would keep adding new ones.

A field is a path, as the shards count it (`shard.segment.field_registry`): the keys from the item's
top joined by ".", array indices left out, objects included. So {"a": 1, "b": [{"c": 2}]} has a, b
and b.c.

Of each path only a hash is kept, in a table with open addressing:

    slots   [0, h(b), 0, 0, h(b.c), h(a), 0, 0]       0 is free; at most half full, linear probing

The hash continues from the parent's (`common.field_path_hash`), so no path is ever put together.
The kernel adds the paths of an item as it walks; where they are too many, it takes those of this
item out again, last ones first, which leaves the table as it was. Two paths with one hash count
once.

Cost: 1 ns a byte of the items.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.field_path_hash import DOT, HASH_BASIS, hash_path, hash_step
from common.json.item_scanner import ItemError, ScannedItems
from common.json.token_scan import find_closing_quote, find_quote_or_backslash, unescape
from common.kernels.decorator import arguments, kernel
from common.kernels.types import (
    U8,
    U64,
    BoolArray,
    I64Array,
    U8Array,
    U64Array,
    int64,
    uint64,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from common.limits import Limits

_FOLD: Final = uint64(32)
_FREE: Final = uint64(0)

_ADDED: Final = 0
"""How adding the paths of an item ends: with all of them, ..."""
_OVER_LIMIT: Final = 1
"""... with one too many for the index, ..."""
_TABLE_FULL: Final = 2
"""... or with one for which the table must grow first."""

_SLOTS_MIN: Final = 128
_DEPTH_MAX: Final = 64
_KEY_BYTES_MAX: Final = 256
_ITEMS_AT_ONCE: Final = 256
"""Items that are walked while the lock is held: 0.2 ms."""


@arguments
class _Items(NamedTuple):
    """Items, each a valid JSON object within the limits of `common.json.item_scanner`."""

    payload: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@arguments
class _Walk(NamedTuple):
    """Working memory of a walk through items.

    Attributes:
        is_object: by depth, whether the open container is one.
        hashes: by depth: of the path before the keys of an object, or of an array's own path.
        key: room for a key with escapes.
        added: slots that the item has filled.
    """

    is_object: NDArray[np.bool_]
    hashes: NDArray[np.uint64]
    key: NDArray[np.uint8]
    added: NDArray[np.int64]


@kernel(inline=True, allocates=False)
def _hash_bytes(path_hash: U64, text: U8Array, start: int, end: int) -> U64:
    """Continue the hash of a path by the bytes of a key."""
    for i in range(start, end):
        path_hash = hash_step(path_hash, text[i])
    return path_hash


@kernel(inline=True, allocates=False)
def _find_slot(path_hash: U64, slots: U64Array) -> int:
    """Return the slot that has a hash, or the free one that it belongs into."""
    mask = len(slots) - 1
    slot = int64(path_hash ^ (path_hash >> _FOLD)) & mask
    while slots[slot] != _FREE and slots[slot] != path_hash:
        slot = (slot + 1) & mask
    return slot


@kernel(allocates=False)
def _add_hashes(hashes: U64Array, slots: U64Array) -> None:
    """Add the hashes of paths to a table that has room for them."""
    for i in range(len(hashes)):
        slots[_find_slot(hashes[i], slots)] = hashes[i]


@kernel(inline=True, allocates=False)
def _pass_mark(
    byte: U8, depth: int, path_hash: U64, is_key: bool, walk: _Walk
) -> tuple[int, U64, bool]:
    """Pass a byte outside of texts: what opens, closes or separates says whose key comes next.

    Returns:
        (depth, hash of the path there, whether the next text is a key).
    """
    is_object, hashes = walk.is_object, walk.hashes
    if byte == 0x7B:  # {, whose keys continue the path with a dot
        if depth > 0:
            path_hash = hash_step(path_hash, DOT)
        depth += 1
        is_object[depth] = True
        hashes[depth] = path_hash
        is_key = True
    elif byte == 0x5B:  # [, whose elements share the path of its key
        depth += 1
        is_object[depth] = False
        hashes[depth] = path_hash
    elif byte == 0x7D or byte == 0x5D:  # } or ]
        depth -= 1
        is_key = False
    elif byte == 0x2C:  # , before the next key of an object or element of an array
        is_key = is_object[depth]
        path_hash = hashes[depth]
    return depth, path_hash, is_key


@kernel(inline=True, allocates=False)
def _add_item(
    payload: U8Array,
    start: int,
    end: int,
    num_fields: int,
    num_fields_max: int,
    slots: U64Array,
    walk: _Walk,
) -> tuple[int, int]:
    """Add the paths of an item, until there is no room for one.

    Returns:
        (how many were added, how that ended: `_ADDED`, `_OVER_LIMIT` or `_TABLE_FULL`).
    """
    num_added = 0
    depth = 0
    path_hash = HASH_BASIS
    position = start
    is_key = False
    while position < end:
        byte = payload[position]
        position += 1
        if byte != 0x22:  # numbers, literals and white space pass by, too
            depth, path_hash, is_key = _pass_mark(byte, depth, path_hash, is_key, walk)
            continue
        key_start = position
        close = find_quote_or_backslash(payload, key_start)
        has_escapes = payload[close] == 0x5C
        if has_escapes:
            close = find_closing_quote(payload, close)
        position = close + 1
        if not is_key:
            continue
        is_key = False
        path_hash = walk.hashes[depth]
        if has_escapes:
            size = unescape(payload, key_start, close, walk.key, 0)
            path_hash = _hash_bytes(path_hash, walk.key, 0, size)
        else:
            path_hash = _hash_bytes(path_hash, payload, key_start, close)
        name = path_hash if path_hash != _FREE else uint64(1)
        slot = _find_slot(name, slots)
        if slots[slot] != _FREE:
            continue
        if num_fields + num_added >= num_fields_max:
            return num_added, _OVER_LIMIT
        if 2 * (num_fields + num_added + 1) > len(slots):
            return num_added, _TABLE_FULL
        slots[slot] = name
        walk.added[num_added] = slot
        num_added += 1
    return num_added, _ADDED


@kernel(inline=True, allocates=False)
def _take_back(slots: U64Array, added: I64Array, num_added: int) -> None:
    """Free the slots that an item has filled.

    Last ones first: no other path was put past a slot that is freed, so every chain of the table
    stays whole.
    """
    while num_added > 0:
        num_added -= 1
        slots[added[num_added]] = _FREE


@kernel(allocates=False)
def _add_paths(
    items: _Items,
    first: int,
    num_fields: int,
    num_fields_max: int,
    slots: U64Array,
    walk: _Walk,
    refused: BoolArray,
) -> tuple[int, int]:
    """Add the paths of items; those of an item that has too many new ones are not added.

    Args:
        items: to walk through.
        first: where to begin.
        num_fields: paths in the table.
        num_fields_max: how many there may be.
        slots: the table.
        walk: working memory; `added` has room for all paths of an item.
        refused: gets True for the items that were refused.

    Returns:
        (item to go on with, number of paths): not the end if the table must grow first.
    """
    for item in range(first, len(items.starts)):
        num_added, ending = _add_item(
            items.payload,
            items.starts[item],
            items.ends[item],
            num_fields,
            num_fields_max,
            slots,
            walk,
        )
        if ending == _ADDED:
            num_fields += num_added
            continue
        _take_back(slots, walk.added, num_added)
        if ending == _TABLE_FULL:
            return item, num_fields
        refused[item] = True
    return len(items.starts), num_fields


def _hash_name(name: str) -> int:
    """Return the hash of a path, as the kernel has it."""
    return int(hash_path(np.frombuffer(bytearray(name.encode()), np.uint8))) or 1


class FieldNames:
    """What writes need to know of the fields of one index; safe to use from any thread.

    Args:
        names: paths that the index has.
        limits: how many there may be, and how many keys an item may have.
    """

    def __init__(self, names: Iterable[str], limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        hashes = {_hash_name(name) for name in names}
        self._num_fields = len(hashes)
        num_slots = _SLOTS_MIN
        while num_slots < 2 * len(hashes):
            num_slots *= 2
        self._slots = np.zeros(num_slots, np.uint64)
        _add_hashes(np.array(list(hashes), np.uint64), self._slots)

    @property
    def num_fields(self) -> int:
        """How many there are."""
        return self._num_fields

    def _grow(self) -> None:
        former = self._slots
        self._slots = np.zeros(2 * len(former), np.uint64)
        _add_hashes(former[former != _FREE], self._slots)

    def admit(self, scanned: ScannedItems, unit: str) -> ScannedItems:
        """Add the fields of scanned items; move those that are refused to the errors.

        Args:
            scanned: items and errors.
            unit: what their positions count: line or item.
        """
        refused = self.add_from(scanned.payload, scanned.starts, scanned.ends)
        if not refused.any():
            return scanned
        kept = ~refused
        errors = [self.error(line, f"{unit} {line}: ") for line in scanned.lines[refused].tolist()]
        return ScannedItems(
            scanned.payload,
            scanned.starts[kept],
            scanned.ends[kept],
            scanned.id_hashes[kept],
            scanned.has_id[kept],
            scanned.lines[kept],
            sorted([*scanned.errors, *errors], key=lambda one: one.position),
        )

    def add_from(
        self, payload: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Add the fields of items, in their order, as long as there may be more.

        Args:
            payload: bytes that hold the items, which have been scanned.
            starts: where each begins.
            ends: where each ends.

        Returns:
            By item: whether it was refused, because its new fields would be too many.
        """
        refused = np.zeros(len(starts), np.bool_)
        walk = _Walk(
            np.zeros(_DEPTH_MAX + 2, np.bool_),
            np.zeros(_DEPTH_MAX + 2, np.uint64),
            np.empty(6 * _KEY_BYTES_MAX, np.uint8),
            np.empty(self._limits.index_fields_max + 1, np.int64),
        )
        for low in range(0, len(starts), _ITEMS_AT_ONCE):
            high = min(low + _ITEMS_AT_ONCE, len(starts))
            items = _Items(payload, starts[low:high], ends[low:high])
            with self._lock:
                item = 0
                while item < high - low:
                    item, self._num_fields = _add_paths(
                        items,
                        item,
                        self._num_fields,
                        self._limits.index_fields_max,
                        self._slots,
                        walk,
                        refused[low:high],
                    )
                    if item < high - low:
                        self._grow()
        return refused

    def error(self, position: int, where: str) -> ItemError:
        """Return why an item was refused.

        Args:
            position: line or index of the item in its body.
            where: the same for the message: "line 3: "; empty for a single item.
        """
        return ItemError(
            position,
            None,
            code="too_many_index_fields",
            message=f"{where}an index may have {self._limits.shown('index_fields_max')} fields, "
            "nested ones included; if their names are data, store them as values: "
            '[{"name": "color", "value": "red"}]; names that no item has any more go when the '
            "configuration is posted again",
            byte=1,
        )
