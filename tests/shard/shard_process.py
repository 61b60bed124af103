"""A shard process and connections to it, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import orjson
from msgspec import structs

from common import data_directory
from common.endpoint_files import endpoint_path, read_endpoint
from common.protocol.client import RpcClient
from common.protocol.messages import (
    PROTOCOL_VERSION,
    ApplyRequest,
    ApplyResponse,
    CatalogUpdate,
    FacetRequest,
    GetRequest,
    Hello,
    IndexEntry,
    JoinedGroups,
    SearchRequest,
    SearchResponse,
    Welcome,
)
from common.protocol.methods import APPLY, APPLY_JOINED, CATALOG, GET, SEARCH, Method
from common.protocol.write_operations_and_outcomes import Operation
from tests.forking import ForkedCommand
from tests.service import ROOT, start_command

START_SECONDS = 150
SECRET = "s3cret"


def make_entry(revision: int = 1, **configuration: Any) -> IndexEntry:
    """Return index 7, with a facet unless told otherwise."""
    return IndexEntry(7, "things", revision, configuration or {"aggregations": {"color": {}}})


def _group(seq: int, *items: dict[str, Any]) -> ApplyRequest:
    """Return a group that puts items."""
    contents = [orjson.dumps(item) for item in items]
    places = np.arange(len(items), dtype=np.uint64) + np.uint64(seq << 32)
    return ApplyRequest(
        index=7,
        seq=seq,
        horizon=seq - 1,
        payload=b"".join(contents),
        lengths=np.array([len(one) for one in contents], np.uint32).tobytes(),
        operations=bytes([Operation.PUT] * len(items)),
        places=places.tobytes(),
    )


P = TypeVar("P")
R = TypeVar("R")


class ShardProcess:
    """One shard process and connections to it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.process: subprocess.Popen[bytes] | ForkedCommand | None = None
        self.pipe_end: int | None = None
        self.client: RpcClient | None = None
        self._errors: IO[bytes] | None = None

    @property
    def errors(self) -> bytes:
        """What the process has written to stderr."""
        assert self._errors is not None
        return os.pread(self._errors.fileno(), 1 << 20, 0)

    def start(
        self,
        *,
        faults: str = "",
        num_shards: int = 1,
        with_pipe: bool = False,
        wrapper: tuple[str, ...] = (),
    ) -> None:
        data_directory.shard_folder(self.data, 0).mkdir(parents=True, exist_ok=True)
        endpoint_path(self.data, 0).unlink(missing_ok=True)
        (self.data / "secret").write_text(SECRET)
        words = ["--shard-id", "0", "--shards", str(num_shards), "--data-dir", str(self.data)]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `kill`)
        errors = self._errors.fileno()
        environment = {"FACETD_FAULTS": faults}
        if not with_pipe and not wrapper:
            self.process = start_command(
                *words, errors=errors, module="shard", environment=environment
            )
            return
        inherited: tuple[int, ...] = ()
        if with_pipe:
            pipe, self.pipe_end = os.pipe()
            inherited = (pipe,)
            words += ["--parent-pipe", str(pipe)]
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "shard", *words],
            cwd=ROOT,
            env=os.environ | environment,
            pass_fds=inherited,
            stderr=errors,
        )
        for descriptor in inherited:
            os.close(descriptor)

    async def connect(self, secret: str = SECRET, num_shards: int = 1) -> Welcome:
        assert self.process is not None
        async with asyncio.timeout(START_SECONDS):
            while (endpoint := read_endpoint(self.data, 0)) is None:
                assert self.process.poll() is None, "the shard has ended"
                await asyncio.sleep(0.01)
        hello = Hello(PROTOCOL_VERSION, secret, 0, num_shards)
        self.client, welcome = await RpcClient.connect(endpoint.host, endpoint.port, hello)
        return welcome

    async def call(self, method: Method[P, R], params: P) -> R:
        assert self.client is not None
        return await self.client.call(method, params, 20_000)

    async def take_catalog(self, *entries: IndexEntry, revision: int = 1) -> None:
        await self.call(CATALOG, CatalogUpdate(revision, entries))

    async def put(self, seq: int, *items: dict[str, Any]) -> ApplyResponse:
        return await self.call(APPLY, _group(seq, *items))

    async def put_joined(self, *groups: tuple[int, dict[str, Any]]) -> ApplyResponse:
        """Put an item by each of some groups, in one commit."""
        request = _group(groups[-1][0], *(item for _, item in groups))
        places = np.array([seq << 32 for seq, _ in groups], np.uint64)
        request = structs.replace(request, places=places.tobytes(), horizon=groups[0][0] - 1)
        sizes = tuple((seq, 1) for seq, _ in groups)
        return await self.call(APPLY_JOINED, JoinedGroups(request, groups[0][0], sizes))

    async def search(self, horizon: int = 1 << 40, revision: int = 1) -> SearchResponse:
        request = SearchRequest(
            index=7,
            horizon=horizon,
            revision=revision,
            query=None,
            filters=(),
            facets=(FacetRequest("color", leaves_out_own=False, num_live_wanted=0),),
            ranges=(),
            sort=(),
            is_place_descending=False,
            num_hits=10,
            num_documents=10,
        )
        return await self.call(SEARCH, request)

    async def get(self, id: str, horizon: int = 1 << 40) -> bytes | None:
        response = await self.call(GET, GetRequest(7, horizon, id.encode()))
        return response.document

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(START_SECONDS)

    async def stop(self) -> None:
        """Send SIGTERM to the shard (not to what it is wrapped in)."""
        endpoint = read_endpoint(self.data, 0)
        assert endpoint is not None
        os.kill(endpoint.pid, signal.SIGTERM)

    async def kill(self) -> None:
        """End whatever runs, and give transports their turn of the loop to close."""
        if self.client is not None:
            self.client.close("killed by the test")
        endpoint = read_endpoint(self.data, 0)
        if self.process is not None and self.process.poll() is None:
            if endpoint is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(endpoint.pid, signal.SIGKILL)
            else:
                self.process.kill()
        if self.process is not None:
            self.process.wait()
        if self._errors is not None:
            self._errors.close()
        if self.pipe_end is not None:
            with contextlib.suppress(OSError):
                os.close(self.pipe_end)
        await asyncio.sleep(0)
