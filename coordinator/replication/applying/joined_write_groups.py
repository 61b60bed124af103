"""Groups of one index joined into one request to a shard, and its response divided again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.protocol.framing import JOIN_BYTES_MAX
from common.protocol.messages import ApplyRequest, ApplyResponse, JoinedGroups
from coordinator.cluster.all_shards import Cluster
from coordinator.replication.log.log_entries import WriteGroup
from coordinator.write.partitioning import Parts


class DividedGroup(NamedTuple):
    """A group to apply, divided over the shards."""

    seq: int
    group: WriteGroup
    parts: Parts


class Reach(NamedTuple):
    """The extent of groups that are applied together: see `ApplyRequest` and `JoinedGroups`.

    Attributes:
        settled: everything up to this entry is applied on all shards of this host.
        first: seq of the first of the groups; 0: it is a single one.
        shards: those that they change.
    """

    settled: int
    first: int
    shards: tuple[int, ...]


NO_REACH: Final = Reach(0, 0, ())
"""It is not known: other hosts have some of the shards."""


class ShardRequest(NamedTuple):
    """What a shard is to apply; a large payload is sent as an attachment."""

    request: ApplyRequest | JoinedGroups
    attachment: Sequence[bytes | memoryview]


def joined_request(
    cluster: Cluster,
    shard: int,
    groups: Sequence[DividedGroup],
    seq: int,
    reach: Reach = NO_REACH,
) -> ShardRequest:
    """Return the request that applies the parts of some groups as one; all outcomes stay the same.

    Args:
        cluster: the shards of this host.
        shard: its ordinal.
        groups: the groups, in order.
        seq: of all together.
        reach: of all together.
    """
    index = groups[0].group.index
    parts = [one.parts[shard] for one in groups]
    payloads = [part.payload for part in parts]
    is_large = sum(map(len, payloads)) > JOIN_BYTES_MAX
    places: list[bytes] = []
    versions: dict[int, bytes] = {}
    sources: dict[str, str] = {}
    num_operations = 0
    for one, part in zip(groups, parts, strict=True):
        places.append((part.positions.astype(np.uint64) + np.uint64(one.seq << 32)).tobytes())
        versions |= {num_operations + at: version for at, version in part.versions.items()}
        sources |= one.group.sources
        num_operations += len(part.lengths)
    request = ApplyRequest(
        index=index,
        seq=seq,
        horizon=cluster.oldest_horizon(index),
        payload=b"" if is_large else b"".join(payloads),
        lengths=b"".join(part.lengths.tobytes() for part in parts),
        operations=b"".join(part.operations.tobytes() for part in parts),
        places=b"".join(places),
        versions=versions,
        positions=sources,
        is_repeat=True,
        settled=reach.settled,
        shards=reach.shards,
    )
    attachment = payloads if is_large else ()
    if not reach.first:
        return ShardRequest(request, attachment)
    sizes = tuple((one.seq, len(one.parts[shard].lengths)) for one in groups)
    return ShardRequest(JoinedGroups(request, reach.first, sizes), attachment)


def split_response(
    answer: ApplyResponse, shard: int, groups: Sequence[DividedGroup]
) -> dict[int, ApplyResponse]:
    """Return a shard's results by group, given those of all together.

    What the shard had applied before has none: no request waits for it.
    """
    sizes = [len(one.parts[shard].lengths) for one in groups]
    first = len(answer.outcomes) - sum(sizes)  # negative as long as outcomes are missing
    answers = {}
    for one, size in zip(groups, sizes, strict=True):
        end = first + size
        ids = tuple(at - first for at in answer.text_ids if first <= at < end)
        answers[one.seq] = ApplyResponse(b"" if first < 0 else answer.outcomes[first:end], ids)
        first = end
    return answers


def joined(
    num_operations: int, parts: Parts, answers: Sequence[ApplyResponse]
) -> tuple[NDArray[np.uint8], frozenset[int]]:
    """Return the outcomes of a group by position, and the positions of `text_ids`."""
    outcomes = np.zeros(num_operations, np.uint8)
    text_ids: set[int] = set()
    for part, answer in zip(parts.values(), answers, strict=True):
        found = np.frombuffer(answer.outcomes, np.uint8)
        if len(found):  # else it was applied long ago, and no request waits for it
            outcomes[part.positions] = found
            text_ids |= {int(part.positions[ordinal]) for ordinal in answer.text_ids}
    return outcomes, frozenset(text_ids)
