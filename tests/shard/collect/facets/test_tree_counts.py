"""Trees: of which nodes a shard reports the counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from common.facet_dictionary import FacetDictionary
from common.index_configuration import TREE_LEVELS_MAX
from common.protocol.messages import RangeRequest
from common.query_syntax_tree import Under
from shard.caches.lru_cache import MIB, LruCache
from shard.collect.facets import tree_counts
from shard.collect.facets.bucket_counts import count_ranges
from shard.query.filters.filter_bitsets import resolve
from shard.query.matches import Matches
from shard.segment.doc_sets import count_docs
from tests.shard.columns_model import Item, World

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ITEMS: list[Item] = [
    {"path": ["Home > Garden > Tools", "Home > Kitchen"]},
    {"path": "Home > Garden"},
    {"path": "Toys"},
]


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        (("",), {"Home": 2, "Toys": 1}),
        (("", "Home"), {"Home": 2, "Toys": 1, "Home > Garden": 2, "Home > Kitchen": 1}),
        (("Home > Garden", "nowhere"), {"Home > Garden > Tools": 1}),
        (
            None,
            {"Home": 2, "Toys": 1, "Home > Garden": 2, "Home > Kitchen": 1,
             "Home > Garden > Tools": 1},
        ),
    ],
)  # fmt: skip
def test_only_children_of_the_given_nodes_are_reported(
    parents: tuple[str, ...] | None, expected: dict[str, int]
) -> None:
    snapshot = World(ITEMS, cuts=[1], facets=("path",)).snapshot
    request = RangeRequest(
        "path", tree="path", separator=" > ", parents=parents, parent_separator=" > "
    )
    matches = [Matches(view, is_all=True) for view in snapshot.views]
    found = count_ranges(snapshot, request, matches)
    assert dict(zip(found.listed_keys, found.listed_counts, strict=True)) == expected


def test_a_segment_of_few_documents_takes_the_keys_of_few_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a write of one item to a tree of 100,000 values, the next search read all of them."""
    read: list[int] = []
    texts = FacetDictionary.texts

    def counted(dictionary: FacetDictionary, numbers: NDArray[np.intp]) -> list[str]:
        read.append(len(numbers))
        return texts(dictionary, numbers)

    items: list[Item] = [{"path": f"Home > {i}"} for i in range(500)]
    snapshot = World([*items, {"path": "Home > 7"}], cuts=[500], facets=("path",)).snapshot
    first, last = snapshot.views
    monkeypatch.setattr(FacetDictionary, "texts", counted)
    monkeypatch.delattr(FacetDictionary, "values")
    request = RangeRequest("path", tree="path", separator=" > ", parent_separator=" > ")
    found = count_ranges(snapshot, request, [Matches(last, is_all=True)])
    assert dict(zip(found.listed_keys, found.listed_counts, strict=True)) == {
        "Home": 1,
        "Home > 7": 1,
    }
    condition = Under("path", ("Home",), " > ")
    assert count_docs(resolve(snapshot, last, condition)) == 1
    assert read == [1, 1]
    assert count_docs(resolve(snapshot, first, condition)) == 500
    assert read == [1, 1, 500]


def test_long_paths_are_charged_with_their_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node was charged 300 bytes; those of long names took twice as much."""
    cache = LruCache(MIB)
    monkeypatch.setattr(tree_counts, "COLUMN_CACHE", cache)
    tops = [f"{i:0240d}" for i in range(200)]
    paths = [f"{top} > {'x' * 240}" for top in tops]
    items: list[Item] = [{"path": path} for path in paths]
    snapshot = World(items, facets=("path",)).snapshot
    request = RangeRequest("path", tree="path", separator=" > ", parent_separator=" > ")
    count_ranges(snapshot, request, [Matches(snapshot.views[0], is_all=True)])
    # The paths as they are listed, and once more those that name the parents.
    assert cache.size > sum(map(len, [*tops, *paths, *tops]))


def test_a_path_of_very_many_levels_makes_no_node_for_each() -> None:
    """One value of 40 kB that is mostly separators took 400 MB, and 4 s of all searches' time."""
    path = " > ".join("a" for _ in range(2_000))
    snapshot = World([{"path": path}, {"path": "a > a"}], facets=("path",)).snapshot
    request = RangeRequest("path", tree="path", separator=" > ", parent_separator=" > ")
    found = count_ranges(snapshot, request, [Matches(snapshot.views[0], is_all=True)])
    counts = dict(zip(found.listed_keys, found.listed_counts, strict=True))
    assert (counts["a"], counts["a > a"], counts["a > a > a"]) == (2, 2, 1)
    assert len(counts) == TREE_LEVELS_MAX
