"""Endpoints: the files in which shards and coordinator of a data directory say where they listen.

Their size is fixed, and they are cleared rather than removed. So they can be overwritten in place,
and a process starts even on a disk without a free block.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from common.data_directory import shard_folder
from common.decode_errors import UNDECODABLE
from common.disk_errors import NO_ROOM
from common.durable_files import write_atomically

_ENDPOINT_BYTES: Final = 512


class Endpoint(Struct, frozen=True):
    """The address of a process of the service."""

    host: str
    port: int
    pid: int


# Made once: a concurrent first use of a class by two threads would crash the process.
_decode_endpoint = msgspec.json.Decoder(Endpoint).decode


def coordinator_endpoint_path(data: Path) -> Path:
    """Return the file in which the coordinator says where it listens."""
    return data / "coordinator.json"


def endpoint_path(data: Path, shard: int) -> Path:
    """Return the file in which a shard says where it listens."""
    return shard_folder(data, shard) / "endpoint.json"


def write_endpoint(data: Path, shard: int, endpoint: Endpoint) -> None:
    """Write where a shard listens; for the coordinator of the same data directory."""
    _write_endpoint(endpoint_path(data, shard), endpoint)


def write_coordinator_endpoint(data: Path, endpoint: Endpoint) -> None:
    """Write where the coordinator listens; for the command line."""
    _write_endpoint(coordinator_endpoint_path(data), endpoint)


def _write_endpoint(path: Path, endpoint: Endpoint) -> None:
    """Replace the content of an endpoint's file.

    On a disk without a free block it is overwritten in place; a reader that sees it half written
    treats it as missing and retries.
    """
    content = msgspec.json.encode(endpoint).ljust(_ENDPOINT_BYTES)
    try:
        write_atomically(path, content, mode=0o600)
    except OSError as error:
        if error.errno not in NO_ROOM or not path.exists():
            raise
        _write_over(path, content)


def _write_over(path: Path, content: bytes) -> None:
    """Write into the blocks that a file has."""
    with path.open("r+b", buffering=0) as file:
        file.write(content)


def forget_endpoints(data: Path, num_shards: int) -> None:
    """Clear the endpoints of previous processes; only the owner of the directory may.

    The files stay, without content: a new one might find no room.
    """
    forget_coordinator_endpoint(data)
    for shard in range(num_shards):
        _forget_endpoint(endpoint_path(data, shard))


def forget_coordinator_endpoint(data: Path) -> None:
    """Clear the coordinator's endpoint."""
    _forget_endpoint(coordinator_endpoint_path(data))


def _forget_endpoint(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        _write_over(path, b" " * _ENDPOINT_BYTES)


def read_endpoint(data: Path, shard: int) -> Endpoint | None:
    """Return the last endpoint of a shard; None if it never had one."""
    return _read_endpoint(endpoint_path(data, shard))


def read_coordinator_endpoint(data: Path) -> Endpoint | None:
    """Return the coordinator's address; None if it does not run."""
    return _read_endpoint(coordinator_endpoint_path(data))


def _read_endpoint(path: Path) -> Endpoint | None:
    try:
        return _decode_endpoint(path.read_bytes())
    except (OSError, *UNDECODABLE):
        return None
