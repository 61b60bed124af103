"""The configuration of an index: parsed once, strictly, into frozen dataclasses.

The coordinator parses what is posted and refuses it with every mistake at once; it keeps the
*document as posted* in the catalog and sends that to the shards, which parse it again with the same
function. So one function defines what a key means, and an older document keeps its meaning.

    {"aggregations": {"tags": {"size": 10, "conjunction": false, "sort": "term"}},
     "searchable_fields": ["name^3", "description"],          names, ^ = weight; absent: all strings
     "geo_fields": ["_geo"],                                  points {"lat", "lng"}, or lists
     "hierarchies": {"category": {"path": "category", "separator": " > "}} | {"levels": ["a", "b"]},
     "nested": ["variants"],                                  objects that are filtered as wholes
     "sorting_fields": ["year"],                              a hint: any scalar field can be sorted
     "language": "english", "field_languages": {"titel": "german"},
     "collation": "de", "field_collations": {"sku": "root+numeric"},    collations.py
     "stop_words": ["the"] | "english" | true,
     "synonyms": [["tv", "television"], {"from": "nyc", "to": "new york city"}] | {"tv": ["telly"]},
     "match": "all", "prefix": "last", "typo": "auto", "typo_lengths": [5, 9],
     "field_typo_lengths": {"sku": "none", "name": [4, 8]}, "infix": ["sku"] | true,
     "ranking": {"k1": 0.8, "b": 0.68, "proximity": 0.2},
     "display": {"title": "name", "image": "cover", "fields": ["price", "year"]},   for pages
     "suggestions": {"fields": ["name"], "facets": ["brand"], "popularity": "sold"},
     "boost": {"popularity": {"log": 0.3}, "released": {"decay": "180d"}},      see common/boosts.py
     "rules": [{"when": {"query": {"is": "tv"}}, "pin": [42]}]}                see common/rules.py

The forms of itemsjs are accepted where they differ: `searchableFields`, `sortings` (without
effect), `sort` and `order` of an aggregation as text or lists. An unknown key is not a mistake: it
is kept, and named in a warning.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import msgspec

from common import rules as curation
from common.analysis.analyzer import TYPO_LENGTHS_DEFAULT
from common.analysis.collations import CODE_POINTS, COLLATION_FORMS, parse_collation
from common.analysis.languages import TypoLengths
from common.boosts import Boost, parse_boosts, written
from common.errors import InvalidRequest
from common.limits import Limits
from common.scoring import B_DEFAULT, K1_DEFAULT, PROXIMITY_DEFAULT

FacetOrder: TypeAlias = Literal["selected", "count", "key"]
"""What buckets may be ordered by."""

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

FACET_SIZE_DEFAULT: Final = 10
TYPO_LENGTHS_MIN: Final = (3, 5)
"""So that a word keeps more than half of its letters."""
TYPO_LENGTHS_MAX: Final = 100
WEIGHT_MAX: Final = 1_000.0
WARNINGS_MAX: Final = 100
GEO_FIELD: Final = "_geo"
"""The field of points that needs no configuration."""


@dataclass(frozen=True, slots=True)
class FacetConfiguration:
    """How one facet is filtered, counted and shown."""

    field: str
    title: str
    position: int
    """Where a client shows the facet; by default its rank among the aggregations, from 1."""
    size: int = FACET_SIZE_DEFAULT
    """Buckets in a search response."""
    conjunction: bool = True
    """Whether hits must have every selected value, or any."""
    sort: FacetSort = (("selected", True), ("count", True), ("key", False))
    hide_zero: bool = False
    """Drop buckets with count 0, unless selected."""
    chosen_filters_on_top: bool = True
    """Already part of `sort`; kept to be shown."""
    show_facet_stats: bool = False
    """Add min, max, avg, sum and count of the numeric values within the hits."""
    collation: str = CODE_POINTS
    """In which order its values are, as texts; a collation in its canonical form."""


class SearchableField(NamedTuple):
    """A field that full text searches."""

    path: str
    weight: float


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A tree of values: paths of one facet, or one facet per level."""

    levels: tuple[str, ...]
    """Facets from the top level down; each value is a whole path. A single one: of all levels."""
    separator: str = " > "
    """Separates the names of a path."""

    @property
    def is_of_paths(self) -> bool:
        """Whether one facet has the nodes of all levels, as prefixes of its values."""
        return len(self.levels) == 1


