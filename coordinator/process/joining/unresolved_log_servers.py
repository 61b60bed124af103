"""Warns of servers in `--log` that have no address: while others answer, no error names them."""

from __future__ import annotations

import socket
import time
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from common.process.logs import Log

NAME_SECONDS: Final = 3.0
"""Time to look up the address of a server of the log."""

_log = Log("replica")


def warn_of_unknown_names(servers: list[str]) -> None:
    """Log a warning for each server of the log that has no address.

    Each look-up runs on a thread of its own: it cannot be cancelled, and a resolver may not answer
    for a server that is gone. After `NAME_SECONDS` it is abandoned.
    """
    failures: dict[str, str] = {}

    def look_up(server: str) -> None:
        address = urlsplit(server)
        try:
            socket.getaddrinfo(address.hostname, address.port)
        except (OSError, ValueError) as error:
            failures[server] = str(error)

    threads = [Thread(target=look_up, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    give_up_at = time.monotonic() + NAME_SECONDS
    for server, thread in zip(servers, threads, strict=True):
        thread.join(max(0.0, give_up_at - time.monotonic()))
        is_late = thread.is_alive()
        reason = f"no answer within {NAME_SECONDS:.0f} s" if is_late else failures.get(server)
        if reason is not None:
            _log.warning(
                "a server in --log has no address; is it spelled right?",
                server=urlsplit(server).hostname or server,
                reason=reason,
            )
