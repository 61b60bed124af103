"""Where processes say that they listen."""

from __future__ import annotations

from pathlib import Path

from common.data_directory import shard_folder
from common.endpoint_files import (
    Endpoint,
    endpoint_path,
    forget_endpoints,
    read_endpoint,
    write_endpoint,
)


def test_an_endpoint_is_found_until_it_is_forgotten(tmp_path: Path) -> None:
    assert read_endpoint(tmp_path, 0) is None
    shard_folder(tmp_path, 0).mkdir()
    write_endpoint(tmp_path, 0, Endpoint("127.0.0.1", 4711, 12))
    assert read_endpoint(tmp_path, 0) == Endpoint("127.0.0.1", 4711, 12)
    path = endpoint_path(tmp_path, 0)
    path.write_bytes(path.read_bytes().replace(b"127", b"\xff27"))
    assert read_endpoint(tmp_path, 0) is None
    forget_endpoints(tmp_path, 2)
    assert read_endpoint(tmp_path, 0) is None