@dataclass(frozen=True, slots=True)
class SuggestionSettings:
    """Where suggestions come from, besides the words of the index."""

    fields: tuple[str, ...] = ()
    """Whole texts of these fields are suggested."""
    facets: tuple[str, ...] | None = None
    """Values of these facets are; None: of all."""
    popularity: str | None = None
    """Texts of the items with the greatest numbers in this field come first."""
    searches: bool = False
    """Whether frequent searches are suggested; they are known from the analytics."""


NO_SUGGESTION_SETTINGS: Final = SuggestionSettings()


def _empty_mapping() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class IndexConfiguration:
    """Everything that a configuration document says, defaults filled in."""

    facets: Mapping[str, FacetConfiguration] = field(default_factory=_empty_mapping)
    """By field, in alphabetical (code point) order."""
    searchable_fields: tuple[SearchableField, ...] | None = None
    """None: every string of an item, weight 1."""
    sorting_fields: tuple[str, ...] = ()
    """Fields whose sort columns are built ahead of their first use."""
    geo_fields: tuple[str, ...] = (GEO_FIELD,)
    """Fields that hold points."""
    nested: tuple[str, ...] = ()
    """Fields that hold objects; conditions on one object can be combined."""
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=_empty_mapping)
    """Trees by name."""
    language: str | None = None
    """Snowball name of the stemmer of fields without one of their own; None: no stemming."""
    field_languages: Mapping[str, str | None] = field(default_factory=_empty_mapping)
    collation: str = CODE_POINTS
    """In which order the texts of fields are without a collation of their own; canonical form."""
    field_collations: Mapping[str, str] = field(default_factory=_empty_mapping)
    stop_words: frozenset[str] = frozenset()
    """Words as posted, not folded."""
    stop_words_language: str | None = None
    """Snowball name of the language whose built-in list applies (then `stop_words` is empty)."""
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=_empty_mapping)
    """Word or phrase as posted, to its alternatives; two-way rules are written out both ways."""
    match: str = "all"
    """"all", "any", "last", "auto" or a percentage such as "75%"."""
    prefix: PrefixMode = "last"
    typo: TypoMode = "auto"
    typo_lengths: tuple[int, int] = TYPO_LENGTHS_DEFAULT
    """Where typos are "auto": letters from which on a word may be one edit off, and two."""
    field_typo_lengths: Mapping[str, TypoLengths] = field(default_factory=_empty_mapping)
    """The same for some fields; None: words match there only as typed."""
    is_infix: bool = False
    """Whether words are found inside others, in all fields."""
    infix_fields: tuple[str, ...] = ()
    """Where they are, if not everywhere."""
    k1: float = K1_DEFAULT
    """BM25F k1: how soon repetitions of a word stop adding to the score (tf saturation)."""
    b: float = B_DEFAULT
    """BM25F b: how strongly the length of a text lowers its score (0 to 1)."""
    proximity: float = PROXIMITY_DEFAULT
    """Largest relative proximity score; 0 switches it off."""
    display: Mapping[str, Any] = field(default_factory=_empty_mapping)
    """How a page shows an item: `title` and `image` name fields, `fields` those to show first."""
    suggestions: SuggestionSettings = NO_SUGGESTION_SETTINGS
    boosts: tuple[Boost, ...] = ()
    """Numbers and dates that scores are multiplied by, in this order."""
    rules: tuple[curation.Rule, ...] = ()
    """Of curation; their filters are checked by the coordinator."""

    def collation_of(self, name: str) -> str:
        """Return the collation of a field in its canonical form."""
        return self.field_collations.get(name, self.collation)


