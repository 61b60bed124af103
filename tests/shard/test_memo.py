"""The memo holds what was used last, within its bound."""

from __future__ import annotations

from shard.memo import Memo


def test_the_least_recently_used_goes() -> None:
    memo = Memo(100)
    memo.put("a", 1, 40)
    memo.put("b", 2, 40)
    assert memo.get("a") == 1
    memo.put("c", 3, 40)
    assert (memo.get("a"), memo.get("b"), memo.get("c")) == (1, None, 3)
    assert memo.size == 80


def test_replacing_does_not_count_twice() -> None:
    memo = Memo(100)
    memo.put("a", 1, 40)
    memo.put("a", 2, 30)
    assert memo.get("a") == 2
    assert memo.size == 30


def test_what_would_fill_more_than_half_is_not_kept() -> None:
    memo = Memo(100)
    memo.put("a", 1, 30)
    memo.put("b", 2, 51)
    assert (memo.get("a"), memo.get("b")) == (1, None)
