"""Changes to many items: those named by id, or those that a filter matches.

Other fields in each item (`PATCH /{index}/items`) are one group of single changes. For the same
change to all:

    select ─▶ a page of hits ─▶ their ids, a few megabytes of items at a time
    change ─▶ one group: each item that is still the selected record
    decide ─▶ the others have changed since: select again, among these ids only, and change them if
              they still match

So no write acknowledged after the selection is ever undone: an item that was changed meanwhile gets
our change on top, and only if the filter still matches. An item that is rewritten faster than it
can be selected is given up after some rounds, and reported.

A request is about one index, whatever names come to lead elsewhere. If that index is deleted, or
another one takes its place, a request that has begun to change it ends.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import orjson
import xxhash

from common.deadline import Deadline
from common.errors import (
    ConfigurationSwitched,
    Forbidden,
    InvalidRequest,
    NotFound,
    ServiceError,
)
from common.item_ids import canonical_id, shown_id
from common.json.item_scanner import ItemError, scan_item
from common.protocol.write_operations_and_outcomes import Operation, Outcome
from common.settings_of_other_engines import hints_by_name
from coordinator.http.api_description.route import Body, Route
from coordinator.http.routing import RouteTable
from coordinator.http.security.api_keys import Action
from coordinator.parameters.filter_objects import fields_of
from coordinator.parameters.parsed_parameters import overlap
from coordinator.parameters.request_decoding import decode_object, decode_stored, refuse_unknown
from coordinator.parameters.request_parsing import parse_search
from coordinator.read.item_selection import selects_all
from coordinator.routes.items import refuse_conditions, write_response
from coordinator.routes.matching_scan import PAGE_ITEMS, RESTRICTING, matching_hits
from coordinator.write.ingest import with_id
from coordinator.write.partitioning import SelectedChange
from coordinator.write.write_result import WriteResult

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

    from common.limits import Limits
    from common.query_syntax_tree import Filter
    from coordinator.http.request import Request
    from coordinator.http.responses import Response
    from coordinator.http.services import Services
    from coordinator.read.hit_merging import Hit

GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
"""Approximate bytes of the changes sent in one group."""
CONFLICT_ROUNDS_MAX: Final = 20
"""How often to select an item again that was changed meanwhile."""

_REASONS: Final = {
    Outcome.NOT_FOUND: ("item_not_found", "there is no such item"),
    Outcome.CONFLICT: (
        "version_conflict",
        "the item kept changing meanwhile; send the request again",
    ),
    Outcome.INVALID: (
        "invalid_item",
        "the changed item would break a limit (fields, values or bytes of an item)",
    ),
    Outcome.CORRUPT: (
        "item_corrupt",
        "the item is damaged on disk: write it again as a whole, or delete it",
    ),
}
_INSTEAD: Final = hints_by_name(
    {
        "ids lists them: [7, 8]": "id _id objectID objectIDs documents",
        "fields has the values to set": "set doc data values update script changes partial",
        "filter takes an expression (year >= 1990 AND tags = a)": "filter_by where",
    }
)
"""What serves in place of the parameters that people try."""
_NO_ID: Final = ("invalid_id", "an item without id cannot be addressed; load it again with one")


ROUTES: Final = RouteTable()


class _WithId(msgspec.Struct):
    """The members that are read of a stored item."""

    id: msgspec.Raw = msgspec.Raw(b"")


_decode_id = msgspec.json.Decoder(_WithId).decode


class _Change(NamedTuple):
    """The change to apply to each item.

    Attributes:
        operation: the kind.
        make: returns the payload for a canonical id.
        fields: that it sets.
    """

    operation: Operation
    make: Callable[[bytes], bytes]
    fields: tuple[str, ...] = ()


def _change_of_many(path: str, summary: str, body: str) -> Route:
    """Return a route that changes the items that its body chooses."""
    return Route(
        "POST",
        path,
        summary,
        Action.WRITE,
        body=Body.JSON,
        bytes_limit="search_body_bytes_max",
        needs_index=True,
        is_change=True,
        applies_filter=True,
        tag="items",
        document={"body": body, "answer": "WriteAnswer"},
    )


@ROUTES.add(
    _change_of_many(
        "/{index}/items/delete", "Remove items by ids, or all that match.", "ChosenItems"
    ),
)
async def delete_items(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items/delete`: by ids, or all that match."""
    refuse_conditions(request)
    raw = decode_object(request.body, services.settings.limits)
    refuse_unknown(raw, ("ids", *sorted(RESTRICTING)), _INSTEAD)
    ids = _named_ids(services, request, raw)
    if ids is not None:
        deadline = Deadline.after_ms(services.settings.limits.request_timeout_ms)
        result = await services.ingest.delete_items(request.index, ids, deadline)
    else:
        _check_restricts(services, request, raw)
        result = await delete_matching(services, request, raw)
    return write_response("deleted", result)


