"""The processes as a user has them: started, killed, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from common.endpoint_files import coordinator_endpoint_path
from common.process.parent_death import EXIT_CANNOT_START
from common.process.python_command import python_command
from coordinator.process.child_process import BACK_OFF_SECONDS, Child
from coordinator.process.fork_server_client import ForkedProcess
from coordinator.process.port_conflict import port_holder
from coordinator.process.supervisor import Supervisor
from coordinator.replication.host.replica_file import ReplicaFile, write_replica
from coordinator.settings import Settings
from tests.service import (
    ROOT,
    Client,
    Service,
    free_port,
    is_running,
    process_tree,
    run_command,
)
from tests.waiting import wait_until

HEALED_SECONDS = 2.0
"""Promise P5; what a loaded test machine adds is in `_SLACK_SECONDS`."""

_SLACK_SECONDS = 8.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("supervisor") / "data", 2, is_forked=False) as service:
        with _client(service) as client:
            assert client.post("/films/configuration", {}).status == 200
            assert client.post("/films/items", [{"id": i} for i in range(10)]).status == 200
        yield service


def _facetd(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that is refused: what is said does not depend on how it was started."""
    done = run_command(*arguments, timeout=60)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def _client(service: Service) -> contextlib.closing[Client]:
    return contextlib.closing(service.client(timeout=5))


def _num_items(service: Service) -> int:
    with _client(service) as client:
        total: int = client.search("films")["pagination"]["total"]
    return total


def _wait_healed(service: Service) -> float:
    """Wait until a search over all shards works; return how long that took."""
    started = time.monotonic()
    with _client(service) as client:
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if client.get("/films/search").status == 200:
                    return time.monotonic() - started
            assert time.monotonic() - started < 60, service.log()[-3000:]
            time.sleep(0.01)


class TestHealing:
    def test_a_killed_shard_serves_again(self, service: Service) -> None:
        pid = service.pids_of("shard")[0]
        os.kill(pid, signal.SIGKILL)
        assert _wait_healed(service) < HEALED_SECONDS + _SLACK_SECONDS
        assert pid not in service.pids_of("shard")
        assert len(service.pids_of("shard")) == 2
        assert _num_items(service) == 10

    def test_a_killed_fork_server_takes_its_processes_along_and_all_return(
        self, service: Service
    ) -> None:
        former = [*service.pids_of("shard"), *service.pids_of("coordinator")]
        os.kill(service.pids_of("common.process.fork_server")[0], signal.SIGKILL)
        wait_until(lambda: not any(is_running(pid) for pid in former))
        _wait_healed(service)
        assert _num_items(service) == 10

    def test_a_killed_coordinator_is_replaced_and_the_shards_stay(self, service: Service) -> None:
        shards = service.pids_of("shard")
        os.kill(service.pids_of("coordinator")[0], signal.SIGKILL)
        _wait_healed(service)
        assert service.pids_of("shard") == shards
        assert _num_items(service) == 10
        with _client(service) as client:
            assert client.post("/films/items", [{"id": 3}]).json["updated"] == 1

    def test_a_crash_says_where_it_was_and_one_that_recurs_what_to_do(
        self, service: Service
    ) -> None:
        survivor = service.pids_of("shard")[0]
        for _ in range(3):  # before the third restart there is a pause
            _wait_healed(service)
            (pid,) = {*service.pids_of("shard")} - {survivor}
            os.kill(pid, signal.SIGSEGV)
            wait_until(lambda: not is_running(pid))  # noqa: B023
        wait_until(lambda: "run `facetd check`" in service.log(), 5)
        log = service.log()
        assert "signal=SIGSEGV" in log
        assert "Fatal Python error: Segmentation fault" in log
        assert "shard/process/shard_process.py" in log
        _wait_healed(service)
        assert _num_items(service) == 10


