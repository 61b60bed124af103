"""The configuration parser: what it accepts, what it says about mistakes, and its fixed point."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.index_configuration import effective
from common.index_configuration_parser import CONFIGURATION_KEYS, parse_configuration
from common.limits import DEFAULT_LIMITS, Limits
from common.search_option_parsers import SearchableField, parse_match, parse_typo
from common.settings_of_other_engines import FOREIGN_SETTINGS


def errors_of(document: object) -> list[tuple[str, str]]:
    """Return the (path, message) pairs that a wrong document gives."""
    with pytest.raises(InvalidRequest) as caught:
        parse_configuration(document, DEFAULT_LIMITS)
    assert caught.value.code == "invalid_configuration"
    return [(one["param"], one["message"]) for one in caught.value.details["errors"]]


def test_empty_document_gives_all_defaults() -> None:
    configuration, warnings = parse_configuration({}, DEFAULT_LIMITS)

    assert warnings == []
    assert dict(configuration.facets) == {}
    assert configuration.searchable_fields is None
    assert (configuration.match, configuration.prefix, configuration.typo) == (
        "all",
        "last",
        "auto",
    )


def test_facet_defaults_follow_the_interface() -> None:
    document = {"aggregations": {"tags": {}, "release_year": {"size": 3}, "variants.size": {}}}

    configuration, _ = parse_configuration(document, DEFAULT_LIMITS)

    tags = configuration.facets["tags"]
    assert (tags.title, tags.position, tags.size, tags.conjunction) == ("Tags", 1, 10, True)
    assert tags.sort == (("selected", True), ("count", True), ("key", False))
    year = configuration.facets["release_year"]
    assert (year.title, year.position, year.size) == ("Release year", 2, 3)
    assert configuration.facets["variants.size"].title == "Variants size"
    assert list(configuration.facets) == ["release_year", "tags", "variants.size"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sort": "term"}, [("selected", True), ("key", False)]),
        ({"sort": "key", "order": "desc"}, [("selected", True), ("key", True)]),
        ({"sort": "count", "order": "asc"}, [("selected", True), ("count", False), ("key", False)]),
        ({"sort": "term", "chosen_filters_on_top": False}, [("key", False)]),
        (
            {"sort": ["selected", "count:desc", "key:asc"]},
            [("selected", True), ("count", True), ("key", False)],
        ),
        (
            {"sort": ["selected", "key"], "order": ["desc", "asc"]},
            [("selected", True), ("key", False)],
        ),
        ({"sort": ["count"]}, [("count", True), ("key", False)]),
    ],
)
def test_facet_sort_forms(options: dict[str, Any], expected: list[tuple[str, bool]]) -> None:
    configuration, _ = parse_configuration({"aggregations": {"a": options}}, DEFAULT_LIMITS)

    assert list(configuration.facets["a"].sort) == expected


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], None),
        ({"aggregations": []}, "aggregations"),
        ({"aggregations": {"tags": []}}, "aggregations.tags"),
        ({"aggregations": {"tags": {"size": "10"}}}, "aggregations.tags.size"),
        ({"aggregations": {"tags": {"size": -1}}}, "aggregations.tags.size"),
        ({"aggregations": {"tags": {"size": 1.5}}}, "aggregations.tags.size"),
        ({"aggregations": {"tags": {"size": True}}}, "aggregations.tags.size"),
        ({"aggregations": {"tags": {"size": 2**70}}}, "aggregations.tags.size"),
        ({"aggregations": {"tags": {"conjunction": "no"}}}, "aggregations.tags.conjunction"),
        ({"aggregations": {"tags": {"sort": "size"}}}, "aggregations.tags.sort"),
        ({"aggregations": {"tags": {"sort": {}}}}, "aggregations.tags.sort"),
        ({"aggregations": {"tags": {"order": "up"}}}, "aggregations.tags.order"),
        ({"aggregations": {"tags": {"order": [{}]}}}, "aggregations.tags.order"),
        ({"aggregations": {"tags": {"title": 1}}}, "aggregations.tags.title"),
        (
            {"aggregations": {"tags": {"hide_zero_doc_count": None, "hide_zero": {}}}},
            "aggregations.tags.hide_zero_doc_count",
        ),
        ({"aggregations": {"": {}}}, "aggregations."),
        ({"aggregations": {"x" * 257: {}}}, "aggregations." + "x" * 257),
        ({"searchable_fields": "name"}, "searchable_fields"),
        ({"searchable_fields": ["name^0"]}, "searchable_fields[0]"),
        ({"searchable_fields": ["a", "name^-1"]}, "searchable_fields[1]"),
        ({"searchable_fields": ["a", 3]}, "searchable_fields[1]"),
        ({"sorting_fields": {"a": 1}}, "sorting_fields"),
        ({"language": "klingon"}, "language"),
        ({"field_languages": {"a": 1}}, "field_languages.a"),
        ({"collation": "klingon"}, "collation"),
        ({"infix": 1}, "infix"),
        ({"infix": ["a", 1]}, "infix[1]"),
        ({"field_typo_lengths": []}, "field_typo_lengths"),
        ({"field_typo_lengths": {"a": [1, 9]}}, "field_typo_lengths.a"),
        ({"field_typo_lengths": {"a": None}}, "field_typo_lengths.a"),
        ({"field_typo_lengths": {str(i): [i, i] for i in range(5, 14)}}, "field_typo_lengths"),
        ({"collation": "none+numeric"}, "collation"),
        ({"field_collations": []}, "field_collations"),
        ({"field_collations": {"a": "de+x"}}, "field_collations.a"),
        ({"stop_words": 1}, "stop_words"),
        ({"stop_words": ["the", 1]}, "stop_words[1]"),
        ({"synonyms": "tv"}, "synonyms"),
        ({"synonyms": [["tv"]]}, "synonyms[0]"),
        ({"synonyms": {"tv": [1]}}, "synonyms.tv[0]"),
        ({"match": "0%"}, "match"),
        ({"prefix": True}, "prefix"),
        ({"typo": 3}, "typo"),
        ({"display": {"fields": ["a", "x" * 257]}}, "display.fields[1]"),
        ({"suggestions": {"fields": ["a", "x" * 257]}}, "suggestions.fields[1]"),
        ({"ranking": {"b": 1.5}}, "ranking.b"),
        ({"ranking": {"k1": "1"}}, "ranking.k1"),
    ],
)
def test_mistake_is_named_by_its_path(document: object, path: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_configuration(document, DEFAULT_LIMITS)

    assert caught.value.param == path


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({"searchable_fields": ["", "a^0"]}, ["searchable_fields[0]", "searchable_fields[1]"]),
        ({"nested": [1, "x" * 257]}, ["nested[0]", "nested[1]"]),
        (
            {"aggregations": {"a": {}}, "suggestions": {"facets": ["a", "a", "b"]}},
            ["suggestions.facets[2]"],
        ),
    ],
)
def test_the_path_of_a_mistake_has_its_position_as_sent(
    document: dict[str, Any], paths: list[str]
) -> None:
    assert [path for path, _ in errors_of(document)] == paths


@pytest.mark.parametrize("setting", ["aggregations", "hierarchies", "boost"])
def test_a_list_of_names_is_answered_with_a_valid_setting(setting: str) -> None:
    """Other engines take one; the example has to be accepted."""
    with pytest.raises(InvalidRequest) as caught:
        parse_configuration({setting: ["category"]})
    _, example = str(caught.value).split(", for example ")
    facet: dict[str, Any] = {"aggregations": {"category": {}}}
    assert parse_configuration(facet | {setting: json.loads(example)})


def test_all_mistakes_are_reported_at_once() -> None:
    document = {"aggregations": {"a": {"size": "x", "title": 3}, "b": 1}, "typo": 9}

    assert {path for path, _ in errors_of(document)} == {
        "aggregations.a.size",
        "aggregations.a.title",
        "aggregations.b",
        "typo",
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["*"], None),
        (["*^2"], (("*", 2.0),)),
        (["*", "name^3"], (("name", 3.0), ("*", 1.0))),
        ({"*": 0.5, "name": 2}, (("name", 2.0), ("*", 0.5))),
    ],
)
def test_a_star_stands_for_all_other_fields_to_search(fields: object, expected: object) -> None:
    configuration, warnings = parse_configuration({"searchable_fields": fields}, DEFAULT_LIMITS)

    assert configuration.searchable_fields == expected
    assert warnings == []


def test_unknown_keys_are_warnings_not_mistakes() -> None:
    document = {"aggregations": {"tags": {"colour": 1}}, "per_page": 5, "sortings": {}}

    _, warnings = parse_configuration(document, DEFAULT_LIMITS)

    assert [warning.split()[0] for warning in warnings] == [
        "aggregations.tags.colour",
        "sortings",
        "per_page",
    ]


def test_searchable_fields_alias_and_weights() -> None:
    configuration, warnings = parse_configuration(
        {"searchableFields": ["name^3", "actors.name", "year^0.5"]}, DEFAULT_LIMITS
    )

    assert warnings == []
    assert configuration.searchable_fields == (
        SearchableField("name", 3.0),
        SearchableField("actors.name", 1.0),
        SearchableField("year", 0.5),
    )


def test_synonyms_one_way_two_way_and_several_words() -> None:
    configuration, _ = parse_configuration(
        {"synonyms": [["tv", "television"], {"from": "nyc", "to": ["new york city"]}]},
        DEFAULT_LIMITS,
    )

    assert dict(configuration.synonyms) == {
        "tv": ("television",),
        "television": ("tv",),
        "nyc": ("new york city",),
    }


def test_stop_words_of_the_configured_language() -> None:
    configuration, _ = parse_configuration({"language": "en", "stop_words": True}, DEFAULT_LIMITS)

    assert configuration.stop_words_language == "english"
    assert errors_of({"stop_words": True})[0][0] == "stop_words"


def test_limits_bind_who_posts_but_not_who_reads_again() -> None:
    document = {"aggregations": {f"f{i}": {"size": 50_000} for i in range(3)}}
    limits = Limits.from_overrides({"facets_max": 2})

    configuration, _ = parse_configuration(document)

    assert len(configuration.facets) == 3
    with pytest.raises(InvalidRequest) as caught:
        parse_configuration(document, limits)
    assert caught.value.param == "aggregations"


def test_modes() -> None:
    assert [parse_match(mode) for mode in ("all", "075%", "100%", "101%", "٧%", 1)] == [
        "all",
        "75%",
        "100%",
        None,
        None,
        None,
    ]
    assert [parse_typo(mode) for mode in ("auto", 0, "2", 3, True, None)] == [
        "auto",
        0,
        2,
        None,
        None,
        None,
    ]


def test_limits_refuse_all_but_positive_integers() -> None:
    with pytest.raises(ValueError, match="unknown limit 'frobs'"):
        Limits.from_overrides({"frobs": 1})
    with pytest.raises(ValueError, match="per_page_max must be a positive integer"):
        Limits.from_overrides({"per_page_max": 0})


def test_limits_refuse_what_a_format_has_no_room_for() -> None:
    largest = np.iinfo(np.uint8).max  # `DistinctCounts.counts`

    assert Limits.from_overrides({"distinct_max": largest}).distinct_max == largest
    with pytest.raises(ValueError, match=r"distinct_max can be at most 255 \(hits\), not 256"):
        Limits.from_overrides({"distinct_max": largest + 1})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
facet_settings = st.fixed_dictionaries(
    {},
    optional={
        "title": st.text(max_size=5) | json_values,
        "size": st.integers(1, 100) | json_values,
        "conjunction": st.booleans() | json_values,
        "sort": st.sampled_from(["count", "term", ["key:desc"], ["selected", "count"]])
        | json_values,
        "order": st.sampled_from(["asc", "desc", ["asc"]]) | json_values,
    },
)
documents = st.dictionaries(
    st.sampled_from(CONFIGURATION_KEYS) | st.text(max_size=5), json_values, max_size=6
) | st.fixed_dictionaries(
    {"aggregations": st.dictionaries(st.text(max_size=5), facet_settings, max_size=3)}
)


@given(documents)
def test_any_document_is_parsed_or_refused_and_effective_is_a_fixed_point(
    document: dict[str, Any],
) -> None:
    try:
        configuration, _ = parse_configuration(document, DEFAULT_LIMITS)
    except InvalidRequest:
        return

    again, warnings = parse_configuration(effective(configuration), DEFAULT_LIMITS)

    assert warnings == []
    assert again == configuration


def test_settings_of_other_engines_are_answered_with_ours() -> None:
    _, warnings = parse_configuration({"filterableAttributes": ["a"], "colour": 1})
    assert warnings == [
        "filterableAttributes is unknown and has no effect; here, aggregations names the facets: "
        '{"brand": {"conjunction": false}}',
        "colour is unknown and has no effect",
    ]
    assert FOREIGN_SETTINGS.keys().isdisjoint(CONFIGURATION_KEYS)
