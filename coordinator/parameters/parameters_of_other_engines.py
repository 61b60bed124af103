"""Parameters of other engines and their equivalents here (pure data).

Elasticsearch and OpenSearch, Solr, Algolia, Meilisearch, Typesense, itemsapi. They are not aliases:
what looks alike often means something else there (an offset from 0, a filter's syntax). So a
request that uses one is rejected, with a hint at ours.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Final

from common.settings_of_other_engines import hints_by_name

_FILTER: Final = (
    'filter takes an expression (year >= 1990 AND tags = a), filters an object ({"tags": ["a"]})'
)

FOREIGN: Final = hints_by_name(
    {
        "query is the text": "q search searchText query_string text",
        "per_page is the number of hits": (
            "limit size rows count hitsPerPage hits_per_page page_size perPage length pageSize num"
        ),
        "similar_to takes the id of an item": "more_like_this mlt like similar",
        "page counts from 1 and per_page is its size; cursor goes on after any hit": (
            "offset from start skip pageNumber"
        ),
        "cursor goes on after any hit": "search_after scroll cursorMark",
        'facet_fields lists the facets to return: ["tags", "year"]': (
            "facet_by aggs aggregations facetsDistribution facet facet.field facet.query "
            "facet.range"
        ),
        'facets takes options by facet: {"tags": {"size": 20}}': (
            "max_facet_values maxValuesPerFacet facet_size sortFacetValuesBy facet.sort "
            "facet.limit facet.mincount"
        ),
        "GET /{index}/facet has that": "facet_query facetQuery facetName",
        _FILTER: (
            "filter_by filterBy facetFilters numericFilters tagFilters fq post_filter where bool "
            "must term terms range wildcard nested exists should must_not"
        ),
        'search_fields lists where to search, with weights: ["name^3", "text"]': (
            "query_by qf attributesToSearchOn restrictSearchableAttributes query_by_weights "
            "searchable_fields searchFields multi_match default_field"
        ),
        'fields lists what to return: ["name", "year"]': (
            "attributesToRetrieve include_fields _source fl select stored_fields docvalue_fields "
            "script_fields responseFields include"
        ),
        'sort takes keys: "year:desc,name"': "sort_by sortBy order_by orderBy sorting",
        'highlight takes fields and marks: {"fields": ["name"], "pre": "<em>"}': (
            "attributesToHighlight highlight_fields highlight_full_fields hl highlightPreTag "
            "highlightPostTag highlight_start_tag highlight_end_tag pre_tags post_tags hl.fl "
            "showMatchesPosition"
        ),
        'snippet takes fields: {"fields": ["description:20"]}': (
            "attributesToCrop attributesToSnippet snippet_threshold cropLength cropMarker "
            "snippetEllipsisText highlight_affix_num_tokens fragment_size"
        ),
        'typo is "auto", 0, 1 or 2': "typo_tolerance typoTolerance num_typos fuzziness",
        "typo_lengths takes letters from which on words may have typos: [5, 9]": (
            "min_len_1typo min_len_2typo minWordSizefor1Typo minWordSizefor2Typos"
        ),
        'match is "all", "any", "last", "auto" or "75%"': (
            "matchingStrategy operator default_operator minimum_should_match mm "
            "removeWordsIfNoResults optionalWords drop_tokens_threshold"
        ),
        'query takes phrases: "dark knight", in quotes': "match_phrase slop advancedSyntax",
        'prefix is "last", "none" or "all"': "queryType match_phrase_prefix",
        'distinct takes a field: {"field": "brand", "limit": 1}': (
            "group_by collapse attributeForDistinct group_limit group.field"
        ),
        'show takes "score, score_details"': (
            "showRankingScore explain getRankingInfo showRankingScoreDetails"
        ),
        'show takes "timings"': "profile debug",
        "min_score is the least score of a hit": "rankingScoreThreshold",
        "timeout_ms is the deadline": "timeout search_cutoff_ms",
        "rules pin, hide, boost and bury items, in a request or in the configuration": (
            "pinned_hits hidden_hits optionalFilters ruleContexts override_tags enable_overrides "
            "enableRules elevateIds bq"
        ),
        'boost multiplies scores by fields: {"popularity": {"log": 0.3}}': (
            "customRanking ranking rankingRules function_score script_score bf"
        ),
        'filter takes _geoRadius(48.2, 16.4, 2000), sort takes "_geo(48.2,16.4):asc"': (
            "aroundLatLng aroundRadius insideBoundingBox insidePolygon geo_distance "
            "geo_bounding_box near pt"
        ),
        'filter takes ids: "id IN [1, 2]"': "ids id",
        'sort takes keys with their order: "year:desc"': "sortOrder sort_order direction",
        "the index's configuration has language, stop_words and synonyms": (
            "ignorePlurals queryLanguages removeStopWords stopwords stop_words language lang "
            "locale locales analyzer enable_synonyms synonyms"
        ),
        "totals and counts are always exact": (
            "track_total_hits exhaustiveFacetCount exhaustive_search facet_strategy"
        ),
        "there is no search by vectors": (
            "hybrid vector vector_query knn retrieveVectors semanticSearch"
        ),
        "GET /{index}/suggest completes what is being typed": "autocomplete suggest complete",
        "did_you_mean looks for another spelling": "spellcheck",
        "words are found together and apart without it": "split_join_tokens",
        "responses are JSON, and no parameter changes that": "pretty format wt",
        "searches are counted without it; clicks go to POST /_analytics/clicks": (
            "clickAnalytics analytics analyticsTags userToken"
        ),
    }
)
"""Foreign name to its equivalent in a search, as the end of a sentence."""

_FOREIGN_ELSEWHERE: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "facet_query": hints_by_name(
            {
                "facet_query is the beginning of a value, search_query a text of the items": (
                    "q text search"
                ),
                "name names the facet": "facet field facetName attribute",
                "facet_query is the beginning of a value": "facetQuery starts_with",
            }
        ),
        "size": hints_by_name(
            {
                "size is the number of suggestions": "limit rows count hitsPerPage per_page num",
            }
        ),
    }
)
"""The same for other pages, by a parameter that only they have."""


def equivalent(name: str, parameters: Container[str]) -> str | None:
    """Return what a page has in place of a foreign parameter; None for an unknown name."""
    for only_there, foreign in _FOREIGN_ELSEWHERE.items():
        if only_there in parameters and name in foreign:
            return foreign[name]
    return FOREIGN.get(name)


MISPLACED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "filters": "an expression goes to filter",
        "not_filters": "an expression goes to filter: NOT (tags = a)",
        "facets": "names of facets go to facet_fields",
    }
)
"""JSON parameter to the parameter that takes plain text instead, as the end of a sentence."""
