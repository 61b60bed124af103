"""Decides which calls are retried, and when (pure).

A call is retried only if that cannot apply a change twice:

- any call, if nothing was sent (no connection), or if the service says that it did nothing (429, or
  503 with the code overloaded, starting or switched);
- only idempotent calls, if the first try may have been applied (the connection broke, a shard went
  down, 504): reads, and writes and deletions by id. Items without an id, and calls with `If-Match`,
  are not retried: the error says that the outcome is unknown;
- never a call whose body can be read only once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from facetd.errors import ApiError, ConnectionFailed, FacetdError, Unavailable

NOTHING_DONE: Final = frozenset(("overloaded", "starting", "switched", "too_many_requests"))

STARTING_TRIES: Final = 60
STARTING_WAIT: Final = 1.0
"""Maximum seconds between two tries while the service is starting."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and for how long, a failed call is retried.

    Attributes:
        tries: in total; 1 never retries.
        first_wait: seconds before the second try; doubled before each further one, with jitter.
        longest_wait: maximum seconds between two tries; if `Retry-After` is longer, the call fails.
        tries_while_starting: in total while the service is starting, which do not count as tries;
            None: 60, or 1 if `tries` is 1.
    """

    tries: int = 4
    first_wait: float = 0.1
    longest_wait: float = 10.0
    tries_while_starting: int | None = None

    def begin(self, *, is_repeatable: bool, is_stream: bool) -> Tries:
        """Return the tries of a new call.

        Args:
            is_repeatable: whether the call is idempotent.
            is_stream: whether its body can be read only once; it is never sent again.
        """
        return Tries(self, is_repeatable, is_stream)


class Tries:
    """The failed tries of one call, and when it is tried again."""

    def __init__(self, retries: Retries, is_repeatable: bool, is_stream: bool) -> None:
        self._retries = retries
        self._is_repeatable = is_repeatable
        self._is_stream = is_stream
        self._num_failed = 0
        self._num_starting = 0

    def wait_after(self, error: FacetdError) -> float | None:
        """Return the seconds to wait before the next try, or None if there is none.

        Args:
            error: of the last try.
        """
        asked = error.retry_after if isinstance(error, ApiError) else None
        if self._is_stream or (asked is not None and asked > self._retries.longest_wait):
            return None
        if self._is_starting(error):
            wait = self._wait_for_start()
        else:
            wait = self._wait_after_failure(error)
        return None if wait is None else max(asked or 0.0, wait * random.uniform(0.5, 1.0))

    def _is_starting(self, error: FacetdError) -> bool:
        if isinstance(error, ConnectionFailed):
            # The port is closed for a moment when the coordinator takes it over.
            return self._num_starting > 0 and not error.was_sent
        return isinstance(error, ApiError) and error.code == "starting"

    def _wait_for_start(self) -> float | None:
        self._num_starting += 1
        tries = self._retries.tries_while_starting
        if tries is None:
            tries = STARTING_TRIES if self._retries.tries > 1 else 1
        if self._num_starting >= tries:
            return None
        wait: float = self._retries.first_wait * 2 ** min(self._num_starting - 1, 10)
        return min(STARTING_WAIT, wait)

    def _wait_after_failure(self, error: FacetdError) -> float | None:
        self._num_failed += 1
        if self._num_failed >= self._retries.tries or not may_repeat(error, self._is_repeatable):
            return None
        wait: float = self._retries.first_wait * 2 ** (self._num_failed - 1)
        return min(self._retries.longest_wait, wait)


def may_repeat(error: FacetdError, is_repeatable: bool) -> bool:
    """Return whether a call that failed with this error may be sent again."""
    if isinstance(error, ConnectionFailed):
        return is_repeatable or not error.was_sent
    if not isinstance(error, ApiError):
        return False
    if error.code in NOTHING_DONE:
        return True
    return is_repeatable and isinstance(error, Unavailable)