class Problems:
    """Collects what is wrong with a document: (path, message) pairs, in document order."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []
        self.warnings: list[str] = []

    def add(self, path: str, message: str) -> None:
        """Note a mistake; the message says what would be valid."""
        self.errors.append((path, message))

    def warn(self, path: str) -> None:
        """Note a key that has no effect."""
        if len(self.warnings) < WARNINGS_MAX:
            self.warnings.append(f"{path[:300]} is unknown and has no effect")

    def raise_if_any(self, errors_max: int) -> None:
        """Raise one error that names the first mistake and lists all (up to a bound)."""
        if not self.errors:
            return
        path, message = self.errors[0]
        listed = [{"param": where, "message": what} for where, what in self.errors[:errors_max]]
        raise InvalidRequest(
            f"{path or 'configuration'} {message}",
            code="invalid_configuration",
            param=path or None,
            details={"errors": listed, "num_errors": len(self.errors)},
        )


def parse_match(value: object) -> str | None:
    """Return a `match` mode in its canonical form, or None if it is none."""
    if not isinstance(value, str):
        return None
    if value in ("all", "any", "last", "auto"):
        return value
    if re.fullmatch(r"0*(?:100|[1-9][0-9]?)%", value, re.ASCII):
        return f"{int(value[:-1])}%"
    return None


MATCH_FORMS: Final = 'must be "all", "any", "last", "auto" or a percentage from "1%" to "100%"'


def parse_prefix(value: object) -> PrefixMode | None:
    """Return a `prefix` mode, or None if it is none."""
    return value if value in ("last", "none", "all") else None


PREFIX_FORMS: Final = 'must be "last", "none" or "all"'


def parse_typo(value: object) -> TypoMode | None:
    """Return a `typo` mode, or None if it is none; digits in a text will do."""
    if value == "auto":
        return "auto"
    if type(value) is int and value in (0, 1, 2):
        return cast(TypoMode, value)
    if isinstance(value, str) and value in ("0", "1", "2"):
        return cast(TypoMode, int(value))
    return None


TYPO_FORMS: Final = 'must be "auto", 0, 1 or 2'


def parse_typo_lengths(value: object) -> tuple[int, int] | None:
    """Return two typo lengths, or None if they are none."""
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


def humanize(name: str) -> str:
    """Make a title of a field's name: `release_year` becomes `Release year`."""
    words = re.sub(r"[_\s]+", " ", name).strip()
    return words[:1].upper() + words[1:] if words else name


# --- facet orders (also used for facet options of one request) --------------------------------

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
        chosen_filters_on_top: whether selected buckets come first where `sort` is no list.

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


# --- the parser -------------------------------------------------------------------------------

_Reader: TypeAlias = Callable[["_ConfigurationParser", Any], None]


