"""Messages that ask for the newest write groups on the disk of a shard."""

from __future__ import annotations

from common.protocol.messages.message import Message


class NewestGroupsRequest(Message, frozen=True, array_like=True):
    """Ask for the newest group of each index, where it is newer than a group."""

    after: int


class GroupExtent(Message, frozen=True, array_like=True):
    """The newest group of an index on a shard, and what else was there when it came."""

    index: int
    seq: int
    settled: int
    """All groups up to this one were applied on all shards of the host; 0: not known."""
    first: int
    """The first of the groups that it joins, on any shard; itself if it is a single one."""
    shards: tuple[int, ...]
    """Shards that the group changes; empty: not known."""


class NewestGroupsResponse(Message, frozen=True, array_like=True):
    """The newest groups on the shard's disk."""

    groups: tuple[GroupExtent, ...]
    kept_from: int
    """The oldest state that the shard can show of all indexes."""
