"""The newest write groups of a shard's indexes, and the oldest state that it can show of all."""

from __future__ import annotations

import contextlib

from common.errors import NotFound
from common.protocol.messages import GroupExtent
from shard.indexes.indexes import Indexes
from shard.partition.partition import Partition
from shard.storage.newest_write_group_extent import read_extent
from shard.storage.write_group_log import read_state


async def newest_groups(indexes: Indexes, after: int) -> list[GroupExtent]:
    """Return the newest group of each index that has one after a seq."""
    numbers = {number for number, one in indexes.closed.items() if one.seq_max > after}
    numbers.update(index.partition.number for index in indexes.open.all())
    numbers.update(indexes.opening.numbers(), indexes.closing.numbers())
    found = []
    for number in sorted(numbers):
        with (
            contextlib.suppress(NotFound),  # it was dropped meanwhile
            indexes.open.using(await indexes.opened(number)) as index,
        ):
            if index.partition.state.seq_max > after:
                found.append(_newest_group(index.partition))
    return found


def kept_from(indexes: Indexes) -> int:
    """Return the oldest state that is available of all indexes, closed ones as they are."""
    closed = [one.seq_max for _, one in indexes.closed.items()]
    open_ones = [one.partition.kept_from for one in indexes.open.all()]
    return max((*closed, *open_ones), default=0)


def _newest_group(partition: Partition) -> GroupExtent:
    """Return the newest group of an index, with its extent if that is known."""
    with partition.environment.read() as txn:
        seq, extent = read_state(txn).seq_max, read_extent(txn)
    if extent is None or extent.seq != seq:
        return GroupExtent(partition.number, seq, 0, seq, ())
    return GroupExtent(partition.number, *extent)
