"""What all tests of a shard's parts share."""

from __future__ import annotations

import pytest

from shard.caches.background_derivation import BACKGROUND_TASKS


@pytest.fixture(autouse=True)
def no_task_of_another_test_waits() -> None:
    """A shard runs its background tasks; of tests they pile up, until new ones are dropped."""
    BACKGROUND_TASKS._waiting.clear()
