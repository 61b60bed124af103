"""What the JavaScript libraries have in common: they live in the memory of one process."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.base import SERVERS, NotInstalled, ThinPeer

HEAP_MB = 14_000


class NodePeer(ThinPeer):
    """A JavaScript library served by `node:http`; opening means loading again."""

    package: ClassVar[str]
    is_memory_only: ClassVar[bool] = True

    @property
    def modules(self) -> Path:
        """Return the folder of the installed packages."""
        return self.home / "node" / "node_modules"

    def check_installed(self) -> None:
        """Look for node and the package."""
        if shutil.which("node") is None:
            raise NotInstalled("node is not installed; on Debian: apt-get install nodejs npm")
        if not (self.modules / self.package).exists():
            raise NotInstalled(f"{self.package}: python -m benchmarks.peers.install {self.name}")

    def load(self, items: Path) -> float:
        """Remember where the items are, and load them."""
        self.empty_folder()
        (self.folder / "items.ndjson").symlink_to(items)
        started = time.monotonic()
        self.open()
        return time.monotonic() - started

    def open(self) -> None:
        """Load the items into memory."""
        self.start(
            [
                *("node", f"--max-old-space-size={HEAP_MB}", SERVERS / "thin_server.js"),
                *(self.name, self.folder / "items.ndjson", str(self.port), self.modules),
            ],
            self.answers("/item/1"),
        )
