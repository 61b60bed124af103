"""The order of the values of a long facet, kept up to date as values are added."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from common.key_order import sort_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INSERTED_MAX: Final = 256
"""Up to this many new texts are inserted into the order one by one, 5 µs each."""
_ENCODED_TEXTS: Final = 4_096
"""Texts that are encoded at a time."""


def sorted_numbers(
    texts: Sequence[str], num_texts: int, known: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Return the numbers of the first `num_texts` different texts, in order of code points.

    Args:
        texts: may grow meanwhile.
        num_texts: how many to order.
        known: the order of the first few of them; empty: not known.
    """
    num_known = len(known)
    if num_texts - num_known <= _INSERTED_MAX and num_known:
        fresh = sorted(range(num_known, num_texts), key=texts.__getitem__)
        places = [bisect_left(known, texts[number], key=texts.__getitem__) for number in fresh]
        inserted: NDArray[np.uint32] = np.insert(known, places, np.array(fresh, np.uint32))
        return inserted
    pieces: list[bytes] = []
    offsets = np.zeros(num_texts + 1, np.int64)
    for start in range(0, num_texts, _ENCODED_TEXTS):
        end = min(start + _ENCODED_TEXTS, num_texts)
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts[start:end]]
        offsets[start + 1 : end + 1] = [len(one) for one in encoded]
        pieces.append(b"".join(encoded))
    keys = np.frombuffer(bytearray(b"".join(pieces)), np.uint8)
    return sort_keys(keys, np.cumsum(offsets), known)
