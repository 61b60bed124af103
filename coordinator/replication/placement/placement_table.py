"""The placement table: the shards of each host, in JetStream's key-value store and on disk.

    bucket STREAM-placement, key `table`   {"shards": 8, "secret": "…", "hosts": {"a:3001": {…}, …}}

A host writes its own row when it starts, by compare-and-swap, so that no host overwrites another's
row. Liveness is not in the table: it shows in a connection to the host. The copy (placement.json)
serves a host that starts while the log is away.

Hosts prove to each other that they know the secret. A client that can read the log can read all
data anyway, so the secret needs no better protection than the data.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from common.decode_errors import UNDECODABLE
from common.durable_files import write_atomically
from common.errors import InvalidRequest
from common.process.logs import Log
from common.process.thread_pool import to_the_end
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.log_stream import LogStream

if TYPE_CHECKING:
    from nats.js.kv import KeyValue

TABLE_FORMAT: Final = 1
_KEY: Final = "table"
_TRIES: Final = 20

_log = Log("placement")


class PlacedHost(Struct, frozen=True):
    """A host's row."""

    name: str
    """For people."""
    host: str
    """Names its copy of the data."""
    shards: tuple[int, ...]
    """Ordinals of those that it holds."""
    wanted: tuple[int, ...] | None = None
    """Of those that it is to hold; None: just these."""
    configured: tuple[int, ...] = ()
    """Among those of its setting: once the setting changes, `wanted` no longer applies."""

    @property
    def target(self) -> frozenset[int]:
        """The shards that it is to hold."""
        return frozenset(self.shards if self.wanted is None else self.wanted)


class PlacementTable(Struct, frozen=True):
    """The whole table."""

    format: int
    shards: int
    """Of all hosts together."""
    secret: str
    hosts: dict[str, PlacedHost]
    """By address, at which other hosts read from it."""

    def with_host(self, address: str, row: PlacedHost) -> PlacementTable:
        """Return the table with a row added or replaced."""
        return msgspec.structs.replace(self, hosts={**self.hosts, address: row})

    def addresses_of(self, name: str) -> list[str]:
        """Return the addresses of hosts with a name, or with a copy of the data called so."""
        return [at for at, row in self.hosts.items() if name in (row.name, row.host)]

    def address_of(self, name: str) -> str | None:
        """Return the address of a host, by its name or that of its copy of the data.

        Raises:
            InvalidRequest: several hosts have this name.
        """
        found = self.addresses_of(name)
        if len(found) > 1:
            raise _refused(
                f"{len(found)} hosts are called {name!r}: start each with a name of its own "
                "(log_host)"
            )
        return found[0] if found else None

    def with_order(self, name: str, shard: int, *, is_held: bool) -> PlacementTable:
        """Return the table with the order that a host hold a shard, or give it up.

        Raises:
            InvalidRequest: there is no such host, or it has that order already.
        """
        address = self.address_of(name)
        if address is None:
            known = ", ".join(sorted(row.name for row in self.hosts.values()))
            raise _refused(f"there is no host {name!r}; there are {known}")
        row = self.hosts[address]
        if (shard in row.target) == is_held:
            raise _refused(
                f"{row.name} holds shard {shard} already, or is about to"
                if is_held
                else f"{row.name} does not hold shard {shard}, or is about to give it up"
            )
        target = row.target | {shard} if is_held else row.target - {shard}
        if not target:
            raise _refused(
                f"shard {shard} is the only one of {row.name}: stop this host, then remove it"
            )
        return self.with_host(address, msgspec.structs.replace(row, wanted=tuple(sorted(target))))

    def with_move(self, shard: int, source: str, target: str) -> PlacementTable:
        """Return the table with the order to move a shard.

        Args:
            shard: ordinal.
            source: name of the host that is to give it up; empty: all keep theirs.
            target: name of the host that is to hold it; empty: no other.

        Raises:
            InvalidRequest: it cannot be carried out, would change nothing, or no host would hold
                the shard.
        """
        if not 0 <= shard < self.shards:
            raise _refused(f"there are shards 0 to {self.shards - 1}, no shard {shard}")
        if not source and not target:
            raise _refused("name the host that is to hold the shard (to), or to give it up (from)")
        known = self.address_of(source) if source else None
        if known is not None and known == self.address_of(target):
            raise _refused(f"from and to are the same host, {source}: shard {shard} would not move")
        table = self
        if target:
            table = table.with_order(target, shard, is_held=True)
        if source:
            table = table.with_order(source, shard, is_held=False)
        if not any(shard in row.target for row in table.hosts.values()):
            raise _refused(f"no host would hold shard {shard}: name another one (to)")
        return table

    def without_hosts(self, addresses: frozenset[str]) -> PlacementTable:
        """Return the table without some rows."""
        kept = {address: row for address, row in self.hosts.items() if address not in addresses}
        return msgspec.structs.replace(self, hosts=kept)


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(message, code="invalid_placement")


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PlacementTable).decode


