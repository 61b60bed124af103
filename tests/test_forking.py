"""A service that is forked is the one that its command starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests import forking
from tests.service import ROOT, Service, run_command
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def as_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "IS_PARALLEL", True)


def facetd(folder: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run a command to its end; return its status, and what it wrote."""
    paths = folder / "out", folder / "err"
    with paths[0].open("wb") as output, paths[1].open("wb") as errors, open(os.devnull) as nothing:
        streams = (nothing.fileno(), output.fileno(), errors.fileno())
        environment = {**os.environ, **variables}
        status = forking.fork(arguments, environment, folder, streams).wait(30)
    return status, paths[0].read_text(), paths[1].read_text()


def test_it_has_its_arguments_environment_folder_and_streams(tmp_path: Path) -> None:
    (tmp_path / "some.toml").write_text("port = 4321\n")
    status, output, errors = facetd(
        tmp_path, "config", "--config-file", "some.toml", FACETD_SHARDS="7"
    )
    assert (status, errors) == (0, "")
    lines = [line.split()[:2] for line in output.splitlines()]
    assert ["port", "4321"] in lines
    assert ["shards", "7"] in lines
    assert "FACETD_SHARDS" not in os.environ
    assert facetd(tmp_path, "config")[1] != output, "nothing is left of the one before"


def typed(*arguments: str) -> tuple[int, str, str]:
    """Run a command as a user does; return its status, and what it wrote."""
    command = [sys.executable, "-m", "coordinator", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_it_fails_as_one_that_is_typed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("")
    for wrong in (("--shards", "none"), ("--data-dir", str(data))):
        expected = typed("serve", *wrong)
        assert facetd(tmp_path, "serve", *wrong) == expected
        assert expected[0] in (1, 2)


def test_a_command_is_run_to_its_end_with_what_it_reads(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 1) as service:
        lines = b"".join(
            b'{"id":%d}\n' % number for number in range(20_000)
        )  # more than a pipe has
        url = ("--url", f"http://127.0.0.1:{service.port}")
        loaded = run_command("load", "-", "--index", "many", *url, text=lines)
        assert (loaded.returncode, json.loads(loaded.stdout)["created"]) == (0, 20_000)
        assert run_command("export", "many", *url).stdout == lines
        assert service.terminate() == 0
    checked = run_command("check", "--data-dir", str(service.data))
    assert checked.stdout.decode() == typed("check", "--data-dir", str(service.data))[1]
    assert b", 0 problems" in checked.stdout


def test_a_command_that_runs_on_is_killed(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_command("serve", "--port", "0", "--data-dir", str(tmp_path / "data"), timeout=0.1)


def test_another_module_is_run_as_a_program(tmp_path: Path) -> None:
    (refused, expected) = (
        run_command(*arguments, module=module)
        for arguments, module in (
            (("{}", "follow", "--nothing"), "tests.coordinator.cli.impatient_follower"),
            (("follow", "--nothing"), "coordinator"),
        )
    )
    assert (refused.returncode, refused.stderr) == (expected.returncode, expected.stderr)
    assert b"--nothing" in expected.stderr


def test_its_faults_are_armed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Service(data, 1, environment={"FACETD_FAULTS": "writer.receive=error@2"}) as service:
        assert isinstance(service.process, forking.ForkedCommand)
        with closing(service.client()) as client:
            assert client.post("/things/configuration", {}).status == 200
            assert [client.post("/things/items", {"id": 1}).status for _ in range(2)] == [200, 500]
        service.wait_ready()
        assert service.terminate() == 0
    reshard = ("reshard", "--shards", "2", "--data-dir", str(data))
    for fault in ("built", "switch"):  # in the program of the shard package, and in the command
        assert run_command(*reshard, FACETD_FAULTS=f"reshard.{fault}=kill@1").returncode != 0
    assert run_command(*reshard).returncode == 0


def test_its_fork_server_is_replaced_by_one_that_is_started(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 2) as service:
        assert isinstance(service.process, forking.ForkedCommand)
        supervisor, *before = service.pids()
        (fork_server,) = service.pids_of("common.process.fork_server")
        assert len(service.pids_of("shard")) == 2
        os.kill(fork_server, signal.SIGKILL)
        wait_until(lambda: set(before).isdisjoint(service.pids()))
        wait_until(lambda: len(service.pids_of("shard")) == 2)
        service.wait_ready()
        assert service.process.pid == supervisor
        with pytest.raises(subprocess.TimeoutExpired):
            service.process.wait(0.05)
        assert service.terminate() == 0


def test_nothing_outlives_a_killed_one(tmp_path: Path) -> None:
    with Service(tmp_path / "data", 1) as service:
        assert service.process is not None
        pids = service.pids()
        service.process.kill()
        assert service.process.wait(10) == -signal.SIGKILL
        service._wait_gone(pids)
        service.process = None


@pytest.mark.parametrize("name", [*forking.READ_AT_IMPORT, "LD_PRELOAD", "TZ"])
def test_what_a_process_reads_at_its_start_is_not_forked(name: str) -> None:
    assert forking.can_fork({**os.environ, "FACETD_SHARDS": "2"})
    assert not forking.can_fork({**os.environ, name: "something"})
