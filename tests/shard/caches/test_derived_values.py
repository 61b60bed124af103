"""Values that a segment or a snapshot keeps: made once for each owner and key."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from shard.caches.derived_values import derived, derived_by_key, is_made


class _Owner:
    def __init__(self) -> None:
        self.caches: dict[Hashable, Any] = {}


def test_a_value_is_made_once_for_each_owner() -> None:
    made: list[_Owner] = []

    @derived
    def number(owner: _Owner) -> int | None:
        made.append(owner)
        return None

    first, second = _Owner(), _Owner()
    assert [number(one) for one in (first, first, second, second)] == [None] * 4
    assert made == [first, second]


def test_kinds_and_keys_are_distinguished() -> None:
    @derived_by_key
    def low(owner: _Owner, key: str) -> str:
        return key.lower()

    @derived_by_key
    def high(owner: _Owner, key: str) -> str:
        return key.upper()

    owner = _Owner()
    assert not is_made(low, owner, "C")
    for _ in range(2):
        assert [low(owner, "Ab"), high(owner, "Ab"), low(owner, "C")] == ["ab", "AB", "c"]
    assert len(owner.caches) == 3
    assert is_made(low, owner, "C")
    assert not is_made(high, owner, "C")
