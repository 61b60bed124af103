"""What a host that starts without the log may show, according to its own shards.

replica.json may lag behind the shards by a second, or by all entries of a host that was killed soon
after its first write. The log would say what they lack. Without it, the shards do:

    replica.json: 40       index a               index b
    shard 0                group 42 of 0, 1      group 43 of 0
    shard 1                group 41
                           complete up to 41     complete up to 43      everything up to 41

Groups of an index come one after the other, so only its newest one can be incomplete, and that one
was not acknowledged: searches see the state before it, which the shards can still restore. (That is
true of a group that joins many, too: its shards have all of them or none.) An
acknowledged group is complete, whatever other indexes lack. Applying entries again changes nothing,
so the host later follows the log from the position in replica.json.

Where each host holds some of the shards, an entry may change none of them and leave no trace
here, and searches need one entry that all hosts have. So such a host shows the state of
replica.json alone: at worst one second old, and newer writes are shown when the log is back. Its
shards, and those of the other hosts, keep that state for it (`PlacedShards.certain_seq`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from common.protocol.messages import GroupExtent, NewestGroupsRequest
from common.protocol.methods import NEWEST_GROUPS
from coordinator.cluster.all_shards import Cluster


class LocalState(NamedTuple):
    """What this host has without doubt.

    Attributes:
        seq: everything up to this entry, of all indexes.
        horizons: by index that has newer groups: its newest state that is complete.
    """

    seq: int
    horizons: dict[int, int]


def state_of(seq: int, newest: Mapping[int, Sequence[GroupExtent]]) -> LocalState | None:
    """Return what a host has for certain; None if its shards cannot tell.

    Args:
        seq: everything up to it is applied.
        newest: by shard, the newest group of each index that has one after `seq`.
    """
    groups: defaultdict[int, dict[int, GroupExtent]] = defaultdict(dict)
    for shard, extents in newest.items():
        for extent in extents:
            groups[extent.index][shard] = extent
            seq = max(seq, extent.settled)
    horizons = {}
    complete = set()
    for index, by_shard in groups.items():
        last = max(extent.seq for extent in by_shard.values())
        having = {shard for shard, extent in by_shard.items() if extent.seq == last}
        concerned = set(by_shard[min(having)].shards)
        if not concerned and having != newest.keys():
            return None  # an older program wrote it
        is_complete = concerned <= having
        horizons[index] = last if is_complete else by_shard[min(having)].first - 1
        if is_complete:
            complete.add(last)
    while seq + 1 in complete:
        seq += 1
    return LocalState(seq, horizons)


async def local_state(cluster: Cluster, seq: int) -> LocalState | None:
    """Return what this host has for certain, given an entry that it certainly had.

    Raises:
        ServiceError: a shard does not answer.
    """
    if cluster.placed is not None:
        await asyncio.gather(*map(cluster.note_kept, cluster.here.values()))
        begun_at = cluster.local_shards.begun_at
        is_kept = seq > 0 and all(begun_at[shard] <= seq for shard in cluster.here)
        return LocalState(seq, {}) if is_kept else None
    request, timeout_ms = NewestGroupsRequest(seq), cluster.timeouts.read_ms
    answers = await asyncio.gather(
        *(shard.call(NEWEST_GROUPS, request, timeout_ms) for shard in cluster.here.values())
    )
    newest = {shard: answer.groups for shard, answer in zip(cluster.here, answers, strict=True)}
    return state_of(seq, newest)
