"""Cuts items into the tokens that word codes encode: words, and the separators between them.

    {"id":7,"title":"deep blue sea","tags":["sea"]}
    ───┬── ┬ ────┬───── ─┬── ─┬── ┬ ─────┬──── ┬ ┬
    {"id": 7 ,"title":" deep blue sea ","tags":[" sea "]}        tokens; both spaces are implied

A *word* is a run of ASCII letters, digits, underscores and characters of two bytes; a *separator*
is a run of other ASCII characters, with the key of an object in it if there is one, or a single
character of three or four bytes (scripts without spaces). Both end after `TOKEN_BYTES_MAX` bytes.
Two words without a separator between them have a space there; where they touch, an empty separator
says so.

`word_training` counts the tokens of an index, `word_encoding` looks up their codes. Both cut items
and hash tokens by these leaves, so that they agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from common.kernels.decorator import kernel
from common.kernels.intrinsics import load_u64
from common.kernels.types import U64, U8Array, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOKEN_BYTES_MAX: Final = 63

_IN_WORD: Final = 1
_LONG_CHARACTER: Final = 2
"""Classes of a byte: in a word; first of a character of three or four bytes. Any other: 0."""

_QUOTE: Final = 0x22
_COLON: Final = 0x3A
SPACE: Final = 0x20

_S32: Final = uint64(32)
_LOW32: Final = uint64(0xFFFFFFFF)
_K1: Final = uint64(0x9E3779B97F4A7C15)
_K2: Final = uint64(0xD6E8FEB86659FD93)


def _make_classes() -> NDArray[np.uint8]:
    """Return the class of each byte."""
    classes = np.zeros(256, np.uint8)
    for byte in b"_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
        classes[byte] = _IN_WORD
    classes[0x80:0xE0] = _IN_WORD  # characters of two bytes, and continuation bytes
    classes[0xE0:] = _LONG_CHARACTER
    return classes


BYTE_CLASSES: Final = _make_classes()


@kernel(allocates=False)
def end_of_token(text: U8Array, start: int, end: int, classes: U8Array) -> tuple[int, bool]:
    """Return where the token at `start` ends, and whether it is a word."""
    limit = min(end, start + TOKEN_BYTES_MAX)
    at = start
    first = classes[text[at]]
    if first == _IN_WORD:
        while at < limit and classes[text[at]] == _IN_WORD:
            at += 1
        return at, True
    if first == _LONG_CHARACTER:  # one character, whatever it is
        at += 1
        while at < limit and text[at] & 0xC0 == 0x80:
            at += 1
        return at, False
    while at < limit and classes[text[at]] == 0:
        at += 1
    # A key: quoted, with a colon after it. ASCII after the colon belongs to the separator too.
    if at < limit and text[at - 1] == _QUOTE and classes[text[at]] == _IN_WORD:
        key = at
        while key < limit and classes[text[key]] == _IN_WORD:
            key += 1
        if key + 1 < limit and text[key] == _QUOTE and text[key + 1] == _COLON:
            at = key + 2
            while at < limit and classes[text[at]] == 0:
                at += 1
    return at, False


@kernel(inline=True, allocates=False)
def first_bytes(text: U8Array, start: int, end: int) -> U64:
    """Return the first eight bytes of a span as a word; zeros follow a shorter one."""
    size = end - start
    if start + 8 <= len(text):
        word: int = load_u64(text, start)
        return word if size >= 8 else word & ~(~uint64(0) << uint64(8 * size))
    word = uint64(0)
    for i in range(min(size, 8)):
        word |= uint64(text[start + i]) << uint64(8 * i)
    return word


@kernel(inline=True, allocates=False)
def token_hash(first: U64, text: U8Array, start: int, end: int, is_word: bool) -> U64:
    """Return a hash of a token in the upper 32 bits; the rest is zero."""
    digest = (first ^ uint64(end - start) << uint64(1) ^ uint64(is_word)) * _K1
    at = start + 8
    while at < end:
        digest = (digest ^ digest >> _S32 ^ first_bytes(text, at, end)) * _K2
        at += 8
    digest ^= digest >> _S32
    digest *= _K2
    return digest & ~_LOW32


@kernel(inline=True, allocates=False)
def is_implied(
    text: U8Array, start: int, stop: int, end: int, classes: U8Array, is_after_word: bool
) -> bool:
    """Return whether a token is the one space between two words."""
    return (
        is_after_word
        and stop == start + 1
        and text[start] == SPACE
        and stop < end
        and classes[text[stop]] == _IN_WORD
    )
