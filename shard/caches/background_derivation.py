"""Background tasks: derived values that searches would use, but must not wait for.

Some values that are derived from a segment (`shard/caches/lru_cache.py`) take tens of milliseconds
to make, and a search that lacks one can do without. It schedules the task and continues; a
background thread runs the tasks one at a time, and later searches find the value in the LRU cache.

    search ──add──▶ waiting: key → (weak reference to the owner, make) ──run_all──▶ make(owner)

A waiting task does not keep its owner (a column of a segment) alive; it is dropped with the owner.
It holds the owner only while it runs. When too many tasks wait, a new one is dropped: the next
search that misses the same value schedules it again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final

from common.process.logs import Log

WAITING_MAX: Final = 64

_log = Log("shard")


class BackgroundTasks:
    """Waiting tasks by key; safe to use from several threads."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, tuple[weakref.ref[Any], Callable[[Any], None]]] = {}
        self._running: Hashable = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Hashable, owner: object, make: Callable[[Any], None]) -> None:
        """Schedule a task, unless one with this key is waiting.

        Args:
            key: names it; never None.
            owner: what the value is made from.
            make: takes the owner, makes the value and stores it.
        """
        with self._lock:
            if key != self._running and len(self._waiting) < WAITING_MAX:
                self._waiting.setdefault(key, (weakref.ref(owner), make))

    def run_all(self) -> None:
        """Run all waiting tasks, the oldest first."""
        while True:
            with self._lock:
                self._running = next(iter(self._waiting), None)
                if self._running is None:
                    return
                reference, make = self._waiting.pop(self._running)
            owner = reference()
            if owner is None:
                continue
            try:
                make(owner)
            except Exception as error:  # searches go on without it
                _log.error("not derived", cause=error)
            del owner


BACKGROUND_TASKS: Final = BackgroundTasks()
