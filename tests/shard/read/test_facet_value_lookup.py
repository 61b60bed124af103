"""Values of a facet, as the coordinator looks them up by number."""

from __future__ import annotations

import pytest

from common.protocol.messages import FacetValuesRequest
from shard.read import facet_value_lookup
from tests.shard.columns_model import World


def test_facet_values_are_the_tail_of_the_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([{"tags": ["a", "b"]}, {"tags": "c"}])
    epoch = world.snapshot.dictionaries["tags"].epoch
    ask = facet_value_lookup.facet_values
    monkeypatch.setattr(facet_value_lookup, "FACET_VALUES_MAX", 1)
    first = ask(world.snapshot, FacetValuesRequest(1, "tags", epoch, 0))
    assert (first.keys, first.sizes) == (b"a", b"\1\0\0\0")
    monkeypatch.undo()
    tail = ask(world.snapshot, FacetValuesRequest(1, "tags", epoch, 1))
    assert (tail.epoch, tail.start, tail.keys) == (epoch, 1, b"bc")
    other = ask(world.snapshot, FacetValuesRequest(1, "tags", epoch + 1, 2))
    assert (other.epoch, other.start, other.keys) == (epoch, 0, b"abc")
    assert ask(world.snapshot, FacetValuesRequest(1, "no", 0, 0)).sizes == b""
