"""Cursors: where to go on behind the last hit of an answer, on the same state of the index.

    base64url( msgpack [version, revision, horizon, sort values…, score, place] )

A cursor names the last hit by its sort values, score and place, so the next page costs what the
first one did, however deep it is. The state stays readable as long as the shards keep it: each page
renews that. A cursor is a client's text like any other: whatever is wrong with it is a 400.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from common.errors import InvalidRequest

_VERSION: Final = 1
START: Final = "*"
_SCALARS: Final = (type(None), bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the order of the hits of one state."""

    revision: int
    """Of the configuration, which the order depends on."""
    horizon: int
    """-1: the newest state; the cursor is a wish to begin one."""
    after: tuple[Any, ...]
    """Sort values, score and place of the last hit seen."""

    @property
    def is_start(self) -> bool:
        """Whether this asks for the first page."""
        return self.horizon < 0

    def encode(self) -> str:
        """Return the text that a client sends back."""
        packed = msgspec.msgpack.encode((_VERSION, self.revision, self.horizon, *self.after))
        return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()

    def under(self, revision: int) -> Cursor:
        """Return the same place under another configuration.

        It is the same if the order has no scores in it: they depend on the configuration.
        """
        return replace(self, revision=revision)

    @classmethod
    def decode(cls, text: str, revision: int, num_sort_keys: int) -> Cursor:
        """Read a cursor that a client sent.

        Raises:
            InvalidRequest: code invalid_cursor.
        """
        if text == START:
            return cls(revision, -1, ())
        try:
            padded = text.encode("ascii") + b"=" * (-len(text) % 4)
            parts = msgspec.msgpack.decode(base64.b64decode(padded, b"-_", validate=True))
        except (UnicodeError, binascii.Error, msgspec.DecodeError, RecursionError):
            raise _invalid("is none that an answer gave") from None
        if (
            not isinstance(parts, list)
            or len(parts) != 5 + num_sort_keys
            or parts[0] != _VERSION
            or not all(type(part) in _SCALARS for part in parts)
            or not all(type(part) is int and part >= 0 for part in (parts[1], parts[2], parts[-1]))
            or type(parts[-2]) not in (float, type(None))
        ):
            raise _invalid("is none that an answer to the same search gave")
        if parts[1] != revision:
            raise _invalid("is of an earlier configuration of the index")
        return cls(revision, parts[2], tuple(parts[3:]))


def _invalid(problem: str) -> InvalidRequest:
    return InvalidRequest(
        f'cursor {problem}; begin with "*" and go on with the cursor of the last answer',
        code="invalid_cursor",
        param="cursor",
    )
