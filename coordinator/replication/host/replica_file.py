"""How far this host has applied the log: DATA/replica.json.

    {"format": 1, "cluster": "6f0c…", "host": "b41d…", "seq": 1042, "stored_at": 17953636913875777}

The file may lag behind what the shards have on disk, never the other way round: applying an entry
again changes nothing, because shards know the groups that they have, and the catalog its revision.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from common.data_directory import DataDirectoryError, replica_path
from common.decode_errors import UNDECODABLE
from common.durable_files import write_atomically
from coordinator.settings import Settings

REPLICA_FORMAT: Final = 1


class Position(NamedTuple):
    """How far a host has applied the log."""

    seq: int
    """Number of the last entry."""
    stored_at: int
    """When the log stored it, in nanoseconds since 1970; 0: not known, nothing is compared."""


class ReplicaFile(Struct, frozen=True):
    """A host's own state as a replica."""

    format: int
    cluster: str
    """Id of the log that the data belong to."""
    host: str
    """Names this copy of the data; a new one has a new name."""
    seq: int
    """All entries up to here are applied."""
    stored_at: int
    """When the log stored that entry, in nanoseconds since 1970; 0: not known."""
    stopped: str = ""
    """Why this copy must not be used any more; empty: it may."""
    shards: tuple[int, ...] = ()
    """Those that this host holds, where each host holds some; empty: all."""
    left: dict[int, int] = {}
    """By shard that was taken from this host: the entry up to which its folder has everything."""
    arriving: dict[int, int] = {}
    """By shard that this host is about to hold: the entry up to which its folder has everything."""
    configured: tuple[int, ...] = ()
    """Those that the setting named at the last start; `shards` has what was moved since."""


_decode = msgspec.json.Decoder(ReplicaFile).decode


def host_name(settings: Settings) -> str:
    """Return the name of a host, for people."""
    return settings.log_host or f"{socket.gethostname()}:{settings.port}"


def new_host() -> str:
    """Return a name for a new copy of the data."""
    return secrets.token_hex(6)


def read_replica(data: Path) -> ReplicaFile | None:
    """Read the file of a directory; None if the directory belongs to no log.

    Raises:
        DataDirectoryError: the file is damaged, or of a newer program.
    """
    path = replica_path(data)
    try:
        replica = _decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, *UNDECODABLE) as error:
        raise DataDirectoryError(
            f"{path} cannot be read ({error}); empty the directory, and the host takes its data "
            "from another one"
        ) from error
    if replica.format != REPLICA_FORMAT:
        raise DataDirectoryError(
            f"{path} has format {replica.format}, this program reads {REPLICA_FORMAT}; install "
            "the version that wrote it"
        )
    return replica


def held_shards(settings: Settings, replica: ReplicaFile | None) -> tuple[int, ...]:
    """Return the shards that a host holds: those of the setting, and what was moved since."""
    own = settings.own_shards
    if replica is None or not replica.shards or replica.configured != own:
        return own
    return replica.shards


def shards_to_run(settings: Settings) -> tuple[int, ...]:
    """Return the shards whose processes are to run on a host.

    Raises:
        DataDirectoryError: replica.json cannot be read.
    """
    if not settings.has_placed_shards:
        return settings.own_shards
    replica = read_replica(settings.data_dir)
    return tuple(sorted({*held_shards(settings, replica), *_arriving(replica)}))


def arriving_shards(settings: Settings) -> frozenset[int]:
    """Return the shards that a host is about to hold.

    Raises:
        DataDirectoryError: replica.json cannot be read.
    """
    return _arriving(read_replica(settings.data_dir) if settings.has_placed_shards else None)


def _arriving(replica: ReplicaFile | None) -> frozenset[int]:
    return frozenset(() if replica is None else replica.arriving)


def write_replica(data: Path, replica: ReplicaFile) -> None:
    """Replace the file."""
    write_atomically(replica_path(data), msgspec.json.encode(replica) + b"\n", mode=0o600)
