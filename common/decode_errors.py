"""What decoding raises for content that came from outside: a client, another host, the disk."""

from __future__ import annotations

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Content that is no JSON or MessagePack, or not of the expected type. (msgspec has no error of its
own for a string that is not UTF-8, nor for one nesting too many.)"""
