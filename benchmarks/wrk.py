"""Load by wrk: one connection for latency, sixteen for throughput."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.http_client import HttpRequest

SCRIPT = Path(__file__).with_name("requests.lua")


class MissingTool(Exception):
    """A required program is not installed; the message says how to get it."""


class Load(NamedTuple):
    """Results of one run of a load generator."""

    median_ms: float
    p99_ms: float
    max_ms: float
    per_second: float
    num_requests: int
    num_errors: int
    processor_us: float = 0.0
    """Processor time of the server's processes for each request; hardly moves when others use the
    machine, as latencies do."""


def is_installed() -> bool:
    """Return whether wrk is installed."""
    return shutil.which("wrk") is not None


def write_requests(path: Path, requests: Iterable[HttpRequest]) -> Path:
    """Write the file that the script reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for request in requests:
            headers = "|".join(f"{name}:{value}" for name, value in request.headers.items())
            file.write(f"{request.method}\t{request.target}\t{headers}\t{request.body}\n")
    return path


def run(
    port: int,
    requests: Path,
    *,
    connections: int,
    seconds: float,
    launcher: Sequence[str] = (),
) -> Load:
    """Send the requests of a file in a cycle for some seconds; `launcher` stands before wrk."""
    command = start(port, requests, connections=connections, seconds=seconds, launcher=launcher)
    output, complaints = command.communicate()
    return read(output, complaints)


def start(
    port: int,
    requests: Path,
    *,
    connections: int,
    seconds: float,
    launcher: Sequence[str] = (),
) -> subprocess.Popen[str]:
    """Start the load and return at once; `read` takes what it will write."""
    if not is_installed():
        raise MissingTool("wrk is not installed; on Debian: apt-get install wrk")
    return subprocess.Popen(
        [
            *launcher,
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{max(1, round(seconds))}s",
            "--timeout",
            "120s",
            "-s",
            str(SCRIPT),
            f"http://127.0.0.1:{port}",
            "--",
            str(requests),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read(output: str, complaints: str = "") -> Load:
    """Read what the script has written."""
    found = [line for line in output.splitlines() if line.startswith("JSON")]
    if not found:
        raise RuntimeError(f"wrk failed: {output[-500:]}{complaints[-500:]}")
    seen = json.loads(found[0].removeprefix("JSON"))
    return Load(
        median_ms=seen["p50"] / 1_000,
        p99_ms=seen["p99"] / 1_000,
        max_ms=seen["max"] / 1_000,
        per_second=round(seen["requests"] / (seen["us"] / 1e6), 1),
        num_requests=seen["requests"],
        num_errors=seen["errors"],
    )
