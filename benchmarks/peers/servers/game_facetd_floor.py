"""The searches of `game_facetd` on no segment: what each costs before any index is read."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.servers import game_facetd


class Engine(game_facetd.Engine):
    """The same partition, of which searches see nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.snapshot = self.all.with_views(())
