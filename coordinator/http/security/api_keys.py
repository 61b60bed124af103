"""API keys: what each allows, and how they are created, stored and deleted.

    fk_ 3f9a1c20d4e8 _ 7Jx…43 characters…Q       the token of a client: id and secret, shown once
    keys: {"3f9a1c20d4e8": {"salt", "hash", "actions", "indexes", "expires", "filter", …}}

The catalog stores a keyed BLAKE2 hash with a salt per key. The secret has 256 random bits, so it
needs no slow hash.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from common.errors import Forbidden, InvalidRequest, NotFound
from common.moments import timestamp_of
from common.query_syntax_tree import Filter
from coordinator.catalog.catalog_state import KEYS_SECTION
from coordinator.http.security.tenant_tokens import signing_key
from coordinator.parameters.filter_parser import parse_filter

if TYPE_CHECKING:
    from common.deadline import Deadline
    from common.limits import Limits
    from coordinator.catalog.catalog import Catalog
    from coordinator.catalog.catalog_state import CatalogState

SECRET_BYTES: Final = 32
SALT_BYTES: Final = 16
_EXPIRY_MAX: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""The last second that an ISO date can represent."""
_ANY_TEXT: Final = "\ud800"
"""Stands for the text that a `*` in a pattern covers. Being a lone surrogate, it occurs in no
pattern, so only a `*` can match it."""


class Action(StrEnum):
    """What a key may allow."""

    SEARCH = "search"
    WRITE = "write"
    CONFIGURE = "configure"
    ADMIN = "admin"


class StoredKey(Struct, frozen=True):
    """One key as stored in the catalog."""

    salt: str
    hash: str
    actions: tuple[Action, ...]
    indexes: tuple[str, ...]
    """Patterns of index names; `*` stands for any text."""
    created: str
    expires: float | None = None
    """Seconds since 1970 (the only place where the wall clock matters)."""
    filter: str | None = None
    """Filter expression applied to every search with this key."""
    description: str = ""
    signing: str | None = None
    """Signs tenant tokens (see `tenant_tokens`); None: the key is from an older version and
    cannot."""


class Caller(Struct, frozen=True):
    """The client of a request, and what it may do."""

    key_id: str | None
    """None: no key is needed here."""
    actions: frozenset[Action]
    indexes: re.Pattern[str] | None
    """None: all."""
    expires: float | None = None
    filter: Filter | None = None

    def may(self, action: Action) -> bool:
        """Return whether an action is allowed (on some index at least)."""
        return action in self.actions

    def may_use(self, index: str) -> bool:
        """Return whether the caller may use an index."""
        return self.indexes is None or self.indexes.fullmatch(index) is not None

    def covers(self, key: StoredKey) -> bool:
        """Return whether the caller may use every index that a key covers.

        Each of the key's patterns must lie within one of ours.
        """
        return self.indexes is None or all(
            self.indexes.fullmatch(pattern.replace("*", _ANY_TEXT)) for pattern in key.indexes
        )


ANYBODY: Final = Caller(None, frozenset(Action), None)
"""As long as no key exists, anyone may do anything: the service then listens on loopback only."""
NOBODY: Final = Caller(None, frozenset(), None)
"""A client without a key where one is needed: it may see health and the dashboard's files."""


def hash_secret(secret: str, salt: bytes) -> str:
    """Return the hash of a secret as stored in the catalog."""
    return hashlib.blake2b(
        secret.encode(), salt=salt, person=b"facetd key", digest_size=32
    ).hexdigest()


