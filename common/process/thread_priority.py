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

One of several hosts lowers priorities by less (`keep_up`). A thread of low priority that holds the
interpreter lock, or any other, holds up its whole process while programs beside it keep the
processors busy, and the other hosts do not wait: this one lags, and answers late. (An event
loop that wakes every 10 ms, beside a thread that merges and three busy programs, in one session:
late by up to 778 ms at the lowest priority, 241 ms ten levels above it, 90 to 160 ms at the level
chosen here, 53 ms at equal priority: Python 3.11, 2 busy cores, 2026-11-26.)

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
REPLICA_BACKGROUND_NICENESS: Final = 5
"""On one of several hosts, a third of that weight."""
REPLICA_WRITER_NICENESS: Final = 0

_is_replica = False


def keep_up() -> None:
    """Lower priorities by less from now on: this process is part of one of several hosts."""
    global _is_replica
    _is_replica = True


def run_in_background() -> None:
    """Lower the priority of the calling thread; for the first line or initializer of a thread."""
    _set_niceness(REPLICA_BACKGROUND_NICENESS if _is_replica else BACKGROUND_NICENESS)


def run_after_searches() -> None:
    """Lower the priority of the calling thread by less; for single writes and slow reads."""
    _set_niceness(REPLICA_WRITER_NICENESS if _is_replica else WRITER_NICENESS)


def _set_niceness(niceness: int) -> None:
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # To raise a priority would need a privilege; the whole service may have been lowered.
        if os.getpriority(os.PRIO_PROCESS, thread) < niceness:
            os.setpriority(os.PRIO_PROCESS, thread, niceness)
