"""Options that configurations and requests share: modes, lengths, languages, orders of buckets.

Each `parse_…` returns the value in its canonical form, or None if it is invalid; `…_FORMS` says in
an error message what would be valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias, cast

FacetOrder: TypeAlias = Literal["selected", "count", "key"]
"""Accepted keys of the order of buckets."""

FacetSort: TypeAlias = tuple[tuple[FacetOrder, bool], ...]
"""Keys of the order of buckets, each with whether it is descending; `key` comes last, always."""

TypoMode: TypeAlias = Literal["auto", 0, 1, 2]

PrefixMode: TypeAlias = Literal["last", "none", "all"]

LANGUAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ar": "arabic",
        "ca": "catalan",
        "cs": "czech",
        "da": "danish",
        "de": "german",
        "el": "greek",
        "en": "english",
        "eo": "esperanto",
        "es": "spanish",
        "et": "estonian",
        "eu": "basque",
        "fa": "persian",
        "fi": "finnish",
        "fr": "french",
        "ga": "irish",
        "hi": "hindi",
        "hu": "hungarian",
        "hy": "armenian",
        "id": "indonesian",
        "it": "italian",
        "lt": "lithuanian",
        "ne": "nepali",
        "nl": "dutch",
        "no": "norwegian",
        "pl": "polish",
        "pt": "portuguese",
        "ro": "romanian",
        "ru": "russian",
        "sr": "serbian",
        "st": "sesotho",
        "sv": "swedish",
        "ta": "tamil",
        "tr": "turkish",
        "yi": "yiddish",
    }
)
"""Code to name of the languages that have a Snowball stemmer; both are accepted."""

TYPO_LENGTHS_MIN: Final = (3, 5)
"""A word must keep more than half of its letters."""

TYPO_LENGTHS_MAX: Final = 100

WEIGHT_MAX: Final = 1_000.0


ALL_FIELDS: Final = "*"
"""Stands for all fields in a list of those to search, show, leave out, mark or count."""


class SearchableField(NamedTuple):
    """A field that full text searches, or all of them."""

    path: str
    """`ALL_FIELDS`: every field that no other of a list covers."""
    weight: float

    def covered(self, paths: Iterable[str]) -> list[str]:
        """Return those of some paths that it stands for: `author` for `author.name`, too."""
        if self.path == ALL_FIELDS:
            return list(paths)
        inside = self.path + "."
        return [path for path in paths if path == self.path or path.startswith(inside)]


EVERY_FIELD: Final = SearchableField(ALL_FIELDS, 1.0)
"""What a configuration that names no fields searches."""


def all_fields_last(fields: Iterable[SearchableField]) -> tuple[SearchableField, ...]:
    """Return fields in the order in which the first one that covers a path decides its weight."""
    return tuple(sorted(fields, key=lambda one: one.path == ALL_FIELDS))


def parse_match(value: object) -> str | None:
    """Return a `match` mode in its canonical form, or None if it is invalid."""
    if not isinstance(value, str):
        return None
    if value in ("all", "any", "last", "auto"):
        return value
    if re.fullmatch(r"0*(?:100|[1-9][0-9]?)%", value, re.ASCII):
        return f"{int(value[:-1])}%"
    return None


MATCH_FORMS: Final = 'must be "all", "any", "last", "auto" or a percentage from "1%" to "100%"'


def parse_prefix(value: object) -> PrefixMode | None:
    """Return a `prefix` mode, or None if it is invalid."""
    return value if value in ("last", "none", "all") else None


PREFIX_FORMS: Final = 'must be "last", "none" or "all"'


def parse_typo(value: object) -> TypoMode | None:
    """Return a `typo` mode, or None if it is invalid; a text of digits is accepted."""
    if value == "auto":
        return "auto"
    if type(value) is int and value in (0, 1, 2):
        return cast(TypoMode, value)
    if isinstance(value, str) and value in ("0", "1", "2"):
        return cast(TypoMode, int(value))
    return None


TYPO_FORMS: Final = 'must be "auto", 0, 1 or 2'


def parse_typo_lengths(value: object) -> tuple[int, int] | None:
    """Return two typo lengths, or None if they are invalid."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    one, two = value
    if type(one) is not int or type(two) is not int or not one <= two <= TYPO_LENGTHS_MAX:
        return None
    return (one, two) if one >= TYPO_LENGTHS_MIN[0] and two >= TYPO_LENGTHS_MIN[1] else None


