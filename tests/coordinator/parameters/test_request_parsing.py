"""The parser of search parameters: values, and error messages."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from common.errors import InvalidRequest, NotFound, ServiceError
from common.index_configuration import TREE_LEVELS_MAX
from common.index_configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from common.protocol.messages import Distinct, FilterClause, RangeRequest, SortKey
from common.query_syntax_tree import AllOf, And, AnyOf, Exists, Not, Range
from common.search_option_parsers import SearchableField
from coordinator.parameters.parameter_table import FACET_BY_NAME, SEARCH_BY_NAME
from coordinator.parameters.parameters_of_other_engines import FOREIGN
from coordinator.parameters.parsed_parameters import FacetParameters, SearchParameters
from coordinator.parameters.request_decoding import QueryText, decode_object, query_parameters
from coordinator.parameters.request_parsing import (
    parse_facet,
    parse_search,
    parse_searches,
    parse_suggest,
)

T = TypeVar("T")

CONFIGURATION = parse_configuration(
    {
        "aggregations": {"tags": {"conjunction": False}, "country": {}, "actors": {"sort": "term"}},
        "searchable_fields": ["name^3", "text"],
        "typo": 1,
    }
)[0]


def search(**parameters: Any) -> SearchParameters:
    return parse_search(parameters, CONFIGURATION, DEFAULT_LIMITS)


def search_by_get(query_string: str) -> SearchParameters:
    return parse_search(query_parameters(query_string), CONFIGURATION, DEFAULT_LIMITS)


def facet(**parameters: Any) -> FacetParameters:
    return parse_facet(parameters, CONFIGURATION, DEFAULT_LIMITS)


def mistakes(**parameters: Any) -> list[tuple[str, str]]:
    """Return (code, param) of all mistakes."""
    with pytest.raises(InvalidRequest) as caught:
        search(**parameters)
    error = caught.value
    listed = error.details.get("errors")
    if listed is None:
        return [(error.code, str(error.param))]
    assert (listed[0]["code"], listed[0]["param"]) == (error.code, error.param)
    return [(one["code"], one["param"]) for one in listed]


def test_a_field_that_the_configuration_does_not_search_is_no_field_to_search() -> None:
    with pytest.raises(InvalidRequest) as caught:
        search(query="sea", search_fields=["studio^2", "tags"])
    assert (caught.value.code, caught.value.param) == ("invalid_search_fields", "search_fields")
    assert str(caught.value) == (
        "search_fields names 'studio', which searchable_fields of the configuration leaves out of "
        "every search; it has name, text"
    )
    (warning,) = search(query="sea", search_fields=["studio^2", "name"]).warnings
    assert warning.startswith("search_fields names 'studio', which searchable_fields")
    for inside in ("text.en", "name"):
        assert search(query="sea", search_fields=[inside]).warnings == ()
    for document in ({}, {"searchable_fields": ["studio.name"]}):
        configuration, _ = parse_configuration(document, DEFAULT_LIMITS)
        asked = {"query": "sea", "search_fields": ["studio"]}
        assert parse_search(asked, configuration, DEFAULT_LIMITS).warnings == ()


@pytest.mark.parametrize(
    ("searchable", "asked", "expected"),
    [
        (["name^3", "text"], ["*"], (("name", 3.0), ("text", 1.0))),
        (["name^3", "text"], "*", (("name", 3.0), ("text", 1.0))),
        (["name^3", "text"], ["*^2", "text^5"], (("text", 5.0), ("name", 6.0), ("text", 2.0))),
        (["name^800"], ["*^2"], (("name", 1000.0),)),
        (["name^3", "*"], ["*"], (("name", 3.0), ("*", 1.0))),
        (["name^3", "*"], ["text^2"], (("text", 2.0),)),
        (None, ["*"], None),
        (None, ["*^2"], (("*", 2.0),)),
        (None, ["*", "name^3"], (("name", 3.0), ("*", 1.0))),
    ],
)
def test_a_star_stands_for_the_fields_that_the_configuration_searches(
    searchable: Any, asked: Any, expected: Any
) -> None:
    document = {} if searchable is None else {"searchable_fields": searchable}
    configuration, _ = parse_configuration(document, DEFAULT_LIMITS)
    found = parse_search({"search_fields": asked}, configuration, DEFAULT_LIMITS)
    assert (found.search_fields, found.warnings) == (expected, ())


def test_a_mistyped_facet_is_answered_with_the_nearest() -> None:
    for name, meant in (("taags", "; did you mean tags?"), ("zzz", "actors, country, tags")):
        with pytest.raises(NotFound) as caught:
            parse_facet({"name": name}, CONFIGURATION, DEFAULT_LIMITS)
        assert str(caught.value).endswith(meant)


def test_a_field_that_is_not_searched_is_a_warning_beside_a_star() -> None:
    found = search(query="sea", search_fields=["studio", "*"])
    assert found.search_fields is not None
    (warning,) = found.warnings
    assert warning.startswith("search_fields names 'studio', which searchable_fields")


@pytest.mark.parametrize(
    "name",
    [
        *("localtime", "posixrules", "posix/Europe/Vienna", "right/UTC", "Factory", "tzdata.zi"),
        *("", "Europe", "Europe/Wien", "../UTC", "/etc/localtime", "+01:00", "U\0TC"),
    ],
)
def test_a_time_zone_is_one_of_the_tz_database(name: str) -> None:
    with pytest.raises(InvalidRequest, match='such as "Europe/Vienna" or "UTC"'):
        search(facet_ranges={"made": {"calendar": "day", "time_zone": name}})
    for known in ("UTC", "Europe/Vienna", "EST5EDT", "Etc/GMT+1"):
        search(facet_ranges={"made": {"calendar": "day", "time_zone": known}})


def test_items_share_the_bytes_that_a_page_may_mark() -> None:
    most = DEFAULT_LIMITS.marked_page_bytes_max
    for per_page in (0, 1, 10, 1_000):
        for asked in ({"highlight": True}, {"snippet": True}):
            marks = search(per_page=per_page, **asked).marks
            assert marks is not None
            assert marks.text_bytes_max == DEFAULT_LIMITS.marked_text_bytes_max
            num_items = max(1, per_page)
            assert 0 <= most - marks.item_bytes_max * num_items < num_items


class TestDefaults:
    def test_no_parameters_ask_for_the_first_page_and_all_facets(self) -> None:
        found = search()

        assert (found.query, found.page, found.per_page, found.offset) == ("", 1, 10, 0)
        assert [spec.configuration.field for spec in found.facets] == ["actors", "country", "tags"]
        assert found.filters == ()

    def test_modes_come_from_the_configuration_unless_given(self) -> None:
        found = search(match="any")

        assert (found.match, found.prefix, found.typo) == ("any", "last", 1)
        assert found.search_fields == (SearchableField("name", 3.0), SearchableField("text", 1.0))

    def test_null_and_empty_are_absent(self) -> None:
        assert search(page=None, query=None, filters=None) == search()
        assert search_by_get("page=&query=&filters=&&x=") == search()


class TestSpellings:
    @pytest.mark.parametrize(
        ("by_get", "by_post"),
        [
            ("query=star+wars%21", {"query": "star wars!"}),
            ("page=2&per_page=5", {"page": 2, "per_page": "5"}),
            ("facet_fields=tags,country", {"facet_fields": ["tags", "country"]}),
            ("facets_fields=tags&facets_fields=country", {"facet_fields": ["tags", "country"]}),
            ('facet_fields=["tags"]', {"facet_fields": "tags"}),
            ("facet_fields=[]", {"facet_fields": []}),
            ("filters=" + quote('{"tags":["a b"]}'), {"filters": {"tags": "a b"}}),
            ("exclude_filters=" + quote('{"x":1}'), {"not_filters": {"x": [1]}}),
            ("sort=year:desc,name", {"sort": ["year:desc", "name:asc"]}),
            ("sort=year:desc&sort=name", {"sort": [{"field": "year", "order": "desc"}, "name"]}),
            ("sort_field=year&order=DESC", {"sort_field": "year", "order": "desc"}),
            ("highlight=true", {"highlight": True}),
            ("highlight=name,text", {"highlight": {"fields": ["name", "text"]}}),
            ("snippet=text:12", {"snippet": {"fields": ["text:12"]}}),
            ("distinct=brand", {"distinct": {"field": "brand"}}),
            ("typo=2&prefix=none&match=60%25", {"typo": 2, "prefix": "none", "match": "60%"}),
            ("show=score,timings", {"show": ["score", "timings"]}),
            ("search_fields=name^2,text", {"search_fields": ["name^2", "text"]}),
        ],
    )
    def test_query_string_and_body_mean_the_same(
        self, by_get: str, by_post: dict[str, Any]
    ) -> None:
        assert search_by_get(by_get) == search(**by_post)

    def test_texts_leave_the_parser_as_plain_texts(self) -> None:
        found = search_by_get("query=a&sort_field=b&fields=c&cursor=d&filter=e%20=%20f&match=any")

        for value in (found.query, found.sort[0].field, found.cursor, found.match):
            assert type(value) is str
        assert found.fields is not None
        assert type(found.fields[0]) is str

    def test_order_alone_reverses_insertion(self) -> None:
        assert search(order="desc").is_place_descending
        assert not search(order="desc", sort_field="year").is_place_descending

    def test_sort_keys(self) -> None:
        assert search(sort=["a:b:desc:missing=first", "_score", "_score:asc"]).sort == (
            SortKey("a:b", True, True),
            SortKey(None, True),
            SortKey(None, False),
        )
        assert search(sort="v:up:asc").sort == (SortKey("v:up"),)

    @pytest.mark.parametrize(
        ("sort", "said"),
        [
            ("v:up", "an order is asc or desc"),
            ("v:DESC", 'for example "v:desc"'),
            (["name", "v:descending"], 'for example "v:desc"'),
            ({"v": "desc"}, 'or "year:desc"'),
            ([{"v": "desc"}], 'or "year:desc"'),
        ],
    )
    def test_invalid_orders_are_answered_with_valid_ones(self, sort: Any, said: str) -> None:
        with pytest.raises(InvalidRequest) as caught:
            search(sort=sort)
        assert caught.value.code == "invalid_sort"
        assert said in caught.value.message


SHOP = parse_configuration(
    {
        "aggregations": {"category": {}, "price": {}},
        "hierarchies": {"category": {"path": "category", "separator": " > "}},
    }
)[0]


@pytest.mark.parametrize("text", ["3,7", "[3, 7]", " 3 , 7"])
def test_a_query_string_may_list_or_repeat_lengths(text: str) -> None:
    listed = parse_search(query_parameters(urlencode({"typo_lengths": text})), SHOP, DEFAULT_LIMITS)
    repeated = query_parameters("typo_lengths=3&typo_lengths=7")

    assert listed == parse_search(repeated, SHOP, DEFAULT_LIMITS)
    assert listed.typo_lengths == (3, 7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("boost", {"price": {"log": 0.3}}),
        ("distinct", {"field": "price", "limit": 2}),
        ("facet_cube", {"field": "price", "interval": 10}),
        ("facet_ranges", {"price": [{"from": 1, "to": 2}]}),
        ("facets", {"category": {"size": 3}}),
        ("filters", {"category": ["a"]}),
        ("highlight", {"fields": ["name"]}),
        *(("min_score", score) for score in (0, 7, 0.2236610916443169, 1e-7, 1e11, 10**12)),
        ("rules", [{"when": {"query": "a"}, "hide": [1]}]),
        ("snippet", {"fields": ["name:5"]}),
        ("sort", [{"field": "price", "order": "desc", "missing": "first"}, "name"]),
        ("sort", {"field": "price", "order": "desc"}),
        ("trees", ["category"]),
        ("trees", {"category": {"size": 3, "open": ["a > b"]}}),
    ],
)
def test_a_query_string_takes_the_json_of_a_body(name: str, value: Any) -> None:
    query_string = urlencode({name: json.dumps(value)})

    by_get = parse_search(query_parameters(query_string), SHOP, DEFAULT_LIMITS)

    assert by_get == parse_search({name: value}, SHOP, DEFAULT_LIMITS)


class TestFilters:
    def test_conjunction_decides_between_all_and_any(self) -> None:
        found = search(filters={"country": ["a", "b"], "tags": ["a", "b"], "other": ["a", "b"]})

        assert found.filters == (
            FilterClause(AllOf("country", ("a", "b"))),
            FilterClause(AnyOf("tags", ("a", "b")), "tags"),
            FilterClause(AnyOf("other", ("a", "b"))),
        )
        assert found.selected == {"country": {"a", "b"}, "tags": {"a", "b"}}
        assert found.filter_fields == {"other": "filters.other"}

    def test_request_may_change_a_conjunction(self) -> None:
        found = search(filters={"tags": ["a"]}, facets={"tags": {"conjunction": True}})

        assert found.filters == (FilterClause(AllOf("tags", ("a",))),)

    def test_values_are_named_as_facets_name_them(self) -> None:
        found = search(filters={"country": [1994, 9.0, True, "x", "x", "", 1e21]})

        assert found.filters[0].filter == AllOf("country", ("1994", "9", "true", "x", "", "1e+21"))

    def test_ranges_and_choices(self) -> None:
        found = search(
            filters={
                "price": {"gt": 1, "lte": 5.5},
                "date": {"gte": "2024-01-01"},
                "tags": {"any": ["a"], "none": ["b"], "exists": True},
                "country": {"all": ["x"]},
                "z": {"exists": False},
            }
        )

        assert [clause.filter for clause in found.filters] == [
            Range("price", 1, True, 5.5, False),
            Range("date", "2024-01-01"),
            And((AnyOf("tags", ("a",)), Not(AnyOf("tags", ("b",))), Exists("tags"))),
            AllOf("country", ("x",)),
            Not(Exists("z")),
        ]

    def test_range_facet_leaves_out_its_own_filter(self) -> None:
        found = search(filters={"price": {"gte": 1}}, facet_ranges={"price": {"interval": 10}})
        strict = search(facet_ranges={"price": {"interval": 10}}, facet_mode="strict")

        assert found.filters[0].facet == "price"
        assert found.ranges == (RangeRequest("price", interval=10.0, leaves_out_own=True),)
        assert not strict.ranges[0].leaves_out_own

    @pytest.mark.parametrize("bounds", [{"from": 2000, "to": 1990}, {"from": "b", "to": "a"}])
    def test_reversed_range_is_refused(self, bounds: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequest, match="is reversed"):
            search(facet_ranges={"price": [{"to": 1}, bounds]})

    def test_not_filters_exclude_any_value(self) -> None:
        found = search(not_filters={"country": ["a", "b"], "nope": []})

        assert found.filters == (FilterClause(Not(AnyOf("country", ("a", "b")))),)
        assert not found.filter_fields

    def test_expression_is_one_more_clause(self) -> None:
        found = search(filter="year >= 1990 AND NOT poster EXISTS", filters={"tags": ["a"]})

        assert len(found.filters) == 2
        assert found.filter_fields == {"year": "filter"}


class TestFacets:
    def test_unknown_facet_fields_are_ignored(self) -> None:
        found = search(facet_fields=["nope", "tags", "tags"])

        assert [spec.configuration.field for spec in found.facets] == ["tags"]

    def test_options_change_one_facet_only(self) -> None:
        found = search(
            facets={"tags": {"size": 3, "sort": ["key:desc"], "query": "dr", "offset": 20}}
        )

        actors, country, tags = found.facets
        assert actors.configuration is CONFIGURATION.facets["actors"]
        assert country.offset == 0
        assert (tags.configuration.size, tags.key_query, tags.offset) == (3, "dr", 20)
        assert tags.configuration.sort == (("key", True),)
        assert CONFIGURATION.facets["tags"].size == 10

    def test_facet_route(self) -> None:
        found = facet(
            name="actors", page=3, per_page=100, search_query="star", query="a*", facet_query="b",
            filters={"tags": ["x"]},
        )  # fmt: skip

        assert (found.facet.field, found.offset) == ("actors", 200)
        assert (found.key_pattern, found.key_query) == ("a*", "b")
        assert (found.search.query, found.search.per_page) == ("star", 0)
        assert [spec.configuration.field for spec in found.search.facets] == ["actors"]
        assert found.search.selected == {"tags": {"x"}}

    def test_facet_route_needs_a_facet(self) -> None:
        with pytest.raises(InvalidRequest) as caught:
            facet(page=2)
        assert caught.value.code == "missing_name"
        with pytest.raises(NotFound) as unknown:
            facet(name="nope")
        assert unknown.value.code == "facet_not_found"


class TestMistakes:
    def test_all_are_reported_each_with_its_parameter(self) -> None:
        assert mistakes(page=0, per_page="x", order="up", filters={"tags": [None]}, pgae=1) == [
            ("invalid_page", "page"),
            ("invalid_per_page", "per_page"),
            ("unknown_parameter", "pgae"),
            ("invalid_order", "order"),
            ("invalid_filters", "filters.tags"),
        ]

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            ({"q": "sea"}, "unknown parameter 'q'; here, query is the text"),
            ({"facets_by": "groups"}, 'option of distinct: {"distinct": {"facets_by": …}}'),
            (
                {"percentiles": [50]},
                'option of facets: {"facets": {"<field>": {"percentiles": …}}}',
            ),
            ({"pin": [1]}, 'option of rules: {"rules": [{"pin": …}]}'),
            ({"limit": 5}, "per_page is the number"),
            ({"hitsPerPage": 5}, "per_page is the number"),
            ({"offset": 5}, "page counts from 1"),
            ({"facet_by": "tags"}, "facet_fields lists"),
            ({"filter_by": "a:b"}, "filter takes an expression"),
            ({"filters": "year > 1990"}, "an expression goes to filter"),
            ({"filters": QueryText("year > 1990")}, "an expression goes to filter"),
            ({"filter": {"tags": ["a"]}}, "filters takes an object"),
            ({"facets": ["tags"]}, "names of facets go to facet_fields"),
            ({"facets": QueryText("tags")}, "names of facets go to facet_fields"),
            ({"facet_fields": {"tags": {}}}, "facets takes options"),
            ({"stored_fields": ["name"]}, "fields lists what to return"),
            ({"default_field": "name"}, "search_fields lists where to search"),
            ({"pretty": True}, "responses are JSON"),
            ({"userToken": "x"}, "clicks go to POST /_analytics/clicks"),
            ({"facet_fields[]": "tags"}, "list with commas: facet_fields=a,b"),
            ({"filters[tags][0]": "a"}, 'has filters as JSON: filters={"'),
            ({"page[number]": "2"}, "page has one value"),
            ({"PER_PAGE": 5}, "did you mean per_page?"),
            ({"filters": QueryText("%7B%22tags%22%3A%5B%5D%7D")}, "percent-encoded once"),
            (
                {"highlight": {"fields": {"name": {}}}},
                "highlight.fields must be a list of names, suc",
            ),
            ({"snippet": {"fields": {"name": {}}}}, "snippet.fields must be a list of names, such"),
        ],
    )
    def test_what_other_engines_call_it_is_answered_with_ours(
        self, raw: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(InvalidRequest) as raised:
            parse_search(raw, CONFIGURATION, DEFAULT_LIMITS)
        assert message in raised.value.message

    @pytest.mark.parametrize(
        ("name", "in_search", "in_facet", "in_suggest"),
        [
            ("q", "query is the text", "facet_query is the beginning", "query is the text"),
            ("limit", "per_page is the", "per_page is the", "size is the number of sugg"),
            ("facetQuery", "GET /{index}/facet", "facet_query is the", "GET /{index}/facet"),
            ("facetName", "GET /{index}/facet", "name names the facet", "GET /{index}/facet"),
            ("track_total_hits", "totals and", "totals and", "totals and"),
        ],
    )
    def test_each_page_names_its_own_equivalent(
        self, name: str, in_search: str, in_facet: str, in_suggest: str
    ) -> None:
        for parse, raw, message in (
            (parse_search, {}, in_search),
            (parse_facet, {"name": "tags"}, in_facet),
            (parse_suggest, {}, in_suggest),
        ):
            with pytest.raises(InvalidRequest) as raised:
                parse({**raw, name: "x"}, CONFIGURATION, DEFAULT_LIMITS)
            assert f"unknown parameter '{name}'; here, {message}" in raised.value.message

    @pytest.mark.parametrize("value", [{"a": 1}, {}, [[]], [None]])
    def test_opened_nodes_are_paths(self, value: Any) -> None:
        asked = {"trees": {"category": {"open": value}}}
        with pytest.raises(InvalidRequest) as raised:
            parse_search(asked, SHOP, DEFAULT_LIMITS)
        assert (raised.value.code, raised.value.param) == ("invalid_trees", "trees.category.open")

    @pytest.mark.parametrize("value", ["a > b", 5, True])
    def test_one_opened_node_needs_no_list(self, value: Any) -> None:
        (tree,) = parse_search({"trees": {"category": {"open": value}}}, SHOP, DEFAULT_LIMITS).trees
        assert tree.opened == {{5: "5", True: "true"}.get(value, value)}

    @pytest.mark.parametrize("wanted", ["chosen", "opened"])
    def test_trees_are_not_shown_to_any_depth(self, wanted: str) -> None:
        def asked(num_levels: int) -> dict[str, Any]:
            node = " > ".join("a" for _ in range(num_levels))
            if wanted == "chosen":
                return {"filters": {"category": [node]}, "trees": ["category"]}
            return {"trees": {"category": {"open": [node]}}}

        parse_search(asked(TREE_LEVELS_MAX), SHOP, DEFAULT_LIMITS)
        with pytest.raises(InvalidRequest, match="shows 100 levels at most") as raised:
            parse_search(asked(TREE_LEVELS_MAX + 1), SHOP, DEFAULT_LIMITS)
        assert (raised.value.code, raised.value.param) == ("invalid_trees", "trees.category")

    def test_points_are_boosted_from_a_point(self) -> None:
        for options in ({"log": 1}, {"decay": 5, "origin": 3}, {"decay": "5d"}):
            assert mistakes(boost={"_geo": options}) == [("invalid_boost", "boost._geo")]

    @pytest.mark.parametrize("value", [1, 0, 1.0, "1", "True", "", []])
    def test_a_boolean_is_true_or_false(self, value: Any) -> None:
        assert search(did_you_mean="false") == search(did_you_mean=False)
        assert [path for _, path in mistakes(did_you_mean=value)] == ["did_you_mean"]

    def test_no_foreign_name_is_ours(self) -> None:
        assert not set(FOREIGN) & set(SEARCH_BY_NAME)

    @pytest.mark.parametrize(
        ("asked", "hint"),
        [
            ({"perpage": 3}, "did you mean per_page"),
            ({"genres": "Drama"}, r"; filters restricts a field: \{\"brand\": .*; known are boost"),
            ({"query": {"match": {"a": "b"}}}, "conditions go to filter or filters"),
            ({"filter": ["a = b"]}, "must be one text; join conditions by AND or OR"),
        ],
    )
    def test_a_mistake_suggests_the_intended_name(self, asked: dict[str, Any], hint: str) -> None:
        with pytest.raises(InvalidRequest, match=hint):
            search(**asked)

    def test_path_leads_to_the_mistake(self) -> None:
        for parameters, path in (
            ({"filters": {"price": {"gte": []}}}, "filters.price"),
            ({"filters": {"price": {"near": 1}}}, "filters.price.near"),
            ({"facets": {"tags": {"size": "big"}}}, "facets.tags.size"),
            ({"facet_ranges": {"price": [{"from": 1}, {}]}}, "facet_ranges.price[1]"),
            ({"sort": ["year", 3]}, "sort[1]"),
            ({"distinct": {"field": "a", "limit": 0}}, "distinct.limit"),
            ({"distinct": {"field": "a", "hits": 2, "sizes": "yes"}}, "distinct.sizes"),
        ):
            assert mistakes(**parameters)[0][1] == path

    def test_hundred_thousand_wrong_names_cost_little(self) -> None:
        with pytest.raises(InvalidRequest) as caught:
            search(**{f"nope{i}": 1 for i in range(100_000)})

        assert len(caught.value.details["errors"]) == DEFAULT_LIMITS.errors_reported_max

    def test_searches_need_an_index_each(self) -> None:
        named, _ = parse_searches({"searches": [{"index": "a", "page": 2}]}, DEFAULT_LIMITS)

        assert (named[0].index, named[0].raw) == ("a", {"page": 2})
        wrong: dict[str, Any]
        for wrong in ({}, {"searches": []}, {"searches": [{"page": 1}]}, {"x": 1}):
            with pytest.raises(InvalidRequest):
                parse_searches(wrong, DEFAULT_LIMITS)


class TestLimitsAtTheirEdges:
    @pytest.mark.parametrize(
        ("right", "wrong", "code"),
        [
            ({"page": DEFAULT_LIMITS.page_max}, {"page": 10**9}, "invalid_page"),
            ({"per_page": 1000}, {"per_page": 1001}, "invalid_per_page"),
            (
                {"query": "x" * DEFAULT_LIMITS.query_chars_max},
                {"query": "x" * (DEFAULT_LIMITS.query_chars_max + 1)},
                "query_too_long",
            ),
            (
                {"filters": {"tags": ["a"] * 1024}},
                {"filters": {"tags": ["a"] * 1024, "country": ["a"]}},
                "too_many_filter_values",
            ),
            (
                {"filters": {f"f{i}": [] for i in range(32)}},
                {"filters": {f"f{i}": [] for i in range(33)}},
                "too_many_filter_fields",
            ),
            ({"filters": {"t": "é" * 256}}, {"filters": {"t": "é" * 257}}, "invalid_filters"),
            ({"sort": ["a"] * 16}, {"sort": ["a"] * 17}, "invalid_sort"),
            ({"timeout_ms": 60_000}, {"timeout_ms": 60_001}, "invalid_timeout_ms"),
            (
                {"distinct": {"field": "a", "limit": 100}},
                {"distinct": {"field": "a", "limit": 101}},
                "invalid_distinct",
            ),
            ({"sort_field": "é" * 128}, {"sort_field": "é" * 129}, "invalid_sort_field"),
        ],
    )  # fmt: skip
    def test_edge(self, right: dict[str, Any], wrong: dict[str, Any], code: str) -> None:
        search(**right)
        assert mistakes(**wrong)[0][0] == code


def test_options_of_a_tree_are_an_object() -> None:
    for wrong in (0, False, ""):
        with pytest.raises(InvalidRequest, match=r"^trees\.category must be an object"):
            parse_search({"trees": {"category": wrong}}, SHOP, DEFAULT_LIMITS)
    by_name = parse_search({"trees": ["category"]}, SHOP, DEFAULT_LIMITS)
    without_options: tuple[Any, ...] = (None, {}, [])
    for empty in without_options:
        assert parse_search({"trees": {"category": empty}}, SHOP, DEFAULT_LIMITS) == by_name


def test_the_threshold_of_scores_may_be_text_as_pages_may() -> None:
    assert search(min_score="0.5", page="2").min_score == 0.5


def test_distinct_forms() -> None:
    assert search(distinct="brand").distinct == Distinct("brand", 1)
    assert search_by_get("distinct=" + quote('{"field":"a","limit":3}')).distinct == Distinct(
        "a", 3
    )


# --- whatever is sent ------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10)
    | st.sampled_from(["tags", "country", "asc", "desc", "*", "true", "{", "[1", "a:desc", "0"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=6)
            | st.sampled_from(
                ["tags", "any", "gte", "lt", "size", "field", "fields", "from", "to"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


def outcome(function: Callable[[], T]) -> T | ServiceError:
    """Return what a function returns, or the service's own error that it raises."""
    try:
        return function()
    except ServiceError as error:
        return error


