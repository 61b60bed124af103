"""Parameters of other engines and their equivalents here (pure data).

Elasticsearch and OpenSearch, Solr, Algolia, Meilisearch, Typesense, itemsapi. They are not aliases:
what looks alike often means something else there (an offset from 0, a filter's syntax). So a
request that uses one is rejected, with a hint at ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_PAGE: Final = "page counts from 1 and per_page is its size; cursor goes on after any hit"
_NUMBER: Final = "per_page is the number of hits"
_FIELDS: Final = 'fields lists what to return: ["name", "year"]'
_SEARCHED: Final = 'search_fields lists where to search, with weights: ["name^3", "text"]'
_FACETS: Final = 'facet_fields lists the facets to return: ["tags", "year"]'
_FILTER: Final = (
    'filter takes an expression (year >= 1990 AND tags = a), filters an object ({"tags": ["a"]})'
)
_SORT: Final = 'sort takes keys: "year:desc,name"'
_MARKS: Final = 'highlight takes fields and marks: {"fields": ["name"], "pre": "<em>"}'
_VALUES: Final = 'facets takes options by facet: {"tags": {"size": 20}}'

FOREIGN: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("q", "search", "searchText", "query_string", "text"), "query is the text"),
        **dict.fromkeys(
            ("limit", "size", "rows", "count", "hitsPerPage", "hits_per_page", "page_size"), _NUMBER
        ),
        **dict.fromkeys(
            ("more_like_this", "mlt", "like", "similar"), "similar_to takes the id of an item"
        ),
        **dict.fromkeys(("perPage", "length", "pageSize", "num"), _NUMBER),
        **dict.fromkeys(("offset", "from", "start", "skip", "pageNumber"), _PAGE),
        **dict.fromkeys(("search_after", "scroll", "cursorMark"), "cursor goes on after any hit"),
        **dict.fromkeys(
            ("facet_by", "facets_by", "aggs", "aggregations", "facetsDistribution", "facet"),
            _FACETS,
        ),
        **dict.fromkeys(("max_facet_values", "maxValuesPerFacet", "facet_size"), _VALUES),
        **dict.fromkeys(("facet_query", "facetQuery", "facetName"), "GET /{index}/facet has that"),
        **dict.fromkeys(
            ("filter_by", "filterBy", "facetFilters", "numericFilters", "tagFilters", "fq"), _FILTER
        ),
        **dict.fromkeys(("post_filter", "where", "bool", "must"), _FILTER),
        **dict.fromkeys(
            ("query_by", "qf", "attributesToSearchOn", "restrictSearchableAttributes"), _SEARCHED
        ),
        **dict.fromkeys(("query_by_weights", "searchable_fields", "searchFields"), _SEARCHED),
        **dict.fromkeys(
            ("attributesToRetrieve", "include_fields", "_source", "fl", "select"), _FIELDS
        ),
        **dict.fromkeys(("sort_by", "sortBy", "order_by", "orderBy", "sorting"), _SORT),
        **dict.fromkeys(
            ("attributesToHighlight", "highlight_fields", "highlight_full_fields", "hl"), _MARKS
        ),
        **dict.fromkeys(
            ("attributesToCrop", "attributesToSnippet", "snippet_threshold"),
            'snippet takes fields: {"fields": ["description:20"]}',
        ),
        **dict.fromkeys(
            ("typo_tolerance", "typoTolerance", "num_typos", "fuzziness"),
            'typo is "auto", 0, 1 or 2',
        ),
        **dict.fromkeys(
            ("matchingStrategy", "operator", "default_operator", "minimum_should_match", "mm"),
            'match is "all", "any", "last" or "75%"',
        ),
        **dict.fromkeys(
            ("group_by", "collapse", "attributeForDistinct"),
            'distinct takes a field: {"field": "brand", "limit": 1}',
        ),
        **dict.fromkeys(
            ("showRankingScore", "explain", "getRankingInfo"), 'show takes "score, score_details"'
        ),
        **dict.fromkeys(("timeout", "search_cutoff_ms"), "timeout_ms is the deadline"),
    }
)
"""Foreign name to its equivalent here, as the end of a sentence."""

MISPLACED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "filters": "an expression goes to filter",
        "not_filters": "an expression goes to filter: NOT (tags = a)",
        "facets": "names of facets go to facet_fields",
    }
)
"""JSON parameter to the parameter that takes plain text instead, as the end of a sentence."""
