"""The HTTP requests that the current work serves, so that log lines of any process can name them.

    client ── X-Request-Id ──▶ HTTP server ── set ──▶ RpcClient.call ── frame ──▶ shard ── set ──▶ …
                                                                                  └─▶ log lines

The ids are a context variable: tasks and callbacks inherit them. A thread pool does not; a function
that it runs and that may log is wrapped by `carried`. Work for no request (pings, merges) has no
ids.

A write group is for several requests. It carries the ids of the first `REQUEST_IDS_MAX`: more of
them would only make frames and lines longer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Final, TypeVar

REQUEST_IDS_MAX: Final = 16
"""Maximum number of ids of a call or a line."""

T = TypeVar("T")

REQUEST_IDS: Final[ContextVar[tuple[str, ...]]] = ContextVar("request_ids", default=())
"""Ids of the present work; set where work starts or is handed over."""


def carried(function: Callable[[], T]) -> Callable[[], T]:
    """Return a function that runs, on any thread, with the present ids."""
    return partial(copy_context().run, function)