TYPO_LENGTHS_FORMS: Final = (
    "must be two integers, the letters from which on a word may have one typo (at least "
    f"{TYPO_LENGTHS_MIN[0]}) and two (at least {TYPO_LENGTHS_MIN[1]}), up to {TYPO_LENGTHS_MAX}, "
    "for example [4, 8]"
)


def parse_language(value: object) -> str | None:
    """Return the Snowball name of a language given by name or code, or None if there is none."""
    if not isinstance(value, str):
        return None
    folded = value.lower()
    if folded in LANGUAGES:
        return LANGUAGES[folded]
    return folded if folded in LANGUAGES.values() else None


_ORDER_NAMES: Final[Mapping[str, FacetOrder]] = {
    "selected": "selected",
    "count": "count",
    "doc_count": "count",
    "_count": "count",
    "key": "key",
    "term": "key",
    "_term": "key",
    "_key": "key",
}

_DESCENDING_BY_DEFAULT: Final = {"selected": True, "count": True, "key": False}

_DIRECTIONS: Final = {"asc": False, "desc": True}


def parse_facet_sort(sort: object, order: object, chosen_filters_on_top: bool) -> FacetSort | str:
    """Parse the order of a facet's buckets.

    Args:
        sort: None, "count", "term" / "key", each also with ":asc" or ":desc", or a list of these
            and "selected". A list is complete: `chosen_filters_on_top` does not change it.
        order: None, "asc" or "desc"; or a list of these with a list `sort`.
        chosen_filters_on_top: whether selected buckets come first where `sort` is not a list.

    Returns:
        The keys; or, for a mistake, what would be valid.
    """
    names = sort if isinstance(sort, list) else [sort if sort is not None else "count"]
    orders = order if isinstance(order, list) else [order] if order is not None else []
    if not names or len(names) > 8:
        return "must name 1 to 8 keys"
    if isinstance(order, list) and len(orders) > len(names):
        return "has fewer keys than order has directions"
    keys: list[tuple[FacetOrder, bool]] = []
    for i, name in enumerate(names):
        if not isinstance(name, str):
            return 'must be "count", "term" or a list such as ["selected", "count:desc", "key:asc"]'
        base, separator, direction = name.partition(":")
        key = _ORDER_NAMES.get(base)
        if key is None or (separator and direction not in _DIRECTIONS):
            return (
                f"has the unknown key {name!r}; keys are selected, count and key (or term), "
                "each with :asc or :desc"
            )
        is_descending = _DESCENDING_BY_DEFAULT[key]
        if separator:
            is_descending = _DIRECTIONS[direction]
        elif i < len(orders):
            given = orders[i]
            if not isinstance(given, str) or given not in _DIRECTIONS:
                return 'has an order that is not "asc" or "desc"'
            is_descending = _DIRECTIONS[given]
        if all(key != seen for seen, _ in keys):
            keys.append((key, is_descending))
    if not isinstance(sort, list) and chosen_filters_on_top and keys[0][0] != "selected":
        keys.insert(0, ("selected", True))
    if all(key != "key" for key, _ in keys):
        keys.append(("key", False))
    return tuple(keys)


def parse_weighted_field(text: str) -> SearchableField | None:
    """Parse `name` or `name^3`; None if the weight is invalid (above 0, finite, not absurd)."""
    path, caret, weight_text = text.rpartition("^")
    if not caret:
        return SearchableField(text, 1.0)
    if not path or not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", weight_text, re.ASCII):
        return None
    weight = float(weight_text)
    return SearchableField(path, weight) if 0 < weight <= WEIGHT_MAX else None
