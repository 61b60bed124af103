"""Xapian through its Python binding."""

from typing import ClassVar

from benchmarks.peers.base import PythonPeer


class Xapian(PythonPeer):
    """Xapian served by granian; it finds prefixes, but has no typo tolerance."""

    name: ClassVar[str] = "xapian"
    title: ClassVar[str] = "Xapian 1.4, thin HTTP (granian)"
    engine: ClassVar[str] = "xapian_engine"
    packages: ClassVar[tuple[str, ...]] = ("xapian-bindings-binary",)
    classes: ClassVar[tuple[str, ...]] = tuple(c for c in PythonPeer.classes if c != "Q9")