def create_key(document: object, *, is_first: bool) -> tuple[str, str, StoredKey]:
    """Create a key.

    Args:
        document: {"actions": ["search"], "indexes": ["films*"], "expires_at": "2027-01-01",
            "expires_in_seconds": 3600, "filter": "tenant = 7", "description": "…"}; only `actions`
            is required.
        is_first: whether no key exists yet: the first one must allow admin, or no further key
            could be created.

    Returns:
        The id, the token (never shown again), and the key as stored.

    Raises:
        InvalidRequest: code invalid_key; says what is wrong.
    """
    if not isinstance(document, dict):
        raise InvalidRequest("the body must be a JSON object", code="invalid_body")
    known = ("actions", "indexes", "expires_at", "expires_in_seconds", "filter", "description")
    for name in document:
        if name not in known:
            raise _wrong(name, f"is unknown; known are {', '.join(known)}")
    actions = _texts(document, "actions", [])
    names = [action.value for action in Action]
    if not actions or not set(actions) <= set(names):
        raise _wrong("actions", f"must list at least one of {', '.join(names)}")
    if is_first and Action.ADMIN not in actions:
        raise _wrong("actions", "of the first key must have admin: only that can make more keys")
    indexes = _texts(document, "indexes", ["*"])
    if is_first and "*" not in indexes:
        raise _wrong("indexes", 'of the first key must be ["*"]: others could not be reached')
    condition = document.get("filter")
    if condition is not None:
        if not isinstance(condition, str) or not condition.strip():
            raise _wrong("filter", "must be a filter expression")
        parse_filter(condition)
        if is_first:
            raise _wrong("filter", "cannot be that of the first key: it could not make others")
    description = document.get("description", "")
    if not isinstance(description, str) or len(description) > 500:
        raise _wrong("description", "must be a text of up to 500 characters")
    id_, secret, salt = (
        secrets.token_hex(6),
        secrets.token_urlsafe(SECRET_BYTES),
        secrets.token_bytes(SALT_BYTES),
    )
    stored = StoredKey(
        salt=salt.hex(),
        hash=hash_secret(secret, salt),
        actions=tuple(Action(action) for action in dict.fromkeys(actions)),
        indexes=tuple(indexes),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        expires=_expiry(document),
        filter=condition,
        description=description,
        signing=signing_key(f"fk_{id_}_{secret}"),
    )
    return id_, f"fk_{id_}_{secret}", stored


def _texts(document: Mapping[str, Any], name: str, default: list[str]) -> list[str]:
    """Return a list of up to 100 strings."""
    value = document.get(name)
    if value is None:
        return default
    if (
        not isinstance(value, list)
        or not 1 <= len(value) <= 100
        or not all(isinstance(one, str) and 0 < len(one) <= 64 for one in value)
    ):
        raise _wrong(name, "must be a list of 1 to 100 texts of up to 64 characters")
    return value


def _expiry(document: Mapping[str, Any]) -> float | None:
    """Return the key's expiry in seconds since 1970: the earlier of the two given."""
    ends = []
    seconds = document.get("expires_in_seconds")
    if seconds is not None:
        if type(seconds) is not int or not 0 < seconds < 10**10:
            raise _wrong("expires_in_seconds", "must be a positive integer")
        ends.append(time.time() + seconds)
    timestamp = document.get("expires_at")
    if timestamp is not None:
        ends.append(_timestamp(timestamp))
    return min(ends, default=None)


def _timestamp(timestamp: object) -> float:
    """Convert a future ISO date to seconds since 1970."""
    seconds = timestamp_of(timestamp) if isinstance(timestamp, str) else None
    if seconds is None:
        raise _wrong("expires_at", "must be an ISO date such as 2027-01-31T12:00:00Z")
    if seconds <= time.time():
        raise _wrong("expires_at", "must not be past")
    if seconds > _EXPIRY_MAX:
        raise _wrong("expires_at", f"must not be after {_shown_timestamp(_EXPIRY_MAX)}")
    return seconds


def _shown_timestamp(seconds: float) -> str:
    """Return seconds since 1970 as an ISO date, capped at the last one that can be shown."""
    timestamp = datetime.fromtimestamp(min(seconds, _EXPIRY_MAX), UTC)
    return timestamp.isoformat(timespec="seconds")


