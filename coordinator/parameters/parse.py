"""Requests: raw parameters → frozen, typed parameters; all mistakes are reported at once.

    target of the request line ─┐  raw.query_parameters
                                ├─▶ raw ──parse_search──▶ SearchParameters, or InvalidRequest
    body (JSON object) ─────────┘  raw.decode_object                     the body wins

`table` defines the name, the values and the reader of every parameter, in one place; `reader`
reads them, `typed` holds the results. Nothing here touches a socket, a clock or a shard, and only
`ServiceError` is raised.

Rules: objects and arrays in a query string are JSON; lists of names may also be comma-separated
lists or repeated parameters. An empty text in a query string and `null` in a body count as absent.
Integers are one to nine ASCII digits.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from common.configuration import IndexConfiguration
from common.errors import InvalidRequest, NotFound
from common.limits import Limits
from coordinator.parameters.raw import RawParameters
from coordinator.parameters.reader import ParameterReader
from coordinator.parameters.table import FACET_BY_NAME, SEARCH_BY_NAME
from coordinator.parameters.typed import (
    FacetParameters,
    FacetWish,
    NamedSearch,
    SearchParameters,
    facet_wish,
)

__all__ = [
    "FacetParameters",
    "FacetWish",
    "NamedSearch",
    "SearchParameters",
    "parse_facet",
    "parse_search",
    "parse_searches",
]


def parse_search(
    raw: RawParameters, configuration: IndexConfiguration, limits: Limits
) -> SearchParameters:
    """Parse the parameters of a search.

    Args:
        raw: query string and body, merged.
        configuration: of the index to search.
        limits: on sizes and counts.

    Raises:
        InvalidRequest: with the first mistake; if there are more, `details["errors"]` lists all.

    Cost: some microseconds; proportional to the parameters given, not to those that exist.
    """
    reader = ParameterReader(configuration, limits)
    if raw:
        reader.read(raw, SEARCH_BY_NAME)
    return reader.search_parameters()


def parse_facet(
    raw: RawParameters, configuration: IndexConfiguration, limits: Limits
) -> FacetParameters:
    """Parse the parameters of the facet route.

    Raises:
        InvalidRequest: as `parse_search`; code missing_name without a name.
        NotFound: code facet_not_found.
    """
    reader = ParameterReader(configuration, limits)
    reader.facet_fields = []
    reader.read(raw, FACET_BY_NAME)
    if "name" not in reader.values and not any(e["param"] == "name" for e in reader.errors):
        reader.note("name", "is required: the facet whose values are asked for", "missing_name")
    reader.raise_if_wrong()
    values = reader.values
    name = values.pop("name")
    facet = configuration.facets.get(name)
    if facet is None:
        known = ", ".join(configuration.facets) or "none"
        raise NotFound(
            f"there is no facet {name[:100]!r}; the facets are {known[:500]}",
            code="facet_not_found",
            param="name",
        )
    page, per_page = values.pop("page", 1), values.pop("per_page", 10)
    hide_zero = values.pop("hide_zero", facet.hide_zero)
    pattern, key_query = values.pop("key_pattern", None), values.pop("key_query", None)
    reader.facet_fields = [name]
    values["per_page"] = 0
    wish = facet_wish(replace(facet, hide_zero=hide_zero))
    return FacetParameters(
        search=structs.replace(reader.search_parameters(), facets=(wish,)),
        page=page,
        per_page=per_page,
        key_pattern=pattern,
        key_query=key_query,
    )


def parse_searches(raw: RawParameters, limits: Limits) -> list[NamedSearch]:
    """Read the list of searches of `POST /_search`; each is parsed once its index is known.

    Raises:
        InvalidRequest: code invalid_searches.
    """
    for name in raw:
        if name != "searches":
            raise InvalidRequest(
                f"unknown parameter {name[:100]!r}; known is searches",
                code="unknown_parameter",
                param=name[:100],
            )
    searches = raw.get("searches")
    if not isinstance(searches, list) or not 1 <= len(searches) <= limits.searches_max:
        raise InvalidRequest(
            f"searches must be a list of 1 to {limits.shown('searches_max')} searches, "
            'each with an "index"',
            code="invalid_searches",
            param="searches",
        )
    named = []
    for i, one in enumerate(searches):
        if not isinstance(one, dict) or not isinstance(one.get("index"), str):
            raise InvalidRequest(
                f'searches[{i}] must be an object with an "index" and parameters of a search',
                code="invalid_searches",
                param=f"searches[{i}]",
            )
        named.append(NamedSearch(one["index"], {key: one[key] for key in one if key != "index"}))
    return named
