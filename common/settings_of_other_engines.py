"""Settings of other engines, and what takes their place in a configuration (pure data).

Algolia, Elasticsearch and OpenSearch, itemsjs, Meilisearch, Typesense.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def hints_by_name(names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the hint for each foreign name.

    Args:
        names: by hint, the names that it is for, with spaces between them.
    """
    return MappingProxyType({name: hint for hint, of in names.items() for name in of.split()})


FOREIGN_SETTINGS: Final = hints_by_name(
    {
        'aggregations names the facets: {"brand": {"conjunction": false}}': (
            "attributesForFaceting facets filterableAttributes filterable facetable"
        ),
        'searchable_fields lists where to search, with weights: ["name^3", "text"]': (
            "attributesToIndex query_by searchableAttributes search_fields"
        ),
        "any field can be sorted by": "sortableAttributes sortable default_sorting_field",
        "items need no schema": "fields mappings properties schema",
        'boost raises scores by numbers: {"popularity": {"log": 0.3}}': (
            "customRanking ranking_rules rankingRules"
        ),
        "an item's id is its field id": "primaryKey primary_key id_field custom_id_field _id",
        "typo=0 and prefix=none are parameters of searches": "isExactSearch",
        'typo is "auto", 0, 1 or 2': "typoTolerance fuzziness num_typos",
        "distinct is a parameter of searches": "attributeForDistinct distinct distinctAttribute",
        "fields is a parameter of searches": "attributesToRetrieve displayedAttributes",
    }
)
"""Key of another engine to the end of a sentence about it."""