async def delete_matching(services: Services, request: Request, raw: dict[str, Any]) -> WriteResult:
    """Delete the items of the request's index that a restriction matches.

    Args:
        services: of the coordinator.
        request: names the index; the filter of its caller's key applies too.
        raw: search parameters that select the items.
    """
    change = _Change(Operation.DELETE, lambda canonical: canonical)
    return await _Changes(services, request, raw, change).carry_out()


@ROUTES.add(
    _change_of_many(
        "/{index}/items/update", "Set fields in items by ids, or in all that match.", "ChangedItems"
    ),
)
async def update_items(services: Services, request: Request) -> Response:
    """Answer `POST /{index}/items/update`: sets the same fields in all chosen items."""
    refuse_conditions(request)
    raw = decode_stored(request.body, services.settings.limits)
    refuse_unknown(raw, ("ids", "fields", *sorted(RESTRICTING)), _INSTEAD)
    fields = raw.pop("fields", None)
    if not isinstance(fields, dict) or not fields or "id" in fields:
        raise InvalidRequest(
            "fields must be an object of the fields to set; the id cannot change",
            code="invalid_fields",
            param="fields",
        )
    text = orjson.dumps(fields)
    mistake = scan_item(text, request.index.configuration.facets, services.settings.limits)
    if isinstance(mistake, ItemError):
        raise InvalidRequest(mistake.message, code=mistake.code, param="fields")
    if request.caller.filter is not None:
        _check_stays(fields, request.caller.filter)
    ids = _named_ids(services, request, raw)
    if ids is None:
        _check_restricts(services, request, raw)
    change = _Change(Operation.MERGE, lambda canonical: with_id(text, canonical), tuple(fields))
    changes = _Changes(services, request, {} if ids is not None else raw, change)
    if ids is None:
        result = await changes.carry_out()
    else:
        result = await changes.carry_out_named(ids)
    return write_response("updated", result)


@ROUTES.add(
    Route(
        "PATCH",
        "/{index}/items",
        "Change some fields of items: an array of objects, each an id and the fields to set.",
        Action.WRITE,
        body=Body.JSON,
        needs_index=True,
        is_change=True,
        tag="items",
        document={"body": "Items", "answer": "WriteAnswer"},
    ),
)
async def merge_items(services: Services, request: Request) -> Response:
    """Answer `PATCH /{index}/items`: sets other fields in each item; reports those not found."""
    refuse_conditions(request)
    limits = services.settings.limits
    deadline = Deadline.after_ms(limits.request_timeout_ms)
    result, ids = await services.ingest.merge_items(request.index, request.body, deadline)
    for position, outcome in result.refused:
        result.reject(shown_id(ids[position]), *_REASONS[outcome], limits.errors_reported_max)
    return write_response("updated", result)


