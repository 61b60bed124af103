"""Did you mean, where the words of a query are known, or far from all that are."""

from __future__ import annotations

from tests.cluster.conftest import Index
from tests.cluster.test_suggestions import meant


def test_known_words_that_no_item_has_together_may_be_misspelt(index: Index) -> None:
    """`blad` is a word of one item, so it is no typo; but no item has it beside `runner`."""
    index.configure({"searchable_fields": ["t"]})
    index.put([{"id": 1, "t": "blade runner"}, {"id": 2, "t": "blad"}])

    assert meant(index, query="blad runner") == "blade runner"
    assert meant(index, query="blad runner", match="auto") == "blade runner"
    assert meant(index, query="blad") is None


def test_a_word_two_edits_away_is_meant_if_none_is_nearer(index: Index) -> None:
    index.configure({"searchable_fields": ["t"]})
    index.put([{"id": 1, "t": "space odyssey"}, {"id": 2, "t": "space oddity"}])

    assert meant(index, query="space oddysey") == "space odyssey"
    assert meant(index, query="oddysey") == "odyssey"
    assert meant(index, query="spuxx") is None  # too short: anything is that near
    assert meant(index, query="eddysey") is None  # in the first letter a typo counts as two


def test_long_queries_are_not_corrected(index: Index) -> None:
    index.configure({"searchable_fields": ["t"]})
    index.put([{"id": 1, "t": f"gigantic {'x' * 239} turbine blades of nine old words here"}])

    assert meant(index, query="gigamtic turbine blades of nine old words", typo=0) is not None
    assert meant(index, query="gigamtic turbine blades of nine old words here now", typo=0) is None
    assert meant(index, query=f"gigamtic {'x' * 239} turbine", typo=0) is not None  # 256 characters
    assert meant(index, query=f"gigamtic {'x' * 239} turbines", typo=0) is None
