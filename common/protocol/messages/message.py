"""The base of all messages, and the version of the protocol that they make up."""

from __future__ import annotations

from msgspec import Struct

PROTOCOL_VERSION = 21


class Message(Struct, frozen=True, array_like=True):
    """Base of all messages: immutable, encoded as an array of its fields."""
