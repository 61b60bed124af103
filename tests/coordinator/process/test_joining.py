"""What a host of several says before it starts."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import pytest

from common import data_directory
from coordinator.process.joining import start_decision as joining
from coordinator.process.joining import unresolved_log_servers
from coordinator.process.joining.log_checks import other_data
from coordinator.replication.host.replica_file import ReplicaFile, read_replica, write_replica
from coordinator.replication.log.jetstream_info import StreamInfo
from coordinator.replication.log.log_errors import LogAway
from coordinator.replication.log.nats_connection import LogConnection
from coordinator.settings import Settings


def test_a_misspelled_server_of_the_log_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> list[Any]:
        if host != "a":
            raise socket.gaierror(-2, "Name or service not known")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    with caplog.at_level("WARNING", logger="facetd"):
        unresolved_log_servers.warn_of_unknown_names(["nats://a:4222", "nats://bb:4222"])

    assert [record.fields["server"] for record in caplog.records] == ["bb"]  # type: ignore[attr-defined]


def test_a_resolver_that_does_not_answer_delays_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def join_at_once(settings: Settings) -> None:
        """Find that all is well."""

    is_over = Event()
    monkeypatch.setattr(joining, "warn_of_unknown_names", lambda servers: is_over.wait(30))
    monkeypatch.setattr(joining, "_join", join_at_once)
    started = time.monotonic()
    assert joining.join(Settings(log_url="nats://a:4222,bb:4222")) == 0
    assert time.monotonic() - started < 10
    is_over.set()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"log_url": "http://a:4222"}, "takes the servers of the log as nats://HOST:PORT"),
        ({"log_credentials": "/no/such.creds"}, "/no/such.creds, which is not a file"),
    ],
)
def test_a_wrong_setting_is_said_once(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    wrong: dict[str, Any],
    reason: str,
) -> None:
    """On a thread it would be said again, with a traceback."""

    def start_thread(**_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(joining, "Thread", start_thread)
    settings = replace(Settings(log_url="nats://127.0.0.1:9", data_dir=tmp_path), **wrong)
    assert joining.join(settings) == 1
    said = capfd.readouterr().err
    assert reason in said
    assert said.count("\n") == 1, said


def test_a_server_of_which_the_resolver_says_nothing_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, even if it fails later."""
    is_over = Event()
    resolving = []

    def getaddrinfo(*_: object, **__: object) -> None:
        resolving.append(current_thread())
        is_over.wait(30)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(unresolved_log_servers, "NAME_SECONDS", 0.1)
    with caplog.at_level("WARNING", logger="facetd"):
        unresolved_log_servers.warn_of_unknown_names(["nats://a:4222", "nats://bb:4222"])
        is_over.set()
        for thread in resolving:
            thread.join()
    assert len(caplog.records) == 2


async def test_a_shard_that_leaves_while_the_log_is_away_is_not_taken_for_followed_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def connect(connection: LogConnection) -> None:
        raise LogAway("no server answers")

    monkeypatch.setattr(LogConnection, "connect", connect)
    write_replica(tmp_path, ReplicaFile(1, "log", "host", 40, 7, shards=(1, 2), configured=(1, 2)))
    settings = Settings(data_dir=tmp_path, log_url="nats://a:4222", shards_here="2", shards_of=3)

    await joining._join(settings)

    replica = read_replica(tmp_path)
    assert replica is not None
    assert (replica.seq, replica.stored_at) == (40, 7)
    assert replica.shards == replica.configured == (2,)
    assert replica.left == {1: 40}


def test_a_start_beside_a_running_service_changes_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It took shards into the directory, and noted others, before it was refused."""

    async def connect(connection: LogConnection) -> None:
        raise LogAway("no server answers")

    monkeypatch.setattr(LogConnection, "connect", connect)
    monkeypatch.setattr(joining, "warn_of_unknown_names", lambda servers: None)
    acquire_at_once = partial(data_directory.acquire_lock, wait_seconds=0)
    monkeypatch.setattr(data_directory, "acquire_lock", acquire_at_once)
    running = ReplicaFile(1, "log", "host", 40, 7, shards=(1, 2), configured=(1, 2))
    write_replica(tmp_path, running)
    settings = Settings(data_dir=tmp_path, log_url="nats://a:4222", shards_here="2", shards_of=3)

    lock = data_directory.acquire_lock(tmp_path)
    assert joining.join(settings) == 1
    os.close(lock)
    assert f"{tmp_path} is in use by another facetd" in capfd.readouterr().err
    assert read_replica(tmp_path) == running

    assert joining.join(settings) == 0
    noted = read_replica(tmp_path)
    assert noted is not None
    assert noted.shards == (2,)
    os.close(data_directory.acquire_lock(tmp_path))  # the supervisor is the next owner


@pytest.mark.parametrize(("last_seq", "is_told"), [(7, True), (8, False)])
def test_a_log_without_entries_may_be_made_from_the_data_that_are_here(
    tmp_path: Path, last_seq: int, is_told: bool
) -> None:
    """A host that is killed as soon as it has made the log was told to empty its directory."""
    info = StreamInfo.read(
        {
            "state": {"first_seq": 8, "last_seq": last_seq},
            "config": {"num_replicas": 1, "metadata": {"facetd-origin": "8"}},
        }
    )
    error = str(other_data(info, Settings(data_dir=tmp_path)))
    assert "empty the directory" in error
    assert ("if this one did" in error) == is_told
