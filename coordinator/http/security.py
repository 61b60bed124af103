"""Access control: hosts and origins, API keys, and what a key restricts.

Every request passes three checks, in this order:

1. *Host*. A web page may point a name of its own at 127.0.0.1 (DNS rebinding); its requests carry
   that name. Without a key, only addresses, `localhost` and configured names are served.
2. *Origin*. Browsers send forms and plain text from any page without a preflight. A change sent by
   a page of another origin is rejected, unless that origin is configured.
3. *Key*. As soon as any key exists, every request except health and the dashboard's own files needs
   one: `Authorization: Bearer fk_…` or `X-API-Key: fk_…`. A key has actions, index patterns,
   optionally an expiry and a filter that is added to every search made with it.

    fk_ 3f9a1c20d4e8 _ 7Jx…43 characters…Q       the client's token: id and secret, shown once
    keys: {"3f9a1c20d4e8": {"salt", "hash", "actions", "indexes", "expires", "filter", …}}

The holder of a key can sign tenant tokens with it (`tenant_tokens`), which are accepted like keys.

The catalog stores a keyed BLAKE2 hash with a salt per key. The secret has 256 random bits, so it
needs no slow hash. Hashes are compared in constant time, for unknown ids too.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import hdrs
from msgspec import Struct
from multidict import istr

from common.errors import Forbidden, InvalidRequest, NotFound, Unauthorized
from common.query import Filter
from coordinator.http.tenant_tokens import TOKEN, both, earlier, read_token, signing_key
from coordinator.parameters.filter_parser import parse_filter

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

    from common.limits import Limits
    from coordinator.cluster.catalog import Catalog, Index
    from coordinator.cluster.catalog_state import CatalogState
    from coordinator.settings import Settings

SECTION: Final = "keys"
"""Name of the catalog's section."""
API_KEY_HEADER: Final = istr("X-API-Key")
"""Looking up an `istr` is six times as fast as looking up a str."""
SECRET_BYTES: Final = 32
SALT_BYTES: Final = 16
_EXPIRY_MAX: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""The last second that an ISO date can represent."""

TENANTS_REMEMBERED_MAX: Final = 4_096
"""Tenant tokens cached as verified."""
_TOKEN: Final = re.compile(r"fk_([0-9a-f]{12})_([A-Za-z0-9_-]{20,100})")
_ANY_TEXT: Final = "\ud800"
"""Stands for the text that a `*` in a pattern covers. Being a lone surrogate, it occurs in no
pattern, so only a `*` can match it."""
_NO_SALT: Final = b"\0" * SALT_BYTES


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


class Guard:
    """Decides whether requests are allowed; one instance per coordinator.

    Args:
        settings: addresses, allowed hosts and origins.
        catalog: stores the keys.
    """

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self._catalog = catalog
        self._any_origin = "*" in settings.allowed_origins
        self._origins = frozenset(origin.lower() for origin in settings.allowed_origins)
        self._hosts = frozenset(
            name.lower() for name in ("localhost", settings.host, *settings.allowed_hosts)
        )
        self._limits = settings.limits
        self._callers: dict[str, tuple[StoredKey, Caller]] = {}
        self._tenants: dict[str, Caller] = {}
        self._take_keys()
        catalog.on_change(self._take_keys)
        # Cached per instance: legitimate clients name few hosts, an attacker many.
        self._is_known_host = lru_cache(maxsize=256)(self._names_us)

    @property
    def has_origins(self) -> bool:
        """Whether any web pages of other origins may use the API (CORS)."""
        return bool(self._origins)

    def _take_keys(self) -> None:
        """Load the keys from the catalog."""
        section = self._catalog.section(SECTION)
        keys = {id_: msgspec.convert(stored, StoredKey) for id_, stored in section.items()}
        self._callers = {id_: (key, _caller(id_, key)) for id_, key in keys.items()}
        self._tenants.clear()

    # --- the caller

    def identify(self, headers: CIMultiDictProxy[str], key: str | None = None) -> Caller:
        """Identify the caller.

        Args:
            headers: of the request.
            key: that the request names in another way.

        Raises:
            Unauthorized: the request has a key, but it is wrong or expired.
        """
        token = headers.get(API_KEY_HEADER, key)
        if token is None:
            authorization = headers.get(hdrs.AUTHORIZATION)
            if authorization is not None:
                scheme, _, token = authorization.partition(" ")
                if scheme.lower() != "bearer":
                    token = ""
        if token is None:
            return NOBODY if self._callers else ANYBODY
        if not self._callers:
            # A client configured with a key keeps working where none is needed.
            return ANYBODY
        return self._caller_of(token.strip())

    def _caller_of(self, token: str) -> Caller:
        """Return the caller that a token belongs to."""
        if TOKEN.fullmatch(token):
            return self._tenant(token)
        match = _TOKEN.fullmatch(token)
        id_, secret = match.groups() if match else ("", "")
        known = self._callers.get(id_)
        salt = bytes.fromhex(known[0].salt) if known else _NO_SALT
        expected = known[0].hash if known else ""
        if not hmac.compare_digest(hash_secret(secret, salt), expected) or known is None:
            raise Unauthorized("the API key is wrong", advice="ask an operator for a valid one")
        caller = known[1]
        if caller.expires is not None and time.time() >= caller.expires:
            raise Unauthorized("the API key has expired", advice="ask an operator for a new one")
        return caller

    def _tenant(self, token: str) -> Caller:
        """Return the caller that a tenant token belongs to."""
        caller = self._tenants.get(token)
        if caller is None:
            claims = read_token(token, self._signing_key, self._limits)
            parent_key, parent = self._callers[claims.parent]
            indexes = parent.indexes
            if claims.indexes is not None:
                indexes = _patterns(claims.indexes, parent_key.indexes)
            caller = Caller(
                parent.key_id,
                parent.actions & frozenset(map(Action, claims.actions)),
                indexes,
                earlier(parent.expires, claims.expires),
                both(parent.filter, claims.filter),
            )
            if len(self._tenants) >= TENANTS_REMEMBERED_MAX:
                self._tenants.clear()
            self._tenants[token] = caller
        if caller.expires is not None and time.time() >= caller.expires:
            raise Unauthorized("the tenant token, or its parent key, has expired; sign a new one")
        return caller

    def _signing_key(self, id_: str) -> str | None:
        known = self._callers.get(id_)
        return None if known is None else known[0].signing

    def check_action(self, caller: Caller, action: Action) -> None:
        """Check that the caller may perform an action.

        Raises:
            Unauthorized: no key was given.
            Forbidden: the key does not allow it.
        """
        if action in caller.actions:
            return
        if caller is NOBODY:
            raise Unauthorized(
                "an API key is needed", advice="send Authorization: Bearer <key>, or X-API-Key"
            )
        allowed = ", ".join(sorted(caller.actions)) or "nothing"
        raise Forbidden(f"the API key does not allow {action.value}; it allows {allowed}")

    def check_index(self, caller: Caller, index: str) -> None:
        """Check that the caller's key covers an index.

        Raises:
            Forbidden: the key is for other indexes.
        """
        if not caller.may_use(index):
            raise Forbidden(f"the API key is not for index {index!r}")

    def index(self, caller: Caller, name: str) -> Index:
        """Return the index with a name or alias, if the caller may use it.

        A key may use an index under every name that its patterns cover. It does not learn whether
        other names exist.

        Raises:
            Forbidden: the key is for other indexes.
            NotFound: `index_not_found`.
        """
        try:
            index = self._catalog.index(name)
        except NotFound:
            self.check_index(caller, name)
            raise
        if not caller.may_use(index.name):
            self.check_index(caller, name)
        return index

    # --- host and origin

    def check_host(self, headers: CIMultiDictProxy[str], *, is_http_1_0: bool) -> None:
        """Reject requests addressed to a name that is not ours.

        Raises:
            InvalidRequest: the Host header is missing.
            Forbidden: code host_not_allowed.
        """
        host = headers.get(hdrs.HOST)
        if host is None:
            if is_http_1_0:
                return
            raise InvalidRequest("the Host header is missing", code="bad_request")
        if not self._is_known_host(host):
            raise Forbidden(
                f"host {host[:100]!r} is not served here; add it to the setting allowed_hosts",
                code="host_not_allowed",
            )

    def _names_us(self, host: str) -> bool:
        """Return whether a Host header is an address, or one of our names."""
        name = host_name(host)
        if name in self._hosts or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def check_origin(self, headers: CIMultiDictProxy[str]) -> None:
        """Reject a change sent by a web page of another origin.

        Raises:
            Forbidden: code origin_not_allowed.
        """
        origin = headers.get(hdrs.ORIGIN)
        if origin is None:
            site = headers.get("Sec-Fetch-Site", "none")
            if site in ("none", "same-origin"):
                return
        elif self.allows_origin(origin) or is_same_origin(origin, headers.get(hdrs.HOST, "")):
            return
        raise Forbidden(
            "a web page of another origin may not change anything here; "
            "add its origin to the setting allowed_origins",
            code="origin_not_allowed",
        )

    def allows_origin(self, origin: str) -> bool:
        """Return whether an origin is configured to use the API."""
        return self._any_origin or origin.lower() in self._origins


def host_name(host: str) -> str:
    """Return the name or address in a Host header, without port and brackets, in lower case."""
    if host.startswith("["):
        address, bracket, _ = host[1:].partition("]")
        return address.lower() if bracket else ""
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether an Origin header names the host that the request was sent to."""
    scheme, separator, name = origin.partition("://")
    return bool(separator) and scheme in ("http", "https") and name.lower() == host.lower()


