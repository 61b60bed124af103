"""Checks that the fields a search names have values of the kind it needs.

Which fields have values only the shards know. So these mistakes are found here, after the request
was parsed, from the statistics of the index: a round trip only for a field not seen yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from common.errors import InvalidRequest
from common.protocol.messages import RangeRequest
from common.values import ValueKind
from coordinator.parameters.parse import SearchParameters
from coordinator.read.index_memory import IndexMemory
from coordinator.read.query_parser import NO_QUERY
from coordinator.read.searched_state import SearchedState

_TEXTS: Final = 1 << ValueKind.STRING
_NUMBERS: Final = 1 << ValueKind.INTEGER | 1 << ValueKind.FLOAT
_LISTED_CHARS_MAX: Final = 500


def names_fields(parameters: SearchParameters) -> bool:
    """Return whether a search names fields that `check_fields` must see."""
    return bool(
        parameters.filter_fields
        or parameters.sort
        or parameters.ranges
        or parameters.distinct is not None
        or parameters.cube is not None
        or (parameters.facets and parameters.sums_up_fields)
    )


async def check_fields(
    memory: IndexMemory, parameters: SearchParameters, state: SearchedState
) -> None:
    """Reject filters, sort keys and ranges on fields that never had a scalar value.

    An empty index rejects nothing, since its fields are not known yet. Nor does a search under an
    API key filter: the error would reveal which fields the hidden items have.

    Args:
        memory: of the index.
        parameters: of the search.
        state: the state that is read.

    Raises:
        InvalidRequest: a field has no values of the kind that it is used for.
        Unavailable: a shard is down or late.
    """
    if parameters.key_filter is not None:
        return
    if _are_known(memory, parameters):
        return
    knows = memory.knows_field
    named = [key.field for key in parameters.sort if key.field is not None and key.point is None]
    distinct = [] if parameters.distinct is None else [parameters.distinct.field]
    counted = memory.statistics.scalar_fields
    cube = parameters.cube
    ranges = [one for one in parameters.ranges if one.origin is None and one.zoom is None]
    summed = [
        (spec.configuration.field, name)
        for spec in parameters.all_facets
        for name in spec.summary.fields
    ]
    statistics = await memory.statistics.of_query(
        state.index,
        NO_QUERY,
        state.horizon,
        state.deadline,
        is_partial=parameters.allows_partial,
    )
    if statistics.num_docs == 0:
        return
    known = sorted(memory.statistics.scalar_fields)
    for name, param in parameters.filter_fields.items():
        if not knows(name):
            raise InvalidRequest(
                f"{name!r} is neither a facet nor a field with values to filter or count by; "
                f"the facets are {_listed(memory.configuration.facets)}, "
                f"fields with values are {_listed(known)}",
                code="unknown_facet",
                param=param,
            )
    for name in named:
        if not knows(name):
            raise InvalidRequest(
                f"no item has a value to sort by in {name!r}; "
                f"fields with values are {_listed(known)}",
                code="unknown_sort_field",
                param=parameters.sort_param,
            )
    for facet, name in summed:
        if not counted.get(name, 0) & _NUMBERS:
            with_any = [one for one in known if counted[one] & _NUMBERS]
            raise InvalidRequest(
                f"no item has a number to sum up in {name!r}; "
                f"fields with numbers are {_listed(with_any)}",
                code="invalid_facets",
                param=f"facets.{facet}.stats",
            )
    if cube is not None and not counted.get(cube.field, 0) & _NUMBERS:
        with_any = [one for one in known if counted[one] & _NUMBERS]
        raise InvalidRequest(
            f"no item has a number to count by in {cube.field!r}; "
            f"fields with numbers are {_listed(with_any)}",
            code="invalid_facet_cube",
            param="facet_cube.field",
        )
    for name in distinct:
        if not knows(name):
            raise InvalidRequest(
                f"no item has a value to tell items apart by in {name!r}; "
                f"fields with values are {_listed(known)}",
                code="invalid_distinct",
                param="distinct",
            )
    for one in ranges:
        if not counted.get(one.field, 0) & _kinds_of(one):
            wanted = "text" if _kinds_of(one) == _TEXTS else "number"
            with_any = [name for name in known if counted[name] & _kinds_of(one)]
            raise InvalidRequest(
                f"no item has a {wanted} to count by in {one.field!r}; "
                f"fields with {wanted}s are {_listed(with_any)}",
                code="invalid_facet_ranges",
                param=f"facet_ranges.{one.field}",
            )


def _are_known(memory: IndexMemory, parameters: SearchParameters) -> bool:
    """Return whether all fields that a search names are known to have the values that it needs."""
    knows = memory.knows_field
    for name in parameters.filter_fields:
        if not knows(name):
            return False
    for key in parameters.sort:
        if key.field is not None and key.point is None and not knows(key.field):
            return False
    if parameters.distinct is not None and not knows(parameters.distinct.field):
        return False
    counted = memory.statistics.scalar_fields
    for one in parameters.ranges:
        is_of_values = one.origin is None and one.zoom is None
        if is_of_values and not counted.get(one.field, 0) & _kinds_of(one):
            return False
    numbers = [name for spec in parameters.all_facets for name in spec.summary.fields]
    if parameters.cube is not None:
        numbers.append(parameters.cube.field)
    return not [name for name in numbers if not counted.get(name, 0) & _NUMBERS]


def _kinds_of(request: RangeRequest) -> int:
    """Return the kinds of values that a range counts, as a bit set."""
    if request.calendar is not None:
        return _TEXTS
    is_text = any(isinstance(bound, str) for bounds in request.bounds for bound in bounds)
    return _TEXTS if is_text else _NUMBERS


def _listed(names: Iterable[str]) -> str:
    """Join names for an error message, cut to a readable length."""
    text = ", ".join(names) or "none"
    return text if len(text) <= _LISTED_CHARS_MAX else text[:_LISTED_CHARS_MAX] + ", …"
