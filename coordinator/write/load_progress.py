"""How far the bulk loads are that run now, for `GET /_loads`.

    receiving   bytes arrive, items are checked and spooled; nothing is stored yet
    storing     all of it was good: group after group becomes durable

Numbers only grow. Threads write some of them; each is one store of one integer.
"""

from __future__ import annotations

import time
from typing import Any


class LoadProgress:
    """One load.

    Attributes:
        request_id: of the request that sends it; a client may choose it (`X-Request-Id`).
        index: where to.
        bytes_received: of the body, decompressed.
        items_read: that were good.
        items_rejected: that were not.
        items_stored: that are durable and searchable.
        is_storing: whether all of the body was read.
    """

    __slots__ = (
        "bytes_received",
        "index",
        "is_storing",
        "items_read",
        "items_rejected",
        "items_stored",
        "request_id",
        "started",
    )

    def __init__(self, index: str, request_id: str) -> None:
        self.index = index
        self.request_id = request_id
        self.started = time.monotonic()
        self.bytes_received = 0
        self.items_read = 0
        self.items_rejected = 0
        self.items_stored = 0
        self.is_storing = False

    def shown(self) -> dict[str, Any]:
        """Return the load as clients see it."""
        return {
            "id": self.request_id,
            "index": self.index,
            "state": "storing" if self.is_storing else "receiving",
            "seconds": round(time.monotonic() - self.started, 3),
            "bytes_received": self.bytes_received,
            "items_read": self.items_read,
            "items_rejected": self.items_rejected,
            "items_stored": self.items_stored,
        }
