"""tantivy through its Python binding."""

from typing import ClassVar

from benchmarks.peers.base import PythonPeer


class Tantivy(PythonPeer):
    """tantivy-py behind granian."""

    name: ClassVar[str] = "tantivy"
    title: ClassVar[str] = "tantivy-py 0.27, thin HTTP (granian)"
    engine: ClassVar[str] = "tantivy_engine"
    packages: ClassVar[tuple[str, ...]] = ("tantivy",)
