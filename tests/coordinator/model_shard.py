"""A shard as a dictionary, served by the real RPC: what the coordinator's tests talk to.

It keeps documents by id, checks what it is told (sequences grow, lengths fit), and can be told to
hang, refuse or die.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from common.data_directory import shard_folder
from common.endpoint_files import Endpoint, write_endpoint
from common.errors import ConfigurationSwitched, ServiceError, StorageFull
from common.json.item_scanner import canonical_id
from common.protocol.authentication import Authenticator
from common.protocol.messages import (
    ApplyRequest,
    ApplyResponse,
    CatalogUpdate,
    FieldNamesRequest,
    FieldNamesResponse,
    GetRequest,
    GetResponse,
    IndexStatisticsRequest,
    IndexStatisticsResponse,
    OpeningStatistics,
    OutcomesRequest,
    OutcomesResponse,
    PrepareConfiguration,
    Welcome,
)
from common.protocol.methods import (
    APPLY,
    CATALOG,
    FIELD_NAMES,
    GET,
    INDEX_STATISTICS,
    OPENING,
    OUTCOMES,
    PING,
    PREPARE,
)
from common.protocol.server import Handler, RpcServer
from common.protocol.write_operations_and_outcomes import Operation, Outcome

SECRET = "secret"


class ModelShard:
    """One shard.

    Attributes:
        documents: by index and id, with the place that each item got.
        applied: every request that was carried out, in order.
        catalogs: every catalog that was taken.
        prepared: every entry that was prepared.
        gate: closed: writes are not answered (they have been carried out).
        refusal: raised instead of carrying out a write.
        refuses_from_seq: the first write for which there is no room.
        lost: set: writes are neither carried out nor answered.
        num_lost: how many were not.
        forgets_groups: whether its log of groups does not reach back to any write.
        forgets_index: whether it has no index of which it is asked for outcomes.
        num_asked: how often it was asked for outcomes.
    """

    def __init__(self, shard: int, num_shards: int) -> None:
        self.shard = shard
        self.num_shards = num_shards
        self.documents: dict[int, dict[bytes, tuple[bytes, int]]] = {}
        self.applied: list[ApplyRequest] = []
        self.catalogs: list[CatalogUpdate] = []
        self.prepared: list[PrepareConfiguration] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.catalog_gate = asyncio.Event()
        self.catalog_gate.set()
        self.refusal: ServiceError | None = None
        self.refuses_from_seq = 1 << 62
        self.lost: asyncio.Event | None = None
        self.num_lost = 0
        self.forgets_groups = False
        self.forgets_index = False
        self.num_asked = 0
        self.prepare_refusal: ServiceError | None = None
        self.num_pings = 0
        self.opening = OpeningStatistics(0, 0, 0, 0)
        self.server: RpcServer | None = None
        self.bug: Exception | None = None
        """Raised instead of an answer to `get`."""
        self.port = 0

    async def start(self) -> int:
        """Listen; returns the port."""
        self.server = RpcServer(
            (
                Handler(PING, self._ping),
                Handler(OPENING, lambda _: self.opening),
                Handler(CATALOG, self._catalog),
                Handler(PREPARE, self._prepare),
                Handler(APPLY, self._apply, ApplyRequest.with_payload),
                Handler(FIELD_NAMES, self._field_names),
                Handler(GET, self._get),
                Handler(INDEX_STATISTICS, self._statistics),
                Handler(OUTCOMES, self._outcomes),
            ),
            Authenticator(
                secret=SECRET,
                shard=self.shard,
                num_shards=self.num_shards,
                make_welcome=lambda: Welcome(os.getpid(), self.seq_max),
            ),
        )
        self.port = await self.server.listen("127.0.0.1")
        return self.port

    async def announce(self, data: Path) -> None:
        """Listen, and say where in a data directory."""
        port = await self.start()
        shard_folder(data, self.shard).mkdir(parents=True, exist_ok=True)
        # Not our pid: a test that lets a shard hang must not be killed for it.
        write_endpoint(data, self.shard, Endpoint("127.0.0.1", port, 0))

    async def die(self) -> None:
        """End all connections, listen no more; what was applied stays."""
        assert self.server is not None
        for connection in list(self.server.connections):
            connection.close()
        await self.server.close()

    @property
    def seq_max(self) -> int:
        """The newest group."""
        return max((request.seq for request in self.applied), default=0)

    def _ping(self, _: None) -> None:
        self.num_pings += 1

    async def _catalog(self, catalog: CatalogUpdate) -> None:
        await self.catalog_gate.wait()
        self.catalogs.append(catalog)
        named = {entry.number for entry in catalog.indexes}
        if catalog.base is not None:  # what has changed since
            named |= self.documents.keys() - {*catalog.gone}
        self.documents = {n: d for n, d in self.documents.items() if n in named}

    def _prepare(self, params: PrepareConfiguration) -> None:
        if self.prepare_refusal is not None:
            raise self.prepare_refusal
        self.prepared.append(params)

    def _field_names(self, request: FieldNamesRequest) -> FieldNamesResponse:
        documents = self.documents.get(request.index, {}).values()
        return FieldNamesResponse(
            tuple(sorted({name for one, _ in documents for name in json.loads(one)}))
        )

    def _get(self, request: GetRequest) -> GetResponse:
        if self.bug is not None:
            raise self.bug
        document = self.documents.get(request.index, {}).get(request.id)
        return GetResponse(None if document is None else document[0])

    def _statistics(self, request: IndexStatisticsRequest) -> IndexStatisticsResponse:
        documents = self.documents.get(request.index, {}).values()
        names = {name for one, _ in documents for name in json.loads(one)}
        fields = tuple([{"path": name, "num_docs": 1, "kinds": ["string"]} for name in names])
        return IndexStatisticsResponse(len(documents), len(documents), 0, (), fields, False, 0, 0)

    async def _apply(self, request: ApplyRequest) -> ApplyResponse:
        if self.refusal is not None:
            raise self.refusal
        if request.seq >= self.refuses_from_seq:
            raise StorageFull("no room")
        if self.lost is not None:
            self.num_lost += 1
            await self.lost.wait()
        newest = max((r.seq for r in self.applied if r.index == request.index), default=0)
        assert newest < request.seq, "groups of an index must come in order"
        assert request.horizon < request.seq
        self.applied.append(request)
        outcomes = self._carry_out(request)
        await self.gate.wait()
        return ApplyResponse(bytes(outcomes))

    def _outcomes(self, request: OutcomesRequest) -> OutcomesResponse:
        self.num_asked += 1
        if self.forgets_index:
            raise ConfigurationSwitched("the index has been deleted meanwhile")
        for applied in self.applied:
            if (applied.index, applied.seq) == (request.index, request.seq):
                return OutcomesResponse(True, bytes([Outcome.CREATED] * len(applied.operations)))
        return OutcomesResponse(not self.forgets_groups, b"")

    def _carry_out(self, request: ApplyRequest) -> list[int]:
        documents = self.documents.setdefault(request.index, {})
        lengths = np.frombuffer(request.lengths, np.uint32).tolist()
        operations = np.frombuffer(request.operations, np.uint8).tolist()
        places = np.frombuffer(request.places, np.uint64).tolist()
        assert len(lengths) == len(operations) == len(places)
        assert sum(lengths) == len(request.payload)
        assert places == sorted(set(places))
        outcomes: list[int] = []
        start = 0
        for length, operation, place in zip(lengths, operations, places, strict=True):
            payload = bytes(request.payload[start : start + length])
            start += length
            item_id = payload if operation == Operation.DELETE else canonical_id(payload)
            key = item_id or b"place %d" % place
            known = documents.get(key)
            if operation in (Operation.PUT, Operation.PUT_KEEPING_ID):
                outcomes.append(Outcome.CREATED if known is None else Outcome.UPDATED)
            elif known is None:
                outcomes.append(Outcome.NOT_FOUND)
                continue
            else:
                is_delete = operation == Operation.DELETE
                outcomes.append(Outcome.DELETED if is_delete else Outcome.UPDATED)
            if operation == Operation.DELETE:
                del documents[key]
            else:
                documents[key] = (payload, known[1] if known else place)
        return outcomes


def all_documents(shards: list[ModelShard], index: int) -> list[bytes]:
    """Return the items of all shards in the order of their places."""
    found: list[tuple[int, bytes]] = [
        (place, payload)
        for shard in shards
        for payload, place in shard.documents.get(index, {}).values()
    ]
    return [payload for _, payload in sorted(found)]


def only(values: list[Any]) -> Any:
    """Return the only value of a list."""
    (value,) = values
    return value
