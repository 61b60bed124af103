"""Ids of items: which values may be one, and how one is written.

An id is 1 to 256 bytes of UTF-8; a number from 0 on is the text of its digits, so that 5 and "5"
are one id. Commands import this, which need no numpy: where an item goes is in `item_placement`.
"""

from __future__ import annotations

from typing import Final

ID_BYTES_MAX: Final = 256
ID_INTEGER_MAX: Final = 2**63 - 1


def canonical_id(value: int | str) -> bytes | None:
    """Return the canonical form of an id: its UTF-8 text; 5 and "5" are one id.

    Returns:
        1-256 bytes; None if the value is not an id (negative, too large, empty, too long, not
        encodable).
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value).encode() if 0 <= value <= ID_INTEGER_MAX else None
    try:
        text = value.encode()
    except UnicodeEncodeError:
        return None
    return text if 1 <= len(text) <= ID_BYTES_MAX else None


def shown_id(canonical: bytes) -> int | str:
    """Return an id as JSON, when its stored form is unknown: digits are a number.

    The inverse of `canonical_id`, which drops whether an id was a number or a text of digits.
    """
    is_number = canonical.isdigit() and (canonical == b"0" or canonical[:1] != b"0")
    if is_number and int(canonical) <= ID_INTEGER_MAX:
        return int(canonical)
    return canonical.decode()
