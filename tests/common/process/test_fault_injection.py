"""Fault points act as armed and are silent otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from common.process.fault_injection import arm, fault


@pytest.fixture(autouse=True)
def _disarm() -> Iterator[None]:
    yield
    arm("")


def test_disarmed_point_does_nothing() -> None:
    fault("a")


def test_error_comes_at_the_passage_that_is_named() -> None:
    arm("a=error@2,b=error")

    fault("a")
    with pytest.raises(OSError, match="injected fault a"):
        fault("a")
    fault("a")
    for _ in range(2):
        with pytest.raises(OSError, match="injected fault b"):
            fault("b")


def test_delay_waits() -> None:
    arm("a=delay:20")
    started = time.monotonic()

    fault("a")

    assert time.monotonic() - started >= 0.02


@pytest.mark.parametrize("description", ["a", "a=", "a=explode"])
def test_unknown_action_is_refused(description: str) -> None:
    with pytest.raises(ValueError, match="fault"):
        arm(description)
