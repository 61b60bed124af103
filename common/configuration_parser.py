"""Parses the configuration of an index: strictly, with every mistake collected.

Each key has a reader (`_READERS`), which fills values of `IndexConfiguration` or notes a problem
with its path. The forms of itemsjs are accepted where they differ: `searchableFields`, `sortings`
(without effect), `sort` and `order` of an aggregation as text or lists. An unknown key is not a
mistake: it is kept, and named in a warning.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import msgspec

from common import rules as curation
from common.analysis.collations import CODE_POINTS, COLLATION_FORMS, parse_collation
from common.analysis.languages import TypoLengths
from common.boosts import parse_boosts
from common.configuration import (
    FACET_SIZE_DEFAULT,
    GEO_FIELD,
    FacetConfiguration,
    Hierarchy,
    IndexConfiguration,
    SuggestionSettings,
)
from common.errors import InvalidRequest
from common.limits import Limits
from common.nearest import nearest
from common.option_forms import (
    LANGUAGES,
    MATCH_FORMS,
    PREFIX_FORMS,
    TYPO_FORMS,
    TYPO_LENGTHS_FORMS,
    WEIGHT_MAX,
    SearchableField,
    parse_facet_sort,
    parse_language,
    parse_match,
    parse_prefix,
    parse_typo,
    parse_typo_lengths,
    parse_weighted_field,
)
from common.scoring import B_DEFAULT, K1_DEFAULT, PROXIMITY_DEFAULT

WARNINGS_MAX: Final = 100


class Problems:
    """Collects the mistakes in a document: (path, message) pairs, in document order."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []
        self.warnings: list[str] = []

    def add(self, path: str, message: str) -> None:
        """Note a mistake; the message says what would be valid."""
        self.errors.append((path, message))

    def warn_of_unknown(self, keys: Iterable[str], known: Collection[str], path: str = "") -> None:
        """Note keys that have no effect, each with the known key that may have been meant.

        Args:
            keys: of an object of the document.
            known: those that mean something.
            path: of the object.
        """
        for key in keys:
            if key not in known and len(self.warnings) < WARNINGS_MAX:
                named = f"{path}.{key}" if path else key
                near = nearest(key[:100], known)
                self.warnings.append(f"{named[:300]} is unknown and has no effect{near}")

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


def humanize(name: str) -> str:
    """Make a title of a field's name: `release_year` becomes `Release year`."""
    words = re.sub(r"[_\s]+", " ", name).strip()
    return words[:1].upper() + words[1:] if words else name


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
        self.problems.warn_of_unknown(options, _FACET_KEYS, path)
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
        if "*" in weights:
            self.problems.warnings.append(
                'searchable_fields names a field "*"; to search all fields, leave it out'
            )
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
        self.problems.warn_of_unknown(options, ("path", "levels", "separator"), path)
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
        self.problems.warn_of_unknown(value, ("title", "image", "fields"), "display")
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
        self.problems.warn_of_unknown(value, ("fields", "facets", "popularity", "searches"), path)
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
        self.problems.warn_of_unknown(value, ("k1", "b", "proximity"), "ranking")

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
    parser.problems.warn_of_unknown(document, _READERS)
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