class _Changes:
    """One request's changes and their outcome.

    Args:
        services: of the coordinator.
        request: the request; its index may switch configuration on the way.
        raw: search parameters that select the items.
        change: to apply to each.
    """

    def __init__(
        self, services: Services, request: Request, raw: dict[str, Any], change: _Change
    ) -> None:
        self._services = services
        self._request = request
        self._raw = raw
        self._change = change
        self._limits = services.settings.limits
        self._result = WriteResult(seq=services.cluster.horizon(request.index.number))
        self._has_written = False

    async def carry_out(self) -> WriteResult:
        """Change all items that match.

        Raises:
            ServiceError: `details` say what had been changed before.
        """
        await self._change_matching()
        return self._result

    async def carry_out_named(self, ids: Sequence[bytes]) -> WriteResult:
        """Change the items with the given canonical ids; report those that do not exist.

        Raises:
            ServiceError: `details` say what had been changed before.
        """
        wanted = list(dict.fromkeys(ids))
        for first in range(0, len(wanted), PAGE_ITEMS):
            named = wanted[first : first + PAGE_ITEMS]
            found = await self._change_matching(named)
            for canonical in named:
                if canonical not in found:
                    self._reject(shown_id(canonical), *_REASONS[Outcome.NOT_FOUND])
        return self._result

    async def _change_matching(self, only_ids: Sequence[bytes] = ()) -> set[bytes]:
        """Change the items that match, again if they changed meanwhile; return their ids."""
        found: set[bytes] = set()
        conflicts: list[bytes] = []
        try:
            async with aclosing(self._select(only_ids)) as parts:
                async for part in parts:
                    conflicts += await self._change_part(part, found)
                    while len(conflicts) >= PAGE_ITEMS:
                        await self._decide_again(conflicts[:PAGE_ITEMS])
                        del conflicts[:PAGE_ITEMS]
            if conflicts:
                await self._decide_again(conflicts)
        except ServiceError as error:
            done = {"updated": self._result.updated, "deleted": self._result.deleted}
            if isinstance(error, ConfigurationSwitched):
                if not any(done.values()):
                    raise  # nothing is changed: it begins again, as if it had come later
                # Its index is gone. Another one may have its name, of which all may match.
                error = NotFound("the index was deleted during the change", code="index_not_found")
            if not self._has_written:
                raise
            error.details = {**error.details, **done}
            raise error
        return found

    def _select(
        self, only_ids: Sequence[bytes]
    ) -> AsyncGenerator[list[tuple[Hit, bytes | None]], None]:
        """Yield the matching items and ids, of those with the given ids or (if none) of all."""
        return matching_hits(
            self._services,
            self._request,
            self._raw,
            only_ids=only_ids,
            wants_ids=not self._services.ingest.selects_by_version,
            is_first=not self._has_written,
            is_projected=False,
            fields_set=self._change.fields,
        )

    async def _decide_again(self, ids: Sequence[bytes]) -> None:
        """Select again the items that changed since their selection, and change them."""
        for _ in range(CONFLICT_ROUNDS_MAX):
            conflicts: list[bytes] = []
            async with aclosing(self._select(ids)) as parts:
                async for part in parts:
                    conflicts += await self._change_part(part, set())
            if not conflicts:
                return
            ids = conflicts
        for canonical in ids:
            self._reject(shown_id(canonical), *_REASONS[Outcome.CONFLICT])

    async def _change_part(
        self, part: Sequence[tuple[Hit, bytes | None]], found: set[bytes]
    ) -> list[bytes]:
        """Change the items that are unchanged since their selection; return the ids of the others.

        Args:
            part: hits with their ids as JSON; empty where an item has none, None where it is
                damaged.
            found: receives their ids.
        """
        changes: list[SelectedChange] = []
        ids: list[int | str | None] = []
        conflicts: list[bytes] = []
        num_bytes = 0
        selects_by_version = self._services.ingest.selects_by_version
        for hit, found_here in part:
            stored, version = found_here, None
            if selects_by_version and found_here is not None:
                version = xxhash.xxh64_digest(found_here)
                stored = _id_of(found_here)
            id: int | str | None = orjson.loads(stored) if stored else None
            canonical = b"" if id is None else canonical_id(id) or b""
            # Without an id, only its record tells a shard which item to delete.
            is_addressed = not selects_by_version and self._change.operation is Operation.DELETE
            if not stored and not is_addressed:
                self._reject(None, *(_REASONS[Outcome.CORRUPT] if stored is None else _NO_ID))
                continue
            payload = self._change.make(canonical)
            changes.append(
                SelectedChange(
                    self._change.operation, payload, hit.shard, hit.record, canonical, version
                )
            )
            ids.append(id)
            found.add(canonical)
            num_bytes += len(payload)
            if num_bytes >= GROUP_BYTES_MAX:
                conflicts += await self._write(changes, ids)
                changes, ids, num_bytes = [], [], 0
        if changes:
            conflicts += await self._write(changes, ids)
        return conflicts

    async def _write(
        self, changes: Sequence[SelectedChange], ids: Sequence[int | str | None]
    ) -> list[bytes]:
        """Write one group; return the ids of the items that have changed since their selection."""
        self._services.loads.check_not_ending()
        self._has_written = True
        deadline = Deadline.after_ms(self._limits.request_timeout_ms)
        applied = await self._services.ingest.change_selected(
            self._request.index, changes, deadline
        )
        self._result.add(applied)
        conflicts = []
        for id, outcome in zip(ids, applied.outcomes.tolist(), strict=True):
            if outcome == Outcome.CONFLICT:
                assert id is not None
                conflicts.append(canonical_id(id) or b"")
            elif outcome in (Outcome.INVALID, Outcome.CORRUPT):
                self._reject(id, *_REASONS[Outcome(outcome)])
        return conflicts  # (items deleted meanwhile count as not selected)

    def _reject(self, id: int | str | None, code: str, message: str) -> None:
        """Report an item that was not changed."""
        self._result.reject(id, code, message, self._limits.errors_reported_max)


