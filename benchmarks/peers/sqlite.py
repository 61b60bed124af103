"""SQLite with its full-text module FTS5."""

from typing import ClassVar

from benchmarks.peers.base import PythonPeer


class Sqlite(PythonPeer):
    """SQLite served by granian; facets by GROUP BY over a temporary table of ids."""

    name: ClassVar[str] = "sqlite"
    title: ClassVar[str] = "SQLite FTS5, thin HTTP (granian)"
    engine: ClassVar[str] = "sqlite_engine"
    packages: ClassVar[tuple[str, ...]] = ()
    classes: ClassVar[tuple[str, ...]] = tuple(c for c in PythonPeer.classes if c != "Q9")
