"""Progress of the running bulk loads, for `GET /_loads`.

    receiving   bytes arrive, items are checked and spooled; nothing is stored yet
    storing     every item was checked; group after group becomes durable

The numbers only grow. Threads write some of them; each write is a single integer store.
"""

from __future__ import annotations

import time
from typing import Any


class LoadProgress:
    """One bulk load.

    Attributes:
        request_id: of the request that sends it; the client may choose it (`X-Request-Id`).
        index: the target.
        bytes_received: of the body, decompressed.
        items_read: valid items so far.
        items_rejected: invalid items so far.
        items_stored: items durable and searchable so far.
        is_storing: whether the whole body has been read.
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
