"""Texts of fields that are not facets are extracted from the stored documents, once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shard.segment.columns import text_ordinal_columns
from shard.segment.columns.text_ordinal_columns import text_column
from tests.shard.columns_model import Item, World


@pytest.mark.parametrize("collation", ["", "de"])
def test_threads_that_want_the_same_texts_wait_for_the_one_that_extracts_them(
    monkeypatch: pytest.MonkeyPatch, collation: str
) -> None:
    extracted: list[Any] = []
    extract = text_ordinal_columns._extract_texts

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.05)
        extracted.append(extract(*arguments))
        return extracted[-1]

    monkeypatch.setattr(text_ordinal_columns, "_extract_texts", slowly)
    items: list[Item] = [{"name": name} for name in ("b", "a", "ä", "c")]
    snapshot = World(items, facets=()).snapshot
    field = snapshot.registry.number("name")
    assert field is not None
    with ThreadPoolExecutor(3) as threads:
        reads = [
            threads.submit(text_column, snapshot, snapshot.views[0], field, collation)
            for _ in range(3)
        ]
        found = [one.result() for one in reads]
    assert len(extracted) == 1
    assert len({id(one) for one in found}) == 1
    column = found[0]
    assert column is not None
    expected = ["a", "ä", "b", "c"] if collation else ["a", "b", "c", "ä"]
    assert [column.text_of_rank(rank).decode() for rank in range(4)] == expected
