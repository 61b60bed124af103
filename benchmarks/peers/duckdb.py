"""DuckDB with its full-text extension."""

from typing import ClassVar

from benchmarks.peers.base import PythonPeer


class Duckdb(PythonPeer):
    """DuckDB served by granian; one process, which uses both cores for one query."""

    name: ClassVar[str] = "duckdb"
    title: ClassVar[str] = "DuckDB fts, thin HTTP (granian)"
    engine: ClassVar[str] = "duckdb_engine"
    packages: ClassVar[tuple[str, ...]] = ("duckdb", "duckdb-extension-fts")
    num_workers: ClassVar[int] = 1
    classes: ClassVar[tuple[str, ...]] = tuple(
        c for c in PythonPeer.classes if c not in ("Q8", "Q9")
    )
