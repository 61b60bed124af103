"""Outcomes of the newest groups on the shards of this host, for the host that published them.

Where each host holds some of the shards, the publisher of a group learns from other hosts what
became of its operations on theirs. It asks soon; a shard itself knows them for longer.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from common.protocol.messages import ApplyResponse

BYTES_MAX: Final = 16 << 20
_OVERHEAD: Final = 200
"""Bytes of a response other than its outcomes."""


class RecentOutcomes:
    """The newest outcomes, by entry of the log and shard, in bounded memory."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[tuple[int, int], ApplyResponse] = OrderedDict()
        self._num_bytes = 0

    def keep(self, seq: int, shard: int, response: ApplyResponse) -> None:
        """Keep what a shard has answered to a group; the oldest ones make room."""
        former = self._kept.pop((seq, shard), None)
        self._num_bytes += _size(response) - (0 if former is None else _size(former))
        self._kept[seq, shard] = response
        while self._num_bytes > self._bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self._num_bytes -= _size(oldest)

    def get(self, seq: int, shard: int) -> ApplyResponse | None:
        """Return what a shard has answered; None if that is not kept."""
        return self._kept.get((seq, shard))


def _size(response: ApplyResponse) -> int:
    return len(response.outcomes) + _OVERHEAD
