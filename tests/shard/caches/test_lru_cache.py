"""The memo holds what was used last, within its bound, as long as what it is made from."""

from __future__ import annotations

from shard.caches.lru_cache import ENTRY_BYTES, LruCache


class Owner:
    pass


OWNER = Owner()


def test_the_least_recently_used_goes() -> None:
    memo = LruCache(10_000)
    memo.put("a", 1, 4_000 - ENTRY_BYTES, OWNER)
    memo.put("b", 2, 4_000 - ENTRY_BYTES, OWNER)
    assert memo.get("a") == 1
    memo.put("c", 3, 4_000 - ENTRY_BYTES, OWNER)
    assert (memo.get("a"), memo.get("b"), memo.get("c")) == (1, None, 3)
    assert memo.size == 8_000


def test_replacing_does_not_count_twice() -> None:
    memo = LruCache(10_000)
    memo.put("a", 1, 4_000, OWNER)
    memo.put("a", 2, 3_000, Owner())
    assert memo.size == 3_000 + ENTRY_BYTES


def test_what_would_fill_more_than_half_is_not_kept() -> None:
    memo = LruCache(10_000)
    memo.put("a", 1, 3_000, OWNER)
    memo.put("b", 2, 5_100, OWNER)
    assert (memo.get("a"), memo.get("b")) == (1, None)


def test_entries_go_with_their_owner() -> None:
    memo = LruCache(100_000)
    for number in range(50):
        owner = Owner()
        memo.put(("a", number), number, 10, owner)
        memo.put(("b", number), number, 10, owner)
    memo.put("kept", 1, 10, OWNER)
    assert len(memo) == 3  # those of the last owner are still wanted

    del owner
    memo.sweep()

    assert (len(memo), memo.size) == (1, 10 + ENTRY_BYTES)
    assert memo.get("kept") == 1


def test_owner_that_goes_while_the_memo_is_changed_is_noted_only() -> None:
    """What a value refers to may be collected when its entry is pushed out."""
    memo = LruCache(10_000)
    for number in range(100):
        memo.put(number, Owner(), 2_000, Owner())
        memo.put(("of", number), memo.get(number), 2_000, OWNER)

    assert memo.size <= 10_000
