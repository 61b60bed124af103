"""Many keys in one array of bytes: those of a facet's values, or the texts of a field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class KeyArena(NamedTuple):
    """Keys by number."""

    keys: NDArray[np.uint8]
    """UTF-8; lone surrogates are allowed."""
    offsets: NDArray[np.int64]
    """Key n is keys[offsets[n]:offsets[n + 1]]; shape (num_keys + 1,), the first need not be 0."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> KeyArena:
        """Return an arena of some texts."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        offsets[1:] = np.cumsum([len(one) for one in encoded])
        return cls(np.frombuffer(bytearray(b"".join(encoded)), np.uint8), offsets)

    @property
    def num_keys(self) -> int:
        """Return how many keys there are."""
        return len(self.offsets) - 1

    @property
    def num_bytes(self) -> int:
        """Return the memory that they take."""
        return self.keys.nbytes + self.offsets.nbytes

    def keys_of(self, numbers: Sequence[int] | NDArray[np.integer[Any]]) -> list[bytes]:
        """Return the keys of some numbers as UTF-8."""
        wanted = np.asarray(numbers, np.intp)
        starts, ends = self.offsets[wanted].tolist(), self.offsets[wanted + 1].tolist()
        content = self.keys.data
        return [bytes(content[start:end]) for start, end in zip(starts, ends, strict=True)]
