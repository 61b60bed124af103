"""Priority of threads: searches take precedence over loads, writes and merges.

The kernel gives each runnable thread a time slice of a few milliseconds. A search wakes four or
five threads in turn (the coordinator, each shard, the coordinator again), so during a bulk load
that keeps all processors busy it would wait for as many slices: 10 ms for a search of 1.5 ms. With
a lower priority (a greater *nice* value) the threads of a load are preempted at once instead; they
have the processors for themselves when there are no searches. They have the lowest priority there
is: if searches would take all of a processor, a seventieth of it is left to the load. (Rejected: a
ninth of it, ten levels higher, which the kernel pays out in slices of 4 ms. Searches by one client,
during a load, took 1.7 instead of 1.3 ms, one in ten 6.5 instead of 4 ms, and the load a fifth
less; searches by 16 clients, which leave less, and the load and the writes beside them were as
fast: a million items, 2 shards, 2 cores, 2026-11-21.)

Writes of a few items rank between the two: a client waits for them, as for a search, but a group of
them takes several times as long. So they run before loads and merges, and after searches.

On Linux the nice value belongs to the thread, and raising it needs no privilege. Where the
kernel groups by session (autogroup), it compares threads within their session, so the processes of
a service must share one. Outside of Linux this does nothing: there the value belongs to the
process.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

BACKGROUND_NICENESS: Final = 19
"""The greatest there is: 1/68 of the weight of a thread that serves searches."""
WRITER_NICENESS: Final = 10
"""A ninth of that weight, seven times the weight of a background thread."""


def run_in_background() -> None:
    """Lower the priority of the calling thread; for the first line or initializer of a thread."""
    _set_niceness(BACKGROUND_NICENESS)


def run_after_searches() -> None:
    """Lower the priority of the calling thread by less; for single writes and slow reads."""
    _set_niceness(WRITER_NICENESS)


def _set_niceness(niceness: int) -> None:
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