def _id_of(item: bytes) -> bytes:
    """Return the id of a stored item as JSON; empty if it has none."""
    return bytes(_decode_id(item).id)


def _named_ids(services: Services, request: Request, raw: dict[str, Any]) -> list[bytes] | None:
    """Take the ids that a request names; None if it names a restriction instead.

    null means "not given": a client that lacks a value must not select all items by accident.
    """
    ids = raw.pop("ids", None)
    for name in [name for name, value in raw.items() if value is None]:
        del raw[name]
    if (ids is None) == (not raw):
        raise InvalidRequest(
            'name either "ids" or a restriction such as "filter"; '
            '{"filter": ""} stands for all items',
            code="invalid_body",
        )
    if ids is None:
        return None
    if request.caller.filter is not None:
        raise Forbidden(
            'a key with a filter changes items by filter, not by ids; send {"filter": "id IN [1]"}'
        )
    return _canonical_ids(ids, services.settings.limits)


def _check_restricts(services: Services, request: Request, raw: dict[str, Any]) -> None:
    """Refuse a restriction that restricts nothing, such as `{"filters": {"brand": []}}`.

    A client that lacks a value must not select all items by accident; an empty `filter` says so.
    """
    expression = raw.get("filter")
    if isinstance(expression, str) and not expression.strip():
        return
    search = parse_search(raw, request.index.configuration, services.settings.limits)
    if selects_all(search):
        raise InvalidRequest(
            f"{', '.join(raw)} would select all items, which only "
            '{"filter": ""} does here; name values to filter by',
            code="invalid_body",
        )


def _check_stays(fields: Iterable[str], condition: Filter) -> None:
    """Refuse to set fields that decide whether the filter of the caller's key lets an item through.

    Else a tenant could give items to another one.

    Args:
        fields: to set, each with all that is inside it.
        condition: filter of the key.
    """
    for named in fields_of(condition):
        for field in fields:
            if overlap(field, named):
                raise Forbidden(
                    f"the API key cannot set {field[:100]!r}: its filter names {named!r}",
                    param=f"fields.{field[:100]}",
                )


def _canonical_ids(ids: object, limits: Limits) -> list[bytes]:
    """Read a list of ids."""
    if not isinstance(ids, list) or len(ids) > limits.batch_items_max:
        raise InvalidRequest(
            f"ids must be a list of up to {limits.shown('batch_items_max')} ids",
            code="invalid_ids",
            param="ids",
        )
    found = [canonical_id(one) if isinstance(one, (int, str)) else None for one in ids]
    for i, canonical in enumerate(found):
        if canonical is None:
            raise InvalidRequest(
                f"ids[{i}] must be an integer from 0 to 2^63-1 or a text of 1 to 256 bytes",
                code="invalid_id",
                param=f"ids[{i}]",
            )
    return [canonical for canonical in found if canonical is not None]