@given(
    st.dictionaries(
        st.sampled_from(sorted(SEARCH_BY_NAME)) | st.text(max_size=6), json_values, max_size=6
    )
)
def test_any_body_is_parsed_or_refused(document: dict[str, Any]) -> None:
    found = outcome(lambda: parse_search(document, CONFIGURATION, DEFAULT_LIMITS))

    if isinstance(found, ServiceError):
        assert 400 <= found.http_status < 500
        json.dumps(found.details)
    else:
        assert found.page >= 1
        assert 0 <= found.per_page <= DEFAULT_LIMITS.per_page_max


@given(st.dictionaries(st.sampled_from(sorted(FACET_BY_NAME)), json_values, max_size=5))
def test_any_facet_body_is_parsed_or_refused(document: dict[str, Any]) -> None:
    raw = {"name": "tags", **document}
    found = outcome(lambda: parse_facet(raw, CONFIGURATION, DEFAULT_LIMITS))

    assert isinstance(found, FacetParameters) or 400 <= found.http_status < 500


names_and_values = st.tuples(
    st.sampled_from(sorted(SEARCH_BY_NAME)), st.text(max_size=12) | json_values.map(json.dumps)
)
query_strings = st.one_of(
    st.text(max_size=60),
    st.text(alphabet='abcpg_=&%+;[]{}":,0123456789FfEe\udc80\udcff', max_size=60),
    st.lists(names_and_values, max_size=5).map(
        lambda pairs: "&".join(f"{name}={quote(value)}" for name, value in pairs)
    ),
)


