"""Merges the counts of trees over shards, and chooses the nodes to show (pure).

Shown are the top nodes, and the children of every node that is chosen, opened, or on the path to
one of these. Among siblings the largest come first, ties by name; nodes on such a path are always
shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from coordinator.cluster.shard_responses import ShardResponses
from coordinator.parameters.facet_specs import TreeSpec, with_ancestors


def merge_trees(
    specs: Sequence[TreeSpec], first: int, answers: ShardResponses
) -> dict[str, list[dict[str, Any]]]:
    """Return the nodes of each tree.

    Args:
        specs: the trees.
        first: index of their first range in each response.
        answers: pairs (shard ordinal, response).
    """
    trees = {}
    for spec in specs:
        counts: Counter[str] = Counter()
        for at in range(len(spec.requests)):
            for _, answer in answers:
                part = answer.ranges[first + at]
                for node, count in zip(map(str, part.listed_keys), part.listed_counts, strict=True):
                    if spec.has_node(node, at):
                        counts[node] += count
        first += len(spec.requests)
        trees[spec.name] = _shown(spec, counts)
    return trees


def _shown(spec: TreeSpec, counts: Counter[str]) -> list[dict[str, Any]]:
    """Return the top of a tree, with the nodes shown below it."""
    on_path = set(with_ancestors((*spec.chosen, *spec.opened), spec.separator))
    children: dict[str, list[str]] = {}
    # The empty path is the parent of the top, and no node.
    for node in {*counts, *with_ancestors(spec.chosen, spec.separator)} - {""}:
        children.setdefault(node.rpartition(spec.separator)[0], []).append(node)

    def below(parent: str) -> list[dict[str, Any]]:
        nodes = sorted(children.get(parent, ()), key=lambda node: (-counts[node], node))
        kept = [
            node for position, node in enumerate(nodes) if position < spec.size or node in on_path
        ]
        return [
            {
                "key": node.removeprefix(parent + spec.separator) if parent else node,
                "path": node,
                "doc_count": counts[node],
                "selected": node in spec.chosen,
                **({"children": below(node)} if node in on_path else {}),
            }
            for node in kept
        ]

    return below("")
