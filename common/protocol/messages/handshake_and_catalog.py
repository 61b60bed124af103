"""Messages that open a connection and tell a shard which indexes exist."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from common.protocol.messages.message import Message


class Hello(Message, frozen=True, array_like=True):
    """The coordinator's first frame."""

    protocol_version: int
    secret: str
    """Never the secret itself: a proof of knowing it (`common.protocol.authentication`)."""
    shard: int
    num_shards: int
    is_reader: bool = False
    """Whether it only reads, next to the coordinator that owns the shards."""


class SnapshotSource(Message, frozen=True, array_like=True):
    """Where a new index gets its items from: an index of a snapshot."""

    folder: str
    """Folder of the snapshot; all processes see it."""
    number: int
    """Number of the index in the snapshot."""
    seq: int
    """Number of the newest write group in it; shards continue from there."""
    files: tuple[tuple[int, str], ...]
    """Size and checksum of data.mdb, by shard."""


class IndexEntry(Message, frozen=True, array_like=True):
    """One index of the catalog."""

    number: int
    """Names the folder on disk; never reused for another index."""
    name: str
    revision: int
    """Grows with every accepted configuration."""
    configuration: dict[str, Any]
    """The document as posted."""
    source: SnapshotSource | None = None
    """A shard that lacks the index makes it of this, not empty."""

    def without_source(self) -> IndexEntry:
        """Return what is kept of the index when a shard has it."""
        return self if self.source is None else structs.replace(self, source=None)


class Welcome(Message, frozen=True, array_like=True):
    """The shard's response to `hello`."""

    pid: int
    seq_max: int
    """The highest write sequence on disk, over all indexes of the shard."""
    proof: str = ""
    """Proof that the shard knows the secret too."""


class CatalogUpdate(Message, frozen=True, array_like=True):
    """All indexes that exist; a shard creates, drops and re-configures until it agrees.

    Or what has changed since a revision that the shard has; at another one it refuses.
    """

    revision: int
    indexes: tuple[IndexEntry, ...]
    """All, or those that are new or reconfigured since `base`."""
    base: int | None = None
    gone: tuple[int, ...] = ()
    """Numbers of the indexes that were dropped since `base`."""


class PrepareConfiguration(Message, frozen=True, array_like=True):
    """Build what the entry's revision needs beyond the active one, without switching to it.

    The switch happens with the next `catalog` that names the revision. A prepared revision that
    the next catalog does not name is discarded.
    """

    entry: IndexEntry
    horizon: int = 0
    """The oldest state of the index that any request still uses."""