@given(query_strings)
def test_any_query_string_is_parsed_or_refused(query_string: str) -> None:
    found = outcome(lambda: search_by_get(query_string))

    assert isinstance(found, SearchParameters) or 400 <= found.http_status < 500


@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    found = outcome(lambda: decode_object(body, DEFAULT_LIMITS))

    codes = ("invalid_json", "invalid_body", "invalid_encoding")
    assert isinstance(found, dict) or found.code in codes


def test_a_body_that_is_no_text_is_called_so() -> None:
    with pytest.raises(InvalidRequest, match=r"send it with Content-Encoding: gzip") as caught:
        decode_object(gzip.compress(b"{}"), DEFAULT_LIMITS)
    assert caught.value.code == "invalid_encoding"
    latin = '{"query": "café"}'.encode("latin-1")
    with pytest.raises(InvalidRequest, match=r"byte 15 is not UTF-8$") as caught:
        decode_object(latin, DEFAULT_LIMITS)
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]"), ('["]]", ', "]")])
def test_depth_of_a_body_is_counted_outside_of_texts(opening: str, closing: str) -> None:
    def body(depth: int) -> bytes:
        return f'{{"deep": {opening * (depth - 1)}1{closing * (depth - 1)}}}'.encode()

    assert "deep" in decode_object(body(64), DEFAULT_LIMITS)
    with pytest.raises(InvalidRequest, match="64 \\(limit json_depth_max\\) deep"):
        decode_object(body(65), DEFAULT_LIMITS)
    flat = "".join(['{"a": [', ", ".join(['"[[{{"'] * 99), "]}"])
    assert len(decode_object(flat.encode(), DEFAULT_LIMITS)["a"]) == 99


