"""When a host that has just started accepts writes."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import Unavailable
from coordinator.replication.host.log_watch import COMPLETE_SECONDS, FRESH_SECONDS, LogWatch
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.publishing.entry_publishing import Publisher


def _info(last_seq: int) -> StreamInfo:
    return StreamInfo.read(
        {"state": {"first_seq": 1, "last_seq": last_seq}, "config": {"num_replicas": 1}}
    )


def _host(shown_seq: int) -> Any:
    return SimpleNamespace(
        stream=SimpleNamespace(),
        progress=SimpleNamespace(cluster=""),
        serving=SimpleNamespace(shown_seq=shown_seq),
        cluster=SimpleNamespace(check_serving=lambda: None, failed_shards=list),
    )


async def test_a_host_accepts_writes_once_it_has_caught_up() -> None:
    host = _host(shown_seq=5)
    watch = LogWatch(host, None)
    publisher = Publisher(host, watch, SimpleNamespace(blocked=None))  # type: ignore[arg-type]
    watch._take(_info(9), time.monotonic())
    with pytest.raises(Unavailable, match="still catches up") as refused:
        publisher.check_writable()
    assert refused.value.code == "starting"
    host.serving.shown_seq = 9
    publisher.check_writable()
    watch._take(_info(30), time.monotonic())
    publisher.check_writable()  # a host may lag later


async def test_what_the_log_had_long_ago_does_not_count() -> None:
    host = _host(shown_seq=9)
    watch = LogWatch(host, None)
    assert not watch.has_caught_up  # nothing is known of the log yet
    watch._take(_info(12), time.monotonic() - 2 * FRESH_SECONDS)
    host.serving.shown_seq = 12
    assert not watch.has_caught_up
    watch._take(_info(12), time.monotonic())
    assert watch.has_caught_up


async def test_a_host_that_never_had_all_lags_too_much_for_any_reader() -> None:
    watch = LogWatch(_host(shown_seq=9), None)
    watch._take(_info(12), time.monotonic())
    with pytest.raises(Unavailable, match="may lack") as refused:
        watch.check_lag(1_000_000_000)
    assert refused.value.code == "replica_lags"
    watch._take(_info(9), time.monotonic())
    watch.check_lag(60_000)


async def test_a_host_that_may_lack_what_others_made_does_not_deny_it() -> None:
    host = _host(shown_seq=9)
    watch = LogWatch(host, None)
    with pytest.raises(Unavailable, match="may lack") as refused:
        watch.check_complete()  # it has not heard from the log yet
    assert refused.value.code == "replica_lags"
    watch._take(_info(9), time.monotonic())
    watch.check_complete()
    watch._take(_info(12), time.monotonic())
    watch.check_complete()  # it lacks an entry, but not for long
    watch.caught_up_at -= 2 * COMPLETE_SECONDS
    with pytest.raises(Unavailable, match="may lack"):
        watch.check_complete()
    host.serving.shown_seq = 12
    watch.check_complete()
    watch.heard_at -= 2 * COMPLETE_SECONDS  # as of a host that was stopped, or cut off
    with pytest.raises(Unavailable, match="may lack"):
        watch.check_complete()
