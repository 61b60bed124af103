"""Messages that read stored items, by record or by id."""

from __future__ import annotations

from typing import Any

from common.protocol.messages.message import Message
from common.protocol.messages.search_request import HighlightRequest, SortKey
from common.protocol.messages.text_query_and_statistics import TextQuery


class FetchRequest(Message, frozen=True, array_like=True):
    """Stored bytes of records that a search of the same horizon named."""

    index: int
    horizon: int
    revision: int
    """Only highlights depend on it."""
    records: bytes
    """uint64."""
    query: TextQuery | None = None
    highlight: HighlightRequest | None = None
    sort: tuple[SortKey, ...] = ()
    """Fields whose values to return instead of the documents."""
    bytes_max: int = 0
    """Not 0: send the first ones, up to the one with which they reach this size, and None for a
    damaged one. 0: send all; a damaged one fails the call."""
    wants_ids: bool = False
    """With `bytes_max`: send the ids, not the items."""


class FetchResponse(Message, frozen=True, array_like=True):
    """Documents in the order of the request; with `bytes_max` possibly only the first ones."""

    documents: tuple[bytes | None, ...]
    """Or ids as JSON, empty where an item has none."""
    marks: tuple[dict[str, Any], ...]
    """Per document {"_highlight": …, "_snippet": …}; empty when none was requested."""
    sort_values: tuple[tuple[Any, ...], ...] = ()
    """Per sort key (not per document): the value of each document, None where missing."""


class GetRequest(Message, frozen=True, array_like=True):
    """One document by its external id."""

    index: int
    horizon: int
    id: bytes
    """Canonical UTF-8 text of the id."""


class GetResponse(Message, frozen=True, array_like=True):
    """The stored bytes, or None."""

    document: bytes | None
