"""Orama, a search library in TypeScript."""

from typing import ClassVar

from benchmarks.peers.node import NodePeer


class Orama(NodePeer):
    """Orama served by node:http; its typos are prefix-wise and find other words, so no Q9."""

    name: ClassVar[str] = "orama"
    title: ClassVar[str] = "Orama 3.1, thin HTTP (node), in memory"
    package: ClassVar[str] = "@orama/orama"
    classes: ClassVar[tuple[str, ...]] = ("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q10")