class _ConfigurationParser:
    """Reads one document; each `_read_…` handles one top-level key and fills `values`."""

    def __init__(self, limits: Limits | None) -> None:
        self.limits = limits
        self.problems = Problems()
        self.values: dict[str, Any] = {}

    # A shard reads a document that the coordinator accepted, possibly under wider limits than now.
    # Bounds apply to new documents, so they are only checked where limits are given.

    def exceeds(self, size: int, limit_name: str) -> bool:
        """Return whether a size is above the named limit, if limits are enforced here."""
        return self.limits is not None and size > getattr(self.limits, limit_name)

    def check_size(self, path: str, size: int, limit_name: str, what: str) -> bool:
        """Note a mistake if a size is above its limit; return whether it is fine."""
        if self.limits is None or not self.exceeds(size, limit_name):
            return True
        self.problems.add(path, f"has {size} {what}, more than {self.limits.shown(limit_name)}")
        return False

    def is_field_name(self, path: str, name: object) -> bool:
        """Note a mistake unless the value can be the name or dotted path of a field."""
        if not isinstance(name, str) or not name:
            self.problems.add(path, "must be the name of a field, a text that is not empty")
            return False
        if self.exceeds(len(name.encode()), "field_name_bytes_max"):
            assert self.limits is not None
            shown = self.limits.shown("field_name_bytes_max")
            self.problems.add(path, f"is longer than a field's name may be: {shown} bytes")
            return False
        return True

    def read_texts(self, path: str, value: object, limit_name: str, what: str) -> list[str]:
        """Read a list of texts that are not empty."""
        if not isinstance(value, list):
            self.problems.add(path, f"must be a list of {what}")
            return []
        if not self.check_size(path, len(value), limit_name, what):
            return []
        texts = []
        for i, one in enumerate(value):
            if isinstance(one, str) and one.strip():
                texts.append(one)
            else:
                self.problems.add(f"{path}[{i}]", "must be a text that is not empty")
        return texts

    def read_bool(self, path: str, value: object, default: bool) -> bool:
        """Read true or false."""
        if isinstance(value, bool):
            return value
        if value is not None:
            self.problems.add(path, "must be true or false")
        return default

    def read_integer(
        self, path: str, value: object, default: int, low: int, high: int, limit_name: str = ""
    ) -> int:
        """Read an integer between bounds; the upper one may be a limit."""
        if value is None:
            return default
        if type(value) is int and low <= value and (self.limits is None or value <= high):
            return value
        limit = f" (limit {limit_name})" if limit_name else ""
        self.problems.add(path, f"must be an integer from {low} to {high}{limit}")
        return default

    def read_float(self, path: str, value: object, default: float, high: float) -> float:
        """Read a finite number from 0 to a bound."""
        if value is None:
            return default
        if type(value) in (int, float):
            number = float(cast(float, value))
            if 0.0 <= number <= high:
                return number
        self.problems.add(path, f"must be a number from 0 to {high:g}")
        return default

    # --- one method per key

    def read_collation(self, value: object) -> None:
        self.values["collation"] = self.collation("collation", value)

    def collation(self, path: str, value: object) -> str:
        collation = parse_collation(value)
        if collation is None:
            self.problems.add(path, COLLATION_FORMS)
        return collation or CODE_POINTS

    def read_field_collations(self, value: object) -> None:
        if not isinstance(value, dict):
            self.problems.add("field_collations", "must be an object of collations by field")
            return
        if not self.check_size("field_collations", len(value), "searchable_fields_max", "fields"):
            return
        self.values["field_collations"] = MappingProxyType(
            {
                name: self.collation(f"field_collations.{name}", collation)
                for name, collation in value.items()
                if self.is_field_name(f"field_collations.{name}", name)
            }
        )

    def read_aggregations(self, value: object) -> None:
        if not isinstance(value, dict):
            self.problems.add("aggregations", "must be an object of facets by field")
            return
        if not self.check_size("aggregations", len(value), "facets_max", "facets"):
            return
        facets = {}
        for position, (name, options) in enumerate(value.items(), 1):
            path = f"aggregations.{name}"
            if not self.is_field_name(path, name):
                continue
            if not isinstance(options, dict):
                self.problems.add(path, "must be an object of facet settings, for example {}")
                continue
            facets[name] = self.read_facet(path, name, position, options)
        self.values["facets"] = MappingProxyType(dict(sorted(facets.items())))

    def read_facet(
        self, path: str, name: str, position: int, options: dict[str, Any]
    ) -> FacetConfiguration:
        title = options.get("title")
        if title is not None and not isinstance(title, str):
            self.problems.add(f"{path}.title", "must be a text")
            title = None
        is_on_top = self.read_bool(
            f"{path}.chosen_filters_on_top", options.get("chosen_filters_on_top"), True
        )
        sort = parse_facet_sort(options.get("sort"), options.get("order"), is_on_top)
        if isinstance(sort, str):
            is_order_at_fault = " order " in sort or sort.endswith("directions")
            self.problems.add(f"{path}.{'order' if is_order_at_fault else 'sort'}", sort)
            sort = ()
        hide_zero = options.get("hide_zero_doc_count", options.get("hide_zero"))
        size_max = self.limits.facet_size_max if self.limits else 0
        for key in options:
            if key not in _FACET_KEYS:
                self.problems.warn(f"{path}.{key}")
        return FacetConfiguration(
            field=name,
            title=title if title is not None else humanize(name),
            position=self.read_integer(
                f"{path}.position", options.get("position"), position, 0, 1_000_000
            ),
            size=self.read_integer(
                f"{path}.size",
                options.get("size"),
                FACET_SIZE_DEFAULT,
                1,
                size_max,
                "facet_size_max",
            ),
            conjunction=self.read_bool(f"{path}.conjunction", options.get("conjunction"), True),
            sort=sort,
            hide_zero=self.read_bool(f"{path}.hide_zero_doc_count", hide_zero, False),
            chosen_filters_on_top=is_on_top,
            show_facet_stats=self.read_bool(
                f"{path}.show_facet_stats", options.get("show_facet_stats"), False
            ),
            collation=self.values.get("field_collations", {}).get(
                name, self.values.get("collation", CODE_POINTS)
            ),
        )

    def read_searchable_fields(self, value: object) -> None:
        path = "searchable_fields"
        if isinstance(value, dict):
            value = [f"{name}^{weight}" for name, weight in value.items()]
        names = self.read_texts(path, value, "searchable_fields_max", "fields")
        weights: dict[str, float] = {}
        for i, name in enumerate(names):
            parsed = parse_weighted_field(name)
            if parsed is None:
                self.problems.add(
                    f"{path}[{i}]",
                    f'must be a field, or a field and its weight such as "name^3" (above 0, up to '
                    f"{WEIGHT_MAX:g}), not {name!r}",
                )
            elif self.is_field_name(f"{path}[{i}]", parsed.path):
                weights[parsed.path] = parsed.weight
        self.values["searchable_fields"] = tuple(
            SearchableField(name, weight) for name, weight in weights.items()
        )

    def read_sorting_fields(self, value: object) -> None:
        self.read_fields("sorting_fields", value, "searchable_fields_max")

    def read_geo_fields(self, value: object) -> None:
        self.read_fields("geo_fields", value, "geo_fields_max")

    def read_hierarchies(self, value: object) -> None:
        if not isinstance(value, dict):
            self.problems.add("hierarchies", "must be an object of trees by name")
            return
        if not self.check_size("hierarchies", len(value), "hierarchies_max", "trees"):
            return
        trees = {}
        for name, options in value.items():
            tree = self.read_hierarchy(f"hierarchies.{name}", name, options)
            if tree is not None:
                trees[name] = tree
        self.values["hierarchies"] = MappingProxyType(trees)

    def read_hierarchy(self, path: str, name: str, options: object) -> Hierarchy | None:
        if not self.is_field_name(path, name):
            return None
        if not isinstance(options, dict) or ("path" in options) == ("levels" in options):
            self.problems.add(
                path,
                'must be {"path": "category", "separator": " > "} or {"levels": ["lvl0", "lvl1"]}',
            )
            return None
        levels = [options["path"]] if "path" in options else options["levels"]
        names = self.read_texts(f"{path}.levels", levels, "hierarchy_levels_max", "facets")
        separator = options.get("separator", " > ")
        if not isinstance(separator, str) or not separator:
            self.problems.add(f"{path}.separator", "must be a text that is not empty")
            return None
        if "levels" in options and len(names) == 1:
            self.problems.add(f"{path}.levels", 'has one level only; say {"path": …} for that')
        facets = self.values.get("facets", {})
        for one in names:
            if one not in facets:
                self.problems.add(
                    path, f"names {one!r}, which is no facet: add it to the aggregations"
                )
        for key in options:
            if key not in ("path", "levels", "separator"):
                self.problems.warn(f"{path}.{key}")
        return Hierarchy(tuple(names), separator)

    def read_nested(self, value: object) -> None:
        self.read_fields("nested", value, "nested_fields_max")

    def read_fields(self, key: str, value: object, limit_name: str) -> None:
        """Read a list of fields, each once."""
        names = self.read_texts(key, value, limit_name, "fields")
        self.values[key] = tuple(
            dict.fromkeys(
                name for i, name in enumerate(names) if self.is_field_name(f"{key}[{i}]", name)
            )
        )

    def read_sortings(self, value: object) -> None:
        self.problems.warnings.append(
            "sortings has no effect: any scalar field can be sorted, with sort_field and order"
        )

    def read_language(self, value: object) -> None:
        self.values["language"] = self.language("language", value)

    def language(self, path: str, value: object) -> str | None:
        if value == "none":
            return None
        language = parse_language(value)
        if language is None:
            names = ", ".join(LANGUAGES.values())
            self.problems.add(path, f"must be one of none, {names} (or its two-letter code)")
        return language

    def read_field_languages(self, value: object) -> None:
        if not isinstance(value, dict):
            self.problems.add("field_languages", "must be an object of languages by field")
            return
        if not self.check_size("field_languages", len(value), "searchable_fields_max", "fields"):
            return
        self.values["field_languages"] = MappingProxyType(
            {
                name: self.language(f"field_languages.{name}", language)
                for name, language in value.items()
                if self.is_field_name(f"field_languages.{name}", name)
            }
        )

    def read_stop_words(self, value: object) -> None:
        if value is False:
            return
        if value is True:
            language = self.values.get("language")
            if language is None and not self.problems.errors:
                self.problems.add("stop_words", "can be true only where language names one")
            self.values["stop_words_language"] = language
        elif isinstance(value, str):
            self.values["stop_words_language"] = self.language("stop_words", value)
        else:
            words = self.read_texts("stop_words", value, "stop_words_max", "words")
            self.values["stop_words"] = frozenset(words)

    def read_synonyms(self, value: object) -> None:
        rules: dict[str, dict[str, None]] = {}
        pairs: list[tuple[str, object, object]]
        if isinstance(value, dict):
            pairs = [(f"synonyms.{word}", [word], to) for word, to in value.items()]
        elif isinstance(value, list):
            pairs = [self.synonym_rule(f"synonyms[{i}]", one) for i, one in enumerate(value)]
        else:
            self.problems.add(
                "synonyms",
                "must be a list of rules (lists of words that mean the same, or "
                '{"from": …, "to": […]}) or an object of alternatives by word',
            )
            return
        if not self.check_size("synonyms", len(pairs), "synonyms_max", "rules"):
            return
        for path, source, target in pairs:
            words = self.read_texts(path, source, "synonym_alternatives_max", "words")
            alternatives = self.read_texts(
                path,
                [target] if isinstance(target, str) else target,
                "synonym_alternatives_max",
                "alternatives",
            )
            for word in words:
                rules.setdefault(word, {}).update(
                    (other, None) for other in alternatives if other != word
                )
        self.values["synonyms"] = MappingProxyType(
            {word: tuple(others) for word, others in rules.items() if others}
        )

    def synonym_rule(self, path: str, rule: object) -> tuple[str, object, object]:
        """Return (path, words, alternatives) of one rule of the list form."""
        if isinstance(rule, list):
            if len(rule) < 2:
                self.problems.add(path, "must list at least two words that mean the same")
                return path, [], []
            return path, rule, rule
        if isinstance(rule, dict) and set(rule) == {"from", "to"}:
            source = rule["from"]
            return path, [source] if isinstance(source, str) else source, rule["to"]
        self.problems.add(
            path, 'must be a list of words that mean the same, or {"from": …, "to": […]}'
        )
        return path, [], []

    def read_match(self, value: object) -> None:
        self.read_mode("match", parse_match(value), MATCH_FORMS)

    def read_prefix(self, value: object) -> None:
        self.read_mode("prefix", parse_prefix(value), PREFIX_FORMS)

    def read_typo(self, value: object) -> None:
        self.read_mode("typo", parse_typo(value), TYPO_FORMS)

    def read_typo_lengths(self, value: object) -> None:
        lengths = parse_typo_lengths(value)
        if lengths is None:
            self.problems.add("typo_lengths", TYPO_LENGTHS_FORMS)
        else:
            self.values["typo_lengths"] = lengths

    def read_infix(self, value: object) -> None:
        if isinstance(value, bool):
            self.values["is_infix"] = value
        elif isinstance(value, list):
            names = self.read_texts("infix", value, "searchable_fields_max", "fields")
            self.values["infix_fields"] = tuple(
                dict.fromkeys(
                    name for i, name in enumerate(names) if self.is_field_name(f"infix[{i}]", name)
                )
            )
        else:
            self.problems.add("infix", 'must be true, false, or fields such as ["sku"]')

    def read_field_typo_lengths(self, value: object) -> None:
        path = "field_typo_lengths"
        if not isinstance(value, dict):
            self.problems.add(path, "must be an object of typo lengths by field")
            return
        if not self.check_size(path, len(value), "searchable_fields_max", "fields"):
            return
        found: dict[str, TypoLengths] = {}
        for name, one in value.items():
            lengths = None if one == "none" else parse_typo_lengths(one)
            if lengths is None and one != "none":
                self.problems.add(f"{path}.{name}", f'{TYPO_LENGTHS_FORMS}, or "none"')
            elif self.is_field_name(f"{path}.{name}", name):
                found[name] = lengths
        if self.limits is not None:
            num_different = len(set(found.values()))
            self.check_size(path, num_different, "typo_groups_max", "different lengths")
        self.values[path] = MappingProxyType(found)

    def read_mode(self, name: str, mode: object, forms: str) -> None:
        if mode is None:
            self.problems.add(name, forms)
        else:
            self.values[name] = mode

    def read_algolia(self, value: object) -> None:
        # The coordinator reads it, from the document; shards have no use for it.
        if not isinstance(value, dict):
            self.problems.add("algolia", "must be an object of settings of Algolia's protocol")

    def read_display(self, value: object) -> None:
        if not isinstance(value, dict):
            self.problems.add("display", "must be an object with title, image and fields")
            return
        display: dict[str, Any] = {}
        for key in ("title", "image"):
            if value.get(key) is not None and self.is_field_name(f"display.{key}", value[key]):
                display[key] = value[key]
        if value.get("fields") is not None:
            fields = self.read_texts(
                "display.fields", value["fields"], "searchable_fields_max", "fields"
            )
            display["fields"] = tuple(fields)
        for key in value:
            if key not in ("title", "image", "fields"):
                self.problems.warn(f"display.{key}")
        self.values["display"] = MappingProxyType(display)

    def read_suggestions(self, value: object) -> None:
        path = "suggestions"
        if not isinstance(value, dict):
            self.problems.add(path, "must be an object with fields, facets, popularity, searches")
            return
        found: dict[str, Any] = {}
        for key in ("fields", "facets"):
            if value.get(key) is not None:
                names = self.read_texts(
                    f"{path}.{key}", value[key], "suggestion_sources_max", "fields"
                )
                found[key] = tuple(dict.fromkeys(names))
        known = self.values.get("facets", {})
        for i, name in enumerate(found.get("facets", ())):
            if name not in known:
                self.problems.add(
                    f"{path}.facets[{i}]",
                    f"must be a facet of aggregations: {', '.join(known)[:500] or 'there is none'}",
                )
        popularity = value.get("popularity")
        if popularity is not None and self.is_field_name(f"{path}.popularity", popularity):
            found["popularity"] = popularity
        found["searches"] = self.read_bool(f"{path}.searches", value.get("searches"), False)
        for key in value:
            if key not in ("fields", "facets", "popularity", "searches"):
                self.problems.warn(f"{path}.{key}")
        self.values["suggestions"] = SuggestionSettings(**found)

    def read_ranking(self, value: object) -> None:
        if not isinstance(value, dict):
            self.problems.add("ranking", "must be an object with k1, b and proximity")
            return
        for name, default, high in (
            ("k1", K1_DEFAULT, 100.0),
            ("b", B_DEFAULT, 1.0),
            ("proximity", PROXIMITY_DEFAULT, 10.0),
        ):
            self.values[name] = self.read_float(f"ranking.{name}", value.get(name), default, high)
        for key in value:
            if key not in ("k1", "b", "proximity"):
                self.problems.warn(f"ranking.{key}")

    def read_boost(self, value: object) -> None:
        if not isinstance(value, dict):
            self.problems.add("boost", "must be an object of boosts by field")
            return
        if not self.check_size("boost", len(value), "boosts_max", "fields"):
            return
        self.values["boosts"] = parse_boosts(
            value,
            lambda path, name: self.is_field_name(f"boost{path}", name),
            lambda path, message: self.problems.add(f"boost{path}", message),
        )
        geo_fields = self.values.get("geo_fields", (GEO_FIELD,))
        for boost in self.values["boosts"]:
            if boost.point is not None and boost.field not in geo_fields:
                self.problems.add(
                    f"boost.{boost.field}", "counts distances from a point: add it to geo_fields"
                )

    def read_rules(self, value: object) -> None:
        if not isinstance(value, list):
            self.problems.add("rules", "must be a list of rules")
            return
        if not self.check_size("rules", len(value), "rules_max", "rules"):
            return
        self.values["rules"] = curation.parse_rules(
            value, self.limits, lambda path, message: self.problems.add(f"rules{path}", message)
        )


