"""Parameters of other engines and their equivalents here (pure data).

Elasticsearch and OpenSearch, Solr, Algolia, Meilisearch, Typesense, itemsapi. They are not aliases:
what looks alike often means something else there (an offset from 0, a filter's syntax). So a
request that uses one is rejected, with a hint at ours.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
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
_SNIPPETS: Final = 'snippet takes fields: {"fields": ["description:20"]}'
_MATCH: Final = 'match is "all", "any", "last", "auto" or "75%"'
_PHRASES: Final = 'query takes phrases: "dark knight", in quotes'
_LENGTHS: Final = "typo_lengths takes letters from which on words may have typos: [5, 9]"
_DISTINCT: Final = 'distinct takes a field: {"field": "brand", "limit": 1}'
_RULES: Final = "rules pin, hide, boost and bury items, in a request or in the configuration"
_BOOST: Final = 'boost multiplies scores by fields: {"popularity": {"log": 0.3}}'
_PLACES: Final = 'filter takes _geoRadius(48.2, 16.4, 2000), sort takes "_geo(48.2,16.4):asc"'
_DETAILS: Final = 'show takes "score, score_details"'
_WORDS: Final = "the index's configuration has language, stop_words and synonyms"
_EXACT: Final = "totals and counts are always exact"
_VECTORS: Final = "there is no search by vectors"
_SUGGEST: Final = "GET /{index}/suggest completes what is being typed"

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
            ("highlightPreTag", "highlightPostTag", "highlight_start_tag", "highlight_end_tag"),
            _MARKS,
        ),
        **dict.fromkeys(("pre_tags", "post_tags", "hl.fl"), _MARKS),
        **dict.fromkeys(
            ("attributesToCrop", "attributesToSnippet", "snippet_threshold", "cropLength"),
            _SNIPPETS,
        ),
        **dict.fromkeys(
            ("cropMarker", "snippetEllipsisText", "highlight_affix_num_tokens", "fragment_size"),
            _SNIPPETS,
        ),
        **dict.fromkeys(
            ("typo_tolerance", "typoTolerance", "num_typos", "fuzziness"),
            'typo is "auto", 0, 1 or 2',
        ),
        **dict.fromkeys(
            ("min_len_1typo", "min_len_2typo", "minWordSizefor1Typo", "minWordSizefor2Typos"),
            _LENGTHS,
        ),
        **dict.fromkeys(
            ("matchingStrategy", "operator", "default_operator", "minimum_should_match", "mm"),
            _MATCH,
        ),
        **dict.fromkeys(
            ("removeWordsIfNoResults", "optionalWords", "drop_tokens_threshold"), _MATCH
        ),
        **dict.fromkeys(("match_phrase", "slop", "advancedSyntax"), _PHRASES),
        **dict.fromkeys(("queryType", "match_phrase_prefix"), 'prefix is "last", "none" or "all"'),
        **dict.fromkeys(
            ("group_by", "collapse", "attributeForDistinct", "group_limit", "group.field"),
            _DISTINCT,
        ),
        **dict.fromkeys(
            ("showRankingScore", "explain", "getRankingInfo", "showRankingScoreDetails"), _DETAILS
        ),
        **dict.fromkeys(("profile", "debug"), 'show takes "timings"'),
        "showMatchesPosition": _MARKS,
        "rankingScoreThreshold": "min_score is the least score of a hit",
        **dict.fromkeys(("timeout", "search_cutoff_ms"), "timeout_ms is the deadline"),
        **dict.fromkeys(
            ("pinned_hits", "hidden_hits", "optionalFilters", "ruleContexts", "override_tags"),
            _RULES,
        ),
        **dict.fromkeys(("enable_overrides", "enableRules", "elevateIds", "bq"), _RULES),
        **dict.fromkeys(
            ("customRanking", "ranking", "rankingRules", "function_score", "script_score", "bf"),
            _BOOST,
        ),
        **dict.fromkeys(
            ("aroundLatLng", "aroundRadius", "insideBoundingBox", "insidePolygon"), _PLACES
        ),
        **dict.fromkeys(("geo_distance", "geo_bounding_box", "near", "pt"), _PLACES),
        **dict.fromkeys(
            ("term", "terms", "range", "wildcard", "nested", "exists", "should", "must_not"),
            _FILTER,
        ),
        **dict.fromkeys(("ids", "id"), 'filter takes ids: "id IN [1, 2]"'),
        **dict.fromkeys(("facet.field", "facet.query", "facet.range"), _FACETS),
        **dict.fromkeys(
            ("sortFacetValuesBy", "facet.sort", "facet.limit", "facet.mincount"), _VALUES
        ),
        **dict.fromkeys(
            ("sortOrder", "sort_order", "direction"),
            'sort takes keys with their order: "year:desc"',
        ),
        **dict.fromkeys(
            ("ignorePlurals", "queryLanguages", "removeStopWords", "stopwords", "stop_words"),
            _WORDS,
        ),
        **dict.fromkeys(
            ("language", "lang", "locale", "locales", "analyzer", "enable_synonyms", "synonyms"),
            _WORDS,
        ),
        **dict.fromkeys(
            ("track_total_hits", "exhaustiveFacetCount", "exhaustive_search", "facet_strategy"),
            _EXACT,
        ),
        **dict.fromkeys(
            ("hybrid", "vector", "vector_query", "knn", "retrieveVectors", "semanticSearch"),
            _VECTORS,
        ),
        **dict.fromkeys(("autocomplete", "suggest", "complete"), _SUGGEST),
        "spellcheck": "did_you_mean looks for another spelling",
    }
)
"""Foreign name to its equivalent in a search, as the end of a sentence."""

_FOREIGN_ELSEWHERE: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "facet_query": {
            **dict.fromkeys(
                ("q", "text", "search"),
                "facet_query is the beginning of a value, search_query a text of the items",
            ),
            **dict.fromkeys(("facet", "field", "facetName", "attribute"), "name names the facet"),
            **dict.fromkeys(
                ("facetQuery", "starts_with"), "facet_query is the beginning of a value"
            ),
        },
        "size": dict.fromkeys(
            ("limit", "rows", "count", "hitsPerPage", "per_page", "num"),
            "size is the number of suggestions",
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
