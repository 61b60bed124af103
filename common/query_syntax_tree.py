"""The abstract syntax of a search: text clauses and filters.

The coordinator parses a request into these nodes once, so that a user's mistake never reaches a
shard; a shard evaluates them. They are msgspec structs: frozen, typed, and encoded to MessagePack
as tagged arrays.

    text     Word | Phrase
    filters  And | Or | Not | AnyOf | AllOf | Range | Exists | IsNull | IsEmpty | StartsWith
             | Contains | Under | Same | NumElements | GeoRadius | GeoBox | GeoPolygon | Ids
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct


class MatchKind(IntEnum):
    """How a vocabulary term matches a query word, best first."""

    EXACT = 0
    """The folded word itself, whatever its accents."""
    SPELLING = 1
    """The word with the accents that were typed: always in addition to EXACT."""
    COMPLETION_STEM = 2
    """Another form of the word (see STEM) that begins with it, if it may be half typed."""
    STEM = 3
    """Another form of the word: same stem in the field's language."""
    SYNONYM = 4
    """A synonym from the configuration."""
    SPACING = 5
    """The same letters written together or apart: "spider man" for spiderman, and vice versa."""
    COMPLETION = 6
    """The word is the beginning of the term, and a word of the index itself."""
    PREFIX = 7
    """The word is the beginning of the term, and no word of the index, or of too many terms."""
    INFIX = 8
    """The term has the word somewhere inside."""
    TYPO_1 = 9
    """One edit (insertion, deletion, substitution, transposition) away, with the same first letter.
    """
    TYPO_1_FORM = 10
    """Another form of a correction that is such an edit away: guitars for guitr."""
    TYPO_2 = 11
    """Two edits away, or one that makes another first letter."""
    TYPO_2_FORM = 12
    """Another form of a correction at that distance."""


NUM_MATCH_KINDS = len(MatchKind)


class Word(Struct, frozen=True, tag="word", array_like=True):
    """One analysed word of the query: terms of the vocabulary that match it, by kind."""

    text: str
    """Folded as in the index; never empty."""
    is_prefix: bool = False
    typos: int = 0
    """Edits allowed: 0, 1 or 2."""
    synonyms: tuple[tuple[str, ...], ...] = ()
    """Alternatives (kind SYNONYM); of several words each: adjacent, in order. Where pieces of a
    script without spaces were typed that have synonyms together, `text` has them with spaces, and
    they are among these as well (kind EXACT).
    """
    is_stemmed: bool = True
    """Whether other forms (same stem) match, where the field has a language."""
    spacings: tuple[tuple[str, ...], ...] = ()
    """The word in parts, or joined with its neighbours in the query (kind SPACING)."""
    is_completed: bool = False
    """Whether what the word begins is of kind COMPLETION, not PREFIX."""
    typos_by_group: tuple[int, ...] = ()
    """Edits allowed by group of fields (`FieldClass.typos`), where they differ; `typos` is then the
    greatest."""
    infix: int = 0
    """Where terms match that have the word inside: 0 nowhere, 1 in fields that are configured so, 2
    everywhere."""
    corrections: tuple[str, ...] = ()
    """Where the word is nowhere in the index: words of the index that it is likely to be a
    misspelling of, most frequent first. Other forms of the first ones match as well. Other words
    one edit away are of kind TYPO_2."""
    correction_kind: int = 0
    """TYPO_1 or TYPO_2: how the corrections match, all alike; 0 without any."""
    spellings: tuple[tuple[str, str], ...] = ()
    """Terms of the spellings with accents that were typed, each with the word as typed (kind
    SPELLING)."""
    is_fragment: bool = False
    """Whether the word is the beginning of others and nothing else: it is of kind PREFIX itself,
    and has no other forms."""

    @property
    def correction_typos(self) -> int:
        """Edits that a field must allow for the corrections to count there."""
        return 1 if self.correction_kind == MatchKind.TYPO_1 else self.typos

    def phrase_kind(self, phrase: tuple[str, ...]) -> MatchKind:
        """Return how an alternative of several words matches: as typed, a synonym, or a spacing."""
        if " ".join(phrase) == self.text:
            return MatchKind.EXACT
        return MatchKind.SYNONYM if phrase in self.synonyms else MatchKind.SPACING


