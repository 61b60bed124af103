"""Parses the configuration of an index: strictly, with every mistake collected.

Each key has a reader (`_READERS`), which fills values of the draft or notes a problem with its
path. The forms of itemsjs are accepted where they differ: `searchableFields`, `sortings` (without
effect), `sort` and `order` of an aggregation as text or lists. An unknown key is not a mistake: it
is kept, and named in a warning.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from common import curation_rules as curation
from common.analysis.collation_names import CODE_POINTS, COLLATION_FORMS, parse_collation
from common.analysis.field_classes import TypoLengths
from common.boosts import parse_boosts
from common.index_configuration import (
    FACET_SIZE_DEFAULT,
    GEO_FIELD,
    FacetConfiguration,
    Hierarchy,
    IndexConfiguration,
    SuggestionSettings,
)
from common.index_configuration_value_checks import CheckedValues, Problems
from common.limits import Limits
from common.search_option_parsers import (
    EVERY_FIELD,
    LANGUAGES,
    MATCH_FORMS,
    PREFIX_FORMS,
    TYPO_FORMS,
    TYPO_LENGTHS_FORMS,
    WEIGHT_MAX,
    SearchableField,
    all_fields_last,
    parse_facet_sort,
    parse_language,
    parse_match,
    parse_prefix,
    parse_typo,
    parse_typo_lengths,
    parse_weighted_field,
)
from common.settings_of_other_engines import FOREIGN_SETTINGS
from common.term_weights import B_DEFAULT, K1_DEFAULT, PROXIMITY_DEFAULT


def humanize(name: str) -> str:
    """Make a title of a field's name: `Release year` of `release_year`, or `Variants size`."""
    words = re.sub(r"[_.\s]+", " ", name).strip()
    return words[:1].upper() + words[1:] if words else name


_SEARCHED: Final = "searchable_fields"

_Reader: TypeAlias = Callable[["_Draft", Any], None]


class _Draft:
    """What has been read of one document.

    Attributes:
        problems: what is wrong with it.
        checked: reads its values.
        values: members of `IndexConfiguration`.
    """

    def __init__(self, limits: Limits | None) -> None:
        self.problems = Problems()
        self.checked = CheckedValues(limits, self.problems)
        self.values: dict[str, Any] = {}


# One function per key, and what several of them share.


def _read_collation(draft: _Draft, value: object) -> None:
    draft.values["collation"] = _collation(draft, "collation", value)


def _collation(draft: _Draft, path: str, value: object) -> str:
    collation = parse_collation(value)
    if collation is None:
        draft.problems.add(path, COLLATION_FORMS)
    return collation or CODE_POINTS


def _read_field_collations(draft: _Draft, value: object) -> None:
    _read_by_field(draft, "field_collations", value, "collations by field", _collation)


def _read_by_field(
    draft: _Draft, key: str, value: object, what: str, read: Callable[[_Draft, str, object], Any]
) -> None:
    """Fill a value from an object by field name; `read` takes the path and the value of each."""
    members = draft.checked.object_of(key, value, what, "searchable_fields_max", "fields")
    if members is not None:
        draft.values[key] = MappingProxyType(
            {
                name: read(draft, f"{key}.{name}", member)
                for name, member in members.items()
                if draft.checked.is_field_name(f"{key}.{name}", name)
            }
        )


def _read_aggregations(draft: _Draft, value: object) -> None:
    value = draft.checked.object_of(
        "aggregations", value, 'facets by field, for example {"brand": {}}', "facets_max", "facets"
    )
    if value is None:
        return
    facets = {}
    for position, (name, options) in enumerate(value.items(), 1):
        path = f"aggregations.{name}"
        if not draft.checked.is_field_name(path, name):
            continue
        if not isinstance(options, dict):
            draft.problems.add(path, "must be an object of facet settings, for example {}")
            continue
        facets[name] = _read_facet(draft, path, name, position, options)
    draft.values["facets"] = MappingProxyType(dict(sorted(facets.items())))


