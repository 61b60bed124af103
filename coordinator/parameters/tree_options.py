"""Trees of one request: the nodes that each shows, and the counts that this needs (pure).

trees    ["category"] | {"category": {"size": 20, "open": ["Books > Novels"]}}

A tree shows the children of its root, of the nodes that `filters` requires and of those that are
open, and of all nodes above these.
"""

from __future__ import annotations

from typing import Any, Final

from common.index_configuration import TREE_LEVELS_MAX, Hierarchy, IndexConfiguration
from common.limits import Limits
from common.protocol.messages import RangeRequest
from coordinator.parameters.facet_specs import TreeSpec, with_ancestors
from coordinator.parameters.filter_clauses import Conditions
from coordinator.parameters.request_decoding import QueryText
from coordinator.parameters.value_parsers import (
    Mistake,
    check_members,
    json_of_text,
    names,
    object_of,
    optional_integer,
)

NODES_DEFAULT: Final = 10
"""Nodes that a tree shows below each parent."""


def read_trees(
    value: Any,
    conditions: Conditions,
    configuration: IndexConfiguration,
    limits: Limits,
    *,
    is_strict: bool,
) -> tuple[TreeSpec, ...]:
    """Read `trees`.

    Args:
        value: of the parameter.
        conditions: once `filters` has been read.
        configuration: names the hierarchies.
        limits: on sizes and counts.
        is_strict: whether the counts of a tree leave its own choice in.

    Raises:
        Mistake: the value is invalid.
    """
    if value.__class__ is QueryText and value.startswith("{"):
        value = json_of_text(value)
    if not isinstance(value, dict):
        value = dict.fromkeys(names(value, "hierarchies_max", limits))
    trees = configuration.hierarchies
    specs = []
    for name, options in value.items():
        path = f".{name[:100]}"
        if name not in trees:
            known = ", ".join(trees) or "none"
            raise Mistake(f"is not a tree; the hierarchies are {known[:500]}", path=path)
        given = {} if options is None else object_of(options, "with size and open", path)
        specs.append(_tree(name, trees[name], given, conditions, limits, path, is_strict=is_strict))
    return tuple(specs)


def _tree(
    name: str,
    tree: Hierarchy,
    options: dict[str, Any],
    conditions: Conditions,
    limits: Limits,
    path: str,
    *,
    is_strict: bool,
) -> TreeSpec:
    check_members(options, ("size", "open"), path)
    size = optional_integer(options, "size", "facet_size_max", limits, NODES_DEFAULT, path)
    opened = options.get("open")
    if not isinstance(opened, list):
        opened = [] if opened is None else [opened]
    is_opened = frozenset(conditions.objects.nodes(opened, f"{path}.open"))
    chosen = conditions.chosen_nodes.get(name, frozenset())
    if any(node.count(tree.separator) >= TREE_LEVELS_MAX for node in (*chosen, *is_opened)):
        raise Mistake(
            f"shows {TREE_LEVELS_MAX} levels at most; a node to select or open is deeper",
            path=path,
        )
    parents = ("", *sorted({*with_ancestors((*chosen, *is_opened), tree.separator)}))
    requests = tuple(
        RangeRequest(
            level,
            leaves_out_own=not is_strict,
            tree=name,
            separator=tree.separator if tree.is_of_paths else "",
            parents=parents,
            parent_separator=tree.separator,
        )
        for level in tree.levels
    )
    return TreeSpec(name, tree.separator, requests, size, chosen, is_opened)
