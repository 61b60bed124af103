"""What a search may need of a field that it names (pure).

`SearchParameters.field_needs` lists what one does, and `coordinator.read.field_checks` compares
that with the fields that the items have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from common.protocol.messages import RangeRequest
from common.value_kinds_and_facet_keys import ValueKind


def bits(kinds: Iterable[ValueKind]) -> int:
    """Return kinds of values as bits."""
    return sum(1 << kind for kind in kinds)


TEXTS: Final = 1 << ValueKind.STRING
NUMBERS: Final = 1 << ValueKind.INTEGER | 1 << ValueKind.FLOAT
BOOST: Final = "boost by"
"""Purpose of the fields of boosts."""


class FieldNeed(NamedTuple):
    """A field that a search names, and what the search needs of it."""

    field: str
    kinds: int
    """Kinds of values of which it must have one, as a bit set; 0: the field must be known."""
    purpose: str
    """The purpose, for the error message; empty: to filter or count by."""
    param: str
    code: str


def kinds_counted(request: RangeRequest) -> int:
    """Return the kinds of values that a range counts, as a bit set."""
    if request.calendar is not None:
        return TEXTS
    is_text = any(isinstance(bound, str) for bounds in request.bounds for bound in bounds)
    return TEXTS if is_text else NUMBERS
