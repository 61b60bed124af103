"""The fields that a configuration names, and those among them that no item has (pure).

A configuration may come before the items, or name a field that the next load brings: an unknown
field is a warning, as an unknown key is, with the name that may have been meant. While an index is
empty, nothing can be said.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from common.boosts import MOMENT_KINDS, NUMBER_KINDS
from common.index_configuration import BUILT_IN_FIELDS, OVERFLOW_PATH, IndexConfiguration
from common.index_configuration_parser import weighted_fields
from common.index_configuration_value_checks import WARNINGS_MAX
from common.nearest_name import did_you_mean
from common.query_syntax_tree import Filter
from common.search_option_parsers import ALL_FIELDS, parse_weighted_field
from common.value_kinds_and_facet_keys import ValueKind
from coordinator.parameters.curation_rule_evaluation import CompiledRule
from coordinator.parameters.facet_specs import with_ancestors
from coordinator.parameters.filter_objects import scalar_fields_of, tested_fields_of

_ALGOLIA_LISTS: Final = (
    "attributesToRetrieve",
    "attributesToHighlight",
    "attributesToSnippet",
    "restrictSearchableAttributes",
)

TEXT_KINDS: Final = frozenset({ValueKind.STRING})
_NOUNS: Final = {
    MOMENT_KINDS: "date or number",
    NUMBER_KINDS: "number",
    TEXT_KINDS: "text; only texts are searched",
}


class FieldReference(NamedTuple):
    """A place of a configuration that names a field."""

    path: str
    field: str
    kinds: frozenset[ValueKind] = frozenset()
    """Kinds of values of which the place needs one; empty: any will do."""


def field_references(
    configuration: IndexConfiguration, document: Mapping[str, Any], rules: Sequence[CompiledRule]
) -> list[FieldReference]:
    """Return all places of a configuration that name a field which items may lack.

    Args:
        configuration: parsed.
        document: what it was parsed from.
        rules: its rules, compiled.
    """
    found = (
        *_lists_of_fields(configuration, document),
        *_settings_by_field(configuration, document),
        *_pages_and_suggestions(configuration, document),
        *(
            FieldReference(f"boost.{boost.field}", boost.field, boost.value_kinds)
            for boost in configuration.boosts
        ),
        *(
            one
            for i, rule in enumerate(rules)
            for one in _of_rule(rule, f"rules[{i}]", configuration.hierarchies)
        ),
        *_of_algolia(document),
    )
    return [one for one in found if one.field not in BUILT_IN_FIELDS]


def _listed(path: str, document: Mapping[str, Any], key: str) -> Iterator[FieldReference]:
    """Yield the fields of a list, each at its place in the document."""
    for i, name in enumerate(_texts(document.get(key))):
        yield FieldReference(f"{path}{key}[{i}]", name)


def _lists_of_fields(
    configuration: IndexConfiguration, document: Mapping[str, Any]
) -> Iterator[FieldReference]:
    for name in configuration.facets:
        yield FieldReference(f"aggregations.{name}", name)
    for path, text in weighted_fields(document):
        weighted = parse_weighted_field(text)
        if weighted is not None and weighted.path != ALL_FIELDS:
            yield FieldReference(path, weighted.path, TEXT_KINDS)
    for key in ("sorting_fields", "geo_fields", "nested"):
        yield from _listed("", document, key)
    yield from _listed("algolia.", _member(document, "algolia"), "filterOnly")


def _settings_by_field(
    configuration: IndexConfiguration, document: Mapping[str, Any]
) -> Iterator[FieldReference]:
    for key, names in (
        ("field_languages", configuration.field_languages),
        ("field_collations", configuration.field_collations),
        ("field_typo_lengths", configuration.field_typo_lengths),
    ):
        for name in names:
            yield FieldReference(f"{key}.{name}", name)
    yield from _listed("", document, "infix")


def _pages_and_suggestions(
    configuration: IndexConfiguration, document: Mapping[str, Any]
) -> Iterator[FieldReference]:
    display, suggestions = configuration.display, configuration.suggestions
    for key in ("title", "image"):
        if key in display:
            yield FieldReference(f"display.{key}", display[key])
    yield from _listed("display.", _member(document, "display"), "fields")
    yield from _listed("suggestions.", _member(document, "suggestions"), "fields")
    if suggestions.popularity is not None:
        yield FieldReference("suggestions.popularity", suggestions.popularity, NUMBER_KINDS)


def _of_rule(compiled: CompiledRule, path: str, trees: Container[str]) -> Iterator[FieldReference]:
    for name, _ in compiled.rule.filters:
        if name not in trees:
            yield FieldReference(f"{path}.when.filters.{name}", name)
    if compiled.filter is not None:
        for name in _named_in(compiled.filter):
            yield FieldReference(f"{path}.filter", name)
    for factor in compiled.factors:
        for name in _named_in(factor.filter):
            yield FieldReference(path, name)


def _named_in(condition: Filter) -> Iterator[str]:
    """Yield the fields that a filter compares or tests; points and elements are configured."""
    yield from scalar_fields_of(condition)
    yield from tested_fields_of(condition)


def _of_algolia(document: Mapping[str, Any]) -> Iterator[FieldReference]:
    settings = _member(document, "algolia")
    distinct = settings.get("attributeForDistinct")
    if isinstance(distinct, str):
        yield FieldReference("algolia.attributeForDistinct", distinct)
    for key in _ALGOLIA_LISTS:
        for text in _texts(settings.get(key)):
            name = text.removeprefix("-")
            if key == "attributesToSnippet":
                name = name.partition(":")[0]
            if name and "*" not in name:
                yield FieldReference(f"algolia.{key}", name)


def _member(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    settings = document.get(key)
    return settings if isinstance(settings, dict) else {}


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def unknown_fields(
    references: Iterable[FieldReference], fields: Mapping[str, Collection[ValueKind]]
) -> list[str]:
    """Return a warning for each place whose field no item has, or has no values of its kind.

    Args:
        references: of a configuration.
        fields: kinds of values of every field that items have, by path.
    """
    if not fields or OVERFLOW_PATH in fields:
        return []
    known = set(with_ancestors(fields, "."))
    by_name = sorted(known)
    warnings: list[str] = []
    for one in references:
        if len(warnings) == WARNINGS_MAX:
            break
        name = one.field[:100]
        if one.field not in known:
            wrong = f"names {name!r}, which no item has{did_you_mean(name, by_name, 0.7)}"
        elif one.kinds and one.kinds.isdisjoint(fields.get(one.field, one.kinds)):
            noun = _NOUNS[one.kinds]
            wrong = f"names {name!r}, in which no item has a {noun}"
        else:
            continue
        warnings.append(f"{one.path[:300]} {wrong}")
    return warnings
