"""How large a page of hits may be: the bytes of its stored items.

A shard, the coordinator and its socket hold a page at the same time. Streams and exports read any
number of items of any size, a few megabytes at a time.
"""

from __future__ import annotations

from typing import Final

from common.errors import PayloadTooLarge

PAGE_BYTES_MAX: Final = 64 << 20
"""Stored items of one page, before projection."""
FEW_ITEMS: Final = 8
"""A page may have this many items whatever their size, which is 16 MiB at most."""


def is_too_large(num_items: int, num_bytes: int) -> bool:
    """Return whether items take more than a page may."""
    return num_bytes > PAGE_BYTES_MAX and num_items > FEW_ITEMS


def page_too_large() -> PayloadTooLarge:
    """Return the error for a page of too many bytes."""
    return PayloadTooLarge(
        f"the items of this page take more than {PAGE_BYTES_MAX >> 20} MiB; ask for fewer at a "
        "time, by per_page",
        advice="GET /{index}/items streams all items that match",
    )
