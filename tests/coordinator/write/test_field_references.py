"""Every place of a configuration that names a field, and what is said of one that no item has."""

from __future__ import annotations

from typing import Any

import pytest

from common.analysis.analyzer import Analyzer
from common.checked_values import Problems
from common.configuration_parser import CONFIGURATION_KEYS, parse_configuration
from common.limits import DEFAULT_LIMITS
from coordinator.parameters.curation import compile_rules
from coordinator.write.field_references import FieldReference, check_references, field_references

FIELDS: dict[str, list[str]] = {
    "name": ["string"],
    "brand": ["string"],
    "price": ["integer", "null"],
    "released": ["string"],
    "variants.size": ["string"],
}

REFERRING: list[tuple[dict[str, Any], str]] = [
    ({"boost": {"X": {"log": 1}}}, "boost.X"),
    ({"boost": {"X": {"decay": "9d"}}}, "boost.X"),
    ({"rules": [{"filter": "X = a"}]}, "rules[0].filter"),
    ({"rules": [{"hide": [1]}, {"filter": "brand = b OR NOT (X > 2)"}]}, "rules[1].filter"),
    ({"rules": [{"bury": ["X = a"]}]}, "rules[0]"),
    ({"rules": [{"boost": [{"filter": "X IN [a]", "factor": 2}]}]}, "rules[0]"),
    (
        {"rules": [{"hide": [1], "when": {"filters": {"X": "a"}}}]},
        "rules[0].when.filters.X",
    ),
    ({"display": {"title": "X"}}, "display.title"),
    ({"display": {"image": "X"}}, "display.image"),
    ({"display": {"fields": ["name", "X"]}}, "display.fields[1]"),
    ({"suggestions": {"fields": ["X"]}}, "suggestions.fields[0]"),
    ({"suggestions": {"popularity": "X"}}, "suggestions.popularity"),
    ({"field_languages": {"X": "german"}}, "field_languages.X"),
    ({"field_collations": {"X": "de"}}, "field_collations.X"),
    ({"field_typo_lengths": {"X": [4, 8]}}, "field_typo_lengths.X"),
    ({"infix": ["X"]}, "infix[0]"),
    ({"algolia": {"attributeForDistinct": "X"}}, "algolia.attributeForDistinct"),
    ({"algolia": {"attributesToRetrieve": ["*", "-X"]}}, "algolia.attributesToRetrieve"),
    ({"algolia": {"attributesToHighlight": ["X"]}}, "algolia.attributesToHighlight"),
    ({"algolia": {"attributesToSnippet": ["X:20"]}}, "algolia.attributesToSnippet"),
    ({"algolia": {"restrictSearchableAttributes": ["X"]}}, "algolia.restrictSearchableAttributes"),
]
DECLARING: list[tuple[dict[str, Any], str]] = [
    ({"aggregations": {"X": {}}}, "aggregations.X"),
    ({"searchable_fields": ["name^3", "X^2"]}, "searchable_fields[1]"),
    ({"searchableFields": ["X"]}, "searchable_fields[0]"),
    ({"sorting_fields": ["X"]}, "sorting_fields[0]"),
    ({"geo_fields": ["X"]}, "geo_fields[0]"),
    ({"nested": ["X"]}, "nested[0]"),
    ({"algolia": {"filterOnly": ["X"]}}, "algolia.filterOnly[0]"),
]
OTHERS = {
    *("hierarchies",),  # name facets, as the parser checks
    *("sortings", "language", "collation", "stop_words", "synonyms", "match", "prefix", "typo"),
    *("typo_lengths", "ranking"),
}


def named(document: Any, field: str) -> Any:
    """Return a document with a field in the place of X."""
    if isinstance(document, dict):
        return {named(key, field): named(value, field) for key, value in document.items()}
    if isinstance(document, list):
        return [named(one, field) for one in document]
    return document.replace("X", field) if isinstance(document, str) else document


