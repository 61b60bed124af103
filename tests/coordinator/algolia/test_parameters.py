"""Every parameter of Algolia's protocol is honoured, ignored for a reason, or refused by name."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import orjson
import pytest

from common.errors import InvalidRequest, NotFound
from common.index_configuration_parser import parse_configuration
from common.limits import DEFAULT_LIMITS
from common.protocol.messages import Distinct, FilterClause, SortKey
from common.query_syntax_tree import AnyOf, GeoBox, GeoRadius, Or, Range
from coordinator.algolia.parameter_interactions import POST, PRE
from coordinator.algolia.parameter_table import BY_NAME, ROWS
from coordinator.algolia.responses import highlighted_value, search_answer
from coordinator.algolia.search_request import (
    AlgoliaSearch,
    SearchedIndex,
    Style,
    flattened,
    read_facet_search,
    read_search,
)
from coordinator.algolia.settings_translation import changed, shown
from coordinator.algolia.unsupported_parameters import IGNORED, UNSUPPORTED
from coordinator.parameters.facet_specs import BucketOrder
from coordinator.read.facets.bucket_selection import Bucket
from coordinator.read.facets.facet_result_types import FacetResult
from coordinator.read.search_results import SearchResult, ShardSummary, Timings

CONFIGURATION, _ = parse_configuration(
    {
        "aggregations": {"brand": {"conjunction": False}, "size": {}},
        "searchable_fields": ["name^3", "text"],
        "language": "english",
        "synonyms": [["tv", "television"]],
    }
)
OF_SEARCHES = """
similarQuery filters facetFilters optionalFilters numericFilters tagFilters sumOrFiltersScores
restrictSearchableAttributes facets facetingAfterDistinct page offset length aroundLatLng
aroundLatLngViaIP aroundRadius aroundPrecision minimumAroundRadius insideBoundingBox insidePolygon
naturalLanguages ruleContexts personalizationImpact userToken getRankingInfo synonyms clickAnalytics
analytics analyticsTags percentileComputation enableABTest attributesToRetrieve ranking
relevancyStrictness attributesToHighlight attributesToSnippet highlightPreTag highlightPostTag
snippetEllipsisText restrictHighlightAndSnippetArrays hitsPerPage minWordSizefor1Typo
minWordSizefor2Typos typoTolerance allowTyposOnNumericTokens disableTypoToleranceOnAttributes
ignorePlurals removeStopWords queryLanguages decompoundQuery enableRules enablePersonalization
queryType removeWordsIfNoResults mode semanticSearch advancedSyntax optionalWords
disableExactOnAttributes exactOnSingleWordQuery alternativesAsExact advancedSyntaxFeatures distinct
replaceSynonymsInHighlight minProximity responseFields maxValuesPerFacet sortFacetValuesBy
attributeCriteriaComputedByMinProximity attributeCriteriaComputedBy renderingContent
enableReRanking reRankingApplyFilter
""".split()  # noqa: SIM905
"""As the types of algoliasearch 5.64 have them."""


SHOP = SearchedIndex("shop", CONFIGURATION, {})


def read(settings: dict[str, Any] | None = None, /, **params: Any) -> AlgoliaSearch:
    index = SearchedIndex("shop", CONFIGURATION, settings or {})
    return read_search(index, params, DEFAULT_LIMITS)


OF_INDEXES = """
attributesForFaceting replicas paginationLimitedTo unretrievableAttributes
disableTypoToleranceOnWords attributesToTransliterate camelCaseAttributes decompoundedAttributes
indexLanguages disablePrefixOnAttributes allowCompressionOfIntegerArray maxFacetHits
numericAttributesForFiltering separatorsToIndex searchableAttributes customNormalization
attributeForDistinct keepDiacriticsOnCharacters customRanking ranking
""".split()  # noqa: SIM905
"""Settings, in the documentation of Algolia."""


def test_every_parameter_of_a_search_has_its_place_and_one_only() -> None:
    places = [set(BY_NAME), set(UNSUPPORTED), set(IGNORED)]

    assert set(OF_SEARCHES) <= set().union(*places)
    assert sum(map(len, places)) == len(set().union(*places))


@pytest.mark.parametrize("name", OF_INDEXES)
def test_every_setting_is_known(name: str) -> None:
    """None of them is called unknown, with a guess at what was meant."""
    with pytest.raises(InvalidRequest) as caught:
        changed({}, {name: [{"something": "else"}]}, DEFAULT_LIMITS)
    assert caught.value.code in ("unsupported_parameter", "invalid_parameter")
    assert caught.value.param == name


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_what_cannot_be_honoured_is_an_error_that_names_it(name: str) -> None:
    neutral, reason = UNSUPPORTED[name]
    with pytest.raises(InvalidRequest) as caught:
        read(**{name: "something else"})

    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", name)
    assert reason in caught.value.message
    for value in neutral:
        read(**{name: value})
        read(
            **{
                name: {True: "true", False: "false"}.get(value, value)
                if isinstance(value, bool)
                else value
            }
        )


def test_rules_can_be_switched_off() -> None:
    assert read().search.rules is None
    assert read(enableRules="true").search.rules is None
    assert read(enableRules=False).search.rules == ()
    assert read({"enableRules": False}).search.rules == ()
    asked, _ = read_facet_search(SHOP, "brand", {"enableRules": False}, DEFAULT_LIMITS)
    assert asked.search.rules == ()


@pytest.mark.parametrize("name", sorted(IGNORED))
def test_what_concerns_analytics_is_ignored(name: str) -> None:
    assert read(**{name: ["x"]}).search == read().search


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("hitsPerPage", -1, "invalid_per_page"),
        ("hitsPerPage", 10**6, "invalid_per_page"),
        ("page", "x", "invalid_page"),
        ("query", 3, "invalid_parameter"),
        ("queryType", "prefix", "invalid_parameter"),
        ("typoTolerance", "min", "unsupported_parameter"),
        ("typoTolerance", "maybe", "invalid_parameter"),
        ("removeWordsIfNoResults", "allOptional", "unsupported_parameter"),
        ("optionalWords", ["red"], "unsupported_parameter"),
        ("ignorePlurals", False, "unsupported_parameter"),
        ("removeStopWords", True, "unsupported_parameter"),
        ("queryLanguages", ["de"], "unsupported_parameter"),
        ("synonyms", False, "unsupported_parameter"),
        ("distinct", True, "unsupported_parameter"),
        ("filters", "brand:", "invalid_filter"),
        ("facetFilters", ["brand"], "invalid_parameter"),
        ("numericFilters", ["price"], "invalid_parameter"),
        ("aroundLatLng", "48", "invalid_parameter"),
        ("aroundLatLng", "91,0", "invalid_parameter"),
        ("aroundLatLng", "48,x", "invalid_parameter"),
        ("aroundRadius", "near", "invalid_parameter"),
        ("aroundRadius", -1, "invalid_parameter"),
        ("insideBoundingBox", "1,2,3", "invalid_parameter"),
        ("insideBoundingBox", [[1, 2, 3, "nan"]], "invalid_parameter"),
        ("insidePolygon", [1, 2, 3, 4], "invalid_parameter"),
        ("insidePolygon", [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5]], "invalid_parameter"),
        ("sortFacetValuesBy", "size", "invalid_parameter"),
        ("maxValuesPerFacet", 10**9, "invalid_parameter"),
        ("restrictSearchableAttributes", [""], "invalid_search_fields"),
        ("hitsPerpage", 3, "unknown_parameter"),
    ],
)
def test_mistakes_name_the_parameter(name: str, value: Any, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**{"query": "red lamp", name: value})

    assert caught.value.code == code
    assert caught.value.param is not None
    assert caught.value.param.startswith(name)


def test_places_restrict_and_order() -> None:
    around = read(aroundLatLng="48.2, 16.4", aroundRadius=2000).search
    (key,) = around.sort
    assert (key.field, key.point, key.is_descending) == ("_geo", (48.2, 16.4), False)
    assert [one.filter for one in around.filters] == [GeoRadius("_geo", 48.2, 16.4, 2000.0)]
    assert read(aroundLatLng="48.2,16.4", aroundRadius="all").search.filters == ()
    assert read(aroundLatLng="", insideBoundingBox=[], aroundRadius="5").search == read().search

    box = GeoBox("_geo", 48.0, 49.0, 16.0, 17.0)
    for corners in ("49,17,48,16", "48,16,49,17", [[49, 16, 48, 17]], "[[48,17,49,16]]"):
        (clause,) = read(insideBoundingBox=corners).search.filters
        assert clause.filter == Or((Or((box,)),))
    (clause,) = read(insideBoundingBox=[[10, -170, -10, 170], [1, 1, 2, 2]]).search.filters
    pacific = GeoBox("_geo", -10.0, 10.0, 170.0, -170.0)
    assert clause.filter == Or((Or((pacific, GeoBox("_geo", 1.0, 2.0, 1.0, 2.0))),))

    # A map that shows more than half of the world.
    for corners in ("60,150,-10,-150", "-10,-150,60,150"):
        (clause,) = read(insideBoundingBox=corners).search.filters
        assert clause.filter == Or((Or((GeoBox("_geo", -10.0, 60.0, -150.0, 150.0),)),))

    # Several boxes may be one list.
    (clause,) = read(insideBoundingBox="48,16,49,17,1,1,2,2").search.filters
    assert clause.filter == Or((Or((box, GeoBox("_geo", 1.0, 2.0, 1.0, 2.0))),))

    # A box is instead of a polygon, and either is instead of a radius.
    polygon = [0, 0, 0, 5, 5, 5]
    for areas in ({"insidePolygon": polygon, "insideBoundingBox": "48,16,49,17"},
                  {"insideBoundingBox": "48,16,49,17", "insidePolygon": polygon}):  # fmt: skip
        found = read(aroundLatLng="48,16", aroundRadius=1, **areas).search
        assert [one.filter for one in found.filters] == [Or((Or((box,)),))]
        assert found.sort == ()
    (clause,) = read(insidePolygon=polygon, insideBoundingBox="").search.filters
    assert isinstance(clause.filter, Or)
    assert "GeoPolygon" in str(clause.filter)


def test_facets_after_distinct_count_groups() -> None:
    settings = {"attributeForDistinct": "brand"}
    assert read(settings, distinct=True).search.distinct == Distinct("brand")
    counted = read(settings, distinct=2, facetingAfterDistinct=True).search.distinct
    assert counted == Distinct("brand", 2, True)
    assert read(settings, facetingAfterDistinct=True).search.distinct is None


def test_all_mistakes_are_listed() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(page=-1, similarQuery="lamp", pages=3)

    assert [one["param"] for one in caught.value.details["errors"]] == [
        "page",
        "similarQuery",
        "pages",
    ]


def test_what_is_honoured() -> None:
    asked = read(
        query='red "lamp" -old',
        advancedSyntax=False,
        page=2,
        hitsPerPage=7,
        queryType="prefixAll",
        typoTolerance="false",
        removeWordsIfNoResults="lastWords",
        restrictSearchableAttributes="name",
        attributesToRetrieve=["*", "-secret"],
        attributesToSnippet=["text:12"],
        highlightPreTag="<b>",
        responseFields=["hits"],
        facets="*",
        maxValuesPerFacet="5",
        sortFacetValuesBy="alpha",
        ignorePlurals=["en"],
        queryLanguages=["en"],
    )
    search = asked.search

    assert (search.query.split(), search.page, search.per_page) == (["red", "lamp", "old"], 3, 7)
    assert (search.prefix, search.typo, search.match) == ("all", 0, "last")
    assert search.search_fields == CONFIGURATION.searchable_fields[:1]  # type: ignore[index]
    assert search.marks is not None
    assert search.marks.snippet_fields == (("text", 12),)
    assert [spec.configuration.size for spec in search.facets] == [5, 5]
    assert search.facets[0].order.keys == (("key", False),)
    assert (asked.style.pre, asked.style.excluded) == ("<b>", ("secret",))


def test_filters_of_all_kinds_are_joined() -> None:
    search = read(
        filters="price < 5",
        facetFilters=[["brand:A", "brand:B"], "size:L"],
        numericFilters="year=2",
        tagFilters=["new"],
    ).search

    assert [clause.filter for clause in search.filters] == [
        Range("price", upper=5, is_upper_open=True),
        Range("year", lower=2, upper=2),
        AnyOf("_tags", ("new",)),
        AnyOf("brand", ("A", "B")),
        AnyOf("size", ("L",)),
    ]
    assert set(search.dispensable_fields) == {
        ("filters", "price"),
        ("numericFilters", "year"),
        ("tagFilters", "_tags"),
    }


def test_facets_that_are_none_are_left_out_with_a_warning() -> None:
    """Pages that search several indexes ask each for the facets of all, in all their forms."""
    requested = read(facets=["colour", "brand"], facetFilters=[["colour:red"], "size:L"])
    index = SearchedIndex("shop", CONFIGURATION, {})
    counts = read_search(
        index,
        {"facets": "colour", "facetFilters": [["colour:red"]]},
        DEFAULT_LIMITS,
        choices=frozenset(["colour"]),
    )

    assert [spec.configuration.field for spec in requested.search.facets] == ["brand"]
    assert requested.search.warnings == (
        "facets names 'colour', which is not a facet; the facets are brand, size",
    )
    assert requested.search.dispensable_fields == (("facetFilters", "colour"),)
    assert counts.search.facets == ()
    assert [clause.facet for clause in counts.search.filters] == [None]


def test_offset_and_length_are_a_page_from_anywhere() -> None:
    asked = read(offset=13, length=4)

    assert (asked.search.offset, asked.search.per_page, asked.style.has_offset) == (13, 4, True)


def test_chosen_facet_leaves_out_its_own_filter() -> None:
    params = {"facets": ["brand", "size"], "facetFilters": [["brand:A"], ["size:L"]]}
    asked = read_search(SHOP, params, DEFAULT_LIMITS, choices=frozenset(("brand",)))

    assert FilterClause(AnyOf("brand", ("A",)), "brand") in asked.search.filters
    assert FilterClause(AnyOf("size", ("L",))) in asked.search.filters
    by_field = {spec.configuration.field: spec.configuration for spec in asked.search.facets}
    assert (by_field["brand"].conjunction, by_field["size"].conjunction) == (False, True)


def test_chosen_value_of_a_facet_is_no_branch_of_the_tree_of_that_name() -> None:
    """A query answered by another search has the hits that it has alone."""
    trees = {"category": {"path": "category", "separator": " > "}}
    document = {"aggregations": {"category": {}}, "hierarchies": trees}
    shop = SearchedIndex("shop", parse_configuration(document)[0], {})
    params = {"facets": ["category"], "facetFilters": [["category:Home"]]}
    wanted = AnyOf("category", ("Home",))

    for choices, facet in ((frozenset(("category",)), "category"), (frozenset(), None)):
        search = read_search(shop, params, DEFAULT_LIMITS, choices=choices).search
        assert search.filters == (FilterClause(wanted, facet),)


@pytest.mark.parametrize("name", ["offset", "length"])
def test_browsing_takes_no_offset(name: str) -> None:
    """A cursor goes on after the last hit: hits would be left out of one page, or of each."""
    with pytest.raises(InvalidRequest) as caught:
        read_search(SHOP, {"cursor": "*", name: 2}, DEFAULT_LIMITS, allows_cursor=True)
    assert caught.value.param == "cursor"


def test_settings_are_valid_with_those_that_they_come_with() -> None:
    settings = {
        "indexLanguages": ["en"],
        "ignorePlurals": True,
        "queryLanguages": ["en"],
        "attributesForFaceting": ["brand"],
        "facets": ["brand"],
    }
    document = changed({}, settings, DEFAULT_LIMITS)

    assert document["language"] == "en"
    assert document["algolia"]["ignorePlurals"] is True
    with pytest.raises(InvalidRequest, match="which lacks language"):
        changed(document, {"indexLanguages": None, "ignorePlurals": True}, DEFAULT_LIMITS)


def test_attributes_are_shown_as_they_were_sent() -> None:
    settings = {
        "attributesForFaceting": ["searchable(size)", "filterOnly(secret)", "brand"],
        "searchableAttributes": ["name, unordered(brand)", "unordered(text)"],
    }
    document = changed({}, settings, DEFAULT_LIMITS)
    configuration, _ = parse_configuration(document)

    seen = shown(document, configuration)
    assert {name: seen[name] for name in settings} == settings
    assert changed(document, seen, DEFAULT_LIMITS) == document

    document["aggregations"] = {"brand": {}}
    document["searchable_fields"] = ["text"]
    seen = shown(document, parse_configuration(document)[0])
    assert seen["attributesForFaceting"] == ["brand", "filterOnly(secret)"]
    assert seen["searchableAttributes"] == ["text"]
    assert changed(document, dict.fromkeys(settings), DEFAULT_LIMITS) == {"aggregations": {}}


@pytest.mark.parametrize(
    ("settings", "meant"),
    [
        ({"attributesForFaceting": ["brand", "serchable(size)"]}, "searchable"),
        ({"attributesForFaceting": ["filteronly(size)"]}, "filterOnly"),
        ({"searchableAttributes": ["name,unorderd(brand)"]}, "unordered"),
    ],
)
def test_a_mistyped_modifier_is_not_a_field(settings: dict[str, Any], meant: str) -> None:
    with pytest.raises(InvalidRequest, match=f"did you mean {meant}?"):
        changed({}, settings, DEFAULT_LIMITS)


def test_a_field_may_have_parentheses() -> None:
    settings = {"attributesForFaceting": ["weight(kg)", "searchable(price(eur))"]}
    document = changed({}, settings, DEFAULT_LIMITS)
    assert list(document["aggregations"]) == ["weight(kg)", "price(eur)"]


def test_a_radius_is_one_number() -> None:
    for wrong in ("near", "1,2", [1, 2], [], True):
        with pytest.raises(
            InvalidRequest, match='aroundRadius must be a distance in metres, or "a'
        ):
            read(aroundLatLng="48,16", aroundRadius=wrong)


def test_order_in_the_name_of_an_index() -> None:
    asked = read_search(SHOP._replace(sort=("year:desc", "name:asc")), {}, DEFAULT_LIMITS)

    assert asked.search.sort == (SortKey("year", True), SortKey("name"))


def test_settings_are_defaults_that_a_request_overrides() -> None:
    settings = {"hitsPerPage": 3, "attributeForDistinct": "brand", "distinct": 2}

    assert read(settings).search.per_page == 3
    assert read(settings, hitsPerPage=5).search.per_page == 5
    assert read(settings).search.distinct == Distinct("brand", 2)
    assert read(settings, distinct=False).search.distinct is None


def test_all_words_may_be_optional() -> None:
    assert read(query="red lamp", optionalWords="red lamp").search.match == "any"
    assert read(query="red lamp", optionalWords=["Red", "lamp"]).search.match == "any"
    assert read(query="red lamp", optionalWords=["blue"]).search.match == "all"


@pytest.mark.parametrize(
    "request_",
    [
        {"query": "a b", "hitsPerPage": "3"},
        {"params": "query=a%20b&hitsPerPage=3"},
        {"params": {"query": "a b"}, "hitsPerPage": "3"},
        {"params": "?query=a+b&hitsPerPage=9", "hitsPerPage": "3", "page": None},
    ],
)
def test_parameters_come_beside_each_other_or_in_params(request_: dict[str, Any]) -> None:
    assert flattened(request_) == {"query": "a b", "hitsPerPage": "3"}


def test_search_in_the_values_of_a_facet() -> None:
    params = {"facetQuery": "ap", "query": "lamp", "filters": "size:L", "maxFacetHits": 4}
    facet, _ = read_facet_search(SHOP, "brand", params, DEFAULT_LIMITS)

    assert (facet.key_query, facet.per_page, facet.search.query) == ("ap", 4, "lamp")
    assert facet.search.filters == (FilterClause(AnyOf("size", ("L",))),)
    (spec,) = facet.search.facets
    assert spec.order == BucketOrder((("count", True), ("key", False)), hides_zero=True)
    by_key, _ = read_facet_search(SHOP, "brand", {"sortFacetValuesBy": "alpha"}, DEFAULT_LIMITS)
    assert by_key.search.facets[0].order == BucketOrder((("key", False),), hides_zero=True)
    with pytest.raises(InvalidRequest, match=r"^maxFacetHits"):
        read_facet_search(SHOP, "brand", {"maxFacetHits": -1}, DEFAULT_LIMITS)
    with pytest.raises(NotFound, match="there is no facet"):
        read_facet_search(SHOP, "colour", {}, DEFAULT_LIMITS)


def test_every_row_is_described() -> None:
    assert all(row.description for row in ROWS)


def test_blank_filters_restrict_nothing() -> None:
    assert read(filters=" ").search.filters == ()
    assert len(read(filters="", facetFilters=["brand:A"]).search.filters) == 1


@pytest.mark.parametrize(
    ("value", "typed", "marked"),
    [
        ("Oslo", " OS", "<em>Os</em>lo"),
        ("Titan Android", "an", "Titan <em>An</em>droid"),
        ("İstanbul", "ist", "<em>İst</em>anbul"),
        ("Café Noir", "noir caf", "<em>Caf</em>é <em>Noir</em>"),
        ("Cafe\u0301 Noir", "cafe", "<em>Cafe\u0301</em> Noir"),
        ("Straße", "stras", "<em>Straß</em>e"),
        ("東京都", "東京", "<em>東京</em>都"),
        ("東京都", "東京都", "<em>東京都</em>"),
        ("C++ Café", "c++", "<em>C++</em> Café"),
        ("Samsung Galaxy", "samsnug", "<em>Samsung</em> Galaxy"),
        ("", "a", ""),
        ("Oslo", "", "Oslo"),
        ("İİ Izmir", "izm", "İİ <em>Izm</em>ir"),
        ("İ", "i", "<em>İ</em>"),
        ("Oslo", "x", "Oslo"),
    ],
)
def test_the_typed_letters_of_a_value_are_marked(value: str, typed: str, marked: str) -> None:
    assert highlighted_value(value, typed, Style()) == marked


def test_threads_do_not_share_an_analyzer() -> None:
    """Long responses are made on several threads; an analyzer has buffers."""

    def marks_itself(name: str) -> bool:
        style = Style(pre="[", post="]")
        return all(highlighted_value(name, name, style) == f"[{name}]" for _ in range(2_000))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(marks_itself, ("élan", "détente", "ü", "façade")))
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    ("query", "text", "level"),
    [
        ("red lamp", "[Red] [Lamp]", "full"),
        ("red lamp", "[lamp]", "partial"),
        ("red lamp", "none", "none"),
        ("lamp lamp", "[lamp]", "full"),
        ("lamp -blue", "[lamp]", "full"),
        ("lamp -", "[lamp]", "full"),
        ("god father", "The [Godfather]", "full"),
        ("god father", "[god]", "partial"),
        ("run far", "[runs] and [running]", "partial"),
        ("a lamp", "[lamp]", "partial"),
        ("café lam", "[Cafe] [lamps]", "full"),
        ("red televsion", "[red] [television]", "full"),
        ("tv red", "[television]", "partial"),
        ("spiderman", "[Spider]-[Man]", "full"),
    ],
)
def test_a_text_that_has_every_word_of_the_query_has_the_full_level(
    query: str, text: str, level: str
) -> None:
    assert highlighted(query, text)["matchLevel"] == level


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        ("[lamp]", True),
        ("[lamp], [red]!", True),
        ("“[lamp]”_", True),
        ("[lam]p", False),
        ("a [lamp]", False),
        ("[lamp] 7", False),
        ("[lamp] é", False),
        (f"{'[lamp] ' * 20_000}x", False),
    ],
)
def test_a_text_whose_words_are_all_marked_is_fully_highlighted(text: str, is_whole: bool) -> None:
    assert highlighted("lamp", text)["fullyHighlighted"] is is_whole


def test_a_text_without_a_mark_is_not_said_to_be_highlighted() -> None:
    assert highlighted("lamp", "sofa") == {
        "value": "sofa", "matchLevel": "none", "matchedWords": []
    }  # fmt: skip


def test_an_answer_says_whether_all_values_of_a_facet_are_listed() -> None:
    buckets = [Bucket("a", 2, False), Bucket("b", 1, False)]
    for size, is_whole in ((3, True), (2, False)):
        facet = FacetResult("brand", "Brand", 0, buckets)
        result = msgspec.structs.replace(found(b"{}"), facets=[facet])
        answer = search_answer(read(facets=["brand"], maxValuesPerFacet=size), result, 7_000)
        assert answer["exhaustive"]["facetValues"] is is_whole


def test_an_answer_repeats_the_rendering_content_of_the_request_or_the_settings() -> None:
    content = {"facetOrdering": {"facets": {"order": ["size", "brand"]}}}
    for requested in (
        read(renderingContent=content),
        read(renderingContent=orjson.dumps(content).decode()),
        read({"renderingContent": content}),
    ):
        assert search_answer(requested, found(b"{}"), 0)["renderingContent"] == content
    assert search_answer(read(), found(b"{}"), 0)["renderingContent"] == {}
    with pytest.raises(InvalidRequest, match="renderingContent must be an object"):
        read(renderingContent=7)


def highlighted(query: str, text: str) -> dict[str, Any]:
    """Return the highlight of a text, whose marks are brackets, in a hit."""
    marked = text.replace("[", PRE).replace("]", POST)
    item = orjson.dumps({"name": re.sub(r"[][]", "", text), "_highlight": {"name": marked}})
    answer = search_answer(read(query=query), found(item), 0)
    result: dict[str, Any] = orjson.loads(orjson.dumps(answer["hits"][0]))["_highlightResult"]
    shown: dict[str, Any] = result["name"]
    return shown


def found(item: bytes) -> SearchResult:
    return SearchResult(
        page=1, per_page=10, total=1, items=[item], facets=[], ranges=[], seq=0, ignored_words=[],
        shards=ShardSummary(1, 1), timings=Timings(1, 1, 1, 1),
    )  # fmt: skip
