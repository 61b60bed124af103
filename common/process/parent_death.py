"""Ends a child process when its parent ends, for whatever reason.

Two mechanisms, because each has a gap. The parent-death signal comes at once, but is lost if the
parent dies before it is requested, and follows the *thread* that forked. The end of an inherited
pipe has no such race, but needs a running event loop. With both, orphans are impossible.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

EXIT_CANNOT_START: Final = 78
"""Exit status (EX_CONFIG) of a supervised process that needs a human: do not restart it."""
EXIT_STORAGE_FAILED: Final = 70
"""Exit status of a process that no longer knows what is on disk; the supervisor starts it again."""

_PR_SET_PDEATHSIG: Final = 1


def ask_for_parent_death_signal() -> None:
    """Let the kernel SIGKILL this process when its parent ends (Linux; elsewhere the pipe alone).

    SIGKILL loses nothing: the truth is in LMDB, and no client waits for a response any longer.
    """
    if sys.platform.startswith("linux"):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def watch_parent(pipe: int, on_end: Callable[[], None] | None = None) -> None:
    """Call `on_end` (default: end this process at once) when the parent's end of a pipe closes.

    Args:
        pipe: descriptor of the reading end, inherited; the parent holds the only writing end.
        on_end: called from the running event loop.
    """
    os.set_inheritable(pipe, False)
    os.set_blocking(pipe, False)
    loop = asyncio.get_running_loop()

    def look() -> None:
        try:
            data = os.read(pipe, 1)
        except BlockingIOError:
            return
        if not data:
            loop.remove_reader(pipe)
            if on_end is None:
                os._exit(1)
            on_end()

    loop.add_reader(pipe, look)
