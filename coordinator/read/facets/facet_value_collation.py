"""The order of texts, and of the values of a facet as values are added."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from common.analysis.collation import collator
from common.analysis.collation_names import CODE_POINTS
from common.string_sort_kernels import sort_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from common.facet_dictionary import FacetDictionary

_INSERTED_MAX: Final = 256
"""Up to this many new texts are inserted into the order one by one, 5 µs each."""


def text_key(collation: str) -> Callable[[str], str | bytes]:
    """Return the function that gives the sort key of a text."""
    return str if collation == CODE_POINTS else collator(collation).key_of


def sorted_numbers(
    dictionary: FacetDictionary,
    num_texts: int,
    known: NDArray[np.uint32],
    collation: str = CODE_POINTS,
) -> NDArray[np.uint32]:
    """Return the numbers of the first `num_texts` texts of a dictionary, in order.

    Args:
        dictionary: may grow meanwhile.
        num_texts: how many to order.
        known: the order of the first few of them; empty: not known.
        collation: which order.
    """
    num_known = len(known)
    if num_texts - num_known <= _INSERTED_MAX and num_known:
        sort_key = text_key(collation)

        def key_of(number: int) -> str | bytes:
            return sort_key(dictionary.text(number))

        fresh = sorted(range(num_known, num_texts), key=key_of)
        places = [bisect_left(known, key_of(number), key=key_of) for number in fresh]
        inserted: NDArray[np.uint32] = np.insert(known, places, np.array(fresh, np.uint32))
        return inserted
    keys, offsets = dictionary.arena(0, num_texts)
    if collation != CODE_POINTS:
        keys, offsets = collator(collation).keys(keys, offsets)
    return sort_keys(keys, offsets, known)
