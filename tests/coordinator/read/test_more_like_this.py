"""Items like one: how many searches it takes to know which words tell it from others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from common.analysis.analyzer import Analyzer
from common.deadline import Deadline
from common.limits import Limits
from coordinator.cluster.searched_state import SearchedState
from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.more_like_this import SimilarItems

FREQS = {"green": 50, "mile": 2, "alone": 1}


@pytest.mark.parametrize(("num_docs", "num_searches"), [(-1, 2), (100, 1)])
async def test_items_are_counted_only_if_their_number_is_not_known(
    num_docs: int, num_searches: int
) -> None:
    searched: list[SearchParameters] = []

    async def search(_: object, parameters: SearchParameters, __: int) -> Any:
        searched.append(parameters)
        return SimpleNamespace(items=[b'{"text": "the green mile alone"}'], total=100)

    async def count(_: object, sets: list[tuple[str, ...]]) -> list[int]:
        return [FREQS[word] for (word,) in sets]

    near: Any = SimpleNamespace(count=count)
    similar = SimilarItems(near, search, Analyzer(), Limits())
    index: Any = None
    found = await similar.query_for(
        SearchParameters(similar_to=b"1"),
        SearchedState(index, 7, 0, Deadline.after_ms(10_000)),
        frozenset({"the"}),
        num_docs,
    )
    assert found.query == "mile green"
    assert len(searched) == num_searches