_FACET_KEYS: Final = frozenset(
    {
        "title",
        "position",
        "size",
        "conjunction",
        "sort",
        "order",
        "hide_zero_doc_count",
        "hide_zero",
        "chosen_filters_on_top",
        "show_facet_stats",
    }
)
# In this order: facets look at collations, stop_words at language.
_READERS: Final[Mapping[str, _Reader]] = {
    "collation": _ConfigurationParser.read_collation,
    "field_collations": _ConfigurationParser.read_field_collations,
    "aggregations": _ConfigurationParser.read_aggregations,
    "searchableFields": _ConfigurationParser.read_searchable_fields,
    "searchable_fields": _ConfigurationParser.read_searchable_fields,
    "sorting_fields": _ConfigurationParser.read_sorting_fields,
    "geo_fields": _ConfigurationParser.read_geo_fields,
    "nested": _ConfigurationParser.read_nested,
    "hierarchies": _ConfigurationParser.read_hierarchies,
    "sortings": _ConfigurationParser.read_sortings,
    "language": _ConfigurationParser.read_language,
    "field_languages": _ConfigurationParser.read_field_languages,
    "stop_words": _ConfigurationParser.read_stop_words,
    "synonyms": _ConfigurationParser.read_synonyms,
    "match": _ConfigurationParser.read_match,
    "prefix": _ConfigurationParser.read_prefix,
    "typo": _ConfigurationParser.read_typo,
    "typo_lengths": _ConfigurationParser.read_typo_lengths,
    "field_typo_lengths": _ConfigurationParser.read_field_typo_lengths,
    "infix": _ConfigurationParser.read_infix,
    "ranking": _ConfigurationParser.read_ranking,
    "algolia": _ConfigurationParser.read_algolia,
    "display": _ConfigurationParser.read_display,
    "suggestions": _ConfigurationParser.read_suggestions,
    "boost": _ConfigurationParser.read_boost,
    "rules": _ConfigurationParser.read_rules,
}
CONFIGURATION_KEYS: Final = tuple(_READERS)

