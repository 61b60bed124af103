"""The hosts of the table, as this one knows them: their rows, and a connection to each."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial

import msgspec

from common.process.logs import Log
from coordinator.cluster.shard_copies import PlacedShards
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.placement.other_host import OtherHost
from coordinator.replication.placement.placement_table import PlacedHost, PlacementTable, TableStore

_log = Log("placement")


class KnownHosts:
    """Who holds which shard, and who is to hold it.

    Args:
        host: this one.
        placed: which copy of which shard is read.
        store: of the table.
        tls: makes the context of connections to other hosts; None: these are not encrypted.

    Attributes:
        address: at which other hosts reach this one; empty before it listens.
        table: as it was read last; None before that.
        others: all hosts but this one, by address.
    """

    def __init__(
        self,
        host: HostContext,
        placed: PlacedShards,
        store: TableStore,
        tls: partial[ssl.SSLContext] | None,
    ) -> None:
        self._host = host
        self._placed = placed
        self._store = store
        self._tls = tls
        self.address = ""
        self.table: PlacementTable | None = None
        self.others: dict[str, OtherHost] = {}
        self._namesakes: set[str] = set()

    async def stop(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(other.stop() for other in self.others.values()))

    async def change(self, function: Callable[[PlacementTable], PlacementTable]) -> PlacementTable:
        """Change the table, and take it in.

        Raises:
            LogAway: the log is.
        """
        table = await self._store.change(function)
        await self.take(table)
        return table

    def with_own_row(self, table: PlacementTable) -> PlacementTable:
        """Return the table with this host as it is; a former address of it is dropped."""
        configured = self._host.settings.own_shards
        held = self.held
        row = PlacedHost(self._host.name, self._host.id, held, None, configured)
        if not row.host:
            return table  # the log is being made
        former_row = table.hosts.get(self.address)
        if former_row is not None and former_row.configured == configured:
            row = msgspec.structs.replace(row, wanted=former_row.wanted)
            # A host that is killed while a shard leaves has it again, and the order is then needed.
            if row.target == set(held) and not self._host.cluster.local_shards.leaving:
                row = msgspec.structs.replace(row, wanted=None)
        if former_row == row:
            return table
        former = {
            address
            for address, one in table.hosts.items()
            if address != self.address
            and (one.host == row.host or (one.name == row.name and self._is_gone(address)))
        }
        return table.without_hosts(frozenset(former)).with_host(self.address, row)

    def _is_gone(self, address: str) -> bool:
        """Return whether a host has been away for long, so that this one may have replaced it."""
        other = self.others.get(address)
        return other is not None and other.is_gone

    def warn_of_namesakes(self) -> None:
        """Log each host that has the name of this one, once: orders tell hosts apart by name."""
        for address, other in self.others.items():
            is_namesake = other.is_connected and other.name == self._host.name
            if is_namesake and address not in self._namesakes:
                self._namesakes.add(address)
                _log.error(
                    "another host has the same name; name each with log_host",
                    name=other.name,
                    address=address,
                )

    @property
    def held(self) -> tuple[int, ...]:
        """The shards of this host, without those that are about to leave."""
        leaving = self._host.cluster.local_shards.leaving
        return tuple(one for one in self._host.shards if one not in leaving)

    async def take(self, table: PlacementTable) -> None:
        """Connect to the hosts of the table, and to no others.

        All is changed before the first `await`: a newer table may be taken in meanwhile.
        """
        self.table = table
        rows = {address: row for address, row in table.hosts.items() if address != self.address}
        gone = []
        for address, other in self.others.items():
            row = rows.get(address)
            if row is None or (row.host, row.name) != (other.row.host, other.row.name):
                gone.append(other)
            else:
                other.row = row
        for other in gone:
            del self.others[other.address]
        for address, row in rows.items():
            if address not in self.others:
                other = OtherHost(
                    address,
                    row,
                    self.address,
                    table.secret,
                    self._placed,
                    lambda: self._host.cluster.readiness.withheld is None,
                    self._tls,
                )
                self.others[address] = other
                other.start()
        if gone or len(self.others) + 1 != len(self._placed.hosts):
            self._placed.hosts = (self._placed.hosts[0], *self.others.values())
        await asyncio.gather(*(other.stop() for other in gone))

    # --- shards that move

    @property
    def wanted_here(self) -> frozenset[int] | None:
        """The shards that this host is to hold; None: the table does not say yet."""
        row = None if self.table is None else self.table.hosts.get(self.address)
        if row is None or not self._is_of_this_start(row):
            return None
        return row.target

    def _is_of_this_start(self, row: PlacedHost) -> bool:
        """Return whether a row is of this copy of the data, and of the setting that is in force."""
        is_own = row.host == self._host.id
        return is_own and row.configured == self._host.settings.own_shards

    def hosts_without(self, shard: int) -> list[str]:
        """Return names of other hosts that are to have a shard, and do not serve it yet."""
        floor = self._placed.floor
        missing = []
        num_serving = 0
        for other in self.others.values():
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
        """Return the table without a shard of this host, if others have it and it is to go."""
        row = table.hosts.get(self.address)
        if row is None or not self._is_of_this_start(row):
            return table
        if shard in row.target or shard not in row.shards:
            return table
        others = [one for at, one in table.hosts.items() if at != self.address]
        if not any(shard in one.target and shard in one.shards for one in others):
            return table
        kept = tuple(one for one in row.shards if one != shard)
        return table.with_host(self.address, msgspec.structs.replace(row, shards=kept))

    def has_left(self, table: PlacementTable, shard: int) -> bool:
        """Return whether a table says that this host neither has a shard nor is to have it."""
        row = table.hosts.get(self.address)
        return row is not None and shard not in row.shards and shard not in row.target