def references(document: dict[str, Any]) -> list[FieldReference]:
    configuration, _ = parse_configuration(document, DEFAULT_LIMITS)
    rules = compile_rules(configuration.rules, configuration, Analyzer(), DEFAULT_LIMITS)
    return field_references(configuration, document, rules)


def checked(document: dict[str, Any], before: dict[str, Any] | None = None) -> Problems:
    problems = Problems()
    check_references(references(document), references(before or {}), FIELDS, problems)
    return problems


def test_every_key_of_a_configuration_is_considered() -> None:
    keys = {key for document, _ in [*REFERRING, *DECLARING] for key in document}
    assert keys.isdisjoint(OTHERS)
    assert keys | OTHERS == set(CONFIGURATION_KEYS)


@pytest.mark.parametrize(("document", "path"), REFERRING)
def test_a_reference_to_a_field_that_no_item_has_is_a_mistake(
    document: dict[str, Any], path: str
) -> None:
    wrong = named(document, "prise")
    wanted = path.replace("X", "prise")
    mistakes = dict(checked(wrong).errors)
    assert mistakes[wanted].startswith(
        "names 'prise', which no item has; did you mean price? (declare a field that items will "
    )
    mistakes = dict(checked(named(document, "zzz")).errors)
    assert mistakes[path.replace("X", "zzz")].startswith("names 'zzz', which no item has; fields")
    # Known, declared, accepted before: no mistake.
    fitting = "released" if "decay" in str(document) else "price"
    assert wanted not in dict(checked(named(document, fitting)).errors)
    assert wanted not in dict(checked({**wrong, "sorting_fields": ["prise"]}).errors)
    again = checked(wrong, before=wrong)
    assert again.errors == []
    assert f"{wanted} names 'prise', which no item has; did you mean price?" in again.warnings


@pytest.mark.parametrize(("document", "path"), DECLARING)
def test_a_declared_field_that_no_item_has_is_a_warning(
    document: dict[str, Any], path: str
) -> None:
    problems = checked(named(document, "prise"))
    assert problems.errors == []
    wanted = path.replace("X", "prise")
    assert problems.warnings == [f"{wanted} names 'prise', which no item has; did you mean price?"]
    assert checked(named(document, "price")).warnings == []
    assert checked(named(document, "zzz")).warnings == [
        f"{path.replace('X', 'zzz')} names 'zzz', which no item has"
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"boost": {"brand": {"log": 1}}}, "a number; fields with a number are price ("),
        ({"boost": {"variants.size": {"saturation": 5}}}, "a number; fields with a number are "),
        ({"suggestions": {"popularity": "name"}}, "a number; fields with a number are price ("),
        ({"boost": {"released": {"reciprocal": 5, "origin": 9}}}, "a number; fields with a nu"),
    ],
)
def test_a_field_without_the_values_that_a_place_needs_is_a_mistake(
    document: dict[str, Any], message: str
) -> None:
    (mistake,) = checked(document).errors
    assert f", in which no item has {message}" in mistake[1]


def test_objects_points_and_ids_are_fields() -> None:
    document = {
        "nested": ["variants"],
        "display": {"title": "variants"},
        "rules": [{"filter": "id = 7"}, {"filter": "_geoRadius(1, 2, 3)"}],
        "algolia": {"attributesToRetrieve": ["*", "variants.*"]},
        "geo_fields": ["_geoloc", "_geo"],
    }
    problems = checked(document)
    assert (problems.errors, problems.warnings) == ([], [])


def test_whether_a_field_exists_may_be_asked_of_any() -> None:
    assert checked({"rules": [{"bury": ["sold_out EXISTS"]}]}).errors == []


def test_nothing_is_said_of_an_index_whose_fields_are_not_all_numbered() -> None:
    problems = Problems()
    check_references(references({"boost": {"X": {"log": 1}}}), [], {**FIELDS, "*": []}, problems)
    check_references(references({"boost": {"X": {"log": 1}}}), [], {}, problems)
    assert (problems.errors, problems.warnings) == ([], [])
