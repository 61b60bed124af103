"""Processes that are measured: start, wait, stop; memory, disk, processor, machine."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

STOP_SECONDS = 120.0
START_SECONDS = 900.0
REST_SECONDS = 3.0
REST_SECONDS_MAX = 120.0

REPOSITORY = Path(__file__).resolve().parent.parent


def home() -> Path:
    """Return the folder of disposable files: corpora, requests, logs, installed peers."""
    default = Path("~/.cache/facetd-benchmarks").expanduser()
    path = Path(os.environ.get("FACETD_BENCHMARKS_HOME", default))
    path.mkdir(parents=True, exist_ok=True)
    return path


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment() -> dict[str, str]:
    """Return the environment of this process, in which modules keep their bytecode.

    Installed packages have it; without it, each start would compile hundreds of modules.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Running:
    """A process with its children, stopped when the context ends; output goes to a log file."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path = REPOSITORY,
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env={**_environment(), **(environment or {})},
                start_new_session=True,
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def pids(self) -> list[int]:
        """Return the process and all that descend from it."""
        return list(_with_descendants(self.process.pid))

    def wait_until(self, is_ready: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Poll until a condition holds; fails when the process ends or time runs out."""
        deadline = time.monotonic() + seconds
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"ended with {self.process.returncode}; see {self.log}")
            with contextlib.suppress(OSError):
                if is_ready():
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready after {seconds:.0f} s; see {self.log}")
            time.sleep(0.01)

    def finish(self) -> int:
        """Wait for a process that ends by itself; returns its greatest resident size in bytes."""
        peak = 0
        while self.process.poll() is None:
            peak = max(peak, sum(status_bytes(pid, "VmHWM") for pid in self.pids()))
            time.sleep(0.1)
        if self.process.returncode:
            raise RuntimeError(f"ended with {self.process.returncode}; see {self.log}")
        return peak

    def kill(self) -> None:
        """Kill the process and its session at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Stop the process, by force if need be. Only its own session is touched."""
        pids = self.pids()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        deadline = time.monotonic() + 10
        while any(_is_alive(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.05)
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from _with_descendants(int(child))


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(") ")[2][:1] != "Z"


def status_bytes(pid: int, name: str) -> int:
    """Return a size of a process as `/proc/PID/status` names it, 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return 0


class Memory(NamedTuple):
    """Proportional set size of processes, bytes: a page that several share counts once.

    Attributes:
        own: anonymous and shared memory, released only when the process ends.
        files: pages of the page cache that are mapped, which the system takes when it needs them.
    """

    own: int = 0
    files: int = 0

    @property
    def total(self) -> int:
        """Bytes of both kinds."""
        return self.own + self.files


def memory(pids: Sequence[int]) -> Memory:
    """Return the memory that processes hold together."""
    kilobytes = {"Pss": 0, "Pss_File": 0}
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in kilobytes:
                    kilobytes[name] += int(value.split()[0])
    files = kilobytes["Pss_File"] * 1024
    return Memory(kilobytes["Pss"] * 1024 - files, files)


def processor_seconds(pids: Sequence[int]) -> dict[str, float]:
    """Return the processor time of each process so far, by pid and name."""
    tick = os.sysconf("SC_CLK_TCK")
    seconds = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text()
            fields = stat.rpartition(") ")[2].split()
            name = stat[stat.index("(") + 1 : stat.rindex(")")]
            seconds[f"{pid} {name}"] = (int(fields[11]) + int(fields[12])) / tick
    return seconds


class ProcessorMeter:
    """Measures the processor time that processes take from now on."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.pids = pids
        self._before = processor_seconds(pids)

    def seconds(self) -> dict[str, float]:
        """Return what each process took since the start."""
        now = processor_seconds(self.pids)
        return {name: now[name] - self._before.get(name, 0.0) for name in now}

    def us_per(self, count: int) -> float:
        """Return what all took together, divided, in microseconds."""
        return sum(self.seconds().values()) / max(count, 1) * 1e6


def wait_for_rest(pids: Sequence[int]) -> None:
    """Wait until processes are idle, as when a load and its merges are done.

    Rest are `REST_SECONDS` in which all of them take less than a twentieth of a core; what never
    rests is waited for `REST_SECONDS_MAX`.
    """
    deadline = time.monotonic() + REST_SECONDS_MAX
    resting_since = time.monotonic()
    while time.monotonic() < min(deadline, resting_since + REST_SECONDS):
        meter, started = ProcessorMeter(pids), time.monotonic()
        time.sleep(0.5)
        if sum(meter.seconds().values()) > (time.monotonic() - started) / 20:
            resting_since = time.monotonic()


def disk_bytes(folder: Path) -> int:
    """Return what a folder takes on disk; hard links once, holes not at all."""
    seen: dict[tuple[int, int], int] = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                stat = os.lstat(os.path.join(path, name))
                seen[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
    return sum(seen.values())


def settled_disk_bytes(folder: Path) -> int:
    """Return the size of a folder once everything written is counted (delayed allocation)."""
    subprocess.run(["sync", "-f", str(folder)], check=False)
    return disk_bytes(folder)


def machine() -> dict[str, str]:
    """Say where and when this was measured, without naming the host."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=REPOSITORY
    ).stdout.strip()
    dirty = subprocess.run(
        ["git", "status", "--porcelain"], capture_output=True, text=True, cwd=REPOSITORY
    ).stdout.strip()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "processor": f"{model}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "commit": f"commit {commit or 'unknown'}{' with changes' if dirty else ''}",
        "load": f"{os.getloadavg()[0]:.1f} runnable processes at the start",
    }


def python() -> str:
    """Return the interpreter that runs facetd."""
    return sys.executable
