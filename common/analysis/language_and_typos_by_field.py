"""How the words of each field match: in which language, with which typos, inside other words."""

from __future__ import annotations

import functools
import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

ALL_LANGUAGES: Final = (1 << 64) - 1
"""The mask of all classes of fields."""
_BITS: Final = 63
"""Number of distinguished classes of fields; the last ones share a bit."""


class FieldClass(NamedTuple):
    """The properties by which fields are matched alike."""

    language: str | None
    """None: no stemming."""
    typos: int = 0
    """Number of their typo lengths among those of the index (`typo_groups`); 0: the index's own."""
    is_infix: bool = False
    """Whether words are found inside other words."""


TypoLengths: TypeAlias = tuple[int, int] | None
"""Letters from which on a word may be one edit off, and two; None: no typos."""


def typo_groups(by_path: Mapping[str, TypoLengths]) -> tuple[TypoLengths, ...]:
    """Return the distinct typo lengths of fields, in a fixed order."""
    return tuple(sorted(set(by_path.values()), key=lambda one: one or (0, 0)))


class Languages:
    """The language of every field of an index, and its typos; made once per configuration.

    Attributes:
        default: of fields that name no language; None: no stemming.
        by_path: of the others.
        used: the languages that some field may have, each once, the default first.
        masks: a bit for each class of fields.
        key: all that words match by; identifies the configuration in caches.
    """

    __slots__ = ("_infix_fields", "_typos_by_path", "by_path", "default", "key", "masks", "used")

    def __init__(
        self,
        default: str | None = None,
        by_path: Mapping[str, str | None] | None = None,
        typo_lengths: Mapping[str, TypoLengths] | None = None,
        infix_fields: Iterable[str] = (),
    ) -> None:
        self.default = default
        self.by_path: Mapping[str, str | None] = {} if by_path is None else dict(by_path)
        named = [default, *sorted(set(filter(None, self.by_path.values())))]
        self.used: tuple[str, ...] = tuple(dict.fromkeys(filter(None, named)))
        own = typo_lengths or {}
        groups = typo_groups(own)
        self._typos_by_path = {path: groups.index(one) + 1 for path, one in own.items()}
        self._infix_fields = frozenset(infix_fields)
        classes = {FieldClass(language) for language in (default, None, *self.by_path.values())} | {
            self.class_of(path) for path in (*self._typos_by_path, *self._infix_fields)
        }
        ordered = sorted(classes, key=lambda one: (one.is_infix, one.typos, one.language or ""))
        self.masks: Mapping[FieldClass, int] = {
            one: 1 << min(i, _BITS - 1) for i, one in enumerate(ordered)
        }
        self.key: Hashable = (
            default,
            tuple(sorted(self.by_path.items())),
            tuple(sorted(self._typos_by_path.items())),
            tuple(sorted(self._infix_fields)),
        )

    def of(self, path: str) -> str | None:
        """Return the language of a field."""
        return self.by_path.get(path, self.default)

    def class_of(self, path: str) -> FieldClass:
        """Return the class of a field."""
        group = self._typos_by_path.get(path, 0)
        return FieldClass(self.of(path), group, path in self._infix_fields)

    def mask_of_language(self, language: str) -> int:
        """Return the bits of all classes of a language."""
        return _joined([mask for one, mask in self.masks.items() if one.language == language])

    def mask_of_typos(self, group: int) -> int:
        """Return the bits of all classes with these typo lengths."""
        return _joined([mask for one, mask in self.masks.items() if one.typos == group])

    def mask_of_infixes(self) -> int:
        """Return the bits of all classes in which words are found inside others."""
        return _joined([mask for one, mask in self.masks.items() if one.is_infix])


def _joined(masks: Sequence[int]) -> int:
    return functools.reduce(operator.or_, masks, 0)
