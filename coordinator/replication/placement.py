"""Shards placed over hosts: this host's row in the table, its gateway, and its connections.

TableStore ──rows──▶ Placement ─┬─▶ OtherHost b, OtherHost c …  ──▶ PlacedShards
                                └─▶ Gateway: other hosts read here
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from common import data_directory
from common.errors import ServiceError, Unavailable
from common.process.logs import Log
from common.protocol.messages import ApplyResponse, GroupOutcomesRequest
from common.settings import SettingError
from coordinator.cluster.placed_shards import PlacedShards
from coordinator.replication.collecting import Collector
from coordinator.replication.following import Follower
from coordinator.replication.gateway import Gateway
from coordinator.replication.log_errors import LogAway
from coordinator.replication.moving import Mover, ShardProcesses
from coordinator.replication.other_host import OtherHost
from coordinator.replication.placed_groups import PlacedGroups
from coordinator.replication.placement_table import PlacedHost, PlacementTable, TableStore
from coordinator.replication.this_host import ThisHost
from coordinator.replication.transfer import MakeSnapshot
from coordinator.settings import Settings

READ_SECONDS: Final = 1.0
"""Interval between two reads of the table."""
GONE_SECONDS: Final = 10.0
"""A host that has been away for so long may have been replaced by another of the same name."""
LISTEN_SECONDS: Final = 0.5
"""Pause before another try to listen where another process still does."""
ASK_AGAIN_SECONDS: Final = 0.05
OUTCOMES_MS: Final = 5_000

_log = Log("placement")


class Placement:
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
        host: ThisHost,
        follower: Follower,
        groups: PlacedGroups,
        placed: PlacedShards,
        processes: ShardProcesses,
    ) -> None:
        settings = host.settings
        self._host = host
        self._settings = settings
        self._cluster = host.cluster
        self._groups = groups
        self._placed = placed
        self._gateway = Gateway(host, placed, groups)
        self._store = TableStore(
            host.stream,
            settings.all_shards,
            settings.log_replicas,
            data_directory.placement_path(settings.data_dir),
        )
        self._others: dict[str, OtherHost] = {}
        self._address = ""
        self._namesakes: set[str] = set()
        self._table: PlacementTable | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._mover = Mover(host, follower, self, processes)
        self._server_tls, self._client_tls = tls_contexts(settings)
        host.cluster.own_host.name = host.name

    def start(self, make_snapshot: MakeSnapshot) -> None:
        """Begin to connect.

        Args:
            make_snapshot: makes one of shards of this host.
        """
        self.collector = Collector(self._host, make_snapshot)
        self._tasks = [
            asyncio.create_task(self._run(), name="placement"),
            asyncio.create_task(self._mover.run(), name="move shards"),
        ]

    async def stop(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(other.stop() for other in self._others.values()))
        await self._gateway.stop()

    async def _run(self) -> None:
        table = await self._first_table()
        await self._listen(table.secret)
        last_reason = ""
        while True:
            try:
                table = await self._store.change(self._with_own_row)
                last_reason = ""
            except LogAway as error:
                if str(error) != last_reason:
                    last_reason = str(error)
                    _log.warning("the table of shards cannot be read", reason=last_reason)
            except Exception as error:
                _log.error("reading the table of shards failed", cause=error)
            await self._take(table)
            self._warn_of_namesakes()
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
                port = await self._gateway.start(secret, host, port, self._server_tls)
                break
            except OSError as error:
                if str(error) != last_reason:
                    last_reason = str(error)
                    _log.error(
                        "cannot listen for other hosts", host=host, port=port, reason=last_reason
                    )
            await asyncio.sleep(LISTEN_SECONDS)
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self._settings.rpc_advertise:
            self._address = self._settings.rpc_advertise
        _log.info("other hosts may read here", address=self._address)

    def _with_own_row(self, table: PlacementTable) -> PlacementTable:
        """Return the table with this host as it is; a former address of it is dropped."""
        configured = self._settings.own_shards
        held = self._held
        row = PlacedHost(self._host.name, self._host.id, held, None, configured)
        if not row.host:
            return table  # the log is being made
        former_row = table.hosts.get(self._address)
        if former_row is not None and former_row.configured == configured:
            row = msgspec.structs.replace(row, wanted=former_row.wanted)
            if row.target == set(held):
                row = msgspec.structs.replace(row, wanted=None)
        if former_row == row:
            return table
        former = {
            address
            for address, one in table.hosts.items()
            if address != self._address
            and (one.host == row.host or (one.name == row.name and self._is_gone(address)))
        }
        return table.without_hosts(frozenset(former)).with_host(self._address, row)

    def _is_gone(self, address: str) -> bool:
        """Return whether a host has been away for long, so that this one may have replaced it."""
        other = self._others.get(address)
        return (
            other is not None
            and not other.is_connected
            and time.monotonic() - other.lost_at >= GONE_SECONDS
        )

    def _warn_of_namesakes(self) -> None:
        """Name the hosts that are called like this one, once: orders name hosts."""
        for address, other in self._others.items():
            if other.is_connected and other.name == self._host.name:
                if address not in self._namesakes:
                    _log.error(
                        "another host has the same name; name each with log_host",
                        name=other.name,
                        address=address,
                    )
                self._namesakes.add(address)

    @property
    def _held(self) -> tuple[int, ...]:
        """The shards of this host, without those that are about to leave."""
        leaving = self._cluster.own_host.leaving
        return tuple(one for one in self._host.shards if one not in leaving)

    async def _take(self, table: PlacementTable) -> None:
        """Connect to the hosts of the table, and to no others."""
        self._table = table
        rows = {address: row for address, row in table.hosts.items() if address != self._address}
        gone = []
        for address, other in self._others.items():
            row = rows.get(address)
            if row is None or (row.host, row.name) != (other.row.host, other.row.name):
                gone.append(other)
            else:
                other.row = row
        for other in gone:
            del self._others[other.address]
            await other.stop()
        for address, row in rows.items():
            if address not in self._others:
                other = OtherHost(
                    address,
                    row,
                    self._address,
                    table.secret,
                    self._placed,
                    lambda: self._cluster.withheld is None,
                    self._client_tls,
                )
                self._others[address] = other
                other.start()
        if gone or len(self._others) + 1 != len(self._placed.hosts):
            self._placed.hosts = (self._placed.hosts[0], *self._others.values())

    # --- shards that move

    @property
    def wanted_here(self) -> frozenset[int] | None:
        """The shards that this host shall hold; None: the table does not say yet."""
        row = None if self._table is None else self._table.hosts.get(self._address)
        if row is None or not self._is_of_this_start(row):
            return None
        return row.target

    def _is_of_this_start(self, row: PlacedHost) -> bool:
        """Return whether a row is of this copy of the data, and of the setting that is in force."""
        is_own = row.host == self._host.id
        return is_own and row.configured == self._settings.own_shards

    def hosts_without(self, shard: int) -> list[str]:
        """Return names of other hosts that shall have a shard, and do not serve it yet."""
        floor = self._placed.floor
        missing = []
        num_serving = 0
        for other in self._others.values():
            if shard not in other.row.target:
                continue
            kept_from = other.kept_from(shard)
            if (
                shard in other.row.shards
                and kept_from is not None
                and kept_from <= floor <= other.applied
            ):
                num_serving += 1
            else:
                missing.append(other.name)
        return missing if missing or num_serving else ["any other host"]

    def table_without(self, table: PlacementTable, shard: int) -> PlacementTable:
        """Return the table without a shard of this host, if others have it and it shall go."""
        row = table.hosts.get(self._address)
        if row is None or not self._is_of_this_start(row):
            return table
        if shard in row.target or shard not in row.shards:
            return table
        others = [one for at, one in table.hosts.items() if at != self._address]
        if not any(shard in one.target and shard in one.shards for one in others):
            return table
        kept = tuple(one for one in row.shards if one != shard)
        return table.with_host(self._address, msgspec.structs.replace(row, shards=kept))

    def has_left(self, table: PlacementTable, shard: int) -> bool:
        """Return whether a table says that this host neither has a shard nor shall have it."""
        row = table.hosts.get(self._address)
        return row is not None and shard not in row.shards and shard not in row.target

    async def change(self, function: Callable[[PlacementTable], PlacementTable]) -> PlacementTable:
        """Change the table, and take it in.

        Raises:
            LogAway: the log is.
        """
        table = await self._store.change(function)
        await self._take(table)
        return table

    async def move(self, shard: int, source: str, target: str) -> None:
        """Order a shard to be moved; see `PlacementTable.with_move`.

        Raises:
            InvalidRequest: it cannot be carried out.
            Unavailable: the log is away.
        """
        try:
            await self.change(lambda table: table.with_move(shard, source, target))
        except LogAway as error:
            raise Unavailable(f"{error}: nothing was changed", code="log_unavailable") from error

    def update(self) -> None:
        """Choose copies again: what this host serves has changed."""
        self._placed.update()

    # --- what the log asks

    async def outcomes(self, index: int, seq: int, shard: int) -> ApplyResponse:
        """Return the outcomes of a group on a shard of another host, however long that takes."""
        request = GroupOutcomesRequest(index, seq, shard)
        failed: set[str] = set()
        while True:
            if shard in self._cluster.here:  # it has come here meanwhile
                with contextlib.suppress(ServiceError):
                    return await self._groups.outcomes_here(index, seq, shard)
            hosts = [one for one in self._others.values() if one.kept_from(shard) is not None]
            chosen = self._placed.shards[shard].host
            # The chosen copy first: searches wait for it anyway.
            hosts.sort(key=lambda one: (one.address in failed, one is not chosen))
            if hosts:
                try:
                    return await hosts[0].outcomes(request, OUTCOMES_MS)
                except ServiceError as error:
                    _log.debug("outcomes not known yet", seq=seq, shard=shard, reason=error.message)
                failed = set() if hosts[0].address in failed else {*failed, hosts[0].address}
            await asyncio.sleep(ASK_AGAIN_SECONDS)

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
            raise Unavailable(f"{error}: nothing was changed", code="log_unavailable") from error

    @property
    def shown(self) -> dict[str, Any]:
        """The table, for operators."""
        own_host = self._cluster.own_host
        own = {
            "address": self._address,
            "name": self._host.name,
            "shards": list(self._held),
            "serving": [one for one in self._cluster.here if own_host.kept_from(one) is not None],
            "seq": self._host.serving.position.seq,
            "is_connected": True,
        }
        hosts = [own, *(other.shown for other in self._others.values())]
        shards = [
            {
                "shard": shard.shard,
                "read_from": None if shard.host is None else self._name_of(shard.host),
                "serving": [one["name"] for one in hosts if shard.shard in one["serving"]],
                "placed": [one["name"] for one in hosts if shard.shard in one["shards"]],
            }
            for shard in self._placed.shards
        ]
        rows = [] if self._table is None else list(self._table.hosts.values())
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

    def _name_of(self, host: object) -> str:
        return host.name if isinstance(host, OtherHost) else self._host.name


def tls_contexts(
    settings: Settings,
) -> tuple[ssl.SSLContext | None, partial[ssl.SSLContext] | None]:
    """Return the context for connections of other hosts, and what makes one for ours to them.

    Raises:
        SettingError: a file cannot be read.
    """
    if not settings.rpc_tls_cert:
        return None, None
    try:
        server = _tls_context(settings, ssl.Purpose.CLIENT_AUTH)
        server.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise SettingError(
            f"rpc_tls_cert, rpc_tls_key or rpc_tls_ca cannot be used: {error}"
        ) from error
    return server, partial(_tls_context, settings, ssl.Purpose.SERVER_AUTH)


def _tls_context(settings: Settings, purpose: ssl.Purpose) -> ssl.SSLContext:
    """Return a context that shows and demands a certificate of the configured authority."""
    context = ssl.create_default_context(purpose, cafile=settings.rpc_tls_ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.rpc_tls_cert, settings.rpc_tls_key)
    return context