_SHARED_BYTES_MAX: Final = 16_384
"""Longer documents are parsed for each index: keeping many of them would take memory."""


def parse_weighted_field(text: str) -> SearchableField | None:
    """Parse `name` or `name^3`; None if the weight is none (above 0, finite, not absurd)."""
    path, caret, weight_text = text.rpartition("^")
    if not caret:
        return SearchableField(text, 1.0)
    if not path or not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", weight_text, re.ASCII):
        return None
    weight = float(weight_text)
    return SearchableField(path, weight) if 0 < weight <= WEIGHT_MAX else None


def parse_configuration(
    document: object, limits: Limits | None = None
) -> tuple[IndexConfiguration, list[str]]:
    """Parse a configuration document.

    Args:
        document: decoded JSON, as posted.
        limits: bounds to enforce on a document that is being posted; None for one that was
            accepted before.

    Returns:
        The configuration, and warnings: keys that have no effect.

    Raises:
        InvalidRequest: code invalid_configuration; `param` is the path of the first mistake
            (`aggregations.tags.size`), `details["errors"]` lists all.
    """
    parser = _ConfigurationParser(limits)
    if not isinstance(document, dict):
        parser.problems.add("", "must be a JSON object")
        document = {}
    # Some clients send null for "not given".
    for key, read in _READERS.items():
        value = document.get(key)
        if value is not None:
            read(parser, value)
    for key in document:
        if key not in _READERS:
            parser.problems.warn(key)
    parser.problems.raise_if_any(limits.errors_reported_max if limits else 100)
    return IndexConfiguration(**parser.values), parser.problems.warnings


