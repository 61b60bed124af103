"""Trees: of which nodes a shard reports the counts."""

from __future__ import annotations

import pytest

from common.protocol.messages import RangeRequest
from shard.collect.facets.range_counts import count_ranges
from shard.query.matches import Matches
from tests.shard.columns_model import Item, World

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
    assert dict(zip(found.keys, found.counts, strict=True)) == expected
