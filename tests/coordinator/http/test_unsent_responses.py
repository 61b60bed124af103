"""Slow clients hold so much memory together; who has waited longest goes first."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import Mock

from coordinator.http.unsent_responses import SlowClients


def test_those_that_have_waited_longest_are_disconnected() -> None:
    clients = SlowClients(100)
    transports: list[Any] = [Mock() for _ in range(5)]
    with ExitStack() as waiting:
        for transport, num_bytes in zip(transports, (0, 60, 30, 40, 40), strict=True):
            waiting.enter_context(clients.waiting(transport, num_bytes))
        gone = [transport.abort.called for transport in transports]
        assert gone == [False, True, True, False, False]
        assert clients.num_bytes == 80
    assert clients.num_bytes == 0


def test_one_response_may_be_larger_than_the_bound() -> None:
    clients = SlowClients(100)
    transport: Any = Mock()
    for _ in range(2):
        with clients.waiting(transport, 300):
            assert clients.num_bytes == 300
    assert not transport.abort.called
    assert clients.num_bytes == 0