def _read_facet(
    draft: _Draft, path: str, name: str, position: int, options: dict[str, Any]
) -> FacetConfiguration:
    title = options.get("title")
    if title is not None and not isinstance(title, str):
        draft.problems.add(f"{path}.title", "must be a text")
        title = None
    is_on_top = draft.checked.boolean(
        f"{path}.chosen_filters_on_top", options.get("chosen_filters_on_top"), True
    )
    sort = parse_facet_sort(options.get("sort"), options.get("order"), is_on_top)
    if isinstance(sort, str):
        is_order_at_fault = " order " in sort or sort.endswith("directions")
        draft.problems.add(f"{path}.{'order' if is_order_at_fault else 'sort'}", sort)
        sort = ()
    hide_zero = options.get("hide_zero_doc_count")
    if hide_zero is None:
        hide_zero = options.get("hide_zero")
    size_max = draft.checked.limits.facet_size_max if draft.checked.limits else 0
    draft.problems.warn_of_unknown(options, _FACET_KEYS, path)
    return FacetConfiguration(
        field=name,
        title=title if title is not None else humanize(name),
        position=draft.checked.integer(
            f"{path}.position", options.get("position"), position, 0, 1_000_000
        ),
        size=draft.checked.integer(
            f"{path}.size",
            options.get("size"),
            FACET_SIZE_DEFAULT,
            1,
            size_max,
            "facet_size_max",
        ),
        conjunction=draft.checked.boolean(f"{path}.conjunction", options.get("conjunction"), True),
        sort=sort,
        hide_zero=draft.checked.boolean(f"{path}.hide_zero_doc_count", hide_zero, False),
        chosen_filters_on_top=is_on_top,
        show_facet_stats=draft.checked.boolean(
            f"{path}.show_facet_stats", options.get("show_facet_stats"), False
        ),
        collation=draft.values.get("field_collations", {}).get(
            name, draft.values.get("collation", CODE_POINTS)
        ),
    )


