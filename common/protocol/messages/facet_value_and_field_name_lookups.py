"""Messages that fetch what a shard's numbers stand for: facet values, field names."""

from __future__ import annotations

from typing import Final

from common.protocol.messages.message import Message

FACET_VALUES_MAX: Final = 2_000
"""In a `FacetValuesResponse`: learning them takes 0.4 ms."""


class FacetValuesRequest(Message, frozen=True, array_like=True):
    """The next values of a facet dictionary."""

    index: int
    field: str
    epoch: int
    start: int


class FacetValuesResponse(Message, frozen=True, array_like=True):
    """Values `start`… of the dictionary of `epoch` (which may be newer: then start is 0).

    There may be more: a response has up to `FACET_VALUES_MAX`.
    """

    epoch: int
    start: int
    keys: bytes
    """The values as UTF-8, one after the other."""
    sizes: bytes
    """Bytes of each: uint32, little-endian."""


class FieldNamesRequest(Message, frozen=True, array_like=True):
    """Ask for the fields that one index has on this shard."""

    index: int


class FieldNamesResponse(Message, frozen=True, array_like=True):
    """The fields that one index has on this shard, by their numbers."""

    paths: tuple[str, ...]
