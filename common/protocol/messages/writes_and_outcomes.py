"""Messages that write items, and ask what became of a write."""

from __future__ import annotations

from msgspec import field, structs

from common.protocol.messages.message import Message


class ApplyRequest(Message, frozen=True, array_like=True):
    """A group of operations on one index, applied in order, in one commit, seen at once.

    Operation i has `lengths[i]` bytes of `payload`: an item as JSON (PUT, REPLACE, MERGE) or an
    id as text (DELETE).
    """

    index: int
    seq: int
    """Names the snapshot that this group makes; greater than that of every earlier group."""
    horizon: int
    """Every later search has at least this horizon: older snapshots may be dropped."""
    payload: bytes
    lengths: bytes
    """uint32 per operation."""
    operations: bytes
    """uint8 per operation: `Operation`."""
    places: bytes
    """uint64 per operation: the insertion number of the item if it is new."""
    versions: dict[int, bytes] = field(default_factory=dict)
    """Precondition by operation: 8-byte xxh64 of the stored bytes that must be there."""
    records: dict[int, int] = field(default_factory=dict)
    """Precondition by operation: record that must be the item's. A DELETE with an empty id removes
    that record, whatever its id: it is damaged."""
    positions: dict[str, str] = field(default_factory=dict)
    """By source of changes: its position with this group; empty: forget it. Every shard gets
    them, even without operations."""
    is_repeat: bool = False
    """Whether the group may have been applied long ago: then the answer has no outcomes."""
    settled: int = 0
    """Where several hosts share a log: all groups up to this one were applied on all shards of this
    host when this group was sent. Stored with the group."""
    shards: tuple[int, ...] = ()
    """There: the shards that the group changes. Stored with the group."""

    def with_payload(self, payload: memoryview) -> ApplyRequest:
        """Return the request with a payload that came as an attachment (writable memory)."""
        return structs.replace(self, payload=payload)


class JoinedGroups(Message, frozen=True, array_like=True):
    """Groups on one index, applied in order, in one commit, seen at once; of a host that lags."""

    request: ApplyRequest
    """All together, as if they were one group; its seq is the same on all shards."""
    first: int
    """Seq of the first group, on any shard. Stored with the group."""
    groups: tuple[tuple[int, int], ...]
    """Seq and number of operations of each group that changes the shard. The shard skips those that
    it has applied; outcomes are of the others."""

    @property
    def index(self) -> int:
        """Number of the index."""
        return self.request.index

    @property
    def seq(self) -> int:
        """Names the snapshot that all together make."""
        return self.request.seq

    def with_payload(self, payload: memoryview) -> JoinedGroups:
        """Return the groups with a payload that came as an attachment (writable memory)."""
        return structs.replace(self, request=self.request.with_payload(payload))

    def after(self, seq: int) -> ApplyRequest:
        """Return one group of those that are newer than a seq."""
        request = self.request
        num_gone = sum(count for one, count in self.groups if one <= seq)
        if not num_gone:
            return request
        num_bytes = sum(memoryview(request.lengths).cast("I")[:num_gone])
        return structs.replace(
            request,
            payload=request.payload[num_bytes:],
            lengths=request.lengths[4 * num_gone :],
            operations=request.operations[num_gone:],
            places=request.places[8 * num_gone :],
            versions={
                ordinal - num_gone: version
                for ordinal, version in request.versions.items()
                if ordinal >= num_gone
            },
            records={
                ordinal - num_gone: record
                for ordinal, record in request.records.items()
                if ordinal >= num_gone
            },
        )


class ApplyResponse(Message, frozen=True, array_like=True):
    """The outcome of each operation; of a repeated request, at most of its last ones."""

    outcomes: bytes
    """uint8 per operation: `Outcome`."""
    text_ids: tuple[int, ...] = ()
    """Operations that deleted an item whose id, all digits, was stored as a text."""


class OutcomesRequest(Message, frozen=True, array_like=True):
    """Ask for the outcomes of a write group whose response was lost."""

    index: int
    seq: int


class OutcomesResponse(Message, frozen=True, array_like=True):
    """Outcomes from the shard's log of groups."""

    is_known: bool
    """False: the log does not reach back that far."""
    outcomes: bytes
    """uint8 per operation: `Outcome`; empty: the group was not applied, and never will be."""