def weighted_fields(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the fields to search of a valid document, as written, each after its own path."""
    value = document.get("searchable_fields")
    if value is None:
        value = document.get("searchableFields")
    if isinstance(value, dict):
        return _weighted_by_name(value)
    return [(f"{_SEARCHED}[{i}]", one) for i, one in enumerate(value or ())]


def _weighted_by_name(weights: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(f"{_SEARCHED}.{name}", f"{name}^{weight}") for name, weight in weights.items()]


def _read_searchable_fields(draft: _Draft, value: object) -> None:
    if not isinstance(value, dict):
        names = draft.checked.texts_with_paths(_SEARCHED, value, "searchable_fields_max", "fields")
    elif draft.checked.check_size(_SEARCHED, len(value), "searchable_fields_max", "fields"):
        names = _weighted_by_name(value)
    else:
        names = []
    weights: dict[str, float] = {}
    for at, name in names:
        parsed = parse_weighted_field(name)
        if parsed is None:
            draft.problems.add(
                at,
                f'must be a field, or a field and its weight such as "name^3" (above 0, up to '
                f"{WEIGHT_MAX:g}), not {name!r}",
            )
        elif draft.checked.is_field_name(at, parsed.path):
            weights[parsed.path] = parsed.weight
    fields = all_fields_last(SearchableField(*one) for one in weights.items())
    draft.values[_SEARCHED] = None if fields == (EVERY_FIELD,) else fields


def _read_sorting_fields(draft: _Draft, value: object) -> None:
    draft.values["sorting_fields"] = draft.checked.fields(
        "sorting_fields", value, "searchable_fields_max"
    )


def _read_geo_fields(draft: _Draft, value: object) -> None:
    draft.values["geo_fields"] = draft.checked.fields("geo_fields", value, "geo_fields_max")


def _read_hierarchies(draft: _Draft, value: object) -> None:
    value = draft.checked.object_of(
        "hierarchies",
        value,
        'trees by name, for example {"category": {"path": "category"}}',
        "hierarchies_max",
        "trees",
    )
    if value is None:
        return
    trees = {}
    for name, options in value.items():
        tree = _read_hierarchy(draft, f"hierarchies.{name}", name, options)
        if tree is not None:
            trees[name] = tree
    draft.values["hierarchies"] = MappingProxyType(trees)


def _read_hierarchy(draft: _Draft, path: str, name: str, options: object) -> Hierarchy | None:
    if not draft.checked.is_field_name(path, name):
        return None
    if not isinstance(options, dict) or ("path" in options) == ("levels" in options):
        draft.problems.add(
            path,
            'must be {"path": "category", "separator": " > "} or {"levels": ["lvl0", "lvl1"]}',
        )
        return None
    levels = [options["path"]] if "path" in options else options["levels"]
    names = draft.checked.texts(f"{path}.levels", levels, "hierarchy_levels_max", "facets")
    separator = options.get("separator", " > ")
    if not isinstance(separator, str) or not separator:
        draft.problems.add(f"{path}.separator", "must be a text that is not empty")
        return None
    if "levels" in options and len(names) == 1:
        draft.problems.add(f"{path}.levels", 'has one level only; say {"path": …} for that')
    facets = draft.values.get("facets", {})
    for one in names:
        if one not in facets:
            draft.problems.add(
                path, f"names {one!r}, which is not a facet: add it to the aggregations"
            )
    draft.problems.warn_of_unknown(options, ("path", "levels", "separator"), path)
    return Hierarchy(tuple(names), separator)


def _read_nested(draft: _Draft, value: object) -> None:
    draft.values["nested"] = draft.checked.fields("nested", value, "nested_fields_max")


def _read_sortings(draft: _Draft, value: object) -> None:
    draft.problems.warnings.append(
        "sortings has no effect: any scalar field can be sorted, with sort_field and order"
    )


def _read_language(draft: _Draft, value: object) -> None:
    draft.values["language"] = _language(draft, "language", value)


def _language(draft: _Draft, path: str, value: object) -> str | None:
    if value == "none":
        return None
    language = parse_language(value)
    if language is None:
        names = ", ".join(LANGUAGES.values())
        draft.problems.add(path, f"must be one of none, {names} (or its two-letter code)")
    return language


def _read_field_languages(draft: _Draft, value: object) -> None:
    _read_by_field(draft, "field_languages", value, "languages by field", _language)


def _read_stop_words(draft: _Draft, value: object) -> None:
    if value is False:
        return
    if value is True:
        language = draft.values.get("language")
        if language is None and not draft.problems.errors:
            draft.problems.add("stop_words", "can be true only where language names one")
        draft.values["stop_words_language"] = language
    elif isinstance(value, str):
        draft.values["stop_words_language"] = _language(draft, "stop_words", value)
    else:
        words = draft.checked.texts("stop_words", value, "stop_words_max", "words")
        draft.values["stop_words"] = frozenset(words)


def _read_synonyms(draft: _Draft, value: object) -> None:
    rules: dict[str, dict[str, None]] = {}
    pairs: list[tuple[str, object, object]]
    if isinstance(value, dict):
        pairs = [(f"synonyms.{word}", [word], to) for word, to in value.items()]
    elif isinstance(value, list):
        pairs = [_synonym_rule(draft, f"synonyms[{i}]", one) for i, one in enumerate(value)]
    else:
        draft.problems.add(
            "synonyms",
            "must be a list of rules (lists of words that mean the same, or "
            '{"from": …, "to": […]}) or an object of alternatives by word',
        )
        return
    if not draft.checked.check_size("synonyms", len(pairs), "synonyms_max", "rules"):
        return
    for path, source, target in pairs:
        words = draft.checked.texts(path, source, "synonym_alternatives_max", "words")
        alternatives = draft.checked.texts(
            path,
            [target] if isinstance(target, str) else target,
            "synonym_alternatives_max",
            "alternatives",
        )
        for word in words:
            rules.setdefault(word, {}).update(
                (other, None) for other in alternatives if other != word
            )
    draft.values["synonyms"] = MappingProxyType(
        {word: tuple(others) for word, others in rules.items() if others}
    )


def _synonym_rule(draft: _Draft, path: str, rule: object) -> tuple[str, object, object]:
    """Return (path, words, alternatives) of one rule of the list form."""
    if isinstance(rule, list):
        if len(rule) < 2:
            draft.problems.add(path, "must list at least two words that mean the same")
            return path, [], []
        return path, rule, rule
    if isinstance(rule, dict) and set(rule) == {"from", "to"}:
        source = rule["from"]
        return path, [source] if isinstance(source, str) else source, rule["to"]
    draft.problems.add(
        path, 'must be a list of words that mean the same, or {"from": …, "to": […]}'
    )
    return path, [], []


def _read_match(draft: _Draft, value: object) -> None:
    _read_mode(draft, "match", parse_match(value), MATCH_FORMS)


def _read_prefix(draft: _Draft, value: object) -> None:
    _read_mode(draft, "prefix", parse_prefix(value), PREFIX_FORMS)


def _read_typo(draft: _Draft, value: object) -> None:
    _read_mode(draft, "typo", parse_typo(value), TYPO_FORMS)


def _read_typo_lengths(draft: _Draft, value: object) -> None:
    lengths = parse_typo_lengths(value)
    if lengths is None:
        draft.problems.add("typo_lengths", TYPO_LENGTHS_FORMS)
    else:
        draft.values["typo_lengths"] = lengths


def _read_infix(draft: _Draft, value: object) -> None:
    if isinstance(value, bool):
        draft.values["is_infix"] = value
    elif isinstance(value, list):
        draft.values["infix_fields"] = draft.checked.fields("infix", value, "searchable_fields_max")
    else:
        draft.problems.add("infix", 'must be true, false, or fields such as ["sku"]')


def _read_field_typo_lengths(draft: _Draft, value: object) -> None:
    path = "field_typo_lengths"
    value = draft.checked.object_of(
        path, value, "typo lengths by field", "searchable_fields_max", "fields"
    )
    if value is None:
        return
    found: dict[str, TypoLengths] = {}
    for name, one in value.items():
        lengths = None if one == "none" else parse_typo_lengths(one)
        if lengths is None and one != "none":
            draft.problems.add(f"{path}.{name}", f'{TYPO_LENGTHS_FORMS}, or "none"')
        elif draft.checked.is_field_name(f"{path}.{name}", name):
            found[name] = lengths
    if draft.checked.limits is not None:
        num_different = len(set(found.values()))
        draft.checked.check_size(path, num_different, "typo_groups_max", "different lengths")
    draft.values[path] = MappingProxyType(found)


def _read_mode(draft: _Draft, name: str, mode: object, forms: str) -> None:
    if mode is None:
        draft.problems.add(name, forms)
    else:
        draft.values[name] = mode


def _read_algolia(draft: _Draft, value: object) -> None:
    # The coordinator reads it, from the document; shards have no use for it.
    if not isinstance(value, dict):
        draft.problems.add("algolia", "must be an object of settings of Algolia's protocol")


def _read_display(draft: _Draft, value: object) -> None:
    if not isinstance(value, dict):
        draft.problems.add("display", "must be an object with title, image and fields")
        return
    display: dict[str, Any] = {}
    for key in ("title", "image"):
        if value.get(key) is not None and draft.checked.is_field_name(f"display.{key}", value[key]):
            display[key] = value[key]
    if value.get("fields") is not None:
        fields = draft.checked.field_names(
            "display.fields", value["fields"], "searchable_fields_max"
        )
        display["fields"] = tuple(fields)
    draft.problems.warn_of_unknown(value, ("title", "image", "fields"), "display")
    draft.values["display"] = MappingProxyType(display)


def _read_suggestions(draft: _Draft, value: object) -> None:
    path = "suggestions"
    if not isinstance(value, dict):
        draft.problems.add(path, "must be an object with fields, facets, popularity, searches")
        return
    found: dict[str, Any] = {}
    for key in ("fields", "facets"):
        if value.get(key) is not None:
            found[key] = draft.checked.fields(f"{path}.{key}", value[key], "suggestion_sources_max")
    known = draft.values.get("facets", {})
    for name in found.get("facets", ()):
        if name not in known:
            draft.problems.add(
                f"{path}.facets[{value['facets'].index(name)}]",
                f"must be a facet of aggregations: {', '.join(known)[:500] or 'there is none'}",
            )
    popularity = value.get("popularity")
    if popularity is not None and draft.checked.is_field_name(f"{path}.popularity", popularity):
        found["popularity"] = popularity
    found["searches"] = draft.checked.boolean(f"{path}.searches", value.get("searches"), False)
    draft.problems.warn_of_unknown(value, ("fields", "facets", "popularity", "searches"), path)
    draft.values["suggestions"] = SuggestionSettings(**found)


def _read_ranking(draft: _Draft, value: object) -> None:
    if not isinstance(value, dict):
        draft.problems.add("ranking", "must be an object with k1, b and proximity")
        return
    for name, default, high in (
        ("k1", K1_DEFAULT, 100.0),
        ("b", B_DEFAULT, 1.0),
        ("proximity", PROXIMITY_DEFAULT, 10.0),
    ):
        draft.values[name] = draft.checked.number(f"ranking.{name}", value.get(name), default, high)
    draft.problems.warn_of_unknown(value, ("k1", "b", "proximity"), "ranking")


def _read_boost(draft: _Draft, value: object) -> None:
    value = draft.checked.object_of(
        "boost",
        value,
        'boosts by field, for example {"sold": {"log": 0.3}}',
        "boosts_max",
        "fields",
    )
    if value is None:
        return
    draft.values["boosts"] = parse_boosts(
        value,
        lambda path, name: draft.checked.is_field_name(f"boost{path}", name),
        lambda path, message: draft.problems.add(f"boost{path}", message),
    )
    geo_fields = draft.values.get("geo_fields", (GEO_FIELD,))
    for boost in draft.values["boosts"]:
        if boost.point is not None and boost.field not in geo_fields:
            draft.problems.add(
                f"boost.{boost.field}", "counts distances from a point: add it to geo_fields"
            )


def _read_rules(draft: _Draft, value: object) -> None:
    if not isinstance(value, list):
        draft.problems.add("rules", "must be a list of rules")
        return
    if not draft.checked.check_size("rules", len(value), "rules_max", "rules"):
        return
    draft.values["rules"] = curation.parse_rules(
        value,
        draft.checked.limits,
        lambda path, message: draft.problems.add(f"rules{path}", message),
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
    "collation": _read_collation,
    "field_collations": _read_field_collations,
    "aggregations": _read_aggregations,
    "searchableFields": _read_searchable_fields,
    "searchable_fields": _read_searchable_fields,
    "sorting_fields": _read_sorting_fields,
    "geo_fields": _read_geo_fields,
    "nested": _read_nested,
    "hierarchies": _read_hierarchies,
    "sortings": _read_sortings,
    "language": _read_language,
    "field_languages": _read_field_languages,
    "stop_words": _read_stop_words,
    "synonyms": _read_synonyms,
    "match": _read_match,
    "prefix": _read_prefix,
    "typo": _read_typo,
    "typo_lengths": _read_typo_lengths,
    "field_typo_lengths": _read_field_typo_lengths,
    "infix": _read_infix,
    "ranking": _read_ranking,
    "algolia": _read_algolia,
    "display": _read_display,
    "suggestions": _read_suggestions,
    "boost": _read_boost,
    "rules": _read_rules,
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
    draft = _Draft(limits)
    if not isinstance(document, dict):
        draft.problems.add("", f"must be a JSON object{', {} rather than []' * (document == [])}")
        document = {}
    # Some clients send null for "not given".
    for key, read in _READERS.items():
        value = document.get(key)
        if value is not None:
            read(draft, value)
    draft.problems.warn_of_unknown(document, _READERS, instead=FOREIGN_SETTINGS)
    draft.problems.raise_if_any(limits.errors_reported_max if limits else 100)
    return IndexConfiguration(**draft.values), draft.problems.warnings


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
