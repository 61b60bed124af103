"""The configuration of an index, as frozen dataclasses.

`index_configuration_parser` makes them. The coordinator parses what is posted and refuses it with
every mistake at once; it keeps the *document as posted* in the catalog and sends that to the
shards, which parse it again with the same function. So one function defines what a key means, and
an older document keeps its meaning.

    {"aggregations": {"tags": {"size": 10, "conjunction": false, "sort": "term"}},
     "searchable_fields": ["name^3", "description"],          names, ^ = weight; absent: all strings
     "geo_fields": ["_geo"],                                  points {"lat", "lng"}, or lists
     "hierarchies": {"category": {"path": "category", "separator": " > "}} | {"levels": ["a", "b"]},
     "nested": ["variants"],                                  objects that are filtered as wholes
     "sorting_fields": ["year"],                              a hint: any scalar field can be sorted
     "language": "english", "field_languages": {"titel": "german"},
     "collation": "de", "field_collations": {"sku": "root+numeric"},    collation_names
     "stop_words": ["the"] | "english" | true,
     "synonyms": [["tv", "television"], {"from": "nyc", "to": "new york city"}] | {"tv": ["telly"]},
     "match": "all", "prefix": "last", "typo": "auto", "typo_lengths": [5, 9],
     "field_typo_lengths": {"sku": "none", "name": [4, 8]}, "infix": ["sku"] | true,
     "ranking": {"k1": 0.8, "b": 0.68, "proximity": 0.2},
     "display": {"title": "name", "image": "cover", "fields": ["price", "year"]},   for pages
     "suggestions": {"fields": ["name"], "facets": ["brand"], "popularity": "sold"},
     "boost": {"popularity": {"log": 0.3}, "released": {"decay": "180d"}},      see common/boosts.py
     "rules": [{"when": {"query": {"is": "tv"}}, "pin": [42]}]}        see common/curation_rules.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from common import curation_rules as curation
from common.analysis.collation_names import CODE_POINTS
from common.analysis.field_classes import TypoLengths
from common.analysis.typo_budget import TYPO_LENGTHS_DEFAULT
from common.boosts import Boost, written
from common.search_option_parsers import FacetSort, PrefixMode, SearchableField, TypoMode
from common.term_weights import B_DEFAULT, K1_DEFAULT, PROXIMITY_DEFAULT

FACET_SIZE_DEFAULT: Final = 10

GEO_FIELD: Final = "_geo"
"""The field of points that needs no configuration."""
BUILT_IN_FIELDS: Final = frozenset(("id", GEO_FIELD, "_geoloc"))
"""The id; and the points of both protocols, which indexes are prepared for."""
OVERFLOW_PATH: Final = "\0"
"""The path that shards give to all fields beyond those that they number; no name that people give,
since a field of this name would count as all others.
"""


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
    """Collation of its values as texts, in canonical form."""


TREE_LEVELS_MAX: Final = 100
"""Levels of a tree that are counted and shown: JSON is nested by two for each, and encoded to a
depth of 254. What lies deeper counts for its node of the last of them."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A tree of values: paths of one facet, or one facet per level."""

    levels: tuple[str, ...]
    """Facets from the top level down; each value is a whole path. A single facet has all levels."""
    separator: str = " > "
    """Separates the names of a path."""

    @property
    def is_of_paths(self) -> bool:
        """Whether one facet has the nodes of all levels, as prefixes of its values."""
        return len(self.levels) == 1


@dataclass(frozen=True, slots=True)
class SuggestionSettings:
    """Sources of suggestions in addition to the words of the index."""

    fields: tuple[str, ...] = ()
    """Whole texts of these fields are suggested."""
    facets: tuple[str, ...] | None = None
    """Values of these facets are suggested; None: of all facets."""
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
    """Snowball name of the stemmer of fields that name none; None: no stemming."""
    field_languages: Mapping[str, str | None] = field(default_factory=_empty_mapping)
    collation: str = CODE_POINTS
    """Collation of fields that name none, in canonical form."""
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
    """Fields in which words are found inside others, unless `is_infix`: then all have them."""
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
    """Curation rules; the coordinator checks their filters."""

    def collation_of(self, name: str) -> str:
        """Return the collation of a field in its canonical form."""
        return self.field_collations.get(name, self.collation)


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
