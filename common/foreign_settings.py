"""Settings of other engines, and what takes their place in a configuration (pure data).

Algolia, Elasticsearch and OpenSearch, itemsjs, Meilisearch, Typesense.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_FACETS: Final = 'aggregations names the facets: {"brand": {"conjunction": false}}'
_SEARCHED: Final = 'searchable_fields lists where to search, with weights: ["name^3", "text"]'
_SORTED: Final = "any field can be sorted by"
_NO_SCHEMA: Final = "items need no schema"
_RANKING: Final = 'boost raises scores by numbers: {"popularity": {"log": 0.3}}'
_ID: Final = "an item's id is its field id"

FOREIGN_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("attributesForFaceting", "facets", "filterableAttributes", "filterable", "facetable"),
            _FACETS,
        ),
        **dict.fromkeys(
            ("attributesToIndex", "query_by", "searchableAttributes", "search_fields"), _SEARCHED
        ),
        **dict.fromkeys(("sortableAttributes", "sortable", "default_sorting_field"), _SORTED),
        **dict.fromkeys(("fields", "mappings", "properties", "schema"), _NO_SCHEMA),
        **dict.fromkeys(("customRanking", "ranking_rules", "rankingRules"), _RANKING),
        **dict.fromkeys(("primaryKey", "primary_key", "id_field", "custom_id_field", "_id"), _ID),
        "isExactSearch": "typo=0 and prefix=none are parameters of searches",
        **dict.fromkeys(("typoTolerance", "fuzziness", "num_typos"), 'typo is "auto", 0, 1 or 2'),
        **dict.fromkeys(
            ("attributeForDistinct", "distinct", "distinctAttribute"),
            "distinct is a parameter of searches",
        ),
        **dict.fromkeys(
            ("attributesToRetrieve", "displayedAttributes"), "fields is a parameter of searches"
        ),
    }
)
"""Key of another engine to the end of a sentence about it."""
