"""Every place of a configuration that names a field, and what is said of one that no item has."""

from __future__ import annotations

from typing import Any

import pytest

from common.analysis.analyzer import Analyzer
from common.index_configuration import OVERFLOW_PATH
from common.index_configuration_parser import CONFIGURATION_KEYS, parse_configuration
from common.limits import DEFAULT_LIMITS
from common.process.cooperative_scheduler import run_to_completion
from common.value_kinds_and_facet_keys import ValueKind
from coordinator.parameters.curation_rule_evaluation import compile_rules
from coordinator.write.field_references import FieldReference, field_references, unknown_fields

FIELDS: dict[str, list[ValueKind]] = {
    "name": [ValueKind.STRING],
    "brand": [ValueKind.STRING],
    "price": [ValueKind.INTEGER, ValueKind.NULL],
    "released": [ValueKind.STRING],
    "variants.size": [ValueKind.STRING],
}

PLACES: list[tuple[dict[str, Any], str]] = [
    ({"boost": {"X": {"log": 1}}}, "boost.X"),
    ({"boost": {"X": {"decay": "9d"}}}, "boost.X"),
    ({"rules": [{"filter": "X = a"}]}, "rules[0].filter"),
    ({"rules": [{"hide": [1]}, {"filter": "brand = b OR NOT (X > 2)"}]}, "rules[1].filter"),
    ({"rules": [{"bury": ["X = a"]}]}, "rules[0]"),
    ({"rules": [{"filter": "X IS NOT NULL"}]}, "rules[0].filter"),
    ({"rules": [{"bury": ["X IS NULL"]}]}, "rules[0]"),
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
    steps = compile_rules(configuration.rules, configuration, Analyzer(), DEFAULT_LIMITS)
    rules = run_to_completion(steps)
    return field_references(configuration, document, rules)


def warnings_of(document: dict[str, Any]) -> list[str]:
    return unknown_fields(references(document), FIELDS)


def test_every_key_of_a_configuration_is_considered() -> None:
    keys = {key for document, _ in PLACES for key in document}
    assert keys.isdisjoint(OTHERS)
    assert keys | OTHERS == set(CONFIGURATION_KEYS)


def test_a_rule_for_a_tree_names_no_field() -> None:
    tree = {"path": "price", "separator": " > "}
    rule = {"when": {"filters": {"tree": "a > b"}}, "hide": [1]}
    document = {"aggregations": {"price": {}}, "hierarchies": {"tree": tree}, "rules": [rule]}
    assert warnings_of(document) == []


@pytest.mark.parametrize(("document", "path"), PLACES)
def test_a_field_that_no_item_has_is_named(document: dict[str, Any], path: str) -> None:
    wanted = f"{path.replace('X', 'prise')} names 'prise', which no item has; did you mean price?"
    assert wanted in warnings_of(named(document, "prise"))
    wanted = f"{path.replace('X', 'zzz')} names 'zzz', which no item has"
    assert wanted in warnings_of(named(document, "zzz"))
    needs_text = "decay" in str(document) or path.startswith("searchable_fields")
    fitting = "released" if needs_text else "price"
    assert warnings_of(named(document, fitting)) == []


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"boost": {"brand": {"log": 1}}}, "boost.brand names 'brand', in which"),
        ({"boost": {"variants.size": {"saturation": 5}}}, "boost.variants.size names"),
        ({"suggestions": {"popularity": "name"}}, "suggestions.popularity names 'name', in which"),
        ({"boost": {"released": {"reciprocal": 5, "origin": 9}}}, "boost.released names"),
    ],
)
def test_a_field_without_the_values_that_a_place_needs_is_named(
    document: dict[str, Any], message: str
) -> None:
    (warning,) = warnings_of(document)
    assert warning.startswith(message)
    assert warning.endswith(", in which no item has a number")


def test_a_searched_field_without_texts_is_named() -> None:
    (warning,) = warnings_of({"searchable_fields": ["name", "price", "released"]})
    wrong = "in which no item has a text; only texts are searched"
    assert warning == f"searchable_fields[1] names 'price', {wrong}"


def test_objects_points_and_ids_are_fields() -> None:
    document = {
        "nested": ["variants"],
        "display": {"title": "variants"},
        "rules": [{"filter": "id = 7"}, {"filter": "_geoRadius(1, 2, 3)"}],
        "algolia": {"attributesToRetrieve": ["*", "variants.*"]},
        "geo_fields": ["_geoloc", "_geo"],
    }
    assert warnings_of(document) == []


def test_the_place_of_a_field_is_that_in_the_document() -> None:
    """Though "*" comes last, and what is named twice once, in what is made of it."""
    for document, path in (
        ({"searchable_fields": ["*", "name", "prise"]}, "searchable_fields[2]"),
        ({"searchable_fields": ["name", "name^2", "prise"]}, "searchable_fields[2]"),
        ({"searchable_fields": {"*": 1, "prise": 2}}, "searchable_fields.prise"),
        ({"sorting_fields": ["price", "price", "prise"]}, "sorting_fields[2]"),
        ({"suggestions": {"fields": ["name", "name", "prise"]}}, "suggestions.fields[2]"),
        ({"infix": ["name", "name", "prise"]}, "infix[2]"),
    ):
        (warning,) = warnings_of(document)
        assert warning.startswith(f"{path} names 'prise', which no item has")


def test_an_index_whose_fields_are_not_all_numbered_gives_no_warnings() -> None:
    wrong = references({"boost": {"X": {"log": 1}}})
    assert unknown_fields(wrong, {**FIELDS, OVERFLOW_PATH: []}) == []
    assert unknown_fields(wrong, {}) == []