def _wrong(name: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{name} {message}", code="invalid_key", param=name)


def shown_key(id_: str, key: StoredKey) -> dict[str, Any]:
    """Return what may be shown of a key: everything but salt, hash and signing key."""
    return {
        "id": id_,
        "actions": [action.value for action in key.actions],
        "indexes": list(key.indexes),
        "created_at": key.created,
        "expires_at": None if key.expires is None else _shown_timestamp(key.expires),
        "filter": key.filter,
        "description": key.description,
    }


def stored_keys(catalog: Catalog) -> dict[str, StoredKey]:
    """Return all keys by id."""
    section = catalog.section(KEYS_SECTION)
    return {id_: msgspec.convert(stored, StoredKey) for id_, stored in section.items()}


def visible_keys(catalog: Catalog, caller: Caller) -> dict[str, StoredKey]:
    """Return the keys within a caller's indexes by id, in the order of these."""
    keys = stored_keys(catalog)
    return {id_: key for id_, key in sorted(keys.items()) if caller.covers(key)}


async def add_key(
    catalog: Catalog,
    document: object,
    limits: Limits,
    caller: Caller = ANYBODY,
    *,
    tell: Callable[[dict[str, Any], str], None] | None = None,
    deadline: Deadline | None = None,
) -> tuple[dict[str, Any], str]:
    """Create a key durably.

    Args:
        catalog: stores it.
        document: as for `create_key`.
        limits: on their number.
        caller: makes it.
        tell: called with what is returned before the key counts; if it raises, there is none.
        deadline: how long to wait for other hosts that share the catalog.

    Returns:
        What may be shown of it, and the token.

    Raises:
        InvalidRequest: as `create_key`; or there are too many keys.
        Forbidden: it would cover an index that the caller may not use.
    """
    made: list[tuple[str, str, StoredKey]] = []

    def change(state: CatalogState) -> CatalogState:
        keys = state.sections.get(KEYS_SECTION, {})
        if len(keys) >= limits.keys_max:
            raise InvalidRequest(
                f"there may be {limits.shown('keys_max')} keys; delete some", code="invalid_key"
            )
        made[:] = [create_key(document, is_first=not keys)]  # a change may be made again
        id_, token, stored = made[0]
        if not caller.covers(stored):
            raise Forbidden(
                "an API key can make keys for its own indexes only: each pattern in indexes must "
                "lie within one of its own"
            )
        if tell is not None:
            tell(shown_key(id_, stored), token)
        return state.with_section(KEYS_SECTION, {**keys, id_: msgspec.to_builtins(stored)})

    await catalog.change(change, deadline=deadline)
    id_, token, stored = made[0]
    return shown_key(id_, stored), token


async def remove_key(
    catalog: Catalog,
    id_: str,
    caller: Caller,
    *,
    keeps_last: bool = False,
    deadline: Deadline | None = None,
) -> None:
    """Delete a key durably.

    Args:
        catalog: stores the keys.
        id_: of the key.
        caller: deletes it.
        keeps_last: whether a key must remain: without keys, anyone may do anything.
        deadline: how long to wait for other hosts that share the catalog.

    Raises:
        NotFound: there is no such key, or it covers an index that the caller may not use.
        InvalidRequest: no remaining key could administer all indexes, or it is the last one and
            must remain.
    """

    def change(state: CatalogState) -> CatalogState:
        keys = dict(state.sections.get(KEYS_SECTION, {}))
        removed = keys.pop(id_, None)
        if removed is None or not caller.covers(msgspec.convert(removed, StoredKey)):
            raise NotFound(
                f"there is no key {id_[:40]!r}",
                advice="GET /_keys lists the keys",
                code="key_not_found",
            )
        if not keys and keeps_last:
            raise InvalidRequest(
                "without this last key everyone on the network could do anything; listen on "
                "127.0.0.1 or start with --insecure first",
                code="invalid_key",
            )
        others = [one for one in keys.values() if not _has_expired(one)]
        if keys and _administers_all(removed) and not any(map(_administers_all, others)):
            raise InvalidRequest(
                "the last key with admin for all indexes can be removed only after all other keys",
                code="invalid_key",
            )
        return state.with_section(KEYS_SECTION, keys)

    await catalog.change(change, deadline=deadline)


def _has_expired(stored: Mapping[str, Any]) -> bool:
    """Return whether a key, as stored, is not accepted any more."""
    expires: float | None = stored.get("expires")
    return expires is not None and time.time() >= expires


def _administers_all(stored: Mapping[str, Any]) -> bool:
    """Return whether a key, as stored, may administer every index."""
    return (
        Action.ADMIN in stored["actions"]
        and "*" in stored["indexes"]
        and stored.get("filter") is None
    )
