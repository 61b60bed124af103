"""Where a text may be cut; see also the properties of snippets in `test_highlight`."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from shard.read import grapheme_clusters
from shard.read.grapheme_clusters import first_cut, last_cut


def test_flags_side_by_side_are_not_cut_apart() -> None:
    encoded = ("🇦🇹" * 100).encode()
    for at in range(8, 800, 8):
        assert first_cut(encoded, at) == last_cut(encoded, at) == at
        assert first_cut(encoded, at + 4) == at + 8
        assert last_cut(encoded, at + 4) == at


def test_a_cut_reads_a_bounded_part_of_a_run_of_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """It read all flags before it: a text of them that is cut often took quadratic time."""
    encoded = ("🇦🇹" * 10_000).encode()
    counter = Mock(wraps=grapheme_clusters._is_regional)
    monkeypatch.setattr(grapheme_clusters, "_is_regional", counter)
    for cut in (first_cut, last_cut):
        assert abs(cut(encoded, len(encoded) - 12) - len(encoded) + 12) <= 4
    assert counter.call_count < 2_000
