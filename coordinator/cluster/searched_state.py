"""The state that all steps of one search read, and their deadline."""

from __future__ import annotations

import time

from msgspec import Struct

from common.deadline import Deadline
from coordinator.catalog.catalog import Index


class SearchedState(Struct, frozen=True):
    """One state of one index, read until a deadline."""

    index: Index
    horizon: int
    """The state: every group up to this seq."""
    timestamp: int
    """When the search started (`now`); that of its first page, if it continues one."""
    deadline: Deadline


def now() -> int:
    """Return the time at which a search starts: seconds since 1970, in whole minutes.

    Boosts by age and rule periods see no finer time, so consecutive pages agree.
    """
    return int(time.time()) // 60 * 60