class TableStore:
    """Reads and writes the table.

    Args:
        stream: the connection to the log.
        num_shards: of all hosts together.
        num_replicas: servers that store the table.
        path: of the copy on disk; None: there is none.
    """

    def __init__(
        self, stream: LogStream, num_shards: int, num_replicas: int, path: Path | None
    ) -> None:
        self._stream = stream
        self._num_shards = num_shards
        self._num_replicas = num_replicas
        self._path = path
        self._copied = b""
        self._refusal: str | None = None
        """Why the disk did not take the copy the last time; None: it did."""
        self._copying = asyncio.Lock()
        self._store: KeyValue | None = None

    async def read(self) -> PlacementTable:
        """Return the table; make it if there is none.

        Raises:
            LogAway: the log is.
        """
        return await self.change(lambda table: table)

    async def change(self, function: Callable[[PlacementTable], PlacementTable]) -> PlacementTable:
        """Change the table; the function may be called several times.

        Raises:
            LogAway: the log is.
        """
        from nats.errors import Error
        from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

        for _ in range(_TRIES):
            try:
                store = await self._opened()
                try:
                    entry = await store.get(_KEY)
                    before = _decode(entry.value or b"")
                    after = function(before)
                    if after != before:
                        await store.update(_KEY, _encode(after), entry.revision)
                except KeyNotFoundError:
                    empty = PlacementTable(
                        TABLE_FORMAT, self._num_shards, secrets.token_hex(32), {}
                    )
                    after = function(empty)
                    await store.create(_KEY, _encode(after))
            except KeyWrongLastSequenceError:
                await asyncio.sleep(secrets.randbelow(50) / 1000)
                continue
            except (Error, OSError, TimeoutError) as error:
                self._store = None
                raise LogAway(
                    f"the table of shards cannot be read ({type(error).__name__})"
                ) from error
            except UNDECODABLE as error:
                raise LogAway(f"the table of shards cannot be read ({error})") from error
            async with self._copying:
                await to_the_end(self._copy, after)
            return after
        raise LogAway("other hosts kept changing the table of shards; try again")

    async def _opened(self) -> KeyValue:
        """Return the bucket; make it if there is none."""
        from nats.js.errors import BucketNotFoundError

        client = self._stream.client()
        if self._store is None:
            jetstream = client.jetstream()
            bucket = f"{self._stream.name}-placement"
            try:
                self._store = await jetstream.key_value(bucket)
            except BucketNotFoundError:
                self._store = await jetstream.create_key_value(
                    bucket=bucket, history=1, replicas=self._num_replicas
                )
        return self._store

    def copied(self) -> PlacementTable | None:
        """Return the copy on disk; None if there is none that can be read."""
        if self._path is None:
            return None
        try:
            return _decode(self._path.read_bytes())
        except (OSError, *UNDECODABLE):
            return None

    def _copy(self, table: PlacementTable) -> None:
        content = _encode(table)
        if content == self._copied or self._path is None:
            return
        try:
            write_atomically(self._path, content + b"\n", mode=0o600)
        except OSError as error:
            reason = error.strerror or str(error)
            if reason != self._refusal:  # the table is read, and copied, once a second
                _log.warning("placement.json cannot be written yet", reason=reason)
            self._refusal = reason
        else:
            self._copied = content
            self._refusal = None
