"""What every coordinator does to its process: owner and readers alike."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from typing import TYPE_CHECKING, Final

from common.process import logs
from common.process.descriptor_limit_and_table import (
    enlarge_descriptor_table,
    raise_descriptor_limit,
)
from common.process.glibc_malloc import configure_allocator
from common.process.thread_pool import ThreadPool
from common.process.thread_priority import keep_up, run_in_background

if TYPE_CHECKING:
    from coordinator.settings import Settings

SWITCH_SECONDS: Final = 0.0002
"""How long a thread may hold the interpreter while the event loop waits for it."""


def prepare_process(name: str, settings: Settings) -> None:
    """Set up logs, memory, open files and threads, before the event loop runs.

    Args:
        name: of the process, in its logs.
        settings: of the service.
    """
    raise_descriptor_limit()
    enlarge_descriptor_table()
    sys.setswitchinterval(SWITCH_SECONDS)
    logs.configure(name, level=settings.log_level, style=settings.log_style)
    configure_allocator()


def prepare_loop(settings: Settings) -> asyncio.Event:
    """Set up the running event loop; return the event that SIGTERM and SIGINT set."""
    loop = asyncio.get_running_loop()
    if settings.log_url:
        keep_up()
    # Threads run bulk work only (scanning, partitioning, files).
    loop.set_default_executor(ThreadPool(None, "worker", run_in_background))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def freeze_objects() -> None:
    """Let collections skip the objects that live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.enable()
