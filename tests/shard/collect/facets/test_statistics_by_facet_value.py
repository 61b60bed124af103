"""Sums by value are exact in any order, even where a sum of doubles loses small terms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.protocol.messages import SUM_BITS, FacetRequest, ValueStatisticsRequest
from shard.collect.facets.drill_sideways import CountedMatches
from shard.collect.facets.statistics_by_facet_value import value_statistics
from shard.query.matches import Matches
from tests.shard.columns_model import Item, World

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**64 - 1)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "brand": st.sampled_from(["a", "b", ["a", "b"], 1]),
                "price": numbers | st.lists(numbers, max_size=3),
            },
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_sums_are_exact(items: list[Item], cut: int) -> None:
    snapshot = World(items, cuts=[cut] if 0 < cut < len(items) else [], facets=("brand",)).snapshot
    keys = ("b", "nobody", "a", "1")
    (found,) = value_statistics(
        snapshot,
        [ValueStatisticsRequest(FacetRequest("brand", False, 0), keys, ("price", "none"))],
        CountedMatches.of([Matches(view, is_all=True) for view in snapshot.views]),
    )
    prices, nothing = found.fields
    assert nothing.counts == (0, 0, 0, 0)
    for place, key in enumerate(keys):
        expected = [
            number
            for item in items
            if key in map(str, _list(item.get("brand", [])))
            for number in set(_list(item.get("price", [])))
        ]
        assert prices.counts[place] == len(expected)
        total = int.from_bytes(prices.sums[place], signed=True)
        assert Fraction(total, 1 << SUM_BITS) == sum(map(Fraction, expected))
        assert prices.least[place] == min(expected, default=None)
        assert prices.greatest[place] == max(expected, default=None)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
