"""The real service for tests: processes, ports, signals, and a plain HTTP client.

`Service` runs `facetd serve` and knows nothing of its inside: what it can see is HTTP, the process
tree and files. It starts it as a user does, except where many tests run in parallel: there it is
forked (`tests.forking`). Tests that need a cluster take it from here.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Any, NamedTuple, Self
from urllib.parse import quote, urlencode

from tests import forking
from tests.forking import ForkedCommand

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 90
"""A first start in a checkout may have to compile kernels."""


class Reply(NamedTuple):
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


_RESERVED: list[IO[bytes]] = []
"""Locks on the ports that this process has been given; they end with it."""


def run_command(
    *arguments: str,
    text: bytes = b"",
    timeout: float = 120,
    module: str = "coordinator",
    **environment: str,
) -> subprocess.CompletedProcess[bytes]:
    """Run a `facetd` command to its end; it is forked where many tests run in parallel.

    Args:
        arguments: of the command line.
        text: what it reads from stdin.
        timeout: in seconds.
        module: in place of `facetd`, as `python -m` would run it.
        environment: variables to add.
    """
    variables = {**os.environ, **environment}
    if forking.can_fork(variables):
        return forking.run(arguments, variables, ROOT, text=text, timeout=timeout, module=module)
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=variables,
        input=text,
        capture_output=True,
        timeout=timeout,
        check=False,
    )


def start_command(
    *arguments: str,
    output: int = subprocess.DEVNULL,
    errors: int = subprocess.DEVNULL,
    module: str = "coordinator",
    is_forked: bool = True,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes] | ForkedCommand:
    """Start a `facetd` command.

    Args:
        arguments: of the command line.
        output: descriptor of its stdout.
        errors: descriptor of its stderr.
        module: in place of `facetd`, as `python -m` would run it.
        is_forked: where that is possible; else it is started as by a user.
        environment: variables to add.
    """
    variables = {**os.environ, **environment}
    if is_forked and forking.can_fork(variables):
        with open(os.devnull, "r+b") as nothing:
            none = nothing.fileno()
            output, errors = (
                none if one == subprocess.DEVNULL else one for one in (output, errors)
            )
            return forking.fork(arguments, variables, ROOT, (none, output, errors), module)
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
    )


def free_port() -> int:
    """Reserve a port that nothing listens on; no other run of the tests gets it.

    It is none of those that the system gives to a process that asks for any, such as a shard.
    """
    folder = Path(tempfile.gettempdir()) / "facetd-test-ports"
    folder.mkdir(exist_ok=True)
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        lock = (folder / str(port)).open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        _RESERVED.append(lock)
        return port


def process_tree(pid: int) -> list[int]:
    """Return a process and all its descendants, parents first."""
    pids = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
            for child in children:
                pids += process_tree(int(child))
    except OSError:
        pass
    return pids


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie.

    Its first thread is one already while others end; until then its files are open, and locked.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return False
    state, num_threads = fields[0], int(fields[17])
    return state != "Z" or num_threads > 1


IDLE_SECONDS_MAX = 30.0
"""A connection that was idle for longer is not used: the service closes it after 75."""


class Client:
    """A keep-alive HTTP client for one thread."""

    def __init__(self, port: int, timeout: float = 30.0) -> None:
        self.port = port
        self.timeout = timeout
        self.headers: dict[str, str] = {}
        """Sent with every request, such as an API key."""
        self._connection: http.client.HTTPConnection | None = None
        self._last_used = 0.0

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Send one request; never sends it twice.

        Raises:
            OSError, http.client.HTTPException: the connection failed; the outcome is unknown.
        """
        if time.monotonic() - self._last_used > IDLE_SECONDS_MAX:
            self.close()
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=self.timeout
            )
        try:
            self._connection.request(
                method, path, body=body, headers={**self.headers, **(headers or {})}
            )
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        self._last_used = time.monotonic()
        if answer.will_close:
            self.close()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, content)

    def close(self) -> None:
        """Forget the connection; the next request makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, **parameters: Any) -> Reply:
        """GET with query parameters; objects and lists become JSON."""
        pairs = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in parameters.items()
        }
        return self.request("GET", path + ("?" + urlencode(pairs) if pairs else ""))

    def post(self, path: str, document: Any = None) -> Reply:
        """POST a JSON document."""
        body = b"" if document is None else json.dumps(document).encode()
        return self.request("POST", path, body, {"content-type": "application/json"})

    def post_text(self, path: str, body: bytes, **headers: str) -> Reply:
        """POST a bulk body."""
        return self.request("POST", path, body, {"content-type": "text/plain", **headers})

    def make_films(self, **settings: Any) -> None:
        """Make the index of the demo's films, with further settings of its configuration."""
        demo = ROOT / "coordinator" / "demo"
        configuration = json.loads((demo / "configuration.json").read_bytes())
        assert self.post("/films/configuration", configuration | settings).status == 200
        assert self.post_text("/films/index", (demo / "films.ndjson").read_bytes()).status == 200

    def delete(self, path: str) -> Reply:
        """DELETE."""
        return self.request("DELETE", path)

    def search(self, index: str, **parameters: Any) -> Any:
        """Search by POST; the answer must be a success."""
        reply = self.post(f"/{quote(index, safe='')}/search", parameters)
        assert reply.status == 200, reply.body
        return reply.json


