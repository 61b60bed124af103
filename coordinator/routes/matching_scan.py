"""All items that match, from one state of the index: for exports and for changes by filter."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from common.errors import ConfigurationSwitched, Unavailable
from coordinator.parameters.parameter_table import RESTRICTING_PARAMETERS
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.parameters.request_parsing import parse_search
from coordinator.read.cursor import START, Cursor
from coordinator.read.hit_rendering import rendered_items
from coordinator.routes.search import narrowed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from coordinator.catalog.catalog import Index
    from coordinator.http.request import Request
    from coordinator.http.services import Services
    from coordinator.read.hit_merging import Hit

PAGE_ITEMS: Final = 500
"""Hits per page of an export, or of a change by filter."""
RESTRICTING: Final = frozenset(
    name for parameter in RESTRICTING_PARAMETERS for name in (parameter.name, *parameter.aliases)
)
"""Names of the search parameters that decide which items match."""


def _whole_search(
    services: Services,
    request: Request,
    index: Index,
    raw: dict[str, Any],
    cursor: str,
    only_ids: Sequence[bytes],
    fields_set: Sequence[str],
) -> SearchParameters:
    """Return a search for all matching items, page by page, on one state of the index."""
    search = parse_search(
        {**raw, "facet_fields": [], "boost": {}, "rules": [], "cursor": cursor},
        index.configuration,
        services.settings.limits,
    )
    search = narrowed(search, request)
    if fields_set:
        search = search.where_exist(fields_set)
    # Exports and changes require all words: "auto" suits people who are looking for something.
    match = "all" if search.match == "auto" else search.match
    return msgspec.structs.replace(
        search, match=match, per_page=PAGE_ITEMS, only_ids=tuple(only_ids)
    )


async def matching_hits(
    services: Services,
    request: Request,
    raw: dict[str, Any],
    *,
    only_ids: Sequence[bytes] = (),
    wants_ids: bool = False,
    is_first: bool = True,
    is_projected: bool = True,
    fields_set: Sequence[str] = (),
) -> AsyncGenerator[list[tuple[Hit, bytes | None]], None]:
    """Yield the items that match, a few megabytes at a time, all from one state of the index.

    If the configuration changes meanwhile, further pages are read under the new one.

    Args:
        services: of the coordinator.
        request: names the index, which is replaced if its configuration switches.
        raw: search parameters that restrict, order and project.
        only_ids: consider only items with these canonical ids; empty: all.
        wants_ids: yield ids instead of items.
        is_first: whether the request has not changed or sent anything yet.
        is_projected: whether to apply the search's projection to the items.
        fields_set: fields that an update gives the items; conditions may name them before any item
            has them.

    Yields:
        Hits with their (projected) items, or with their ids as JSON, empty where an item has none.
        None marks a damaged item.

    Raises:
        ConfigurationSwitched: the configuration changed before the first page, and `is_first`; or
            the index was deleted, and what the request has changed went with it.
        Unavailable: it changed between pages ordered by score, which may have changed with it.
    """
    index = request.index  # (other scans of the request may replace that meanwhile)
    search = _whole_search(services, request, index, raw, START, only_ids, fields_set)
    with services.cluster.reading(index.number) as horizon:  # keeps the state readable
        while True:
            try:
                hits, cursor = await services.selection.page(index, search, horizon)
            except ConfigurationSwitched:
                if search.cursor == START and is_first:
                    raise
                index, search = await _go_on_switched(
                    services, request, index, raw, search, fields_set
                )
                continue
            parts = services.selection.read(
                index, hits, horizon, search.timeout_ms, wants_ids=wants_ids
            )
            async with aclosing(parts):
                async for part in parts:
                    yield await _rendered(search, part) if is_projected and not wants_ids else part
            if cursor is None:
                return
            search = msgspec.structs.replace(search, cursor=cursor)


async def _rendered(
    search: SearchParameters, part: Sequence[tuple[Hit, bytes | None]]
) -> list[tuple[Hit, bytes | None]]:
    """Apply the search's projection to the items of hits."""
    intact = [(hit, item) for hit, item in part if item is not None]
    documents = [item for _, item in intact]
    shown = iter(await rendered_items(search, [hit for hit, _ in intact], documents))
    return [(hit, None if item is None else next(shown)) for hit, item in part]


async def _go_on_switched(
    services: Services,
    request: Request,
    index: Index,
    raw: dict[str, Any],
    search: SearchParameters,
    fields_set: Sequence[str],
) -> tuple[Index, SearchParameters]:
    """Return an index under its new configuration, and the search for the next page there."""
    if not search.query:
        await services.catalog.switched(index, search.timeout_ms / 1000)
    now = services.catalog.present(index)
    if now is None:
        raise ConfigurationSwitched("the index has been deleted meanwhile")
    if search.query or now is index:
        raise Unavailable(
            f"index {index.name!r} was switched to another configuration in the middle; "
            "send the request again",
            code="switched",
        )
    assert search.cursor is not None
    cursor = search.cursor
    if cursor != START:
        place = Cursor.decode(cursor, index.revision, len(search.sort))
        cursor = place.under(now.revision).encode()
    request.index = now
    return now, _whole_search(services, request, now, raw, cursor, search.only_ids, fields_set)
