"""itemsjs, the library whose interface facetd took over."""

from typing import ClassVar

from benchmarks.peers.node import NodePeer


class ItemsJs(NodePeer):
    """itemsjs served by node:http; it always counts all facets.

    It has no prefix or typo search, and no facet that is conjunctive in one search and disjunctive
    in another: countries are ORed in Q3 and would leave out their own filter in its counts.
    """

    name: ClassVar[str] = "itemsjs"
    title: ClassVar[str] = "itemsjs 2.4.4, thin HTTP (node), in memory"
    package: ClassVar[str] = "itemsjs"
    classes: ClassVar[tuple[str, ...]] = ("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q10")
