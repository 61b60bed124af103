"""Aliases: other names of indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from common.deadline import Deadline
from common.errors import InvalidRequest, NotFound
from coordinator.catalog.index_names import check_index_name
from coordinator.http.api_description.route import Body, Route
from coordinator.http.responses import Response, json_response
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.request_decoding import decode_object, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from coordinator.catalog.catalog_state import CatalogState
    from coordinator.http.request import Request
    from coordinator.http.security.api_keys import Caller
    from coordinator.http.services import Services

ROUTES: Final = RouteTable()


@ROUTES.add(
    Route(
        "GET",
        "/_aliases",
        "All aliases.",
        Action.SEARCH,
        tag="indexes",
        document={"answer": "Document"},
    ),
)
async def list_aliases(services: Services, request: Request) -> Response:
    """Answer `GET /_aliases`: those that the caller may use, by their own or their index's name."""
    return json_response({"aliases": _shown_aliases(services.catalog.aliases, request.caller)})


def _shown_aliases(aliases: Mapping[str, str], caller: Caller) -> dict[str, str]:
    """Return the indexes by alias, where the caller may use either name."""
    return {
        alias: target
        for alias, target in sorted(aliases.items())
        if caller.may_use(alias) or caller.may_use(target)
    }


@ROUTES.add(
    Route(
        "POST",
        "/_aliases",
        "Set and remove aliases, all at once.",
        Action.ADMIN,
        body=Body.JSON,
        is_change=True,
        tag="indexes",
        document={"body": "Aliases", "answer": "Document"},
    ),
)
async def change_aliases(services: Services, request: Request) -> Response:
    """Answer `POST /_aliases`: all changes at once, or none.

    {"aliases": {"films": "films-2026-11", "old": null}}: a name sets, null removes. A key limited
    to some indexes may change only aliases, and name only indexes, that its patterns cover.
    """
    limits = services.settings.limits
    raw = decode_object(request.body, limits)
    refuse_unknown(raw, ("aliases",))
    changes = raw.get("aliases")
    if not isinstance(changes, dict) or not 1 <= len(changes) <= limits.aliases_max:
        raise InvalidRequest(
            f"aliases must be an object of 1 to {limits.shown('aliases_max')} index names (or "
            'null) by alias, for example {"films": "films-2026-11", "old": null}',
            code="invalid_aliases",
            param="aliases",
        )

    def change(state: CatalogState) -> CatalogState:
        names = {index.name for index in state.indexes}
        for alias, target in changes.items():
            check_index_name(alias, limits)
            for name in (alias, target):
                if isinstance(name, str):
                    services.guard.check_index(request.caller, name)
            _check_change(alias, target, names, state.aliases)
        changed = state.with_aliases(changes)
        if len(changed.aliases) > max(limits.aliases_max, len(state.aliases)):
            raise InvalidRequest(
                f"there may be {limits.shown('aliases_max')} aliases; remove some",
                code="invalid_aliases",
                param="aliases",
            )
        return changed

    state = await services.catalog.change(
        change, deadline=Deadline.after_ms(limits.request_timeout_ms)
    )
    return json_response(
        {"status": "aliases changed", "aliases": _shown_aliases(state.aliases, request.caller)}
    )


def _check_change(
    alias: str, target: object, indexes: Collection[str], aliases: Collection[str]
) -> None:
    """Check that an alias can be set to a target, or removed (None).

    Args:
        alias: a valid name.
        target: as sent.
        indexes: names of those that exist.
        aliases: that exist.

    Raises:
        InvalidRequest: an index has this name.
        NotFound: there is no such index, or no alias to remove.
    """
    if alias in indexes:
        raise InvalidRequest(
            f"{alias!r} is an index; an alias needs a name of its own",
            code="invalid_aliases",
            param=f"aliases.{alias}",
        )
    if target is None:
        if alias not in aliases:
            raise NotFound(
                f"there is no alias {alias!r}",
                advice="GET /_aliases lists the aliases",
                code="alias_not_found",
            )
    elif not isinstance(target, str) or target not in indexes:
        raise NotFound(
            f"there is no index {str(target)[:100]!r} for alias {alias!r}",
            code="index_not_found",
            param=f"aliases.{alias}",
        )
