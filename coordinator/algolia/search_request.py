"""One search as Algolia's protocol requests it (pure).

    raw  {"query": "lamp", "hitsPerPage": 8, "facetFilters": [["brand:A", "brand:B"]], …}
     │   merged(settings, request): the request's parameters over those of the index's settings
     ▼
    AlgoliaSearch: our `SearchParameters`, and the style of the response

A parameter is honoured (`parameter_table`), or ignored because it concerns only analytics
(`IGNORED`), or refused by an error that names it (`UNSUPPORTED`), unless its value asks for what
happens anyway. No other parameter is dropped silently. Each may come as JSON or as text (`params`,
query strings).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
import orjson
from msgspec import Struct

from common.errors import InvalidRequest, ServiceError
from common.index_configuration import IndexConfiguration
from common.limits import Limits
from common.protocol.messages import FilterClause
from common.search_option_parsers import FacetSort
from coordinator.algolia.parameter_errors import guarded, translated, wrong
from coordinator.algolia.parameter_interactions import finish
from coordinator.algolia.parameter_readers import texts
from coordinator.algolia.parameter_table import BY_NAME, CURSOR_ROW
from coordinator.algolia.search_draft import AlgoliaDraft
from coordinator.algolia.unsupported_parameters import (
    IGNORED,
    UNSUPPORTED,
    check_unsupported,
    is_known,
)
from coordinator.parameters.facet_specs import facet_spec
from coordinator.parameters.filter_objects import scalar_fields_of
from coordinator.parameters.parsed_parameters import FacetParameters, NamedField, SearchParameters
from coordinator.parameters.request_decoding import RawParameters, query_parameters
from coordinator.parameters.request_parsing import parse_facet, parse_search

FACET_HITS: Final = 10


class Style(Struct, frozen=True):
    """The form of the hits in a response."""

    pre: str = "<em>"
    post: str = "</em>"
    highlighted: tuple[str, ...] = ("*",)
    """Paths in `_highlightResult`; ("*",): all."""
    retrieved: tuple[str, ...] | None = None
    """Paths in hits; None: all."""
    excluded: tuple[str, ...] = ()
    has_snippets: bool = False
    restricts_arrays: bool = False
    """Whether arrays in `_highlightResult` keep only the elements that match."""
    members: frozenset[str] | None = None
    """Members of the response (`responseFields`); None: all."""
    has_offset: bool = False
    """Whether the request pages by `offset` and `length`."""
    geo_field: str | None = None
    """Field whose points hits show as `_geoloc`; None: none."""
    rendering_content: dict[str, Any] = {}
    """Repeated in the response, for the page."""


class AlgoliaSearch(Struct, frozen=True):
    """One search as requested by Algolia's protocol."""

    name: str
    """The index as the request names it."""
    search: SearchParameters
    style: Style
    params: str
    """The request's parameters, repeated in the response."""


