"""STARTS WITH and CONTAINS: facet keys that begin with a text or contain it, as both are folded.

    Café Noir   ──fold──▶   cafe noir   ──contains "noir"──▶   yes

Unlike the analyzer, which knows words only, folding keeps spaces and punctuation: "c++" is not "c".
Keys are compared as UTF-8, in which no character is a part of another one.

Cost: 1 ns a byte to fold ASCII keys, and 1 ns a byte to look at them, both in kernels; others are
folded one by one, 1-2 µs each. The folded keys of a facet stay in the LRU cache (`COLUMN_CACHE`)
and grow with its dictionary; so do the numbers that a text was found in, which all segments share.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.types import BoolArray, I64Array, U8Array, uint8
from common.key_arena import KeyArena
from shard.caches.lru_cache import COLUMN_CACHE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.facet_dictionary import FacetDictionary

_STEP_KEYS: Final = 4_096
"""Keys that are folded at a time: joining them does not hold up other threads."""
_NO_OFFSETS: Final = np.zeros(1, np.int64)
_NO_KEYS: Final = KeyArena(np.zeros(0, np.uint8), _NO_OFFSETS)


def fold_key(text: str) -> str:
    """Return a text without case and accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


@kernel(allocates=False)
def _fold_ascii(keys: U8Array, offsets: I64Array, folded: U8Array, is_other: BoolArray) -> None:
    """Write all bytes, ASCII letters in lower case; mark the keys that have other characters."""
    for number in range(len(offsets) - 1):
        all_bits = uint8(0)
        for at in range(offsets[number], offsets[number + 1]):
            byte = keys[at]
            all_bits |= byte
            # One comparison: what is below "A" wraps around.
            is_upper = uint8(byte - uint8(65)) < uint8(26)
            folded[at] = byte | uint8(32) if is_upper else byte
        is_other[number] = all_bits >= uint8(128)


def fold_keys(arena: KeyArena) -> KeyArena:
    """Fold keys, each as `fold_key` does."""
    keys, num_keys = arena.keys, arena.num_keys
    first, end = int(arena.offsets[0]), int(arena.offsets[-1])
    offsets = arena.offsets - first
    folded = np.empty(end - first, np.uint8)
    is_other = np.empty(num_keys, np.bool_)
    _fold_ascii(keys[first:end], offsets, folded, is_other)
    if not is_other.any():
        return KeyArena(folded, offsets)
    lengths = np.diff(offsets)
    pieces: list[bytes] = []
    for start in range(0, num_keys, _STEP_KEYS):
        stop = min(start + _STEP_KEYS, num_keys)
        spans = offsets[start : stop + 1].tolist()
        content = folded[spans[0] : spans[-1]].tobytes()
        original = keys[first + spans[0] : first + spans[-1]].tobytes()
        at = base = spans[0]
        for number in np.flatnonzero(is_other[start:stop]).tolist():
            left, right = spans[number], spans[number + 1]
            text = original[left - base : right - base].decode("utf-8", "surrogatepass")
            replaced = fold_key(text).encode("utf-8", "surrogatepass")
            pieces += (content[at - base : left - base], replaced)
            lengths[start + number] = len(replaced)
            at = right
        pieces.append(content[at - base :])
    joined = np.frombuffer(bytearray(b"".join(pieces)), np.uint8)
    return KeyArena(joined, np.concatenate([_NO_OFFSETS, np.cumsum(lengths)]))


@kernel(allocates=False)
def _mark_alike(
    keys: U8Array, offsets: I64Array, text: U8Array, is_at_start: bool, is_alike: BoolArray
) -> None:
    """Mark the keys that contain a text, or begin with it; the text is not empty."""
    length = len(text)
    first_byte = text[0]
    for number in range(len(offsets) - 1):
        at = offsets[number]
        # The last place where the text may begin in this key.
        last = offsets[number + 1] - length
        if is_at_start:
            last = min(last, at)
        is_found = False
        while at <= last and not is_found:
            if keys[at] == first_byte:
                same = 1
                while same < length and keys[at + same] == text[same]:
                    same += 1
                is_found = same == length
            at += 1
        is_alike[number] = is_found


def numbers_alike(folded: KeyArena, text: str, *, is_at_start: bool) -> NDArray[np.uint32]:
    """Return the numbers of the keys that contain a text, or begin with it; ascending.

    Args:
        folded: the keys.
        text: folded.
        is_at_start: whether the key has to begin with it.
    """
    num_keys = folded.num_keys
    encoded = np.frombuffer(bytearray(text, "utf-8", "surrogatepass"), np.uint8)
    if not len(encoded):
        return np.arange(num_keys, dtype=np.uint32)
    is_alike = np.empty(num_keys, np.bool_)
    _mark_alike(folded.keys, folded.offsets, encoded, is_at_start, is_alike)
    return np.flatnonzero(is_alike).astype(np.uint32)


def values_alike(
    dictionary: FacetDictionary, length: int, text: str, *, is_at_start: bool
) -> NDArray[np.uint32]:
    """Return the first `length` values of a facet whose key contains a text, or begins with it.

    Args:
        dictionary: of the facet.
        length: how many of its values to look at.
        text: folded.
        is_at_start: whether the key has to begin with it.

    Returns:
        Value numbers, ascending; cached.
    """

    def find() -> NDArray[np.uint32]:
        keys, offsets = _folded_values(dictionary, length)
        return numbers_alike(KeyArena(keys, offsets[: length + 1]), text, is_at_start=is_at_start)

    key = ("alike", dictionary.epoch, length, text, is_at_start)
    return COLUMN_CACHE.get_or_make(key, find, lambda found: found.nbytes, dictionary)


def _folded_values(dictionary: FacetDictionary, length: int) -> KeyArena:
    """Return at least the first `length` keys of a facet, folded."""
    key = ("folded", dictionary.epoch)
    with COLUMN_CACHE.making(key):
        known: KeyArena = COLUMN_CACHE.get(key) or _NO_KEYS
        num_known = known.num_keys
        if num_known >= length:
            return known
        fresh = fold_keys(dictionary.arena(num_known, length))
        grown = KeyArena(
            np.concatenate([known.keys, fresh.keys]),
            np.concatenate([known.offsets, known.offsets[-1] + fresh.offsets[1:]]),
        )
        COLUMN_CACHE.put(key, grown, grown.num_bytes, dictionary)
    return grown
