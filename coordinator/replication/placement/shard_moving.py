"""Shards that move while hosts serve: take one and follow, give one up once others have it.

    the table wants a shard here             the table wants a shard elsewhere, no longer here
    taken     a snapshot of a host that      awaited   every host that is to have it serves it
              has it is put in place         released  it leaves our row; no new request reads it
    followed  the log's entries are applied  drained   reads that have begun come to an end
              to it, up to where we are      left      between two entries it leaves our shards;
    held      between two entries it joins             its process ends, its folder stays
              our shards; others read it

Each step is on disk (the table, replica.json) before the next begins, so a restarted host resumes
there, and an order that is withdrawn is undone from there. A shard that is being taken does
not count as a copy yet: another host has what it lacks.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, NamedTuple

from common import data_directory
from common.data_directory import DataDirectoryError
from common.deadline import NEVER
from common.durable_files import make_folder, sync_folder
from common.errors import CommandError, ServiceError
from common.process.logs import Log
from coordinator.catalog.catalog_file import read_state
from coordinator.cluster.shard_client import ShardClient, ShardState, locate_in
from coordinator.replication.applying.entry_applying import Applier
from coordinator.replication.following.gapless_message_reader import follow
from coordinator.replication.following.log_following import Follower
from coordinator.replication.host.host_context import HostContext
from coordinator.replication.host.replica_file import Position
from coordinator.replication.log.log_entries import Kind, WriteGroup, decode_entry
from coordinator.replication.log.log_errors import LogAway, LogBroken
from coordinator.replication.log.log_stream import StreamMessage
from coordinator.replication.log.long_entries import Pieces, divided
from coordinator.replication.placement.known_hosts import KnownHosts
from coordinator.replication.placement.placement_table import PlacementTable
from coordinator.replication.snapshot_transfer.recipient import (
    CopyRequest,
    find_offers,
    take_snapshot,
)

POLL_SECONDS: Final = 0.5
"""Interval between two checks for shards to move."""
PAUSE_SECONDS: Final = 0.05
START_SECONDS: Final = 10.0
"""A shard that is taken and has not answered for so long is reported; its start is tried again."""
NEAR_ENTRIES: Final = 20
"""A shard that lacks no more than this joins: new entries wait until it has caught up."""
JOIN_SECONDS: Final = 2.0
"""How long new entries wait for it, at most."""
DRAIN_SECONDS: Final = 3.0
"""By then every other host has learnt that a shard is released, or has lost its connection."""
DRAIN_SECONDS_MAX: Final = 60.0

_log = Log("placement")


class ShardProcesses(NamedTuple):
    """What starts and ends the processes of shards of this host."""

    reconcile: Callable[[], None] | None
    """Makes the supervisor start and end processes as replica.json says; None: there is no
    supervisor."""
    restore: Callable[[Path, Path], Any]
    """Makes a data directory of a snapshot."""


class Mover:
    """Acquires and releases shards of this host, as the table says.

    Args:
        host: this one.
        follower: applies the log on this host.
        known: who holds which shard, and who is to hold it.
        processes: of the shards.

    Attributes:
        waits_for: what keeps a shard from moving, for people; empty if nothing does.
    """

    def __init__(
        self,
        host: HostContext,
        follower: Follower,
        known: KnownHosts,
        processes: ShardProcesses,
    ) -> None:
        self._host = host
        self._settings = host.settings
        self._cluster = host.cluster
        self._catalog = host.catalog
        self._stream = host.stream
        self._progress = host.progress
        self._serving = host.serving
        self._follower = follower
        assert host.cluster.placed is not None
        self._placed = host.cluster.placed
        self._known = known
        self._processes = processes
        self._applier = Applier(self._cluster, self._settings)
        self._reached = 0
        self.waits_for = ""

    async def run(self) -> None:
        """Move what is to be moved, for as long as this host runs."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if not self._serving.can_give_data:
                continue  # the shards that it holds come first
            reason = ""
            try:
                await self._move()
            except (LogAway, LogBroken, ServiceError, CommandError, OSError) as error:
                reason = str(error)
            except Exception as error:
                _log.error("moving a shard failed", cause=error)
                reason = "an internal error; the log of this process has details"
            if reason and reason != self.waits_for:
                _log.warning("a shard does not move yet", reason=reason)
            self.waits_for = reason

    async def _move(self) -> None:
        """Take the next step of every move.

        Raises:
            LogAway, LogBroken, ServiceError, CommandError, OSError: it is tried again.
        """
        wanted = self._known.wanted_here
        if wanted is None:
            return
        leaving = self._cluster.local_shards.leaving
        for shard in leaving & wanted:
            leaving.discard(shard)  # the order was taken back in time
            self._placed.update()
        for shard in self._progress.arriving.keys() - wanted:
            await self._forget(shard)
        here = self._cluster.here.keys()
        not_yet: LogAway | None = None
        for step, shards in ((self._give_up, here - wanted), (self._take, wanted - here)):
            for shard in sorted(shards):
                try:
                    await step(shard)
                except LogAway as error:  # another host may be waiting for our next step
                    not_yet = not_yet or error
        if not_yet is not None:
            raise not_yet

    # --- take

    async def _take(self, shard: int) -> None:
        """Take a shard, and follow the log with it until it is one of this host's."""
        reconcile = self._processes.reconcile
        if reconcile is None:
            raise LogAway("a shard can only be taken by facetd serve, which starts its process")
        if shard not in self._progress.arriving:
            seq = await self._fetch(shard)
            await self._progress.note(arriving={**self._progress.arriving, shard: seq})
        reconcile()
        client = self._cluster.local_shards.begin_arriving(
            shard, locate_in(self._settings.data_dir, shard)
        )
        self._reached = first = self._progress.arriving[shard]
        following = asyncio.create_task(self._follow(shard, client, first))
        report_at = time.monotonic() + START_SECONDS
        try:
            while shard not in self._cluster.here:
                if following.done():
                    following.result()
                if shard not in (self._known.wanted_here or ()):
                    return  # the order was taken back
                if client.state is not ShardState.AWAY:
                    report_at = time.monotonic() + START_SECONDS
                elif time.monotonic() >= report_at:
                    raise LogAway(
                        f"shard {shard} has not started on this host; the log of its process says "
                        "why if it cannot"
                    )
                is_near = self._serving.position.seq - self._reached <= NEAR_ENTRIES
                if is_near and client.state is ShardState.SERVING:
                    await self._join(shard, client)
                await asyncio.sleep(PAUSE_SECONDS)
        except LogBroken:
            await self._forget(shard)  # it was away for too long: take it again
            raise
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await self._cluster.local_shards.end_arriving(shard)

    async def _fetch(self, shard: int) -> int:
        """Put a copy of a shard in place; return the entry up to which it has everything."""
        data = self._settings.data_dir.absolute()
        info = await self._stream.info()
        if info is None:
            raise LogAway("there is no log")
        left = self._progress.left.get(shard)
        if left is not None and left + 1 >= info.first_seq:
            return left
        offers = await find_offers(self._stream)
        offers = [one for one in offers if shard in one.shards and one.host != self._host.id]
        if not offers:
            raise LogAway(f"no serving host offers shard {shard}")
        offer = max(offers, key=lambda one: one.seq)
        _log.info("taking a shard", shard=shard, host=offer.host, seq=offer.seq)
        taken = data.with_name(f"{data.name}.taken")
        work = data.with_name(f"{data.name}.taken-{shard}")
        try:
            await asyncio.to_thread(_remove, taken, work)
            make_folder(taken)
            position = await take_snapshot(self._stream, offer.host, taken, CopyRequest((shard,)))
            await asyncio.to_thread(self._processes.restore, taken, work)
            revision = read_state(data_directory.catalog_path(work)).revision
            while self._catalog.state.revision < revision:  # noqa: ASYNC110 - entries to come
                # A shard drops indexes that its coordinator does not know.
                await asyncio.sleep(PAUSE_SECONDS)
            kept = {one: seq for one, seq in self._progress.left.items() if one != shard}
            await self._progress.note(left=kept)
            await asyncio.to_thread(_put_in_place, work, data, shard)
        finally:
            await asyncio.to_thread(_remove, taken, work)
        return position.seq

    async def _follow(self, shard: int, client: ShardClient, seq: int) -> None:
        """Apply everything after an entry to a shard, no further than this host is.

        Raises:
            LogBroken: the log does not have it any more.
        """
        pieces = Pieces(self._stream)
        async with aclosing(follow(self._stream, Position(seq, 0))) as messages:
            async for message in messages:
                # With what it does to the catalog.
                await self._serving.wait_applied(message.seq, NEVER)
                await self._apply(shard, client, message, pieces)
                self._reached = message.seq

    async def _apply(
        self, shard: int, client: ShardClient, message: StreamMessage, pieces: Pieces
    ) -> None:
        """Apply an entry, if it changes the shard."""
        entry = decode_entry(message.content)
        if entry.kind == Kind.PIECE:
            pieces.keep(message.seq, entry.content)
        if entry.kind != Kind.WRITE:
            return
        group, _ = await pieces.unpacked(entry)
        assert isinstance(group, WriteGroup)
        parts = await divided(group, self._cluster.num_shards, message.seq)
        while shard in parts and self._catalog.state.has(group.index):
            try:
                await self._applier.apply_once(client, shard, message.seq, group, parts[shard])
                return
            except ServiceError as error:
                _log.debug("not applied yet", seq=message.seq, shard=shard, reason=error.message)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _join(self, shard: int, client: ShardClient) -> None:
        """Make a shard one of this host's if it soon has all that the host has applied."""
        async with self._follower.paused():
            position = self._serving.position.seq
            give_up_at = time.monotonic() + JOIN_SECONDS
            while self._reached < position and time.monotonic() < give_up_at:  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_SECONDS / 5)
            if self._reached < position or client.state is not ShardState.SERVING:
                return
            if self._cluster.local_shards.begun_at[shard] > position:
                return  # it was copied from a host that is ahead of this one
            arriving = {one: seq for one, seq in self._progress.arriving.items() if one != shard}
            left = {one: seq for one, seq in self._progress.left.items() if one != shard}
            shards = tuple(sorted((*self._cluster.here, shard)))
            await self._progress.note(shards=shards, arriving=arriving, left=left)
            self._cluster.admit(shard, position)
        _log.info("a shard is held", shard=shard, seq=position)
        self._placed.update()

    async def _forget(self, shard: int) -> None:
        """Give up a shard that was being taken."""
        _log.info("a shard is not taken any further", shard=shard)
        kept = {one: seq for one, seq in self._progress.arriving.items() if one != shard}
        left = {one: seq for one, seq in self._progress.left.items() if one != shard}
        await self._progress.note(arriving=kept, left=left)
        if self._processes.reconcile is not None:
            self._processes.reconcile()

    # --- give up

    async def _give_up(self, shard: int) -> None:
        """Give up a shard once all hosts that are to have it serve it."""
        own = self._cluster.local_shards
        if shard not in own.leaving:
            missing = self._known.hosts_without(shard)
            if missing:
                raise LogAway(f"shard {shard} is not served yet by {', '.join(missing)}")

            def without(table: PlacementTable) -> PlacementTable:
                return self._known.table_without(table, shard)

            if not self._known.has_left(await self._known.change(without), shard):
                return  # the order was taken back, or another host was, at the last moment
            own.leaving.add(shard)
            self._placed.update()
            _log.info("a shard is let go", shard=shard)
        await self._drained(shard)
        async with self._follower.paused():
            seq = self._serving.position.seq
            kept = tuple(one for one in self._cluster.here if one != shard)
            await self._progress.note(shards=kept, left={**self._progress.left, shard: seq})
            client = self._cluster.dismiss(shard)
        own.leaving.discard(shard)
        await client.stop()
        if self._processes.reconcile is not None:
            self._processes.reconcile()
        _log.info("a shard is no longer of this host; its folder stays", shard=shard, seq=seq)
        self._placed.update()

    async def _drained(self, shard: int) -> None:
        """Return once no request reads a shard here, or after a minute."""
        client = self._cluster.here[shard]
        begun_at = time.monotonic()
        await asyncio.sleep(DRAIN_SECONDS)
        while client.num_in_flight and time.monotonic() - begun_at < DRAIN_SECONDS_MAX:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_SECONDS / 5)


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _put_in_place(work: Path, data: Path, shard: int) -> None:
    """Move the folder of a shard into the data directory.

    Raises:
        DataDirectoryError: there is none.
    """
    source = data_directory.shard_folder(work, shard)
    target = data_directory.shard_folder(data, shard)
    if not source.is_dir():
        raise DataDirectoryError(f"the snapshot has no shard {shard}")
    shutil.rmtree(target, ignore_errors=True)
    source.rename(target)
    sync_folder(data)
