"""The cache keeps recently used values, within its bound, as long as their owners live."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from common.deadline import CALL_DEADLINE, Deadline
from common.errors import DeadlineExceeded
from common.query_syntax_tree import AnyOf
from shard.caches import lru_cache
from shard.caches.background_derivation import BackgroundTasks
from shard.caches.lru_cache import ENTRY_BYTES, MIB, LruCache, widen_caches


class Owner:
    pass


OWNER = Owner()


def test_the_least_recently_used_goes() -> None:
    cache = LruCache(10_000)
    cache.put("a", 1, 4_000 - ENTRY_BYTES, OWNER)
    cache.put("b", 2, 4_000 - ENTRY_BYTES, OWNER)
    assert cache.get("a") == 1
    cache.put("c", 3, 4_000 - ENTRY_BYTES, OWNER)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert cache.size == 8_000


def test_replacing_does_not_count_twice() -> None:
    cache = LruCache(10_000)
    cache.put("a", 1, 4_000, OWNER)
    cache.put("a", 2, 3_000, Owner())
    assert cache.size == 3_000 + ENTRY_BYTES


def test_a_long_key_counts() -> None:
    """A filter of a thousand values that no item has was charged 500 bytes; it took 100,000."""
    cache = LruCache(10 * MIB)
    key: tuple[int, AnyOf, None]
    for number in range(1_000):
        values = tuple([f"{number}-{one}-{'long' * 10}" for one in range(1_000)])
        key = 1, AnyOf("seller", values), None
        cache.put(key, [], 0, OWNER)
    assert 80 <= len(cache) <= 120

    before = cache.size
    cache.resize(key, cache.get(key), 10)
    assert cache.size == before + 10
    cache.put((1, AnyOf("seller", 60 * values), None), [], 0, OWNER)
    assert cache.size == before + 10, "more than half of the cache"


def test_what_would_fill_more_than_half_is_not_kept() -> None:
    cache = LruCache(10_000)
    cache.put("a", 1, 3_000, OWNER)
    cache.put("b", 2, 5_100, OWNER)
    assert (cache.get("a"), cache.get("b")) == (1, None)


def test_entries_go_with_their_owner() -> None:
    cache = LruCache(100_000)
    for number in range(50):
        owner = Owner()
        cache.put(("a", number), number, 10, owner)
        cache.put(("b", number), number, 10, owner)
    cache.put("kept", 1, 10, OWNER)
    assert len(cache) == 3  # those of the last owner are still wanted

    del owner
    cache.sweep()

    assert (len(cache), cache.size) == (1, 10 + ENTRY_BYTES)
    assert cache.get("kept") == 1


def test_owner_that_goes_while_the_cache_is_changed_is_noted_only() -> None:
    """What a value refers to may be collected when its entry is pushed out."""
    cache = LruCache(10_000)
    for number in range(100):
        cache.put(number, Owner(), 2_000, Owner())
        cache.put(("of", number), cache.get(number), 2_000, OWNER)

    assert cache.size <= 10_000


def test_a_value_that_grows_pushes_others_out_and_goes_when_it_is_too_large() -> None:
    cache = LruCache(10_000)
    value = [1]
    cache.put("oldest", 1, 3_000, OWNER)
    cache.put("other", 1, 3_000, OWNER)
    cache.put("grows", value, 1_000, OWNER)
    cache.resize("grows", value, 2_000)
    assert cache.size == 8_000 + 3 * ENTRY_BYTES
    cache.resize("grows", value, 4_000)
    assert cache.get("oldest") is None, "the bound counts what the value takes now"
    assert (cache.get("other"), cache.get("grows")) == (1, value)
    cache.resize("grows", value, 5_000)
    assert (cache.get("grows"), cache.size) == (None, 3_000 + ENTRY_BYTES)


def test_growth_of_a_value_that_is_not_kept_any_more_is_ignored() -> None:
    cache = LruCache(10_000)
    former = [1]
    cache.put("a", former, 1_000, OWNER)
    cache.put("a", [1], 2_000, OWNER)
    cache.resize("a", former, 4_000)
    cache.resize("b", former, 4_000)
    assert cache.size == 2_000 + ENTRY_BYTES


def test_caches_widen_with_memory_and_never_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = LruCache(64 * MIB, memory_share=16), LruCache(16 * MIB, memory_share=8)
    monkeypatch.setattr(lru_cache, "CACHES", {"small": small, "large": large})
    widen_caches(512 * MIB)
    assert (small.bytes_max, large.bytes_max) == (64 * MIB, 64 * MIB)
    widen_caches(0)  # a system that does not report its memory
    assert (small.bytes_max, large.bytes_max) == (64 * MIB, 64 * MIB)


def test_threads_that_want_the_same_value_wait_for_the_one_that_makes_it() -> None:
    cache = LruCache(10_000)
    made: list[object] = []

    def make() -> object:
        time.sleep(0.05)
        made.append(cache.get_or_make("part", object, lambda _: 1, OWNER))
        return made[-1]

    with ThreadPoolExecutor(4) as threads:
        values = [
            threads.submit(cache.get_or_make, "whole", make, lambda _: 100, OWNER) for _ in range(4)
        ]
        assert {one.result() for one in values} == set(made)
    assert len(made) == 1
    assert cache.size == 101 + 2 * ENTRY_BYTES


def test_one_thread_at_a_time_makes_a_value_that_is_too_large_to_be_kept() -> None:
    """The first is done while the second waits; the third comes when the second makes it."""
    cache = LruCache(10_000)
    at_once = most = 0
    begun = [threading.Event() for _ in range(3)]
    ends = [threading.Event() for _ in range(3)]
    order = iter(range(3))

    def make() -> int:
        nonlocal at_once, most
        number = next(order)
        at_once += 1
        most = max(most, at_once)
        begun[number].set()
        ends[number].wait(10)
        at_once -= 1
        return number

    def get() -> int:
        return cache.get_or_make("large", make, lambda _: 6_000, OWNER)

    with ThreadPoolExecutor(3) as threads:
        made = [threads.submit(get)]
        assert begun[0].wait(10)
        made.append(threads.submit(get))
        while cache._makers["large"].num_threads < 2:
            time.sleep(0.001)
        ends[0].set()
        assert begun[1].wait(10)
        made.append(threads.submit(get))
        began_early = begun[2].wait(0.2)
        ends[1].set()
        ends[2].set()
        assert {one.result() for one in made} == {0, 1, 2}
    assert not began_early
    assert most == 1
    assert not cache._makers, "no trace is left of those who made it"


def test_a_value_that_cannot_be_made_is_tried_again_by_the_next() -> None:
    cache = LruCache(10_000)

    def fail() -> int:
        raise OSError("no such file")

    for _ in range(2):
        with pytest.raises(OSError, match="no such file"):
            cache.get_or_make("a", fail, lambda _: 1, OWNER)
    assert cache.get_or_make("a", lambda: 7, lambda _: 1, OWNER) == 7


def test_a_call_that_is_too_late_does_not_wait_for_a_value() -> None:
    cache = LruCache(10_000)
    is_making, goes_on = threading.Event(), threading.Event()

    def make() -> int:
        is_making.set()
        goes_on.wait()
        return 1

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(cache.get_or_make, "a", make, lambda _: 1, OWNER)
        is_making.wait()
        token = CALL_DEADLINE.set(Deadline.after_ms(10))
        try:
            with pytest.raises(DeadlineExceeded):
                cache.get_or_make("a", make, lambda _: 1, OWNER)
        finally:
            CALL_DEADLINE.reset(token)
            goes_on.set()
        assert first.result() == 1


class _Freed:
    """A value that says which thread frees it, and whether the cache is usable meanwhile."""

    def __init__(self, cache: LruCache, freed: list[tuple[threading.Thread, bool]]) -> None:
        self.cache, self.freed = cache, freed

    def __del__(self) -> None:
        self.freed.append((threading.current_thread(), not self.cache._lock.locked()))


def test_no_search_frees_what_is_dropped_and_slow_to_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = BackgroundTasks()
    monkeypatch.setattr(lru_cache, "BACKGROUND_TASKS", tasks)
    cache = LruCache(10 * MIB)
    freed: list[tuple[threading.Thread, bool]] = []
    owner = Owner()
    cache.put("of a gone owner", _Freed(cache, freed), 10, owner)
    cache.put("replaced", _Freed(cache, freed), 2 * MIB, OWNER)
    cache.put("pushed out", _Freed(cache, freed), 4 * MIB, OWNER)
    del owner
    cache.put("replaced", 1, 10, OWNER)
    cache.put("large", 1, 4 * MIB, OWNER)
    cache.put("larger", 1, 4 * MIB, OWNER)
    assert len(cache) == 3
    assert freed == []

    thread = threading.Thread(target=tasks.run_all)
    thread.start()
    thread.join()

    assert freed == [(thread, True)] * 3


@pytest.mark.parametrize("grown_to", [4 * MIB, 6 * MIB])
def test_what_a_grown_value_pushes_out_is_freed_too(
    monkeypatch: pytest.MonkeyPatch, grown_to: int
) -> None:
    tasks = BackgroundTasks()
    monkeypatch.setattr(lru_cache, "BACKGROUND_TASKS", tasks)
    cache = LruCache(10 * MIB)
    freed: list[tuple[threading.Thread, bool]] = []
    cache.put("other", _Freed(cache, freed), 4 * MIB, OWNER)
    cache.put("middle", 1, 3 * MIB, OWNER)
    grown = _Freed(cache, freed)
    cache.put("grown", grown, 2 * MIB, OWNER)
    cache.resize("grown", grown, grown_to)
    del grown
    assert freed == []
    tasks.run_all()
    assert freed == [(threading.current_thread(), True)]
