"""Names of indexes: which texts can be one, and which first segments of a path never are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from common.errors import InvalidRequest

if TYPE_CHECKING:
    from common.limits import Limits

ALL_INDEXES: Final = "*"
"""Stands for every index in a path, so it is the name of none."""
RESERVED_NAMES: Final = frozenset(("dashboard", "favicon.ico", "status", ALL_INDEXES))
"""What stands where an index would, without the `_` of other pages."""


def is_reserved(segment: str) -> bool:
    """Return whether the first segment of a path (not empty) leads to a page, never to an index."""
    return segment[0] == "_" or segment in RESERVED_NAMES


def check_index_name(name: str, limits: Limits) -> None:
    """Check that a text can be the name of an index.

    Raises:
        InvalidRequest: code invalid_index_name.
    """
    if (
        not 1 <= len(name) <= limits.index_name_chars_max
        or name[0] in "_."
        or name in RESERVED_NAMES
        or "/" in name
        or any(ord(character) < 32 or 127 <= ord(character) < 160 for character in name)
    ):
        raise InvalidRequest(
            f"an index name has 1 to {limits.shown('index_name_chars_max')} characters, no / or "
            "control characters, does not begin with _ or ., and is none of "
            f"{', '.join(sorted(RESERVED_NAMES))}",
            code="invalid_index_name",
            param="index",
        )