class UnsafeAddress(Exception):
    """The service would be open to the network; the start fails."""


def check_address(settings: Settings, catalog: Catalog) -> None:
    """Refuse to start where anyone on the network could do anything.

    Raises:
        UnsafeAddress: the address is not loopback, no key exists, and --insecure is not set.
    """
    if is_open_to_all(settings, catalog):
        raise unsafe_address(settings)


def unsafe_address(settings: Settings) -> UnsafeAddress:
    """Return the error of an address that is open to all, which says what would be safe."""
    how = (
        "on a host that listens on 127.0.0.1; all hosts know it then"
        if settings.log_url
        else f"--data-dir {settings.data_dir}"
    )
    return UnsafeAddress(
        f"listening on {settings.host} lets everyone on the network read and change everything; "
        f"create an API key first (facetd keys create --action admin {how}), listen on 127.0.0.1, "
        "or pass --insecure"
    )


def is_open_to_all(settings: Settings, catalog: Catalog) -> bool:
    """Return whether others could do anything: the address is not loopback, and no key exists."""
    return settings.is_exposed and not catalog.section(SECTION)


# --- keys -------------------------------------------------------------------------------------


def hash_secret(secret: str, salt: bytes) -> str:
    """Return the hash of a secret as stored in the catalog."""
    return hashlib.blake2b(
        secret.encode(), salt=salt, person=b"facetd key", digest_size=32
    ).hexdigest()


