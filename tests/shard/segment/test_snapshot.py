"""A view hides what was deleted, and older views do not change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shard.segment import snapshot
from shard.segment.doc_sets import full_bitset
from shard.segment.segment import Segment
from shard.segment.snapshot import SegmentView


def _bits(mask: NDArray[np.uint64], num_docs: int) -> list[int]:
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    assert not bits[num_docs:].any()
    return np.flatnonzero(bits).tolist()


def test_view_without_deletions_has_no_mask() -> None:
    assert SegmentView(Segment({}, num_docs=3)).live_mask is None


@given(st.integers(0, 200))
def test_full_bitset_has_one_bit_a_document(num_docs: int) -> None:
    assert _bits(full_bitset(num_docs), num_docs) == list(range(num_docs))


@given(st.integers(1, 300), st.data())
def test_live_mask_is_the_complement_of_the_deleted(num_docs: int, data: st.DataObject) -> None:
    views = [SegmentView(Segment({}, num_docs=num_docs))]
    deleted: list[set[int]] = [set()]
    for _ in range(data.draw(st.integers(1, 4))):
        ordinals = data.draw(st.sets(st.integers(0, num_docs - 1), min_size=1))
        if data.draw(st.booleans()):
            _ = views[-1].live_mask
        views.append(views[-1].without(sorted(ordinals)))
        deleted.append(deleted[-1] | ordinals)
    for view, gone in zip(views[1:], deleted[1:], strict=True):
        live = sorted(set(range(num_docs)) - gone)
        assert view.num_docs == len(live)
        assert view.live_mask is not None
        assert _bits(view.live_mask, num_docs) == live


@pytest.mark.parametrize("kept", [[], [7], [99_999, 3, 3, 70], [0]])
def test_a_view_of_few_documents_lists_no_others(
    kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_them(_: object) -> None:
        raise AssertionError("the others are many")

    monkeypatch.setattr(snapshot, "_ordinals", list_them)
    view = SegmentView(Segment({}, num_docs=100_000)).only(np.array(kept, np.uint32))
    assert view.live_mask is not None
    assert _bits(view.live_mask, 100_000) == sorted(set(kept))
    assert view.num_docs == len(set(kept))
