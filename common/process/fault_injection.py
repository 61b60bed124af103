"""Fault points: places where a test makes the process die, fail or wait.

    fault("writer.commit")        no-op, unless FACETD_FAULTS names it

    FACETD_FAULTS="writer.commit=kill@3,merge.write=error,writer.publish=delay:200"

kills the process (SIGKILL, as a power loss would) when `writer.commit` is reached for the third
time, raises an OSError each time at `merge.write`, and sleeps 200 ms at `writer.publish`. The
variable is read once, when the module is imported. Production code never sets it; a disarmed point
costs one dictionary lookup in an empty dictionary.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from dataclasses import dataclass

VARIABLE = "FACETD_FAULTS"


@dataclass(slots=True)
class _Fault:
    """One armed fault point."""

    action: str
    """kill, error or delay."""
    at: int
    """On which passage it acts; 0: on every one."""
    delay_ms: float = 0.0
    num_passed: int = 0


_lock = threading.Lock()
_armed: dict[str, _Fault] = {}


def arm(description: str) -> None:
    """Arm the points of a description (see the module); an empty one disarms all.

    Raises:
        ValueError: the description cannot be read.
    """
    armed = {}
    for part in filter(None, description.split(",")):
        name, _, what = part.partition("=")
        what, _, at = what.partition("@")
        action, _, argument = what.partition(":")
        if action not in ("kill", "error", "delay"):
            raise ValueError(f"a fault is kill, error or delay:<ms>, not {what!r}")
        armed[name] = _Fault(action, int(at or 0), float(argument or 0))
    with _lock:
        _armed.clear()
        _armed.update(armed)


def fault(name: str) -> None:
    """Do what the point is armed for; nothing if it is not armed.

    Raises:
        OSError: EIO, if the point is armed with `error`.
    """
    if not _armed:
        return
    armed = _armed.get(name)
    if armed is None:
        return
    with _lock:
        armed.num_passed += 1
        if armed.at not in (0, armed.num_passed):
            return
    if armed.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif armed.action == "error":
        raise OSError(errno.EIO, f"injected fault {name}")
    else:
        time.sleep(armed.delay_ms / 1000)


arm(os.environ.get(VARIABLE, ""))
