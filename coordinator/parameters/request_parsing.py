"""Requests: raw parameters → frozen, typed parameters; all mistakes are reported at once.

    target of the request line ─┐  raw.query_parameters
                                ├─▶ raw ──parse_search──▶ SearchParameters, or InvalidRequest
    body (JSON object) ─────────┘  raw.decode_object                     the body wins

`parameter_table` defines the name, the values and the reader of every parameter, in one place.
`draft_from_parameters` runs these readers, `parameters_from_draft` makes the result, whose types
are in `parsed_parameters`. Nothing here touches a socket, a clock or a shard, and only
`ServiceError` is raised.

Rules: objects and arrays in a query string are JSON; lists of names may also be comma-separated
lists or repeated parameters. An empty text in a query string, and `null` in a body for a name that
exists, count as absent.
Integers are one to nine ASCII digits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from common.errors import InvalidRequest, NotFound
from common.index_configuration import IndexConfiguration
from common.limits import Limits
from common.nearest_name import did_you_mean
from coordinator.parameters.draft_from_parameters import ParameterReader
from coordinator.parameters.facet_specs import facet_spec
from coordinator.parameters.parameter_table import (
    EXPLAIN_BY_NAME,
    FACET_BY_NAME,
    SEARCH_BY_NAME,
    SUGGEST_BY_NAME,
)
from coordinator.parameters.parsed_parameters import (
    PER_PAGE_DEFAULT,
    SUGGESTIONS_DEFAULT,
    FacetParameters,
    MergedPage,
    NamedSearch,
    SearchParameters,
    SuggestParameters,
)
from coordinator.parameters.request_decoding import RawParameters
from coordinator.parameters.value_parsers import Mistake, check_members, integer, object_of

WEIGHT_MAX: Final = 1_000
"""Greatest weight of a search that is merged with others."""


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
    reader.draft.facet_fields = []
    reader.read(raw, FACET_BY_NAME)
    values = reader.draft.values
    if "name" not in values and not reader.mistakes.names("name"):
        reader.mistakes.note(
            "name", "is required: the facet whose values are requested", "missing_name"
        )
    reader.mistakes.raise_if_any()
    name = values.pop("name")
    facet = configuration.facets.get(name)
    if facet is None:
        known = ", ".join(configuration.facets) or "none"
        raise NotFound(
            f"there is no facet {name[:100]!r}; the facets are {known[:500]}"
            f"{did_you_mean(name[:100], configuration.facets)}",
            code="facet_not_found",
            param="name",
        )
    page, per_page = values.pop("page", 1), values.pop("per_page", 10)
    hide_zero = values.pop("hide_zero", facet.hide_zero)
    pattern, key_query = values.pop("key_pattern", None), values.pop("key_query", None)
    reader.draft.facet_fields = [name]
    values["per_page"] = 0
    spec = facet_spec(replace(facet, hide_zero=hide_zero))
    return FacetParameters(
        search=structs.replace(reader.search_parameters(), facets=(spec,)),
        page=page,
        per_page=per_page,
        key_pattern=pattern,
        key_query=key_query,
    )


def parse_explain(
    raw: RawParameters, configuration: IndexConfiguration, limits: Limits
) -> tuple[bytes, RawParameters]:
    """Parse the parameters of the explanation of an item.

    Returns:
        The item's canonical id; the parameters of the search.

    Raises:
        InvalidRequest: as `parse_search`; code invalid_id without an id.
    """
    reader = ParameterReader(configuration, limits)
    reader.read(raw, EXPLAIN_BY_NAME)
    if raw.get("id") is None:
        reader.mistakes.note("id", "is required: the item to explain", "invalid_id")
    (id,) = reader.search_parameters().only_ids
    return id, {name: value for name, value in raw.items() if name != "id"}


def parse_suggest(
    raw: RawParameters, configuration: IndexConfiguration, limits: Limits
) -> SuggestParameters:
    """Parse the parameters of the route of suggestions.

    Raises:
        InvalidRequest: as `parse_search`.
    """
    reader = ParameterReader(configuration, limits)
    reader.draft.facet_fields = []
    reader.read(raw, SUGGEST_BY_NAME)
    size = reader.draft.values.pop("size", SUGGESTIONS_DEFAULT)
    return SuggestParameters(reader.search_parameters(), size)


def parse_searches(
    raw: RawParameters, limits: Limits
) -> tuple[list[NamedSearch], MergedPage | None]:
    """Read the list of searches of `POST /_search`; each is parsed once its index is known.

    Returns:
        (the searches, the page that they are merged into, if they are).

    Raises:
        InvalidRequest: code invalid_searches, invalid_merge.
    """
    for name in raw:
        if name not in ("searches", "merge"):
            raise InvalidRequest(
                f"unknown parameter {name[:100]!r}; known are searches and merge",
                code="unknown_parameter",
                param=name[:100],
            )
    merge = None if raw.get("merge") is None else _merged_page(raw["merge"], limits)
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
        parameters = {key: one[key] for key in one if key != "index"}
        weight = 1.0
        if merge is not None:
            weight = _weight(parameters.pop("weight", None), f"searches[{i}].weight")
            for key in ("page", "per_page"):
                if key in parameters:
                    raise InvalidRequest(
                        f"searches[{i}].{key} has no meaning here: merge has the {key} of all",
                        code="invalid_merge",
                        param=f"searches[{i}].{key}",
                    )
        named.append(NamedSearch(one["index"], parameters, weight))
    return named, merge


def _merged_page(value: Any, limits: Limits) -> MergedPage:
    """Read `merge`: true, or a page and its size."""
    try:
        options = {} if value is True else object_of(value, 'such as {"page": 1, "per_page": 20}')
        check_members(options, ("page", "per_page"))
        page = MergedPage(
            integer(options.get("page", 1), 1, "page_max", limits, ".page"),
            integer(
                options.get("per_page", PER_PAGE_DEFAULT), 0, "per_page_max", limits, ".per_page"
            ),
        )
        if page.num_hits > limits.merged_hits_max:
            raise Mistake(f"reaches beyond {limits.shown('merged_hits_max')}", path=".page")
    except Mistake as mistake:
        param = f"merge{mistake.path or ''}"
        raise InvalidRequest(
            f"{param} {mistake.message}", code="invalid_merge", param=param
        ) from None
    return page


def _weight(value: Any, param: str) -> float:
    """Read the weight of a search among others."""
    if value is None:
        return 1.0
    if type(value) not in (int, float) or not 0 < value <= WEIGHT_MAX:
        raise InvalidRequest(
            f"{param} must be a number above 0, up to {WEIGHT_MAX}",
            code="invalid_merge",
            param=param,
        )
    return float(value)
