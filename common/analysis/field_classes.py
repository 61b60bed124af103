"""Field classes: fields whose words match alike, and how they do.

A word matches in a field by its language (stems), its typo lengths and whether words are found
inside others. Fields that agree in all three are a class, and a class is a bit: so a term carries
one mask that says in which fields it counts, however many fields an index has.

    bit 0   no field here         no stems
    bit 1   title, text           English        "running" as run (STEM):             mask 0b0010
    bit 2   titel                 German
    bit 3   code                  infixes        "running" as forerunning (INFIX):    mask 0b1000
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

ALL_CLASSES: Final = (1 << 64) - 1
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


class FieldClasses:
    """The class of every field of an index; made once per configuration.

    Attributes:
        default_language: of fields that name none; None: no stemming.
        language_by_path: of the others.
        languages: those that some field may have, each once, the default first.
        masks: a bit for each class; the last classes share one, if there are very many.
        key: all that words match by; identifies the configuration in caches.
    """

    __slots__ = (
        "_infix_fields",
        "_typos_by_path",
        "default_language",
        "key",
        "language_by_path",
        "languages",
        "masks",
    )

    def __init__(
        self,
        default_language: str | None = None,
        language_by_path: Mapping[str, str | None] | None = None,
        typo_lengths: Mapping[str, TypoLengths] | None = None,
        infix_fields: Iterable[str] = (),
    ) -> None:
        by_path = {} if language_by_path is None else dict(language_by_path)
        self.default_language = default_language
        self.language_by_path: Mapping[str, str | None] = by_path
        named = [default_language, *sorted(set(filter(None, by_path.values())))]
        self.languages: tuple[str, ...] = tuple(dict.fromkeys(filter(None, named)))
        own = typo_lengths or {}
        groups = typo_groups(own)
        self._typos_by_path = {path: groups.index(one) + 1 for path, one in own.items()}
        self._infix_fields = frozenset(infix_fields)
        classes = {FieldClass(one) for one in (default_language, None, *by_path.values())}
        classes |= {self.class_of(path) for path in (*self._typos_by_path, *self._infix_fields)}
        ordered = sorted(classes, key=lambda one: (one.is_infix, one.typos, one.language or ""))
        self.masks: Mapping[FieldClass, int] = {
            one: 1 << min(i, _BITS - 1) for i, one in enumerate(ordered)
        }
        self.key: Hashable = (
            default_language,
            tuple(sorted(by_path.items())),
            tuple(sorted(self._typos_by_path.items())),
            tuple(sorted(self._infix_fields)),
        )

    def language_of(self, path: str) -> str | None:
        """Return the language of a field."""
        return self.language_by_path.get(path, self.default_language)

    def class_of(self, path: str) -> FieldClass:
        """Return the class of a field."""
        group = self._typos_by_path.get(path, 0)
        return FieldClass(self.language_of(path), group, path in self._infix_fields)

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