@pytest.mark.parametrize(
    ("query_string", "cut_off"),
    [
        ("query=H&M", "M"),
        ("filter=tags=a&&year>1990", "year>1990"),
        ("filter=tags+%3D+a+&&+year+%3E+1990", " year > 1990"),
    ],
)
def test_what_follows_an_ampersand_in_a_value_is_not_ignored(
    query_string: str, cut_off: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        search_by_get(query_string)
    assert (raised.value.code, raised.value.param) == ("unknown_parameter", cut_off)
    assert f"'{cut_off}'; & within a value is %26" in raised.value.message


@pytest.mark.parametrize("query_string", ["query=a&", "&query=a", "query=a&&page=", "query=a&page"])
def test_what_is_empty_or_has_no_value_is_absent(query_string: str) -> None:
    assert search_by_get(query_string) == search_by_get("query=a")


@given(
    st.dictionaries(
        st.sampled_from(["query", "filter", "cursor"]), st.text(min_size=1, max_size=20)
    )
)
def test_texts_survive_percent_encoding(texts: dict[str, str]) -> None:
    query_string = "&".join(f"{name}={quote(value, safe='')}" for name, value in texts.items())

    assert query_parameters(query_string) == texts


@pytest.mark.parametrize("inner", [{"same": {"size": ["M"]}}, {"same": [], "gte": 3}])
def test_conditions_on_one_element_are_not_nested(inner: Any) -> None:
    """They were ignored, so a deletion by them removed all items."""
    shirts = parse_configuration({"nested": ["variants"]})[0]
    filters = {"variants": {"same": {"size": inner}}}

    with pytest.raises(InvalidRequest) as caught:
        parse_search({"filters": filters}, shirts, DEFAULT_LIMITS)

    assert caught.value.param == "filters.variants.same.size.same"


def test_what_follows_from_parameters_is_not_carried_over_to_a_changed_search() -> None:
    films = parse_configuration({})[0]
    raw = {"query": "sea", "sort_field": "year", "filter": "price > 3"}
    search = parse_search(raw, films, DEFAULT_LIMITS)
    assert [one.field for one in search.field_needs] == ["price", "year"]
    assert (len(search.comparisons_to_check), search.may_need_warnings) == (1, True)

    changed = structs.replace(search, query="star", sort=(), filters=(), filter_fields={})

    assert (changed.field_needs, changed.comparisons_to_check) == ((), ())
    assert (changed.may_need_warnings, changed.query_key[0]) == (False, "star")
