"""The demo's films, where the service stops before they are loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from common.data_directory import create
from common.endpoint_files import Endpoint, write_coordinator_endpoint
from coordinator.demo import load_films
from coordinator.settings import Settings
from tests.service import free_port


@pytest.mark.parametrize("is_listening", [False, True], ids=["not listening", "not answering"])
def test_a_stop_ends_the_wait_for_the_service(tmp_path: Path, is_listening: bool) -> None:
    data = tmp_path / "data"
    create(data)
    if is_listening:
        write_coordinator_endpoint(data, Endpoint("127.0.0.1", free_port(), 0))

    async def start_and_stop() -> None:
        loading = asyncio.ensure_future(load_films(Settings(data_dir=data)))
        await asyncio.sleep(0.1)
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        async with asyncio.timeout(10.0):
            await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(start_and_stop())
