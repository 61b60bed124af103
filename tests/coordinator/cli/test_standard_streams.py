"""Standard streams that are full, closed or not read: a line on stderr, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import ROOT, Service, run_command

COMMANDS = [
    *("--help", "help", "version", "-V", "load --help", "keys --help", "config", "man"),
    "completion show bash",
]
COMMANDS_OF_A_SERVICE = [
    *("search films", "search films --json", "export films", "status", "open films", "backup -"),
    *("analytics", "keys", "snapshots", "configure films", "load coordinator/demo/films.ndjson"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("streams") / "data", 1) as service:
        client = service.client()
        client.make_films()
        client.close()
        yield service


def run(command: str, redirection: str, environment: dict[str, str] | None = None) -> str:
    """Run a command with a redirection; return what it says on stderr, and its exit status."""
    inherited = {name: one for name, one in os.environ.items() if name != "PYTHONUNBUFFERED"}
    script = f"exec '{sys.executable}' -m coordinator {command} {redirection}"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=ROOT,
        env={**inherited, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return f"{done.stderr}{done.returncode}"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_that_cannot_be_printed_is_a_line(command: str) -> None:
    assert run(command, ">/dev/full") == "facetd: No space left on device\n1"
    assert run(command, ">&-") == "0"
    assert run(command, "<&- >&- 2>&-") == "0"


@pytest.mark.parametrize("command", COMMANDS_OF_A_SERVICE)
def test_a_result_that_cannot_be_printed_is_a_line(command: str, service: Service) -> None:
    environment = {"FACETD_PORT": str(service.port)}

    full = run(command, ">/dev/full", environment)
    assert full.endswith("facetd: No space left on device\n1")
    assert "Traceback" not in full

    closed = run(command, ">&-", environment)
    assert closed.endswith("0")
    assert "Traceback" not in closed


def test_a_report_on_data_that_cannot_be_printed_is_a_line(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 1) as service:
        client = service.client()
        client.make_films()
        client.close()
    full = run(f"check --data-dir '{tmp_path / 'data'}'", ">/dev/full")
    assert full == "facetd: No space left on device\n1"


def test_a_key_that_cannot_be_printed_is_removed(tmp_path: Path) -> None:
    removed = "facetd: the key could not be printed, so it was removed\n"
    with Service(tmp_path / "data", 1) as service:
        environment = {"FACETD_PORT": str(service.port)}
        full = run("keys create", ">/dev/full", environment)
        assert full == f"{removed}facetd: No space left on device\n1"
        client = service.client()
        assert client.get("/_keys").json == {"keys": []}  # anyone may still make the first one

        key = client.post("/_keys", {"actions": ["admin"]}).json["key"]
        full = run("keys create", ">/dev/full", {**environment, "FACETD_KEY": key})
        assert full == f"{removed}facetd: No space left on device\n1"
        client.headers["x-api-key"] = key
        assert len(client.get("/_keys").json["keys"]) == 1
        client.close()


def test_a_key_for_the_first_start_that_cannot_be_printed_is_not_made(tmp_path: Path) -> None:
    command = f"keys create --data-dir '{tmp_path / 'data'}'"
    assert run(command, ">/dev/full") == "facetd: No space left on device\n1"
    made = run_command(*command.replace("'", "").split())
    assert json.loads(made.stdout)["actions"] == ["search", "write", "configure", "admin"]


@pytest.mark.parametrize("command", ["--help", "man", "config"])
def test_a_reader_that_has_gone_ends_a_command_silently(command: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "coordinator", command],
            cwd=ROOT,
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
