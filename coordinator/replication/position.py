"""How far this host has applied the log: DATA/replica.json.

    {"format": 1, "cluster": "6f0c…", "host": "b41d…", "seq": 1042, "stored_at": 17953636913875777}

The file may lag behind what the shards have on disk, never the other way round: applying an entry
again changes nothing, because shards know the groups that they have, and the catalog its revision.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from common.data_directory import DataDirectoryError, replica_path, write_atomically

REPLICA_FORMAT: Final = 1


class ReplicaFile(Struct, frozen=True):
    """What a host knows about itself as a replica."""

    format: int
    cluster: str
    """Of the log that the data belong to."""
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


_decode = msgspec.json.Decoder(ReplicaFile).decode


def new_host() -> str:
    """Return a name for a new copy of the data."""
    return secrets.token_hex(6)


def read_replica(data: Path) -> ReplicaFile | None:
    """Return what a directory says; None if it belongs to no log.

    Raises:
        DataDirectoryError: the file is damaged, or of a newer program.
    """
    path = replica_path(data)
    try:
        replica = _decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
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


def write_replica(data: Path, replica: ReplicaFile) -> None:
    """Replace the file."""
    write_atomically(replica_path(data), msgspec.json.encode(replica) + b"\n", mode=0o600)
