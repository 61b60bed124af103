"""Shards placed over hosts: this host's row in the table, its peer server, and its connections.

TableStore ──rows──▶ KnownHosts ─┬─▶ OtherHost b, OtherHost c …  ──▶ PlacedShards
                                 └─▶ Mover: shards that come and go
PeerServer ◀── other hosts read here
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from common import data_directory
from common.errors import ServiceError, Unavailable
from common.process.logs import Log
from common.protocol.messages import ApplyResponse, GroupOutcomesRequest
from coordinator.cluster.shard_copies import STALLED_SECONDS, PlacedShards
from coordinator.replication.applying.cross_host_outcomes import CrossHostGroups
from coordinator.replication.following.log_following import Follower
from coordinator.replication.host.host_background_tasks import HostTasks
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.placement.known_hosts import KnownHosts
from coordinator.replication.placement.other_host import OtherHost
from coordinator.replication.placement.peer_server import PeerServer
from coordinator.replication.placement.placed_snapshots import Collector
from coordinator.replication.placement.placement_table import PlacementTable, TableStore
from coordinator.replication.placement.shard_moving import Mover, ShardProcesses
from coordinator.replication.placement.tls_between_hosts import tls_contexts
from coordinator.replication.snapshot_transfer.donor import MakeSnapshot

READ_SECONDS: Final = 1.0
"""Interval between two reads of the table."""
LISTEN_SECONDS: Final = 0.5
"""Pause before another try to listen where another process still does."""
ASK_AGAIN_SECONDS: Final = 0.05
OUTCOMES_MS: Final = round(1000 * STALLED_SECONDS)
"""For which one copy is asked for outcomes. If it stands still, because its host's disk is full,
searches leave it after as long; a write must not wait for it any longer."""

_log = Log("placement")


class OwnPlacement:
    """Keeps this host among those that hold shards together.

    Args:
        host: this one.
        follower: applies the log on this host.
        groups: knows the outcomes of recent ones.
        placed: which copy of which shard is read.
        processes: of the shards of this host.

    Attributes:
        collector: makes snapshots of all shards; from `start` on.
    """

    collector: Collector

    def __init__(
        self,
        host: HostContext,
        follower: Follower,
        groups: CrossHostGroups,
        placed: PlacedShards,
        processes: ShardProcesses,
    ) -> None:
        settings = host.settings
        self._host = host
        self._settings = settings
        self._cluster = host.cluster
        self._groups = groups
        self._placed = placed
        self._peer_server = PeerServer(host, placed, groups)
        self._store = TableStore(
            host.stream,
            settings.all_shards,
            settings.log_replicas,
            data_directory.placement_path(settings.data_dir),
        )
        self._server_tls, client_tls = tls_contexts(settings)
        self._known = KnownHosts(host, placed, self._store, client_tls)
        self._mover = Mover(host, follower, self._known, processes)
        self._tasks = HostTasks()
        host.cluster.local_shards.name = host.name

    def start(self, make_snapshot: MakeSnapshot) -> None:
        """Begin to connect.

        Args:
            make_snapshot: makes one of shards of this host.
        """
        self.collector = Collector(self._host, make_snapshot)
        self._tasks.start(self._run(), "placement")
        self._tasks.start(self._mover.run(), "move shards")

    async def stop(self) -> None:
        """Close all connections."""
        await self._tasks.stop()
        await self._known.stop()
        await self._peer_server.stop()

    async def _run(self) -> None:
        table = await self._first_table()
        await self._listen(table.secret)
        await self._known.take(table)
        last_reason = ""
        while True:
            try:
                await self._known.change(self._known.with_own_row)
                last_reason = ""
            except LogAway as error:
                if str(error) != last_reason:
                    last_reason = str(error)
                    _log.warning("the table of shards cannot be read", reason=last_reason)
            except Exception as error:
                _log.error("reading the table of shards failed", cause=error)
            self._known.warn_of_namesakes()
            self._placed.update()  # a copy may not have advanced for too long
            await asyncio.sleep(READ_SECONDS)

    async def _first_table(self) -> PlacementTable:
        """Return the table; its copy on disk if the log is away."""
        while True:
            try:
                return await self._store.read()
            except LogAway:
                copied = await asyncio.to_thread(self._store.copied)
                if copied is not None:
                    return copied
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _listen(self, secret: str) -> None:
        host, port = self._settings.rpc_address
        last_reason = ""
        while True:
            try:
                port = await self._peer_server.start(secret, host, port, self._server_tls)
                break
            except OSError as error:
                if str(error) != last_reason:
                    last_reason = str(error)
                    _log.error(
                        "cannot listen for other hosts", host=host, port=port, reason=last_reason
                    )
            await asyncio.sleep(LISTEN_SECONDS)
        self._known.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self._settings.rpc_advertise:
            self._known.address = self._settings.rpc_advertise
        _log.info("other hosts may read here", address=self._known.address)

    async def move(self, shard: int, source: str, target: str) -> None:
        """Order a shard to be moved; see `PlacementTable.with_move`.

        Raises:
            InvalidRequest: it cannot be carried out.
            Unavailable: the log is away.
        """
        try:
            await self._known.change(lambda table: table.with_move(shard, source, target))
        except LogAway as error:
            raise Unavailable(
                f"{error}: it is not known whether the order was stored; see facetd cluster status",
                code="log_unavailable",
            ) from error

    # --- what the log asks

    async def outcomes(self, index: int, seq: int, shard: int) -> ApplyResponse:
        """Return the outcomes of a group on a shard of another host, however long that takes.

        Raises:
            Unavailable: its index was deleted, and the host asked has forgotten them (it has
                restarted, say): no copy can tell them any more.
        """
        request = GroupOutcomesRequest(index, seq, shard)
        failed: set[str] = set()
        while True:
            if shard in self._cluster.here:  # it has come here meanwhile
                with contextlib.suppress(ServiceError):
                    return await self._groups.outcomes_here(index, seq, shard)
            hosts = [one for one in self._known.others.values() if one.kept_from(shard) is not None]
            chosen = self._placed.shards[shard].host
            # The chosen copy first: searches wait for it anyway.
            hosts.sort(key=lambda one: (one.address in failed, one is not chosen))
            if hosts:
                try:
                    return await hosts[0].outcomes(request, OUTCOMES_MS)
                except ServiceError as error:
                    _log.debug("outcomes not known yet", seq=seq, shard=shard, reason=error.message)
                failed = set() if hosts[0].address in failed else {*failed, hosts[0].address}
                if not self._host.catalog.has_number(index):
                    raise Unavailable(
                        "the index was deleted after the write; its outcome is not known any more"
                    )
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    def hosts_called(self, name: str) -> list[OtherHost]:
        """Return other hosts of the table, by their name or by that of their copy of the data."""
        others = self._known.others.values()
        return [one for one in others if name in (one.row.name, one.row.host)]

    async def forget(self, names: frozenset[str]) -> None:
        """Drop the rows of hosts, by their name or by that of their copy of the data.

        Raises:
            Unavailable: the log is away.
        """

        def change(table: PlacementTable) -> PlacementTable:
            gone = {address for address, row in table.hosts.items() if names & {row.name, row.host}}
            return table.without_hosts(frozenset(gone))

        try:
            await self._store.change(change)
        except LogAway as error:
            raise Unavailable(f"{error}; try again shortly", code="log_unavailable") from error

    @property
    def shown(self) -> dict[str, Any]:
        """The table, for operators."""
        local = self._cluster.local_shards
        own = {
            "address": self._known.address,
            "name": self._host.name,
            "shards": list(self._known.held),
            "serving": [one for one in self._cluster.here if local.kept_from(one) is not None],
            "seq": self._host.serving.position.seq,
            "is_connected": True,
        }
        hosts = [own, *(other.shown for other in self._known.others.values())]
        shards = [
            {
                "shard": shard.shard,
                "read_from": None if shard.host is None else shard.host.name,
                "serving": [one["name"] for one in hosts if shard.shard in one["serving"]],
                "placed": [one["name"] for one in hosts if shard.shard in one["shards"]],
            }
            for shard in self._placed.shards
        ]
        rows = [] if self._known.table is None else list(self._known.table.hosts.values())
        moves = [
            {"shard": shard, "host": row.name, "what": what}
            for row in rows
            for what, moving in (
                ("takes", row.target - set(row.shards)),
                ("gives up", set(row.shards) - row.target),
            )
            for shard in sorted(moving)
        ]
        return {
            "shards": shards,
            "moves": sorted(moves, key=lambda one: (one["shard"], one["what"], one["host"])),
            "waits_for": self._mover.waits_for,
            "replicas": self._settings.shard_replicas,
            "seq": self._placed.floor,
            "hosts": sorted(hosts, key=lambda one: str(one["name"])),
        }
