"""For which HTTP requests the present work is done: any log line can say so, in every process.

    client ── X-Request-Id ──▶ HTTP server ── set ──▶ RpcClient.call ── frame ──▶ shard ── set ──▶ …
                                                                                  └─▶ log lines

The ids are a context variable: tasks and callbacks take them along by themselves. A thread pool
does not; what is handed to one and may log is wrapped by `carried`. Work for nobody in particular
(pings, merges, what a process does for itself) has no ids.

A group of writes is done for several requests. It carries the ids of the first
`REQUEST_IDS_MAX`: more of them would make frames and lines longer and tell nobody more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Final, TypeVar

REQUEST_IDS_MAX: Final = 16
"""Of a call or a line."""

T = TypeVar("T")

REQUEST_IDS: Final[ContextVar[tuple[str, ...]]] = ContextVar("request_ids", default=())
"""Those of the present work; read and set where work begins or is handed over."""


def carried(function: Callable[[], T]) -> Callable[[], T]:
    """Return a function that runs, on whatever thread, with the ids of now."""
    return partial(copy_context().run, function)