class TestSession:
    def test_processes_share_a_session_and_each_leads_its_group(self, service: Service) -> None:
        pids = service.pids()
        assert len(pids) == 5
        assert {os.getsid(pid) for pid in pids} == {os.getsid(pids[0])}
        assert [os.getpgid(pid) for pid in pids] == pids


def test_processes_are_forked_from_one_that_has_one_thread(service: Service) -> None:
    (fork_server,) = service.pids_of("common.process.fork_server")
    assert len(list(Path(f"/proc/{fork_server}/task").iterdir())) == 1


def test_a_folder_that_will_refuse_snapshots_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    arguments = ("--snapshot-dir", str(tmp_path / "file"))
    with Service(tmp_path / "data", 1, arguments=arguments) as service:
        wait_until(lambda: "no snapshot can be made" in service.log())
        assert f"{tmp_path}/file is not a folder: name another with --snapshot-dir" in service.log()


class TestOwnership:
    def test_a_second_start_says_who_has_the_directory(self, service: Service) -> None:
        assert service.process is not None
        second = _facetd("serve", "--port", "0", "--data-dir", str(service.data))
        assert second.returncode == 1
        assert f"in use by another facetd (process {service.process.pid})" in second.stderr
        assert "Traceback" not in second.stderr

    def test_another_shard_process_is_refused(self, service: Service) -> None:
        second = _facetd(
            *("shard", "--shard-id", "0", "--shards", "2", "--data-dir", str(service.data))
        )
        assert second.returncode not in (0, 2)
        assert "in use" in second.stderr

    def test_another_number_of_shards_is_refused_with_the_way_out(self, tmp_path: Path) -> None:
        with Service(tmp_path / "data", 1) as service:
            assert service.terminate() == 0
        refused = _facetd("serve", "--port", "0", "--shards", "3", "--data-dir", str(service.data))
        assert refused.returncode == 1
        assert "made with 1 shard;" in refused.stderr
        assert "facetd reshard" in refused.stderr

    @pytest.mark.parametrize("num_coordinators", [1, 2])
    def test_a_port_that_is_taken_is_refused_before_anything_starts(
        self, tmp_path: Path, num_coordinators: int
    ) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            refused = _facetd(
                *("serve", "--port", port, "--shards", "1", "--data-dir", str(tmp_path / "data")),
                *("--coordinators", str(num_coordinators)),
            )
        assert refused.returncode == 1
        [line] = refused.stderr.splitlines()
        assert line.startswith(
            f"facetd: cannot listen on 127.0.0.1:{port}: Address already in use by "
        )
        assert line.endswith(f" (process {os.getpid()}); choose another --port or --host")

    def test_the_port_of_another_facetd_is_refused_and_the_process_named(
        self, service: Service, tmp_path: Path
    ) -> None:
        holder = port_holder(service.port)
        assert holder is not None
        assert re.fullmatch(r"facetd \(process \d+\)", holder.description)
        assert not holder.is_ending
        refused = _facetd(
            *("serve", "--port", str(service.port), "--shards", "1"),
            *("--data-dir", str(tmp_path / "data")),
        )
        assert f"Address already in use by {holder.description};" in refused.stderr

    def test_a_host_that_is_unknown_is_refused_without_waiting(self, tmp_path: Path) -> None:
        refused = _facetd(
            *("serve", "--host", "192.0.2.1", "--port", "0", "--shards", "1", "--insecure"),
            *("--data-dir", str(tmp_path / "data")),
        )
        assert refused.returncode == 1
        assert "Cannot assign requested address; choose another" in refused.stderr

    def test_an_open_address_wants_a_key(self, tmp_path: Path) -> None:
        refused = _facetd(
            *("serve", "--host", "0.0.0.0", "--port", "0", "--shards", "1"),
            *("--data-dir", str(tmp_path / "data")),
        )
        assert refused.returncode == 1
        assert "--insecure" in refused.stderr
        assert not (tmp_path / "data").exists()  # refused before anything was made
        # The way out that it names is one.
        made = _facetd(
            *("keys", "create", "--action", "admin", "--data-dir", str(tmp_path / "data"))
        )
        assert f"facetd keys create --action admin --data-dir {tmp_path / 'data'}" in refused.stderr
        assert made.returncode == 0, made.stderr

    def test_an_open_address_wants_a_key_for_data_that_are_there(self, tmp_path: Path) -> None:
        with Service(tmp_path / "data", 1):
            pass
        _refused_at_once(tmp_path / "data", "--insecure", "--host", "0.0.0.0")

    def test_data_of_several_hosts_want_the_log(self, tmp_path: Path) -> None:
        with Service(tmp_path / "data", 1):
            pass
        write_replica(tmp_path / "data", ReplicaFile(1, "c", "h", 0, 0))
        _refused_at_once(tmp_path / "data", "follows the log of several hosts: start with --log")

    def test_traces_want_their_libraries(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hides_others = tmp_path / "modules" / "opentelemetry"
        hides_others.mkdir(parents=True)
        (hides_others / "__init__.py").touch()
        monkeypatch.setenv("PYTHONPATH", str(hides_others.parent))
        reason = "pip install 'facetd[otel]'"
        _refused_at_once(tmp_path / "data", reason, "--set", "traces=true")
        assert not (tmp_path / "data").exists()

    @pytest.mark.parametrize("name", ["rpc_tls_cert", "rpc_tls_key", "rpc_tls_ca"])
    def test_certificates_must_be_there(self, tmp_path: Path, name: str) -> None:
        files = {one: tmp_path / one for one in ("rpc_tls_cert", "rpc_tls_key", "rpc_tls_ca")}
        for one, path in files.items():
            if one != name:
                path.touch()
        _refused_at_once(
            *(tmp_path / "data", f"{name}: cannot read {files[name]}: No such file or directory"),
            *("--log", "nats://127.0.0.1:1", "--shards-here", "0", "--of", "1"),
            *("--rpc-listen", f"127.0.0.1:{free_port()}"),
            *(f"--{one.replace('_', '-')}={path}" for one, path in files.items()),
            is_of_several=True,
        )


def _refused_at_once(data: Path, reason: str, *arguments: str, is_of_several: bool = False) -> None:
    """Start a service that is refused by one line, before any other process has begun."""
    shards = () if is_of_several else ("--shards", "1")
    refused = run_command(
        *("serve", "--port", "0", "--data-dir", str(data), *shards, *arguments),
        timeout=60,
    )
    [line] = refused.stderr.decode().splitlines()
    assert refused.returncode == 1
    assert reason in line


NOTHING_IGNORED = ("env", "--default-signal")
"""Runs a command that stops at signals, even if these tests were started with `nohup`."""


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_a_signal_stops_all_in_order(self, tmp_path: Path, number: signal.Signals) -> None:
        with Service(tmp_path / "data", 2, wrapper=NOTHING_IGNORED) as service:
            assert service.process is not None
            pids = process_tree(service.process.pid)
            assert len(pids) == 5  # supervisor, coordinator, fork server, two shards
            started = time.monotonic()
            service.process.send_signal(number)
            assert service.process.wait(20) == 0
            assert time.monotonic() - started < 10
            assert not [pid for pid in pids if is_running(pid)]
            service.process = None
            log = service.log()
            assert "Traceback" not in log
            assert log.rindex('"ended" what=coordinator status=0') < log.rindex(
                '"ended" what="shard 0" status=0'
            )

    def test_a_data_directory_that_takes_no_change_cuts_no_response(self, tmp_path: Path) -> None:
        body = b'{"query": ""}'
        head = (
            b"POST /films/search HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        with Service(tmp_path / "data", 1, wrapper=NOTHING_IGNORED) as service:
            with _client(service) as client:
                assert client.post("/films/configuration", {}).status == 200
            endpoint = coordinator_endpoint_path(service.data)
            endpoint.unlink()
            endpoint.mkdir()  # refuses to be overwritten, even by root
            with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
                connection.sendall(head + body[:5])
                with _client(service) as client:
                    metric = "facetd_body_bytes_in_flight 5.0"
                    wait_until(lambda: metric in client.get("/_metrics").body.decode())
                assert service.process is not None
                service.process.send_signal(signal.SIGTERM)
                wait_until(lambda: 'coordinator "stopping"' in service.log())
                connection.sendall(body[5:])
                response = http.client.HTTPResponse(connection)
                response.begin()
                assert response.status == 200
            assert service.process.wait(20) == 0
            service.process = None
            assert "Traceback" not in service.log()

    def test_a_signal_that_is_ignored_stops_nothing(self, tmp_path: Path) -> None:
        with Service(tmp_path / "data", 2, wrapper=("nohup",)) as service:
            assert service.process is not None
            service.process.send_signal(signal.SIGHUP)
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(20) == 0
            service.process = None
            assert "SIGHUP" not in service.log()

    def test_a_signal_during_the_start_stops_it_too(self, tmp_path: Path) -> None:
        service = Service(tmp_path / "data", 2, is_forked=False)
        service.start(wait=False)
        assert service.process is not None
        wait_until(lambda: "starting" in service.log())
        assert service.terminate() == 0

    def test_nothing_outlives_a_killed_supervisor(self, tmp_path: Path) -> None:
        with Service(tmp_path / "data", 2, is_forked=False) as service:
            assert service.process is not None
            pids = process_tree(service.process.pid)
            os.kill(service.process.pid, signal.SIGKILL)
            service.process.wait()
            wait_until(lambda: not any(map(is_running, pids)), 5)
            service.process = None
            service.start()
            service.terminate()


def test_pauses_grow_while_starts_fail_and_not_after_a_good_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Loop:
        now = 0.0

        def time(self) -> float:
            return self.now

    loop = Loop()
    monkeypatch.setattr("asyncio.get_running_loop", lambda: loop)
    child = Child("shard 0", ForkedProcess)
    pauses = [child.back_off() for _ in range(12)]
    assert pauses[: len(BACK_OFF_SECONDS)] == list(BACK_OFF_SECONDS)
    assert pauses[-1] == max(BACK_OFF_SECONDS)
    loop.now = 100.0  # it has lived
    assert child.back_off() == 0


class _Ended:
    """A process that has ended with some status."""

    pid = 1

    def __init__(self, status: int) -> None:
        self._status = status

    def poll(self) -> int:
        return self._status

    def send_signal(self, number: int, /) -> None:
        """There is none to send it to."""


@pytest.mark.parametrize(("shard", "is_stopping"), [(0, True), (1, False)])
async def test_only_a_shard_that_the_host_holds_stops_it_if_it_cannot_start(
    tmp_path: Path, shard: int, is_stopping: bool
) -> None:
    """A shard that was moved to a host ended all of it if it could not start there."""
    settings = Settings(data_dir=tmp_path, log_url="nats://a", shards_here="0", shards_of=2)
    write_replica(
        tmp_path,
        ReplicaFile(1, "cluster", "host", 7, 0, shards=(0,), arriving={1: 7}, configured=(0,)),
    )
    supervisor = Supervisor(settings)
    fork_server: Any = SimpleNamespace(poll=lambda: None, make=lambda *_: _Ended(0))
    supervisor._fork_server = fork_server
    supervisor._start_and_end_placed_shards()
    child = supervisor._shards[shard]
    child.process = _Ended(EXIT_CANNOT_START)
    supervisor._look_after_children()
    assert supervisor._is_stopping is is_stopping
    assert (child.process is None) is is_stopping, "it is started again"


async def test_a_stop_does_not_wait_for_processes_that_are_not_created_yet(tmp_path: Path) -> None:
    """On a slow machine a stop during the start took the whole grace period, and more."""
    calls: list[str] = []
    supervisor = Supervisor(Settings(data_dir=tmp_path, shards=1, stop_grace_seconds=60.0))
    fork_server: Any = SimpleNamespace(
        poll=lambda: None,
        make=lambda *_: ForkedProcess(),
        kill=lambda: calls.append("kill"),
        close=lambda: calls.append("close"),
    )
    supervisor._fork_server = fork_server
    coordinator = Child("coordinator", ForkedProcess)
    coordinator.start()
    supervisor._coordinators = [coordinator]
    async with asyncio.timeout(20):
        await supervisor._stop_children()
    assert calls == ["kill", "close"]

    assert isinstance(coordinator.process, ForkedProcess)
    assert coordinator.process._due == [signal.SIGTERM], "what is created after all stops, too"


def test_files_in_the_working_directory_are_not_run(tmp_path: Path) -> None:
    """A user who can write there could run code in the service, or keep it from starting."""
    for name in ("common", "coordinator", "shard", "json", "lmdb"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hostile code was run')")
    port = free_port()
    command = [sys.executable, "-P", "-m", "coordinator", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--data-dir", str(tmp_path / "data")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        end = time.monotonic() + 60
        while not _is_ready(port):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        process.terminate()
        assert process.wait(20) == 0


def test_no_command_of_ours_looks_for_modules_in_the_working_directory() -> None:
    """Each way to start a Python goes through `python_command`, or says -P itself."""
    sources = [
        path for name in ("common", "coordinator", "shard") for path in (ROOT / name).rglob("*.py")
    ]
    started = [
        (path.name, match[1])
        for path in sources
        for match in re.finditer(r"sys\.executable, *(\S+)", path.read_text())
    ]
    assert len(started) > 2
    assert [one for one in started if not one[1].startswith(('"-P"', "python_command("))] == []


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/_ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_when_no_process_can_start_the_service_ends(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "lmdb.py").write_text("raise ImportError('no lmdb here')")
    (tmp_path / "broken" / "aiohttp.py").write_text("raise ImportError('no aiohttp here')")
    command = [sys.executable, "-P", "-m", "coordinator", "serve", "--port", str(free_port())]
    ended = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'broken'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1
    assert "no process can start" in ended.stderr
    assert "no lmdb here" in ended.stderr


def test_kernels_of_an_unknown_kind_are_refused_in_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "coordinator"),
            *("serve", "--port", "0", "--data-dir", str(tmp_path / "data")),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "FACETD_KERNELS": "fast"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert (
        ended.stderr.splitlines()[-1]
        == "facetd: FACETD_KERNELS is 'fast': use checked or numba, or leave it unset"
    )


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("keys", "create")])
def test_a_directory_that_cannot_be_read_is_said_in_one_line(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """As that of root is for another user; a test that runs as root may read everything."""
    (tmp_path / "facetd-data" / "MANIFEST.json").mkdir(parents=True)
    shown = subprocess.run(
        python_command("coordinator", *command),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert shown.returncode == 1
    (line,) = shown.stderr.splitlines()
    assert "facetd-data/MANIFEST.json cannot be used: Is a directory; " in line


@pytest.mark.parametrize(
    ("addresses", "remedy"),
    [
        ((), "facetd serve runs everything"),
        (("--shard", "127.0.0.1:1", "--shard", "127.0.0.1:2"), "127.0.0.1:1, 127.0.0.1:2"),
    ],
)
def test_a_coordinator_alone_says_which_shards_are_missing(
    tmp_path: Path, addresses: tuple[str, ...], remedy: str
) -> None:
    command = [sys.executable, "-m", "coordinator", "coordinator", "--port", "0", "--shards", "2"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(tmp_path / "data"), *addresses],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = next(line for line in process.stdout if "waiting for shards" in line)
        assert "0, 1" in line
        assert remedy in line
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.stdout.close()
