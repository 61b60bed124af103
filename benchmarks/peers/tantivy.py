"""tantivy through its Python binding."""

from typing import ClassVar

from benchmarks.peers.base import PythonPeer
from benchmarks.queries import CLASSES


class Tantivy(PythonPeer):
    """tantivy-py served by granian.

    Facets take a pass of their own over the hits: its collector of the best hits and its
    aggregations cannot be combined through the binding.
    """

    name: ClassVar[str] = "tantivy"
    title: ClassVar[str] = "tantivy-py 0.27, thin HTTP (granian)"
    engine: ClassVar[str] = "tantivy_engine"
    classes: ClassVar[tuple[str, ...]] = tuple(c for c in CLASSES if c != "Q12")
    packages: ClassVar[tuple[str, ...]] = ("tantivy",)
