"""Messages about the fingerprint of a state: whether two shards hold the same items."""

from __future__ import annotations

from common.protocol.messages.message import Message


class FingerprintRequest(Message, frozen=True, array_like=True):
    """Ask for a number that follows from the items of a state, and from nothing else."""

    index: int
    horizon: int


class FingerprintResponse(Message, frozen=True, array_like=True):
    """What identifies the items of one state on this shard, in whatever order they are stored."""

    num_items: int
    num_damaged: int
    """Damaged items; not in `fingerprint`."""
    fingerprint: int
    """Sum over all items of xxh3_64(bytes, seed=place), modulo 2**64."""
