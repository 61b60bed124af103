"""Priority of threads: what answers a search goes before what loads, writes and merges.

The kernel gives each thread that wants to run its turn, of some milliseconds. A search wakes four
or five threads one after the other (the coordinator, each shard, the coordinator again), so beside
a bulk load that keeps all processors busy it would wait for as many turns: 10 ms for a search of
1.5 ms. With a lower priority (a greater *nice* value) the threads of a load are interrupted at once
instead; they have the processors for themselves whenever nobody searches. They have the lowest
priority there is: where searches would take all of a processor, a seventieth of it is left to them.
(With a ninth instead, which is ten levels less, the kernel pays out that share in turns of 4 ms.
Searches by one client, beside a load, took 1.7 instead of 1.3 ms, one in ten 6.5 instead of 4 ms,
and the load a fifth less; searches by 16 clients, which leave less, and the load and the writes
beside them were as fast: a million items, 2 shards, 2 cores, 2026-11-21.)

Writes of a few items are between the two: somebody waits for them, as for a search, but a group
of them takes several times as long; so they go before loads and merges, and behind searches.

On Linux the nice value belongs to the thread, and anybody may raise it. Threads are compared
within their session where the kernel groups by session (autogroup), so the processes of a service
must share one. Elsewhere than on Linux nothing is done: there the value is the process's.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

BACKGROUND_NICENESS: Final = 19
"""The greatest there is: 1/68 of the weight of a thread that answers."""
WRITER_NICENESS: Final = 10
"""A ninth of that weight, seven times that of a background thread."""


def run_in_background() -> None:
    """Lower the priority of the calling thread; for the first line or initializer of a thread."""
    _set_niceness(BACKGROUND_NICENESS)


def run_behind_searches() -> None:
    """Lower the priority of the calling thread less than that: of one that does single writes."""
    _set_niceness(WRITER_NICENESS)


def _set_niceness(niceness: int) -> None:
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