def _caller(id_: str, key: StoredKey) -> Caller:
    """Prepare a key for checking requests."""
    indexes = None if "*" in key.indexes else _patterns(key.indexes)
    condition = parse_filter(key.filter) if key.filter else None
    return Caller(id_, frozenset(key.actions), indexes, key.expires, condition)


def _patterns(*groups: tuple[str, ...]) -> re.Pattern[str]:
    """Return the regular expression of names that match a pattern of every group."""
    *others, last = ("|".join(map(_expression, group)) for group in groups)
    conditions = "".join(rf"(?=(?:{one})\Z)" for one in others)
    return re.compile(f"{conditions}(?:{last})", re.DOTALL)


def _expression(pattern: str) -> str:
    """Return the regular expression of an index pattern.

    Each part between two stars is matched once, at its first occurrence (an atomic group). That is
    sufficient, and many stars cannot cause catastrophic backtracking.
    """
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return first
    *inner, last = others
    return first + "".join(f"(?>.*?{part})" for part in inner) + ".*" + last


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
    if not isinstance(timestamp, str):
        raise _wrong("expires_at", "must be an ISO date such as 2027-01-31T12:00:00Z")
    try:
        parsed = datetime.fromisoformat(timestamp)
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=UTC)
        seconds = parsed.astimezone(UTC).timestamp()  # fails if the year does not exist in UTC
    except (ValueError, OverflowError):
        raise _wrong("expires_at", "must be an ISO date such as 2027-01-31T12:00:00Z") from None
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
    section = catalog.section(SECTION)
    return {id_: msgspec.convert(stored, StoredKey) for id_, stored in section.items()}


def visible_keys(catalog: Catalog, caller: Caller) -> dict[str, StoredKey]:
    """Return the keys within a caller's indexes by id, in the order of these."""
    keys = stored_keys(catalog)
    return {id_: key for id_, key in sorted(keys.items()) if caller.covers(key)}


async def add_key(
    catalog: Catalog, document: object, limits: Limits, caller: Caller = ANYBODY
) -> tuple[dict[str, Any], str]:
    """Create a key durably.

    Returns:
        What may be shown of it, and the token.

    Raises:
        InvalidRequest: as `create_key`; or there are too many keys.
        Forbidden: it would cover an index that the caller may not use.
    """
    made: list[tuple[str, str, StoredKey]] = []

    def change(state: CatalogState) -> CatalogState:
        keys = state.sections.get(SECTION, {})
        if len(keys) >= limits.keys_max:
            raise InvalidRequest(
                f"there may be {limits.shown('keys_max')} keys; delete some", code="invalid_key"
            )
        made[:] = [create_key(document, is_first=not keys)]  # a change may be made again
        id_, _, stored = made[0]
        if not caller.covers(stored):
            raise Forbidden(
                "an API key can make keys for its own indexes only: each pattern in indexes must "
                "lie within one of its own"
            )
        return state.with_section(SECTION, {**keys, id_: msgspec.to_builtins(stored)})

    await catalog.change(change)
    id_, token, stored = made[0]
    return shown_key(id_, stored), token


async def remove_key(catalog: Catalog, id_: str, caller: Caller) -> None:
    """Delete a key durably.

    Raises:
        NotFound: there is no such key, or it covers an index that the caller may not use.
        InvalidRequest: no remaining key could administer all indexes.
    """

    def change(state: CatalogState) -> CatalogState:
        keys = dict(state.sections.get(SECTION, {}))
        removed = keys.pop(id_, None)
        if removed is None or not caller.covers(msgspec.convert(removed, StoredKey)):
            raise NotFound(
                f"there is no key {id_[:40]!r}",
                advice="GET /_keys lists those that are",
                code="key_not_found",
            )
        if keys and _administers_all(removed) and not any(map(_administers_all, keys.values())):
            raise InvalidRequest(
                "the last key with admin for all indexes can be removed only after all other keys",
                code="invalid_key",
            )
        return state.with_section(SECTION, keys)

    await catalog.change(change)


def _administers_all(stored: Mapping[str, Any]) -> bool:
    """Return whether a key, as stored, may administer every index."""
    return (
        Action.ADMIN in stored["actions"]
        and "*" in stored["indexes"]
        and stored.get("filter") is None
    )
