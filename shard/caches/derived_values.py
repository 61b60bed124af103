"""Values that follow from a segment or a snapshot alone, computed on first use.

    @derived
    def text_index(segment: Segment) -> TextIndex: …

    @derived_by_key
    def number_column(segment: Segment, field: int) -> NumberColumn | None: …

The segment or snapshot keeps them (`caches`), so they live as long as it does and nothing needs to
be evicted. The function that makes a value is its key: each kind of value has one type and one
place where it is made. What is too large or too many to be kept that long is in `lru_cache` and
`query_cache`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Protocol, TypeVar


class Owner(Protocol):
    """A segment or a snapshot."""

    @property
    def caches(self) -> dict[Hashable, Any]:
        """Values by the function that made them, and the key."""


_Owner = TypeVar("_Owner", bound=Owner)
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def derived(make: Callable[[_Owner], _Value]) -> Callable[[_Owner], _Value]:
    """Make a function's value once for each owner.

    Two threads that miss it both make it; both get the first.
    """

    @wraps(make)
    def get(owner: _Owner) -> _Value:
        try:
            value: _Value = owner.caches[make]
        except KeyError:
            value = owner.caches.setdefault(make, make(owner))
        return value

    return get


def derived_by_key(make: Callable[[_Owner, _Key], _Value]) -> Callable[[_Owner, _Key], _Value]:
    """Make a function's value once for each owner and key; see `derived`."""

    @wraps(make)
    def get(owner: _Owner, key: _Key) -> _Value:
        try:
            value: _Value = owner.caches[make, key]
        except KeyError:
            value = owner.caches.setdefault((make, key), make(owner, key))
        return value

    return get


def is_made(get: Callable[[_Owner, _Key], _Value], owner: _Owner, key: _Key) -> bool:
    """Return whether the value of a `derived_by_key` function is made already."""
    make = vars(get)["__wrapped__"]
    return (make, key) in owner.caches
