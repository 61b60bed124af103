"""Looks up the values of a facet by their numbers, for coordinators that do not know them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from common.protocol.messages import FACET_VALUES_MAX, FacetValuesRequest, FacetValuesResponse

if TYPE_CHECKING:
    from shard.segment.snapshot import Snapshot


def facet_values(snapshot: Snapshot, request: FacetValuesRequest) -> FacetValuesResponse:
    """Return the next values of a facet dictionary from `start` on; for another epoch, from 0."""
    dictionary = snapshot.dictionaries.get(request.field)
    if dictionary is None:
        return FacetValuesResponse(0, 0, b"", b"")
    start = request.start if request.epoch == dictionary.epoch else 0
    end = min(start + FACET_VALUES_MAX, len(dictionary))
    keys, offsets = dictionary.arena(start, max(start, end))
    sizes = np.diff(offsets).astype("<u4").tobytes()
    content = keys[offsets[0] : offsets[-1]].tobytes()
    return FacetValuesResponse(dictionary.epoch, start, content, sizes)
