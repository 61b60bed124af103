"""Checks before a host follows a log, or makes it: it loses no entries, and fits the directory."""

from __future__ import annotations

from pathlib import Path

from common.process.logs import Log
from coordinator.cluster.shard_copies import shown_shards
from coordinator.replication.host.replica_file import ReplicaFile
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_durability import (
    dangers_of_servers,
    dangers_of_stream,
    monitors_of,
    refusal,
)
from coordinator.replication.log.log_stream import LogStream
from coordinator.settings import Settings

_log = Log("replica")


class CannotJoin(Exception):
    """This host cannot follow the log; the message says what to do."""


async def check_safe(stream: LogStream, info: StreamInfo | None, settings: Settings) -> None:
    """Check that a log is facetd's, and cannot lose what it has confirmed.

    Raises:
        CannotJoin: it is not, or may lose it, and `log_unsafe` is not set.
    """
    if info is not None:
        reason = refusal(info, settings)
        if reason is not None:
            raise CannotJoin(reason)
    monitors = monitors_of(settings, stream.servers)
    num_servers = max(len(stream.servers), stream.num_known_servers)
    dangers = await dangers_of_servers(monitors)
    if info is not None:
        dangers += dangers_of_stream(info, num_servers)
    elif num_servers > 1 and settings.log_replicas < min(num_servers, 3):
        dangers.append(f"log_replicas is {settings.log_replicas} with {num_servers} servers")
    if not dangers:
        return
    if not settings.log_unsafe:
        raise CannotJoin(
            f"the log may lose what it has confirmed: {'; '.join(dangers)}; or start with "
            "--log-unsafe"
        )
    _log.warning("the log is unsafe", dangers="; ".join(dangers))


def check_may_create(settings: Settings, replica: ReplicaFile | None, has_data: bool) -> None:
    """Check that this host may make the log, which does not exist.

    Raises:
        CannotJoin: it may not; the message says which host may, and how.
    """
    if replica is not None:
        raise CannotJoin(
            f"the log has no stream {settings.log_stream!r}, though {settings.data_dir} followed "
            "it: bring its servers back with their data; the guide says what to do if these are "
            "lost"
        )
    if settings.has_placed_shards and has_data and len(settings.own_shards) < settings.all_shards:
        raise CannotJoin(
            f"{settings.data_dir} has its own data: a log of hosts that hold some shards each can "
            "begin with it only on a host that, for now, holds all of them: start with "
            f"--shards-here {shown_shards(range(settings.all_shards))}, then the other hosts, "
            "empty; once these serve, start this one with its own shards again"
        )
    if not settings.log_create:
        what = "the data here" if has_data else "nothing"
        raise CannotJoin(
            f"the log has no stream {settings.log_stream!r}: start one host, once, with "
            f"--log-create, which makes it from {what}"
        )


def other_data(info: StreamInfo, settings: Settings) -> CannotJoin:
    """Return the error of a directory that has data and has not followed the log."""
    data = settings.data_dir
    from_another = "empty the directory, and this host copies its data from another one"
    if info.last_seq >= info.origin:
        return CannotJoin(f"{data} has its own data, and the log has other data: {from_another}")
    return CannotJoin(
        f"{data} has its own data, and there is a log already, without entries: if another host "
        f"made it, {from_another}; if this one did, and ended in that moment, remove the stream "
        f"(nats stream rm {settings.log_stream}) and start again with --log-create"
    )


def check_fits(info: StreamInfo, replica: ReplicaFile, data: Path) -> None:
    """Check that a directory has followed this log, and that the log has what it lacks.

    Raises:
        CannotJoin: another log, or one that was trimmed past the directory's end.
    """
    if info.cluster != replica.cluster:
        raise CannotJoin(
            f"{data} followed another log than the one that is there: name that one, or empty the "
            "directory"
        )
    if info.first_seq > replica.seq + 1:
        raise CannotJoin(
            f"{data} ends at entry {replica.seq}, the log begins at {info.first_seq}: this host "
            "was away for too long; empty the directory, and it takes its data from another one"
        )
