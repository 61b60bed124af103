"""A service of two shards for the tests of a file, and its client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinator.clients.http_client import Client
from tests.service import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("cli") / "data", 2) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Client:
    return Client(f"http://127.0.0.1:{service.port}")