def merged(request: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a request's parameters over the defaults in the index's settings."""
    defaults = {
        name: value for name, value in settings.items() if name in BY_NAME or name in UNSUPPORTED
    }
    return {**defaults, **request}


_OF_ROUTES: Final = (
    "indexName",
    "type",
    "facet",
    "facetName",
    "facetQuery",
    "maxFacetHits",
    "cursor",
)
"""Members of requests that are parameters of some routes only."""
_OF_CLIENT: Final = "x-algolia-"
"""Prefix, in upper or lower case, of what identifies the client (its key, its agent), in a header
or in the query string."""


def flattened(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request: among its members, in `params`, or both.

    What identifies the client is left out.

    Raises:
        InvalidRequest: `params` is neither a query string nor an object.
    """
    params = request.get("params")
    if isinstance(params, str):
        params = {
            name: values[-1] if isinstance(values, list) else values
            for name, values in query_parameters(params.removeprefix("?")).items()
        }
    if params is not None and not isinstance(params, dict):
        raise wrong("params", "must be a query string or an object")
    return {
        name: value
        for name, value in {**(params or {}), **request}.items()
        if name != "params"
        and not name.lower().startswith(_OF_CLIENT)
        and not (value is None and (is_known(name) or name in _OF_ROUTES))
    }


class SearchedIndex(NamedTuple):
    """An index as a request names it."""

    name: str
    configuration: IndexConfiguration
    settings: Mapping[str, Any]
    """As `settings.stored` returns them."""
    sort: Sequence[str] = ()
    """The order that the name specifies."""


def read_search(
    index: SearchedIndex,
    params: Mapping[str, Any],
    limits: Limits,
    *,
    choices: frozenset[str] = frozenset(),
    allows_cursor: bool = False,
) -> AlgoliaSearch:
    """Read one search.

    Args:
        index: to search.
        params: the request's.
        limits: on sizes and counts.
        choices: facets whose counts leave out their own filter (see `disjunctive_query_combining`).
        allows_cursor: whether this is a browse.

    Raises:
        InvalidRequest: a parameter is invalid, unknown, or cannot be honoured; `param` names it.
    """
    draft = _read(index, params, limits, allows_cursor=allows_cursor)
    guarded("facetFilters", lambda: finish(draft, choices))
    if index.sort:
        draft.raw["sort"] = list(index.sort)
    try:
        search = parse_search(draft.raw, index.configuration, limits)
    except ServiceError as error:
        raise translated(error) from None
    search = msgspec.structs.replace(
        _restricted(search, draft),
        skip=draft.skip or 0,
        dispensable_fields=(*_shown_fields(params), *_filtered_fields(draft)),
        warnings=(*search.warnings, *draft.warnings),
        named_search_fields=(
            search.named_search_fields if "restrictSearchableAttributes" in params else ()
        ),
    )
    return AlgoliaSearch(index.name, search, Style(**draft.style), _shown(params))


def _shown_fields(params: Mapping[str, Any]) -> Iterator[NamedField]:
    """Yield the fields that a request names to show or to mark them; settings may be for others."""
    for param in ("attributesToRetrieve", "attributesToHighlight", "attributesToSnippet"):
        for text in texts(params.get(param) or []):
            name = text.removeprefix("-")
            if param == "attributesToSnippet":
                name = name.partition(":")[0]
            if name and name not in ("*", "objectID") and not name.startswith("_"):
                yield NamedField(param, name)


def read_facet_search(
    index: SearchedIndex, facet: str, params: Mapping[str, Any], limits: Limits
) -> tuple[FacetParameters, Style]:
    """Read one search for facet values.

    Raises:
        InvalidRequest: as `read_search`.
        NotFound: code facet_not_found.
    """
    params = dict(params)
    facet_query = params.pop("facetQuery", "")
    num_max = params.pop("maxFacetHits", FACET_HITS)
    draft = _read(index, params, limits)
    guarded("facetFilters", lambda: finish(draft, frozenset()))
    raw: RawParameters = {
        name: draft.raw[name]
        for name in ("match", "prefix", "typo", "search_fields", "rules")
        if name in draft.raw
    }
    raw |= {
        "name": facet,
        "search_query": draft.raw["query"],
        "facet_query": facet_query,
        "per_page": num_max,
    }
    try:
        parameters = parse_facet(raw, index.configuration, limits)
    except ServiceError as error:
        raise translated(error, per_page="maxFacetHits") from None
    is_by_count = draft.options["sort"][0] == "count:desc"
    order: FacetSort = (("count", True), ("key", False)) if is_by_count else (("key", False),)
    spec = facet_spec(replace(parameters.facet, hide_zero=True, sort=order))
    search = msgspec.structs.replace(_restricted(parameters.search, draft), facets=(spec,))
    return msgspec.structs.replace(parameters, search=search), Style(**draft.style)


def _read(
    index: SearchedIndex,
    params: Mapping[str, Any],
    limits: Limits,
    *,
    allows_cursor: bool = False,
) -> AlgoliaDraft:
    """Read a request's parameters and the index's defaults one by one; list every mistake."""
    draft = AlgoliaDraft(index.configuration, index.settings, limits)
    errors: list[InvalidRequest] = []
    for name, value in merged(params, index.settings).items():
        if name in IGNORED or (value is None and is_known(name)):
            continue
        if len(errors) >= limits.errors_reported_max:
            break
        row = CURSOR_ROW if allows_cursor and name == "cursor" else BY_NAME.get(name)
        try:
            if row is not None:
                guarded(name, partial(row.read, draft, value))
            else:
                check_unsupported(name, value)
        except InvalidRequest as error:
            errors.append(error)
    if len(errors) > 1:
        listed = [{"code": one.code, "param": one.param, "message": one.message} for one in errors]
        errors[0].details["errors"] = listed
    if errors:
        raise errors[0]
    return draft


def _restricted(search: SearchParameters, draft: AlgoliaDraft) -> SearchParameters:
    """Return a search with the restrictions that none of our parameters can express."""
    clauses = (FilterClause(one.filter, one.facet) for one in draft.conditions)
    return msgspec.structs.replace(search, filters=(*search.filters, *clauses))


def _filtered_fields(draft: AlgoliaDraft) -> list[NamedField]:
    """Return the fields that filters name, facets excepted.

    One that no item has is worth a warning only: pages that search several indexes filter each by
    the fields of all.
    """
    fields = {
        field: one.param for one in draft.conditions for field in scalar_fields_of(one.filter)
    }
    facets = draft.configuration.facets
    return [NamedField(param, field) for field, param in fields.items() if field not in facets]


def _shown(params: Mapping[str, Any]) -> str:
    """Return parameters as a query string."""
    return urlencode(
        {
            name: value if isinstance(value, str) else orjson.dumps(value).decode()
            for name, value in params.items()
        }
    )


def query_string_parameters(query_string: str) -> dict[str, Any]:
    """Return the parameters of a GET request."""
    return flattened({"params": query_string})
