"""The memory in which facets are counted. (The counts: the oracle, and `test_facet_rows`.)"""

from __future__ import annotations

import pytest

from common.protocol.packed_counts import units_max
from shard.collect.facets import facet_counts

HUGE = 3_000_000


def test_room_for_a_huge_dictionary_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed for as long as the process."""
    scratch = facet_counts._Scratch()
    scratch.ensure(HUGE, units_max(HUGE))
    scratch.ensure(100, units_max(100))
    assert len(scratch.counts) > HUGE, "another search may need it soon"

    monkeypatch.setattr(facet_counts, "_KEPT_SECONDS", -1.0)
    scratch.ensure(HUGE, units_max(HUGE))
    assert len(scratch.counts) > HUGE
    scratch.ensure(100, units_max(100))
    assert 100 < len(scratch.counts) < 1_000
    assert 100 < len(scratch.touched) < 1_000
    assert units_max(100) <= len(scratch.packed) < 10_000


def test_room_for_many_facets_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facet_counts, "_KEPT_SECONDS", -1.0)
    scratch = facet_counts._Scratch()
    scratch.ensure(100_000, 40 * units_max(100_000))
    scratch.ensure(100, units_max(100))
    assert len(scratch.packed) < 10_000
