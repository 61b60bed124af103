"""The nodes of trees that a response shows."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from common.index_configuration import TREE_LEVELS_MAX
from common.protocol.messages import RangeCounts
from coordinator.parameters.facet_specs import TreeSpec
from coordinator.read.facets.tree_merging import merge_trees

_REQUEST: Any = None


def shown(
    counts: dict[str, int], *, chosen: tuple[str, ...] = (), opened: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    spec = TreeSpec("kind", " > ", (_REQUEST,), 10, frozenset(chosen), frozenset(opened))
    return merge_trees([spec], 0, [(0, _answer(counts))])["kind"]


def _answer(*levels: dict[str, int]) -> Any:
    parts = [RangeCounts("kind", tuple(one), array("I", one.values()).tobytes()) for one in levels]
    return SimpleNamespace(ranges=tuple(parts))


def test_the_children_of_a_chosen_node_are_shown() -> None:
    (books,) = shown({"Books": 3, "Books > Novels": 2}, chosen=("Books",))

    assert (books["selected"], books["doc_count"]) == (True, 3)
    assert [(one["key"], one["path"]) for one in books["children"]] == [
        ("Novels", "Books > Novels")
    ]


def test_a_path_is_counted_at_its_own_level() -> None:
    """An item may have one path in the facets of several levels."""
    spec = TreeSpec("kind", " > ", (_REQUEST, _REQUEST), 10, frozenset(["A"]), frozenset())
    answer = _answer({"A": 3, "A > B": 1}, {"A": 2, "A > B": 2, "A > B > C": 1, "E": 5})

    (top,) = merge_trees([spec], 0, [(0, answer)])["kind"]

    assert (top["path"], top["doc_count"]) == ("A", 3)
    assert [(one["path"], one["doc_count"]) for one in top["children"]] == [("A > B", 2)]


@pytest.mark.parametrize("node", ["", " > ", " > Novels"])
def test_the_empty_path_is_not_a_node(node: str) -> None:
    for nodes in (shown({"Books": 3}, chosen=(node,)), shown({"Books": 3}, opened=(node,))):
        assert nodes[0]["path"] == "Books"
        assert "" not in [one["path"] for one in nodes]


def test_the_deepest_tree_is_encoded() -> None:
    node = " > ".join("a" for _ in range(TREE_LEVELS_MAX))

    (top,) = shown({}, chosen=(node,))

    assert orjson.dumps({"trees": {"kind": [top]}}).count(b'"children"') == TREE_LEVELS_MAX
