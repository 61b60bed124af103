"""The table of Algolia's search parameters that are honoured (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from coordinator.algolia import parameter_readers as readers
from coordinator.algolia.search_draft import AlgoliaDraft

Schema = dict[str, Any]

_BOOLEAN: Final[Schema] = {"type": ["boolean", "string"]}
_COUNT: Final[Schema] = {"type": ["integer", "string"]}
_METRES: Final[Schema] = {"type": ["number", "string"]}
_TEXT: Final[Schema] = {"type": "string"}
_TEXTS: Final[Schema] = {"anyOf": [{"type": "array", "items": _TEXT}, _TEXT]}
_GROUPS: Final[Schema] = {
    "anyOf": [
        {"type": "array", "items": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}},
        _TEXT,
    ]
}
_OBJECT: Final[Schema] = {
    "anyOf": [
        {"type": "object"},
        {"type": "array", "maxItems": 0, "title": "as PHP writes {}"},
        _TEXT,
    ]
}
_AREAS: Final[Schema] = {
    "anyOf": [
        {
            "type": "array",
            "items": {
                "anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]
            },
        },
        _TEXT,
    ]
}


class Row(NamedTuple):
    """One parameter that is honoured."""

    name: str
    read: Callable[[AlgoliaDraft, Any], None]
    schema: Schema
    description: str


ROWS: Final = (
    Row("query", readers.read_query, _TEXT, "Full-text query; empty: all items."),
    Row("page", readers.read_page, _COUNT, "Page number, from 0."),
    Row("hitsPerPage", readers.read_hits_per_page, _COUNT,
        "Hits of a page, 20 by default."),
    Row("offset", readers.read_offset, _COUNT, "Hits to leave out; instead of page."),
    Row("length", readers.read_length, _COUNT, "Hits to return; with offset."),
    Row("filters", readers.read_filters, _TEXT,
        "Expression: brand:Apple AND (price < 10 OR price:20 TO 30) AND NOT _tags:old."),
    Row("facetFilters", readers.read_facet_filters, _GROUPS,
        'Values: ["brand:Apple", ["color:red", "color:-blue"]], outer AND, inner OR.'),
    Row("numericFilters", readers.read_numeric_filters, _GROUPS,
        'Comparisons: ["price >= 10", ["year:1990 TO 1999", "year = 2024"]].'),
    Row("tagFilters", readers.read_tag_filters, _GROUPS, "Values of the field _tags."),
    Row("facets", readers.read_facets, _TEXTS,
        'Facets to count; "*": all that are configured.'),
    Row("maxValuesPerFacet", readers.read_values_per_facet, _COUNT, "100 by default."),
    Row("sortFacetValuesBy", readers.read_facet_sort, {"enum": ["count", "alpha"]},
        "Which values of a facet come first."),
    Row("distinct", readers.read_distinct, {"type": ["boolean", "integer", "string"]},
        "Hits per value of the setting attributeForDistinct."),
    Row("facetingAfterDistinct", readers.read_counted_groups, _BOOLEAN,
        "Whether facets count values of attributeForDistinct instead of hits."),
    Row("aroundLatLng", readers.read_around, _TEXT,
        "A point such as 48.2,16.4: the nearest hits come first, unless the name says otherwise."),
    Row("aroundRadius", readers.read_radius, _METRES,
        "Metres around aroundLatLng; all, the default, is everywhere."),
    Row("insideBoundingBox", readers.read_boxes, _AREAS,
        "Two opposite corners, lat,lng,lat,lng; several boxes: in any of them."),
    Row("insidePolygon", readers.read_polygons, _AREAS,
        "Corners, lat,lng,lat,lng,…; several polygons: in any of them. Ignored beside boxes."),
    Row("attributesToRetrieve", readers.read_retrieved, _TEXTS,
        'Fields of hits; "*": all, "-name": all but these.'),
    Row("attributesToHighlight", readers.read_highlighted, _TEXTS,
        "Fields of _highlightResult."),
    Row("attributesToSnippet", readers.read_snipped, _TEXTS,
        'Fields of _snippetResult, with a number of words: ["text:20"].'),
    Row("highlightPreTag", readers.read_pre, _TEXT, "<em> by default."),
    Row("highlightPostTag", readers.read_post, _TEXT, "</em> by default."),
    Row("snippetEllipsisText", readers.read_ellipsis, _TEXT, "Where a snippet was cut."),
    Row("restrictHighlightAndSnippetArrays", readers.read_restricted_arrays, _BOOLEAN,
        "Leave out elements of arrays without a match."),
    Row("restrictSearchableAttributes", readers.read_searched, _TEXTS,
        "Fields to search, with the weights that the index gives them."),
    Row("queryType", readers.read_query_type,
        {"enum": ["prefixLast", "prefixAll", "prefixNone"]},
        "Which words also match as the beginning of a word."),
    Row("typoTolerance", readers.read_typo_tolerance, _BOOLEAN, "true or false."),
    Row("optionalWords", readers.read_optional_words, _TEXTS,
        "All words of the query, or none of them."),
    Row("removeWordsIfNoResults", readers.read_remove_words, {"enum": ["none", "lastWords"]},
        "Whether words are left out from the end until there are hits."),
    Row("advancedSyntax", readers.read_advanced_syntax, _BOOLEAN,
        'Whether "phrases" and -exclusions have a meaning; true by default.'),
    Row("ignorePlurals", readers.read_plurals, {}, "As the index's language has it."),
    Row("removeStopWords", readers.read_stop_words, {},
        "As the index's stop_words have it."),
    Row("queryLanguages", readers.read_languages, _TEXTS, "The index's language."),
    Row("synonyms", readers.read_synonyms, _BOOLEAN, "Whether the index's synonyms apply."),
    Row("enableRules", readers.read_enable_rules, _BOOLEAN,
        "Whether the index's rules apply."),
    Row("renderingContent", readers.read_rendering_content, _OBJECT,
        "For the page, such as the order of its facets; the answer repeats it."),
    Row("responseFields", readers.read_members, _TEXTS, "Members of the answer."),
)  # fmt: skip
BY_NAME: Final[Mapping[str, Row]] = {row.name: row for row in ROWS}

CURSOR_ROW: Final = Row("cursor", readers.read_cursor, _TEXT, "Of the answer before; browse only.")


def parameters_schema(**more: Schema) -> Schema:
    """Return the JSON Schema of the parameters of a search, for the documentation."""
    properties = {row.name: {**or_null(row.schema), "description": row.description} for row in ROWS}
    params = {
        **or_null({"anyOf": [_TEXT, {"type": "object"}]}),
        "description": "All of these as one text.",
    }
    return {"type": "object", "properties": {**more, **properties, "params": params}}


def or_null(schema: Schema) -> Schema:
    """Return the schema of a parameter for which null means: not given."""
    return {"anyOf": [schema, {"type": "null"}]}
