"""The hash of a field's path, from the keys of the item that lead to it.

A path is the keys from the item's top joined by "."; array indices are left out. Kernels that walk
an item never put a path together to look it up: they continue the hash of the parent's path.

    {"author": {"name": …}}      h("author") ─▶ "." ─▶ "n" "a" "m" "e"  =  h("author.name")

FNV-1a: weak, but it goes on byte by byte, and paths are short. The coordinator counts the fields of
an index by it (`coordinator.write.field_limit`), the shards number them
(`shard.segment.field_registry`).

Cost: 1 ns a byte.
"""

from __future__ import annotations

from typing import Final

from common.kernels.decorator import kernel
from common.kernels.types import U8, U64, U8Array, uint8, uint64

HASH_BASIS: Final = uint64(0xCBF29CE484222325)
"""Hash of the empty path."""
DOT: Final = uint8(0x2E)
"""Byte between two keys of a path."""

_HASH_PRIME: Final = uint64(0x100000001B3)


@kernel(inline=True, allocates=False)
def hash_step(path_hash: U64, byte: U8) -> U64:
    """Continue the hash of a path by one byte."""
    return (path_hash ^ uint64(byte)) * _HASH_PRIME


@kernel(allocates=False)
def hash_path(path: U8Array) -> U64:
    """Return the hash of a whole path.

    Args:
        path: its UTF-8 bytes.
    """
    path_hash = HASH_BASIS
    for byte in path:
        path_hash = hash_step(path_hash, byte)
    return path_hash