class Service:
    """One `facetd serve` with its data directory; can be killed and started again."""

    def __init__(
        self,
        data: Path,
        num_shards: int,
        *,
        port: int | None = None,
        environment: dict[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        wrapper: tuple[str, ...] = (),
        is_forked: bool = True,
        module: str = "coordinator",
    ) -> None:
        self.data = data
        self.num_shards = num_shards
        self.port = port or free_port()
        self.environment = environment or {}
        self.arguments = arguments
        self.wrapper = wrapper  # in front of the command; must become it, as `strace -D` does
        self.is_forked = is_forked  # where that is possible; else it is started as by a user
        self.module = module  # the program, as `python -m` would run it
        self.process: subprocess.Popen[bytes] | ForkedCommand | None = None
        self.log_path = data.parent / f"{data.name}.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill_all()

    def start(self, *, wait: bool = True) -> None:
        """Start the service; wait until it is ready."""
        assert self.process is None
        arguments = [
            "serve",
            *("--port", str(self.port)),
            *("--shards", str(self.num_shards)),
            *("--data-dir", str(self.data)),
            *self.arguments,
        ]
        environment = {**os.environ, **self.environment}
        with self.log_path.open("ab") as log, open(os.devnull, "rb") as nothing:
            if self.is_forked and not self.wrapper and forking.can_fork(environment):
                streams = (nothing.fileno(), log.fileno(), log.fileno())
                self.process = forking.fork(arguments, environment, ROOT, streams, self.module)
            else:
                self.process = subprocess.Popen(
                    [*self.wrapper, sys.executable, "-m", self.module, *arguments],
                    cwd=ROOT,
                    env=environment,
                    stdin=nothing,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds: float = START_SECONDS) -> float:
        """Wait until all shards serve; return how long that took."""
        assert self.process is not None
        started = time.monotonic()
        client = Client(self.port, timeout=5)
        while time.monotonic() - started < seconds:
            if self.process.poll() is not None:
                raise AssertionError(f"facetd ended: {self.log()[-3000:]}")
            try:
                if client.get("/_ready").status == 200:
                    return time.monotonic() - started
            except (OSError, http.client.HTTPException):
                pass
            finally:
                client.close()
            time.sleep(0.02)
        raise AssertionError(f"facetd is not ready after {seconds} s: {self.log()[-3000:]}")

    def client(self, timeout: float = 30.0) -> Client:
        """Return a new client."""
        return Client(self.port, timeout)

    def log(self) -> str:
        """Return everything the service wrote to stdout and stderr."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def pids(self) -> list[int]:
        """Return supervisor first, then its children."""
        return process_tree(self.process.pid) if self.process is not None else []

    def pids_of(self, command: str) -> list[int]:
        """Return the processes whose command line has a word ("shard", "coordinator")."""
        found = []
        for pid in self.pids()[1:]:
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if command.encode() in words:
                found.append(pid)
        return found

    def kill_all(self) -> None:
        """SIGKILL every process at once, as a power cut would."""
        if self.process is None:
            return
        pids = self.pids()
        # strace (6.1) dies of a process that is killed while it is being stopped.
        for pid in pids if not self.wrapper else ():
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                continue
        for pid in pids + self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        self._wait_gone(pids)
        self.process = None

    def terminate(self, seconds: float = 20) -> int:
        """Stop as a supervisor would; return the exit status."""
        assert self.process is not None
        pids = self.pids()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(seconds)
        self._wait_gone(pids)
        self.process = None
        return status

    def restart(self) -> None:
        """Kill everything and start again by the same command."""
        self.kill_all()
        self.start()

    @staticmethod
    def _wait_gone(pids: list[int], seconds: float = 10) -> None:
        """Wait until no process of the list is left: an orphan would be a fault."""
        deadline = time.monotonic() + seconds
        left = pids
        while left and time.monotonic() < deadline:
            left = [pid for pid in left if is_running(pid)]
            time.sleep(0.01)
        assert not left, f"processes outlive the service: {left}"
