"""Recently read items stay cached, within bounds."""

from __future__ import annotations

from shard.caches.decompressed_item_cache import ENTRY_BYTES, RecentItems

ITEM = b"x" * 50
SIZE = len(ITEM) + ENTRY_BYTES


def held(recent: RecentItems, records: range) -> list[int]:
    return [record for record, item in zip(records, recent.get(1, records), strict=True) if item]


def test_what_was_put_is_found_for_its_store_alone() -> None:
    recent = RecentItems(10 * SIZE)
    recent.put((1, 7), ITEM)
    assert recent.get(1, [6, 7, 7]) == [None, ITEM, ITEM]
    assert recent.get(2, [7]) == [None]


def test_never_more_than_the_bound() -> None:
    recent = RecentItems(10 * SIZE)
    for record in range(1_000):
        recent.put((1, record), ITEM)
        assert len(recent) <= 10
        assert recent.size == len(recent) * SIZE
    assert held(recent, range(1_000))[-5:] == [995, 996, 997, 998, 999]


def test_what_is_asked_for_stays() -> None:
    recent = RecentItems(10 * SIZE)
    recent.put((1, 0), ITEM)
    for record in range(1, 1_000):
        recent.put((1, record), ITEM)
        assert recent.get(1, [0]) == [ITEM]


def test_an_item_counts_once() -> None:
    recent = RecentItems(10 * SIZE)
    for _ in range(100):
        recent.put((1, 0), ITEM)
    recent.put((1, 1), ITEM)
    assert held(recent, range(2)) == [0, 1]


def test_nothing_is_kept_without_room() -> None:
    for recent in (RecentItems(0), RecentItems(2 * SIZE - 1)):
        recent.put((1, 0), ITEM)
        assert len(recent) == 0
