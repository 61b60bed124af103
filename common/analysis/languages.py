"""Languages: stemming of single words, and which language a field has.

Terms are stored folded, without stems; a stem is computed for terms that a query looks at. So a
change of language applies to existing data. Stemmers get folded words; if one needs a letter that
folding removes, and its position can be inferred, it is restored first (Russian й, which follows
vowels).
"""

from __future__ import annotations

import functools
import operator
import re
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import Stemmer

from common.analysis.stop_words import stop_words

__all__ = [
    "ALL_LANGUAGES",
    "LANGUAGES",
    "FieldClass",
    "Languages",
    "TypoLengths",
    "stem",
    "stem_all",
    "stem_prefixes",
    "stop_words",
    "typo_groups",
]

LANGUAGES: Final = tuple(sorted(Stemmer.algorithms()))
"""Snowball names of all languages that have a stemmer."""

_KEEPS_BEGINNING: Final = frozenset(
    [
        "armenian",
        "basque",
        "catalan",
        "czech",
        "danish",
        "dutch_porter",
        "english",
        "french",
        "greek",
        "hindi",
        "hungarian",
        "italian",
        "lithuanian",
        "nepali",
        "norwegian",
        "polish",
        "porter",
        "portuguese",
        "romanian",
        "russian",
        "spanish",
        "swedish",
        "turkish",
    ]
)
"""Stemmers that only change a word's end; the others also change its beginning or middle."""
_IRREGULAR_PLURALS: Final = {
    "english": "bookshelf:bookshelves calf:calves child:children dormouse:dormice dwarf:dwarves"
    " elf:elves foot:feet goose:geese grandchild:grandchildren half:halves hoof:hooves"
    " housewife:housewives knife:knives loaf:loaves louse:lice man:men midwife:midwives mouse:mice"
    " ox:oxen scarf:scarves schoolchild:schoolchildren sheaf:sheaves shelf:shelves thief:thieves"
    " tooth:teeth werewolf:werewolves wharf:wharves wife:wives wolf:wolves woman:women"
}
"""Plurals of everyday words that the stemmer does not lead back to them. Not among them are those
that are a form of a commoner word as well (leaves and lives are mostly verbs), and Latin and Greek
ones: with analyses, matrices and the like, cacm's MAP falls from 0.343 to 0.338."""

ALL_LANGUAGES: Final = (1 << 64) - 1
"""The mask of all classes of fields."""
_BITS: Final = 63
"""Number of distinguished classes of fields; the last ones share a bit."""


class _Stemmers(threading.local):
    """One stemmer a language and thread: they are not safe to share."""

    def __init__(self) -> None:
        self.by_language: dict[str, Stemmer.Stemmer] = {}

    def get(self, language: str) -> Stemmer.Stemmer:
        stemmer = self.by_language.get(language)
        if stemmer is None:
            stemmer = self.by_language[language] = Stemmer.Stemmer(language, 0)
        return stemmer


_stemmers = _Stemmers()
_SHORT_I: Final = re.compile("(?<=[аеиоуыэюя])и")
"""Mostly a folded й: it follows vowels, и seldom does."""


@functools.cache
def _stems_of_plurals(language: str) -> Mapping[str, str]:
    """Return the stems of irregular plurals, each with the stem of the word that it is of."""
    stemmer = _stemmers.get(language)
    pairs = [pair.split(":") for pair in _IRREGULAR_PLURALS.get(language, "").split()]
    return {stemmer.stemWord(plural): stemmer.stemWord(word) for word, plural in pairs}


def stem_all(words: Sequence[str], language: str) -> list[str]:
    """Return the stem of each folded word; about 0.5 µs a word."""
    if language == "russian":
        words = [_SHORT_I.sub("й", word) for word in words]
    stems: list[str] = _stemmers.get(language).stemWords(words)
    if language == "russian":
        stems = [one.replace("й", "и") for one in stems]
    plurals = _stems_of_plurals(language)
    if not plurals:
        return stems
    # fireman, firemen: too many to list. That specimen becomes speciman does no harm.
    return [
        one[:-2] + "an" if one[-3:] == "men" and len(one) > 5 else plurals.get(one, one)
        for one in stems
    ]


def stem(word: str, language: str) -> str:
    """Return the stem of one folded word."""
    return stem_all([word], language)[0]


def stem_prefixes(stem: str, language: str) -> tuple[str, ...]:
    """Return letters with one of which every word of a stem begins; no word begins with two.

    Suffix rules change at most the last two letters of what they leave (happy, happi; relational,
    relate). So the words of a stem are in one range of the vocabulary, unless it has an irregular
    plural (mouse, mice).

    Returns:
        In ascending order. "" alone where words of one stem may begin differently, so that all
        words have to be stemmed; none where the stem is too short to have other forms.
    """
    if language not in _KEEPS_BEGINNING:
        return ("",)
    if len(stem) < 2:
        return ()
    return _beginnings_of_plurals(language).get(stem) or (_beginning(stem),)


@functools.cache
def _beginnings_of_plurals(language: str) -> Mapping[str, tuple[str, ...]]:
    """Return `stem_prefixes` of the stems whose irregular plural begins differently.

    No suffix rule makes such a stem of a plural (mice, feet, men) from other letters.
    """
    return {
        stem: tuple(sorted((_beginning(stem), plural)))
        for plural, stem in _stems_of_plurals(language).items()
        if not plural.startswith(_beginning(stem))
    }


def _beginning(stem: str) -> str:
    """Return the letters with which every word begins that the stemmer gives a stem."""
    return stem[: max(2, len(stem) - 2)]


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