def parse_stored(document: dict[str, Any]) -> IndexConfiguration:
    """Return the configuration of a document that was accepted before.

    Equal documents, as thousands of tenants have them, are parsed once and share the result.
    """
    content = msgspec.json.encode(document)
    if len(content) > _SHARED_BYTES_MAX:
        return parse_configuration(document)[0]
    return _parse_shared(content)


@functools.lru_cache(maxsize=128)
def _parse_shared(content: bytes) -> IndexConfiguration:
    return parse_configuration(msgspec.json.decode(content))[0]


def effective(configuration: IndexConfiguration) -> dict[str, Any]:
    """Return a document with all defaults written out; parsing it gives the configuration again."""
    return {
        "aggregations": {
            name: _effective_facet(facet) for name, facet in configuration.facets.items()
        },
        "searchable_fields": _effective_fields(configuration.searchable_fields),
        "geo_fields": list(configuration.geo_fields),
        "nested": list(configuration.nested),
        "hierarchies": {
            name: _effective_hierarchy(tree) for name, tree in configuration.hierarchies.items()
        },
        "sorting_fields": list(configuration.sorting_fields),
        "language": configuration.language or "none",
        "field_languages": {
            name: language or "none" for name, language in configuration.field_languages.items()
        },
        "collation": configuration.collation or "none",
        "field_collations": {
            name: collation or "none" for name, collation in configuration.field_collations.items()
        },
        "stop_words": configuration.stop_words_language or sorted(configuration.stop_words),
        "synonyms": {word: list(others) for word, others in configuration.synonyms.items()},
        "display": {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in configuration.display.items()
        },
        "match": configuration.match,
        "prefix": configuration.prefix,
        "typo": configuration.typo,
        "typo_lengths": list(configuration.typo_lengths),
        "infix": configuration.is_infix or list(configuration.infix_fields),
        "field_typo_lengths": {
            name: "none" if lengths is None else list(lengths)
            for name, lengths in configuration.field_typo_lengths.items()
        },
        "ranking": {
            "k1": configuration.k1,
            "b": configuration.b,
            "proximity": configuration.proximity,
        },
        "suggestions": _effective_suggestions(configuration.suggestions),
        "boost": written(configuration.boosts),
        "rules": curation.written(configuration.rules),
    }


