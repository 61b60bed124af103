"""The shared memory of the coordinators of one service (`facetd serve --coordinators N`).

    first 8,192 words                 catalog version, revision plus 1, serving, base, pids of the
                                      readers
    then one word per index number    its horizon, written by the owner
    then, for every reader, the same  the oldest horizon that it is reading, plus 1; 0: none

One process, the *owner*, changes things; the others, the *readers*, only search. The owner writes a
horizon here before it acknowledges the group, so a reader that begins a search afterwards sees it.

A reader publishes the horizon that it is about to read, then checks whether that is still the
newest; if not, it tries again. The owner makes a horizon the newest before it looks for the oldest
one in use. So either the owner sees the reader's horizon, or the reader sees the newer one: no
shard drops a state that a reader goes on to name.

Words are aligned and written as a whole. Pages never touched take no memory.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from typing import Final

INDEXES_MAX: Final = 1 << 20
"""Indexes with greater numbers are read by the owner alone."""
RATE_WORDS: Final = 3 * 4 * (1 << 14)
"""Words of the shared buckets of clients (`coordinator.http.security.rate_limit`)."""

_VERSION, _REVISION, _SERVING, _BASE, _PIDS = range(5)
_HEADER_WORDS: Final = 8_192  # the tables begin with a page
_WORD: Final = 8


def _words(num_coordinators: int) -> int:
    return _HEADER_WORDS + RATE_WORDS + num_coordinators * INDEXES_MAX


def create_shared_state(num_coordinators: int) -> int:
    """Create the memory; return its descriptor, which the coordinators inherit."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("facetd")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, _words(num_coordinators) * _WORD)
    return descriptor


class SharedState:
    """The shared memory as one coordinator sees it.

    Args:
        descriptor: of the memory.
        num_coordinators: owner and readers.
        ordinal: of this coordinator; 0: the owner.

    Attributes:
        descriptor: of the memory; also for locks on parts of it.
        rates: the words of the shared rate limit.
    """

    def __init__(self, descriptor: int, num_coordinators: int, ordinal: int) -> None:
        self.descriptor = descriptor
        self.ordinal = ordinal
        self.num_coordinators = num_coordinators
        self._map = mmap.mmap(descriptor, _words(num_coordinators) * _WORD)
        words = memoryview(self._map).cast("Q")
        self._header = words[:_HEADER_WORDS]
        first = _HEADER_WORDS + RATE_WORDS
        self.rates = words[_HEADER_WORDS:first]
        tables = [
            words[first + i * INDEXES_MAX : first + (i + 1) * INDEXES_MAX]
            for i in range(num_coordinators)
        ]
        self._horizons, self._in_use = tables[0], tables[1:]
        self._ours = tables[ordinal]

    # --- the owner writes

    def publish_catalog(self, revision: int | None) -> None:
        """Notify the readers of a new catalog.

        Args:
            revision: of the stored state that they see (0 before the first change); None: a change
                is under way, so that what is stored is not what they see.
        """
        self._header[_REVISION] = 0 if revision is None else revision + 1
        self._header[_VERSION] += 1

    def publish_serving(self, is_serving: bool) -> None:
        """Publish to the readers whether requests for data are answered."""
        self._header[_SERVING] = is_serving

    def publish_base(self, seq: int) -> None:
        """Make all groups up to a seq visible, of every index."""
        self._header[_BASE] = max(self._header[_BASE], seq)

    def publish_horizon(self, index: int, seq: int) -> None:
        """Make all groups of an index up to a seq visible."""
        if index < INDEXES_MAX:
            self._horizons[index] = max(self._horizons[index], seq)

    def oldest_in_use(self, index: int, seq: int) -> int:
        """Return the oldest of a horizon and those of the index that readers use."""
        if index < INDEXES_MAX:
            for table in self._in_use:
                used = table[index]
                if used and used <= seq:
                    seq = used - 1
        return seq

    def readers(self) -> list[int]:
        """Process ids of the readers that have begun and not ended."""
        pids = self._header[_PIDS + 1 : _PIDS + self.num_coordinators]
        return [pid for pid in pids if pid and _exists(pid)]

    # --- readers

    @property
    def version(self) -> int:
        """Changes whenever requests see another catalog; 0: the owner has not begun yet."""
        return self._header[_VERSION]

    @property
    def revision(self) -> int | None:
        """Revision of the stored catalog if that is what requests see."""
        word = self._header[_REVISION]
        return word - 1 if word else None

    @property
    def is_serving(self) -> bool:
        """Whether requests for data are answered."""
        return bool(self._header[_SERVING])

    def horizon(self, index: int) -> int:
        """Return the newest horizon of an index."""
        return max(self._horizons[index], self._header[_BASE])

    def announce(self, index: int, horizon: int | None) -> None:
        """Keep the states of an index from a horizon on; None: no states."""
        self._ours[index] = 0 if horizon is None else horizon + 1

    def begin_reader(self) -> None:
        """Attach as a reader; release the states that the reader's former process was using."""
        first = (_HEADER_WORDS + RATE_WORDS + self.ordinal * INDEXES_MAX) * _WORD
        if hasattr(mmap, "MADV_REMOVE"):
            self._map.madvise(mmap.MADV_REMOVE, first, INDEXES_MAX * _WORD)
        else:
            self._map[first : first + INDEXES_MAX * _WORD] = bytes(INDEXES_MAX * _WORD)
        self._header[_PIDS + self.ordinal] = os.getpid()

    def end_reader(self) -> None:
        """Notify the owner that this reader will send it no more requests."""
        self._header[_PIDS + self.ordinal] = 0


def _exists(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
