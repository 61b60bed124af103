"""Messages between the hosts of a shared log: progress, and outcomes of write groups."""

from __future__ import annotations

from common.protocol.messages.message import Message


class GroupOutcomesRequest(Message, frozen=True, array_like=True):
    """Ask another host for the outcomes of a group of the log on one of its shards."""

    index: int
    seq: int
    shard: int


class HostProgress(Message, frozen=True, array_like=True):
    """Reports this host's progress to another, and asks for its progress."""

    address: str
    """Where the host that asks is reached."""
    held: int
    """The oldest state that requests there still use, or may begin to use; -1: none, as that host
    does not serve yet."""
    applied: int
    """What the host that asks knows; the answer may wait until there is more."""
    prepared: int


class OtherProgress(Message, frozen=True, array_like=True):
    """The progress of a host."""

    applied: int
    """Entry of the log up to which it has applied everything on all its shards."""
    prepared: int
    """Newest change of the catalog that it could put in force at once."""
    kept_from: dict[int, int]
    """By shard that serves there: the oldest state that it surely has."""
