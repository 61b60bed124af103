"""One hostile request, and what may come back."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """One request."""

    name: str
    request: bytes
    statuses: frozenset[int]
    code: str | None = None
    half_closes: bool = False
    """Whether the client stops sending (a body that is cut off)."""


OK = frozenset((200,))
BAD = frozenset((400,))
OK_OR_BAD = frozenset((200, 400))
NOT_FOUND = frozenset((404,))


def case(
    name: str,
    raw: bytes,
    statuses: frozenset[int] | int = BAD,
    code: str | None = None,
    *,
    half_closes: bool = False,
) -> Case:
    wanted = frozenset((statuses,)) if isinstance(statuses, int) else statuses
    return Case(name, raw, wanted, code, half_closes)
