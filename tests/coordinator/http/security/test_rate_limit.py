"""Rate limits of clients, on a simulated clock."""

from __future__ import annotations

import pytest

from common.errors import TooManyRequests
from coordinator.http.security import rate_limit
from coordinator.http.security.rate_limit import RateLimit


class Clock:
    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rate_limit, "time", clock)
    return clock


def num_allowed(limit: RateLimit, client: str, attempts: int) -> int:
    allowed = 0
    for _ in range(attempts):
        try:
            limit.take(client)
            allowed += 1
        except TooManyRequests:
            pass
    return allowed


def test_burst_then_rate(clock: Clock) -> None:
    limit = RateLimit(5, 10)

    assert num_allowed(limit, "a", 20) == 10
    assert num_allowed(limit, "b", 3) == 3  # each has its own
    clock.now += 1
    assert num_allowed(limit, "a", 20) == 5
    clock.now += 1_000
    assert num_allowed(limit, "a", 20) == 10


def test_refused_requests_cost_nothing(clock: Clock) -> None:
    limit = RateLimit(1, 1)
    assert num_allowed(limit, "a", 100) == 1
    clock.now += 1
    assert num_allowed(limit, "a", 100) == 1


@pytest.mark.parametrize(("rate", "seconds"), [(0.1, 10), (0.5, 2), (5, 1)])
def test_answer_says_when_to_come_back(clock: Clock, rate: float, seconds: int) -> None:
    limit = RateLimit(rate, 1)
    limit.take("a")

    with pytest.raises(TooManyRequests) as caught:
        limit.take("a")

    assert caught.value.details["retry_after"] == seconds
    clock.now += seconds
    limit.take("a")


def test_number_of_clients_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "CLIENTS_MAX", 3)
    limit = RateLimit(1, 1)
    for client in "abacd":
        num_allowed(limit, client, 1)

    assert len(limit) == 3
    assert num_allowed(limit, "a", 1) == 0  # seen recently, so not dropped
