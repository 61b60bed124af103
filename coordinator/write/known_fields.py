"""The known fields of each index, to refuse writes that would add too many."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import numpy as np

from common.deadline import Deadline
from common.errors import InvalidRequest
from common.limits import Limits
from common.protocol.messages import FieldNamesRequest
from common.protocol.methods import FIELD_NAMES
from coordinator.catalog.catalog import Index
from coordinator.cluster.all_shards import Cluster
from coordinator.cluster.fan_out import gather_partial
from coordinator.write.field_limit import FieldNames
from coordinator.write.work_on_bodies import run_on_bytes

FIELD_NAMES_KEPT: Final = 64
"""Indexes whose field names are cached between writes; 16 to 64 KB each."""


class KnownFields:
    """Caches the fields of indexes (LRU).

    Args:
        cluster: the shards, which know the fields of what they store.
        limits: in force.
    """

    def __init__(self, cluster: Cluster, limits: Limits) -> None:
        self._cluster = cluster
        self._limits = limits
        self._names: OrderedDict[tuple[int, int], FieldNames] = OrderedDict()
        self._num_writes: Counter[int] = Counter()

    async def of(self, index: Index, deadline: Deadline, *, is_new: bool = False) -> FieldNames:
        """Return the fields of an index; ask the shards unless they are cached.

        The cache may have fields of writes that failed. While a shard is down, its fields are not
        known, and nothing is cached. Requests that ask at the same time use what the first of them
        has learnt: it may have added fields that no shard has yet.

        Args:
            index: whose fields.
            deadline: of the shards' answers.
            is_new: ask the shards in any case, unless other writes are under way, whose fields they
                may not have yet.
        """
        key = index.number, index.revision
        known = self._names.get(key)
        names = None if is_new and self._num_writes[index.number] <= 1 else known
        if names is None:
            answers = await gather_partial(
                self._cluster,
                FIELD_NAMES,
                FieldNamesRequest(index.number),
                deadline,
                is_partial=True,
            )
            current = self._names.get(key)
            if current is not None and current is not known:
                return current
            found = [answer.paths for answer in answers if answer is not None]
            names = FieldNames({path for paths in found for path in paths}, self._limits)
            if len(found) < len(answers):
                return names
            self._names[key] = names
            while len(self._names) > FIELD_NAMES_KEPT:
                self._names.popitem(last=False)
        self._names.move_to_end(key)
        return names

    @contextmanager
    def kept(self, index: Index) -> Iterator[None]:
        """Keep what a write adds until the shards have it; its body is around `of` and `check`."""
        self._num_writes[index.number] += 1
        try:
            yield
        finally:
            self._num_writes[index.number] -= 1
            if not self._num_writes[index.number]:
                del self._num_writes[index.number]

    async def check(self, index: Index, items: Sequence[bytes], deadline: Deadline) -> None:
        """Refuse items whose new fields would be too many.

        Raises:
            InvalidRequest: `too_many_index_fields`; nothing was written.
        """
        if not items:
            return
        num_bytes = sum(map(len, items))
        names = await self.of(index, deadline)
        if await run_on_bytes(num_bytes, partial(_adds_too_many, names, items)):
            names = await self.of(index, deadline, is_new=True)
            if await run_on_bytes(num_bytes, partial(_adds_too_many, names, items)):
                error = names.error(0, "")
                raise InvalidRequest(error.message, code=error.code)


def _adds_too_many(names: FieldNames, items: Sequence[bytes]) -> bool:
    """Add the fields of items to those of their index; return whether some had too many."""
    sizes = np.array([len(item) for item in items], np.int64)
    ends = np.cumsum(sizes)
    payload = np.frombuffer(bytearray(b"".join(items)), np.uint8)
    return bool(names.add_from(payload, ends - sizes, ends).any())
