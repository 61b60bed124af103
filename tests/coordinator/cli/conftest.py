"""A service of two shards for the tests of a file, its client, and a PostgreSQL to follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinator.command_line_client import Client
from tests.coordinator.cli.postgres import PostgresServer, running_postgres
from tests.service import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("cli") / "data", 2) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Client:
    return Client(f"http://127.0.0.1:{service.port}")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    folder = tmp_path_factory.mktemp("pg")
    with running_postgres(folder, "wal_level=logical", "max_replication_slots=100") as server:
        yield server


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.url
