"""Recent outcomes are kept, in bounded memory."""

from __future__ import annotations

from common.protocol.messages import ApplyResponse
from coordinator.replication.applying.recent_write_group_outcomes import RecentOutcomes


def test_the_newest_are_kept() -> None:
    recent = RecentOutcomes(bytes_max=1_000)
    for seq in range(1, 10):
        recent.keep(seq, 0, ApplyResponse(bytes([seq])))
    assert recent.get(1, 0) is None
    assert [seq for seq in range(1, 10) if recent.get(seq, 0)] == [6, 7, 8, 9]
    assert recent.get(9, 0) == ApplyResponse(b"\x09")
    assert recent.get(9, 1) is None


def test_what_is_kept_again_counts_once() -> None:
    recent = RecentOutcomes(bytes_max=1_000)
    for _ in range(100):
        recent.keep(1, 0, ApplyResponse(b"a"))
        recent.keep(1, 1, ApplyResponse(b"b"))
    assert recent.get(1, 0) == ApplyResponse(b"a")


def test_one_that_is_too_large_is_not_kept() -> None:
    recent = RecentOutcomes(bytes_max=1_000)
    recent.keep(1, 0, ApplyResponse(bytes(2_000)))
    assert recent.get(1, 0) is None
    recent.keep(2, 0, ApplyResponse(b"a"))
    assert recent.get(2, 0) is not None
