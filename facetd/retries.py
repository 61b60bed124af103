"""Which calls are retried, and when (pure).

A call is retried only if that cannot apply a change twice:

- any call, if nothing was sent (no connection), or if the service says that it did nothing (429, or
  503 with the code overloaded, starting or switched);
- only idempotent calls, if the first try may have been applied (the connection broke, a shard went
  down, 504): reads, and writes and deletions by id. Items without an id, and calls with `If-Match`,
  are not retried: the error says that the outcome is unknown.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from facetd.errors import ApiError, ConnectionFailed, FacetdError, Unavailable

NOTHING_DONE: Final = frozenset(("overloaded", "starting", "switched", "too_many_requests"))

STARTING_WAIT: Final = 1.0
"""Maximum seconds between two tries while the service is starting."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and for how long, a failed call is retried.

    Attributes:
        tries: in total; 1 never retries.
        tries_while_starting: in total while the service says that it is starting.
        first_wait: seconds before the second try; doubled before each further one, with jitter.
        longest_wait: maximum seconds between two tries; if `Retry-After` is longer, the call fails.
    """

    tries: int = 4
    tries_while_starting: int = 60
    first_wait: float = 0.1
    longest_wait: float = 10.0

    def wait_before(self, num_done: int, error: FacetdError, is_repeatable: bool) -> float | None:
        """Return the seconds to wait before the next try, or None if there is none.

        Args:
            num_done: tries so far.
            error: of the last one.
            is_repeatable: whether the call is idempotent.
        """
        if num_done >= self._tries_after(error) or not may_repeat(error, is_repeatable):
            return None
        asked = error.retry_after if isinstance(error, ApiError) else None
        if asked is not None and asked > self.longest_wait:
            return None
        wait: float = min(self.longest_wait, self.first_wait * 2 ** min(num_done - 1, 10))
        if _is_starting(error):
            wait = min(wait, STARTING_WAIT)
        return max(asked or 0.0, wait * random.uniform(0.5, 1.0))

    def _tries_after(self, error: FacetdError) -> int:
        if self.tries > 1 and _is_starting(error):
            return max(self.tries, self.tries_while_starting)
        return self.tries


def may_repeat(error: FacetdError, is_repeatable: bool) -> bool:
    """Return whether a call that failed with this error may be sent again."""
    if isinstance(error, ConnectionFailed):
        return is_repeatable or not error.was_sent
    if not isinstance(error, ApiError):
        return False
    if error.code in NOTHING_DONE:
        return True
    return is_repeatable and isinstance(error, Unavailable)


def _is_starting(error: FacetdError) -> bool:
    return isinstance(error, ApiError) and error.code == "starting"
