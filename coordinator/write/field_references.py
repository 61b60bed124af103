"""The fields that a configuration names, and those among them that no item has (pure).

    declares   aggregations, searchable_fields, sorting_fields, geo_fields, nested: fields that
               items have, or will have
    refers     everything else: boost, rules, display, suggestions, languages, collations, infix …

A field that is not declared is known once an item has it. While an index is empty, nothing can be
said. Afterwards a change of the configuration may refer only to fields that items have or that it
declares; what it declares although no item has it is a warning, with the name that may have been
meant. So is a reference that was accepted earlier: it must not block other changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from common.boosts import Boost
from common.checked_values import WARNINGS_MAX, Problems
from common.configuration import GEO_FIELD, IndexConfiguration
from common.nearest import nearest
from coordinator.parameters.curation import CompiledRule
from coordinator.parameters.filter_objects import scalar_fields_of

_NUMBERS: Final = frozenset(("integer", "float", "true", "false"))
_MOMENTS: Final = _NUMBERS | {"string"}
_ALWAYS_KNOWN: Final = frozenset(("id", GEO_FIELD, "_geoloc"))
"""The id; and the points of both protocols, which indexes are prepared for."""
_OVERFLOW: Final = "*"
"""The path that shards give to all fields beyond those that they number."""
_LISTED_CHARS_MAX: Final = 500
_ADVICE: Final = (
    " (declare a field that items will have later in sorting_fields, aggregations or "
    "searchable_fields)"
)
_ALGOLIA_LISTS: Final = (
    "attributesToRetrieve",
    "attributesToHighlight",
    "attributesToSnippet",
    "restrictSearchableAttributes",
)


class FieldReference(NamedTuple):
    """A place of a configuration that names a field."""

    path: str
    field: str
    kinds: frozenset[str] = frozenset()
    """Kinds of values (`ValueKind`) of which the place needs one; empty: any will do."""
    declares: bool = False


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
        *_declarations(configuration, document),
        *_settings_by_field(configuration),
        *_pages_and_suggestions(configuration),
        *(_of_boost(boost) for boost in configuration.boosts),
        *(one for i, rule in enumerate(rules) for one in _of_rule(rule, f"rules[{i}]")),
        *_of_algolia(document),
    )
    return [one for one in found if one.field not in _ALWAYS_KNOWN]


def _listed(path: str, names: Iterable[str], *, declares: bool = False) -> Iterator[FieldReference]:
    for i, name in enumerate(names):
        yield FieldReference(f"{path}[{i}]", name, declares=declares)


def _declarations(
    configuration: IndexConfiguration, document: Mapping[str, Any]
) -> Iterator[FieldReference]:
    for name in configuration.facets:
        yield FieldReference(f"aggregations.{name}", name, declares=True)
    searchable = [one.path for one in configuration.searchable_fields or ()]
    yield from _listed("searchable_fields", searchable, declares=True)
    yield from _listed("sorting_fields", configuration.sorting_fields, declares=True)
    yield from _listed("geo_fields", configuration.geo_fields, declares=True)
    yield from _listed("nested", configuration.nested, declares=True)
    yield from _listed(
        "algolia.filterOnly", _texts(_algolia(document).get("filterOnly")), declares=True
    )


def _settings_by_field(configuration: IndexConfiguration) -> Iterator[FieldReference]:
    for key, names in (
        ("field_languages", configuration.field_languages),
        ("field_collations", configuration.field_collations),
        ("field_typo_lengths", configuration.field_typo_lengths),
    ):
        for name in names:
            yield FieldReference(f"{key}.{name}", name)
    yield from _listed("infix", configuration.infix_fields)


def _pages_and_suggestions(configuration: IndexConfiguration) -> Iterator[FieldReference]:
    display, suggestions = configuration.display, configuration.suggestions
    for key in ("title", "image"):
        if key in display:
            yield FieldReference(f"display.{key}", display[key])
    yield from _listed("display.fields", display.get("fields", ()))
    yield from _listed("suggestions.fields", suggestions.fields)
    if suggestions.popularity is not None:
        yield FieldReference("suggestions.popularity", suggestions.popularity, _NUMBERS)


def _of_boost(boost: Boost) -> FieldReference:
    needs = _MOMENTS if boost.is_time else _NUMBERS
    return FieldReference(
        f"boost.{boost.field}", boost.field, needs if boost.point is None else frozenset()
    )


def _of_rule(compiled: CompiledRule, path: str) -> Iterator[FieldReference]:
    for name, _ in compiled.rule.filters:
        yield FieldReference(f"{path}.when.filters.{name}", name)
    if compiled.filter is not None:
        for name in scalar_fields_of(compiled.filter):
            yield FieldReference(f"{path}.filter", name)
    for factor in compiled.factors:
        for name in scalar_fields_of(factor.filter):
            yield FieldReference(path, name)


def _of_algolia(document: Mapping[str, Any]) -> Iterator[FieldReference]:
    settings = _algolia(document)
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


def _algolia(document: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = document.get("algolia")
    return settings if isinstance(settings, dict) else {}


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def check_references(
    references: Iterable[FieldReference],
    accepted: Iterable[FieldReference],
    fields: Mapping[str, Collection[str]],
    problems: Problems,
) -> None:
    """Note the places that name a field that no item has, or that has no values of their kind.

    Args:
        references: of the new configuration.
        accepted: of the one before; what it names is no mistake any more, only a warning.
        fields: kinds of values of every field that items have, by path.
        problems: gets the mistakes and the warnings.
    """
    if not fields or _OVERFLOW in fields:
        return
    references = list(references)
    known = set(_with_parents(fields))
    declared = set(_with_parents(one.field for one in references if one.declares))
    before = {(one.field, one.kinds) for one in accepted}
    for one in references:
        if one.field in known:
            if not _lacks_kind(one, fields):
                continue
            wrong = f"names {one.field[:100]!r}, in which no item has a {_noun(one.kinds)}"
            near = ""
        elif one.declares or one.field not in declared:
            wrong = f"names {one.field[:100]!r}, which no item has"
            near = nearest(one.field[:100], known, 0.7)
        else:
            continue
        if not one.declares and (one.field, one.kinds) not in before:
            problems.add(one.path[:300], f"{wrong}{near or _valid_names(one, fields)}{_ADVICE}")
        elif len(problems.warnings) < WARNINGS_MAX:
            problems.warnings.append(f"{one.path[:300]} {wrong}{near}")


def _lacks_kind(one: FieldReference, fields: Mapping[str, Collection[str]]) -> bool:
    """Return whether a place needs values of a kind that a field of the items does not have."""
    return bool(one.kinds) and one.kinds.isdisjoint(fields.get(one.field, one.kinds))


def _valid_names(one: FieldReference, fields: Mapping[str, Collection[str]]) -> str:
    """Return which fields a place can name, as part of a message."""
    fitting = (name for name in sorted(fields) if not _lacks_kind(one._replace(field=name), fields))
    listed = ", ".join(fitting) or "none"
    if len(listed) > _LISTED_CHARS_MAX:
        listed = listed[:_LISTED_CHARS_MAX] + ", …"
    return f"; fields{f' with a {_noun(one.kinds)}' if one.kinds else ''} are {listed}"


def _noun(kinds: frozenset[str]) -> str:
    return "date or number" if kinds == _MOMENTS else "number"


def _with_parents(names: Iterable[str]) -> Iterator[str]:
    """Yield names and those of the objects that they are in."""
    for name in names:
        yield name
        while "." in name:
            name = name.rpartition(".")[0]
            yield name
