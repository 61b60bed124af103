"""The fields that items of an index have, or had, according to the shards' responses.

genres, variants.size      paths with values or null
variants                   and their parents
rtaing                     not known; rating was probably meant
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from common.index_configuration import BUILT_IN_FIELDS, OVERFLOW_PATH
from common.nearest_name import did_you_mean
from common.protocol.messages import StatisticsResponse
from common.value_kinds_and_facet_keys import ValueKind
from coordinator.parameters.facet_specs import with_ancestors
from coordinator.parameters.field_needs import NUMBERS

_GUESSES_REMEMBERED_MAX: Final = 256


class ExistingFields:
    """Fields by path; they only grow.

    Attributes:
        kinds: fields with scalar values, each with the bit set of their `ValueKind`.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self._texts: set[str] = set()
        self._paths: set[str] = set(BUILT_IN_FIELDS)
        self._guesses: dict[str, str] = {}

    def learn(self, part: StatisticsResponse) -> None:
        """Add the fields of a shard's response."""
        for name, kinds in zip(part.scalar_fields, part.scalar_kinds, strict=True):
            if kinds:
                self.kinds[name] = self.kinds.get(name, 0) | kinds
        texts = [one.path for one in part.fields]
        self._texts.update(texts)
        fresh = [name for name in (*part.scalar_fields, *texts) if name not in self._paths]
        if fresh:
            self._paths.update(with_ancestors(fresh, "."))
            self._guesses.clear()

    def knows(self, path: str) -> bool:
        """Return whether an item has, or had, a value at or below a path."""
        return path in self._paths or OVERFLOW_PATH in self._paths

    def lacks_texts(self, path: str) -> bool:
        """Return whether items have values at or below a path, but no texts."""
        if path in self._texts or path in BUILT_IN_FIELDS or path not in self._paths:
            return False
        if OVERFLOW_PATH in self._paths:
            return False
        inside = path + "."
        return not any(name == path or name.startswith(inside) for name in self.texts)

    def lacks_points(self, field: str) -> bool:
        """Return whether no item has a latitude and a longitude in a field."""
        if OVERFLOW_PATH in self._paths:
            return False
        return not all(self.kinds.get(f"{field}.{name}", 0) & NUMBERS for name in ("lat", "lng"))

    @property
    def texts(self) -> list[str]:
        """Fields with texts, in order."""
        strings = {name for name, kinds in self.kinds.items() if kinds >> ValueKind.STRING & 1}
        return sorted(strings | self._texts)

    def did_you_mean(self, name: str, among: Iterable[str] | None = None) -> str:
        """Return "; did you mean …?", or nothing.

        Args:
            name: unknown.
            among: the fields that may have been meant; None: all (cached).
        """
        name = name[:100]
        if among is not None:
            return did_you_mean(name, among)
        guess = self._guesses.get(name)
        if guess is None:
            guess = did_you_mean(name, sorted(self._paths), 0.7)
            if len(self._guesses) >= _GUESSES_REMEMBERED_MAX:
                self._guesses.clear()
            self._guesses[name] = guess
        return guess
