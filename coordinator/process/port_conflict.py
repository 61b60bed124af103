"""A port that is taken: how long to wait for it, and which process holds it, from /proc."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from common.disk_errors import user_name

if TYPE_CHECKING:
    from coordinator.settings import Settings

PORT_WAIT_SECONDS: Final = 5.0
"""How long a coordinator waits for its port: the startup listener, or a killed coordinator,
releases it."""
PORT_TRY_SECONDS: Final = 0.02
"""Pause between two tries."""

_LISTENS: Final = "0A"
"""The state of a listening socket in /proc/net/tcp."""


@dataclass(frozen=True, slots=True)
class PortHolder:
    """A process, or a user whose processes cannot be looked at, that listens on a port.

    Attributes:
        description: for a message: "nginx (process 812)".
        is_ending: whether it belongs to a facetd whose supervisor is gone, so it is about to end.
    """

    description: str
    is_ending: bool


def port_holder(port: int) -> PortHolder | None:
    """Return the process that listens on a port, preferring one that is ending; None if unknown."""
    sockets = dict(_listening(port))
    found = [_holder(process) for process in _processes_with(set(sockets))]
    if found:
        return max(found, key=lambda one: one.is_ending)
    others = set(sockets.values()) - {os.getuid()}
    return PortHolder(f"a process of the user {user_name(min(others))}", False) if others else None


def _listening(port: int) -> Iterator[tuple[str, int]]:
    """Yield inode and user of the sockets that listen on a port, at any address."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/net", name).read_text().splitlines()[1:]:
                parts = line.split()
                if parts[3] == _LISTENS and int(parts[1].rpartition(":")[2], 16) == port:
                    yield parts[9], int(parts[7])


def _processes_with(inodes: set[str]) -> Iterator[int]:
    """Yield the processes that have one of these sockets open, among those we may look at."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    if not wanted:
        return
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), os.scandir(f"/proc/{process}/fd") as descriptors:
            if any(os.readlink(one.path) in wanted for one in descriptors):
                yield int(process)


def _holder(process: int) -> PortHolder:
    arguments = _arguments(process)
    is_part = "--parent-pipe" in arguments and "coordinator" in arguments
    name = "facetd" if _is_facetd(arguments) else _read(process, "comm").strip() or "a process"
    is_ending = is_part and not _is_facetd(_arguments(_starter(process)))
    return PortHolder(f"{name} (process {process})", is_ending)


def _is_facetd(arguments: list[str]) -> bool:
    """Return whether a command line belongs to a facetd process."""
    programs = [os.path.basename(one) for one in arguments[:2]]
    modules = [after for one, after in pairwise(arguments) if one == "-m"]
    return "facetd" in programs or "coordinator" in modules[:1]


def _arguments(process: int) -> list[str]:
    return _read(process, "cmdline").split("\0")


def _starter(process: int) -> int:
    """Return what had a process started: its parent, or the parent of its fork server."""
    parent = _parent(process)
    is_fork_server = "common.process.fork_server" in _arguments(parent)
    return _parent(parent) if is_fork_server else parent


def _parent(process: int) -> int:
    """Return the parent of a process; 0 if it has ended."""
    after_name = _read(process, "stat").rpartition(")")[2].split()
    return int(after_name[1]) if len(after_name) > 1 else 0


def _read(process: int, name: str) -> str:
    try:
        return Path(f"/proc/{process}", name).read_bytes().decode(errors="replace")
    except OSError:  # it has ended
        return ""


def port_taken(settings: Settings, error: OSError, holder: PortHolder | None = None) -> str:
    """Describe why nothing can listen on the address, and who does if that is known."""
    # The error's own text repeats the address; an unknown name has a negative number.
    number = error.errno or 0
    reason = os.strerror(number) if number > 0 else error.strerror or error
    by = f" by {holder.description}" if holder is not None else ""
    advice = "choose another --port or --host"
    if number == errno.EACCES:
        advice += f"; ports below {_unprivileged_port()} are for root: a proxy can listen there"
    return f"cannot listen on {settings.host}:{settings.port}: {reason}{by}; {advice}"


def _unprivileged_port() -> int:
    """Return the first port on which any user may listen."""
    setting = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
    try:
        return int(Path(setting).read_text())
    except (OSError, ValueError):
        return 1024
