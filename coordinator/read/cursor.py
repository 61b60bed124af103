"""Cursors: continue after the last hit of a page, on the same state of the index.

    base64url( msgpack [version, revision, horizon, search, shard, record, score, place, timestamp,
    hits so far, sort values…] + tag )

A cursor identifies the last hit by its sort values, score and place. The first pages cost as little
as numbered ones; further on, shards compare all hits with the cursor (`SKIPPED_MAX`), so no page
costs more than that, however deep it is. Long sort values are left out to keep the cursor within
the length of a request; they are then read from the stored item (`record` of `shard`). The shards
keep the state readable under a lease, which each page renews.

`search` hashes everything that decides which hits there are and in which order, so a cursor cannot
continue a different search. The tag is a keyed hash of the rest, with a key that only this process
has: clients cannot forge a cursor to a hit that they never saw.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import msgspec

from common.errors import InvalidRequest
from coordinator.parameters.parsed_parameters import SearchParameters

_VERSION: Final = 3
START: Final = "*"
INLINE_CHARS_MAX: Final = 1_024
"""Cursors longer than this leave out the sort values."""
_TAG_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in the ordered hits of one state."""

    revision: int
    """Revision of the configuration, on which the order depends."""
    horizon: int
    """-1: the newest state; the cursor asks for the first page."""
    search: bytes = b""
    """`search_hash` of the search that the cursor continues."""
    hit: tuple[int, int] = (-1, 0)
    """Shard and record of the last unpinned hit seen; shard -1: none yet."""
    place: tuple[float | None, int] = (None, 0)
    """Score and place (insertion number) of that hit."""
    sort_values: tuple[Any, ...] | None = None
    """Sort values of that hit; None if they are left out."""
    timestamp: int = 0
    """When the first page was requested, in seconds since 1970: scores may depend on it."""
    num_seen: int = 0
    """Hits on all pages so far; positions of pinned hits are relative to it."""

    @property
    def is_start(self) -> bool:
        """Whether this asks for the first page."""
        return self.horizon < 0

    @property
    def has_hit(self) -> bool:
        """Whether an unpinned hit has been seen."""
        return self.hit[0] >= 0

    @property
    def after(self) -> tuple[Any, ...]:
        """Sort values, score and place of the last hit seen; empty at the start."""
        if self.sort_values is None or not self.has_hit:
            return ()
        return *self.sort_values, *self.place

    def encode(self) -> str:
        """Return the text that a client sends back."""
        text = self._encode(self.sort_values or ())
        return text if len(text) <= INLINE_CHARS_MAX else self._encode(())

    def _encode(self, sort_values: tuple[Any, ...]) -> str:
        packed = msgspec.msgpack.encode(
            (
                _VERSION,
                self.revision,
                self.horizon,
                self.search,
                *self.hit,
                *self.place,
                self.timestamp,
                self.num_seen,
                *sort_values,
            )
        )
        return base64.urlsafe_b64encode(packed + _tag(packed)).rstrip(b"=").decode()

    def under(self, revision: int) -> Cursor:
        """Return the same position under another configuration.

        Valid only if the order involves no scores, which depend on the configuration.
        """
        return replace(self, revision=revision)

    @classmethod
    def decode(cls, text: str, revision: int, num_sort_keys: int) -> Cursor:
        """Decode a cursor that a client sent; a start cursor has no moment yet.

        Raises:
            InvalidRequest: code invalid_cursor.
        """
        if text == START:
            return cls(revision, -1)
        try:
            padded = text.encode("ascii") + b"=" * (-len(text) % 4)
            content = base64.b64decode(padded, b"-_", validate=True)
        except (UnicodeError, binascii.Error):
            content = b""
        packed, tag = content[:-_TAG_BYTES], content[-_TAG_BYTES:]
        if not hmac.compare_digest(tag, _tag(packed)):
            raise _invalid("was not issued since the service started")
        (
            version,
            of_revision,
            horizon,
            search,
            shard,
            record,
            score,
            place,
            timestamp,
            seen,
            *values,
        ) = msgspec.msgpack.decode(packed)
        assert version == _VERSION, "a tag of this process under another version"
        if of_revision != revision:
            raise _invalid("is of an earlier configuration of the index")
        if values and len(values) != num_sort_keys:
            raise _invalid(_OTHER_SEARCH)
        sort_values = None if num_sort_keys and not values else tuple(values)
        return cls(
            revision,
            horizon,
            search,
            (shard, record),
            (score, place),
            sort_values,
            timestamp,
            seen,
        )

    def check(self, search: bytes) -> None:
        """Check that the cursor belongs to a search.

        Args:
            search: the `search_hash` of that search.

        Raises:
            InvalidRequest: code invalid_cursor; it belongs to another search.
        """
        if self.search != search:
            raise _invalid(_OTHER_SEARCH)


_OTHER_SEARCH: Final = (
    "is of another search: index, query, filters, order, boost, rules and distinct must be those "
    "of its first page"
)


def search_hash(index: int, parameters: SearchParameters) -> bytes:
    """Hash everything that decides which hits a search has, and their order.

    Args:
        index: number of the index.
        parameters: the search as requested.
    """
    encode = msgspec.msgpack.encode
    packed = encode(
        (
            index,
            parameters.query_key if parameters.query or parameters.similar_to else None,
            parameters.similar_to,
            sorted(encode(clause.filter) for clause in parameters.filters),
            parameters.sort,
            parameters.is_place_descending,
            parameters.distinct,
            parameters.boosts,
            parameters.min_score,
            parameters.rules,
        )
    )
    return hashlib.blake2b(packed, digest_size=8).digest()


def _tag(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=_TAG_BYTES, key=_key()).digest()


@cache
def _key() -> bytes:
    """Return the key, which lives as long as the process, like the states of its cursors.

    Drawn at the first use: modules are imported before processes are forked.
    """
    return secrets.token_bytes(32)


def _invalid(problem: str) -> InvalidRequest:
    return InvalidRequest(
        f'cursor {problem}; start with "*" and continue with the cursor of the last response',
        code="invalid_cursor",
        param="cursor",
    )
