"""The indexes of a shard that are not open: closed ones, and those of which nothing is on disk."""

from __future__ import annotations

from collections.abc import KeysView

from common.protocol.messages import IndexEntry
from shard.indexes.closed_index_facts import ClosedIndex


class ClosedIndexes:
    """What is known of the indexes that are not open, by number; used on the event loop."""

    def __init__(self) -> None:
        self._known: dict[int, ClosedIndex] = {}
        self._unmade: dict[int, IndexEntry] = {}

    def start(self, found: dict[int, ClosedIndex]) -> None:
        """Begin with those that are on disk."""
        self._known = found

    def get(self, number: int) -> ClosedIndex | None:
        """Return what is known of an index; None if it is open, or there is none."""
        return self._known.get(number)

    def items(self) -> list[tuple[int, ClosedIndex]]:
        """Return all of them, by number, as of now."""
        return list(self._known.items())

    def unmade(self, number: int) -> IndexEntry | None:
        """Return the entry of an index of which nothing is on disk; None if it was made."""
        return self._unmade.get(number)

    def unmade_numbers(self) -> KeysView[int]:
        """Return the numbers of those of which nothing is on disk."""
        return self._unmade.keys()

    def add(self, number: int, known: ClosedIndex) -> None:
        """Note an index that was, or is being, closed."""
        self._known[number] = known

    def add_unmade(self, entry: IndexEntry) -> None:
        """Note an index that is made when it is used."""
        self._known[entry.number] = ClosedIndex.unmade(entry)
        self._unmade[entry.number] = entry

    def drop(self, number: int) -> None:
        """Forget an index that is open now, or gone."""
        self._known.pop(number, None)
        self._unmade.pop(number, None)