class Phrase(Struct, frozen=True, tag="phrase", array_like=True):
    """Words that must stand next to each other, in order, in one text."""

    words: tuple[str, ...]
    is_prefix: bool = False
    """Whether the last word may be half typed (an unfinished run of a script without spaces)."""


Clause: TypeAlias = Word | Phrase


class And(Struct, frozen=True, tag="and", array_like=True):
    """Every child holds; an empty one holds for every document."""

    children: tuple[Filter, ...]


class Or(Struct, frozen=True, tag="or", array_like=True):
    """At least one child holds; an empty one holds for no document."""

    children: tuple[Filter, ...]


class Not(Struct, frozen=True, tag="not", array_like=True):
    """The child does not hold."""

    child: Filter


class AnyOf(Struct, frozen=True, tag="any", array_like=True):
    """The field has at least one of the values, given as facet keys (text)."""

    field: str
    values: tuple[str, ...]


class AllOf(Struct, frozen=True, tag="all", array_like=True):
    """The field has every one of the values, given as facet keys (text)."""

    field: str
    values: tuple[str, ...]


class Range(Struct, frozen=True, tag="range", array_like=True):
    """A value of the field lies between the bounds; numbers by value, texts by code point.

    Either all given bounds are numbers (then only numeric values count), or all are texts.
    """

    field: str
    lower: int | float | str | None = None
    is_lower_open: bool = False
    upper: int | float | str | None = None
    is_upper_open: bool = False


class Exists(Struct, frozen=True, tag="exists", array_like=True):
    """The field is present with any value but null."""

    field: str


class IsNull(Struct, frozen=True, tag="null", array_like=True):
    """The field is present and null."""

    field: str


class IsEmpty(Struct, frozen=True, tag="empty", array_like=True):
    """The field is an empty text, array or object."""

    field: str


class StartsWith(Struct, frozen=True, tag="starts", array_like=True):
    """A value's key starts with the text; case and accents do not matter."""

    field: str
    text: str


class Contains(Struct, frozen=True, tag="contains", array_like=True):
    """A value's key contains the text; case and accents do not matter."""

    field: str
    text: str


class Ids(Struct, frozen=True, tag="ids", array_like=True):
    """The item has one of the ids, given in their canonical form."""

    ids: tuple[str, ...]


class Under(Struct, frozen=True, tag="under", array_like=True):
    """A value of a facet is one of the nodes of a tree, or lies under one of them."""

    field: str
    nodes: tuple[str, ...]
    separator: str


class Same(Struct, frozen=True, tag="same", array_like=True):
    """The same element of a nested field passes the condition, on fields inside it."""

    field: str
    condition: Filter


class NumElements(Struct, frozen=True, tag="elements", array_like=True):
    """How many values a facet has, or how many elements a nested field; bounds are included."""

    field: str
    lowest: int = 0
    greatest: int | None = None


class GeoRadius(Struct, frozen=True, tag="radius", array_like=True):
    """Some point of the field is within a distance of a given one."""

    field: str
    lat: float
    lng: float
    metres: float


class GeoBox(Struct, frozen=True, tag="box", array_like=True):
    """A point of the field lies in a box; it crosses 180° if its left side is east of its right."""

    field: str
    bottom: float
    top: float
    left: float
    right: float


class GeoPolygon(Struct, frozen=True, tag="polygon", array_like=True):
    """A point of the field lies in a polygon of latitudes and longitudes taken as a plane.

    Longitudes continue beyond 180° if the border does.
    """

    field: str
    corners: tuple[tuple[float, float], ...]


Area: TypeAlias = GeoRadius | GeoBox | GeoPolygon

Leaf: TypeAlias = (
    AnyOf
    | AllOf
    | Range
    | Exists
    | IsNull
    | IsEmpty
    | StartsWith
    | Contains
    | Under
    | Same
    | NumElements
    | GeoRadius
    | GeoBox
    | GeoPolygon
    | Ids
)
"""A condition that no And, Or or Not combines from others."""
Filter: TypeAlias = And | Or | Not | Leaf