def _effective_suggestions(settings: SuggestionSettings) -> dict[str, Any]:
    """Return the sources of suggestions with all defaults."""
    return {
        "fields": list(settings.fields),
        "facets": None if settings.facets is None else list(settings.facets),
        "popularity": settings.popularity,
        "searches": settings.searches,
    }


def _effective_hierarchy(tree: Hierarchy) -> dict[str, Any]:
    """Return one tree with all its defaults."""
    of = {"path": tree.levels[0]} if tree.is_of_paths else {"levels": list(tree.levels)}
    return {**of, "separator": tree.separator}


def _effective_facet(facet: FacetConfiguration) -> dict[str, Any]:
    """Return one facet with all its defaults."""
    return {
        "title": facet.title,
        "position": facet.position,
        "size": facet.size,
        "conjunction": facet.conjunction,
        "sort": [f"{key}:{'desc' if descending else 'asc'}" for key, descending in facet.sort],
        "hide_zero_doc_count": facet.hide_zero,
        "chosen_filters_on_top": facet.chosen_filters_on_top,
        "show_facet_stats": facet.show_facet_stats,
    }


def _effective_fields(fields: Iterable[SearchableField] | None) -> list[str] | None:
    """Return searchable fields in their `name^weight` form."""
    if fields is None:
        return None
    return [f"{path}^{weight:.9f}".rstrip("0").rstrip(".") for path, weight in fields]
