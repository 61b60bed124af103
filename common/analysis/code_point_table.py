"""Tables by code point in two levels: pages of 256 cells, of which equal ones are stored once.

    cell of a point = cells[pages[point >> 8] << 8 | point & 0xFF]

Most pages (ideographs, unassigned planes) are alike, so this takes a fraction of a plain array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def in_pages(cells: NDArray[np.uint32]) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
    """Return page by `point >> 8`, and the cells of the pages that differ.

    Args:
        cells: by code point; a multiple of 256.
    """
    number_of: dict[bytes, int] = {}
    pages = [
        number_of.setdefault(page.tobytes(), len(number_of)) for page in cells.reshape(-1, 256)
    ]
    distinct = np.frombuffer(bytearray(b"".join(number_of)), np.uint32)
    return np.array(pages, np.uint16), distinct
