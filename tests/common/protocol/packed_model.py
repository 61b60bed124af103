"""Packed facet counts as they are drawn, without kernels: what both sides are tested against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def unpack(packed: bytes, num_facets: int) -> list[dict[int, int]]:
    """Return the positive counts of each facet by value number."""
    units = np.frombuffer(packed, np.uint16)
    facets = []
    at = 0
    for _ in range(num_facets):
        form = int(units[at])
        length = int(units[at + 2]) | int(units[at + 3]) << 16
        at += 4
        size = length * (1, 2, 2, 4)[form]
        entries: list[int] = units[at : at + size].tolist()
        at += size
        if form in (1, 3):
            halves = zip(entries[::2], entries[1::2], strict=True)
            entries = [low | high << 16 for low, high in halves]
        if form < 2:
            facets.append({number: count for number, count in enumerate(entries) if count})
        else:
            facets.append(dict(zip(entries[::2], entries[1::2], strict=True)))
            assert len(facets[-1]) == length
            assert all(facets[-1].values())
    assert at == len(units)
    return facets


def pack(counts: Mapping[int, int], num_values: int, form: int) -> bytes:
    """Return one facet in one of the four forms."""
    if form < 2:
        entries = [counts.get(number, 0) for number in range(num_values)]
        length = num_values
    else:
        entries = [one for number, count in counts.items() if count for one in (number, count)]
        length = len(entries) // 2
    width = "<u4" if form in (1, 3) else "<u2"
    header = np.array([form, 0, length & 0xFFFF, length >> 16], "<u2")
    return header.tobytes() + np.array(entries, width).tobytes()
