"""Access control: who calls, by API key or tenant token, and what the key restricts.

As soon as any key exists, every request except health and the dashboard's own files needs one:
`Authorization: Bearer fk_…` or `X-API-Key: fk_…`. A key has actions, index patterns, optionally an
expiry and a filter that is added to every search made with it (`api_keys`).

The holder of a key can sign tenant tokens with it (`tenant_tokens`), which are accepted like keys.
Hashes of keys are compared in constant time, for unknown ids too.

Which hosts and origins a request may name: `host_and_origin`.
"""

from __future__ import annotations

import base64
import hmac
import re
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import hdrs
from multidict import istr

from common.errors import Forbidden, NotFound, Unauthorized, Unavailable
from common.nearest_name import did_you_mean
from coordinator.catalog.catalog_state import KEYS_SECTION
from coordinator.http.security.api_keys import (
    ANYBODY,
    NOBODY,
    SALT_BYTES,
    Action,
    Caller,
    StoredKey,
    hash_secret,
)
from coordinator.http.security.cors import AllowedOrigins
from coordinator.http.security.host_and_origin import AllowedHosts
from coordinator.http.security.tenant_tokens import TOKEN, both, earlier, read_token
from coordinator.parameters.filter_objects import check_objects
from coordinator.parameters.filter_parser import parse_filter
from coordinator.parameters.value_parsers import Mistake

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multidict import CIMultiDictProxy

    from common.query_syntax_tree import Filter
    from coordinator.catalog.catalog import Catalog, Index
    from coordinator.settings import Settings

API_KEY_HEADER: Final = istr("X-API-Key")
"""Looking up an `istr` is six times as fast as looking up a str."""

TENANTS_REMEMBERED_MAX: Final = 4_096
"""Tenant tokens cached as verified."""
_CANDIDATES_MAX: Final = 300
"""Among more indexes, none is looked for that may have been meant."""
_TOKEN: Final = re.compile(r"fk_([0-9a-f]{12})_([A-Za-z0-9_-]{20,100})")
_SECURED: Final = re.compile(rb"[0-9a-f]{64}(?:\Z|[A-Za-z]+=)")
"""A secured key of Algolia's clients, decoded: an HMAC-SHA256, then parameters of searches."""
_NO_SALT: Final = b"\0" * SALT_BYTES


class Guard:
    """Decides whether requests are allowed; one instance per coordinator.

    Args:
        settings: addresses, allowed hosts and origins.
        catalog: stores the keys.

    Attributes:
        hosts: names that requests without a key may have.
        origins: of other pages that may use the API.
    """

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self._catalog = catalog
        self.hosts: Final = AllowedHosts((settings.host, *settings.allowed_hosts))
        self.origins: Final = AllowedOrigins(settings.allowed_origins)
        self._limits = settings.limits
        self._section: Mapping[str, Any] | None = None
        self._callers: dict[str, tuple[StoredKey, Caller]] = {}
        self._tenants: dict[str, Caller] = {}
        self._take_keys()
        catalog.on_change(self._take_keys)

    def _take_keys(self) -> None:
        """Load the keys from the catalog, unless something else in it has changed."""
        section = self._catalog.section(KEYS_SECTION)
        if section == self._section:
            return
        self._section = section
        keys = {id_: msgspec.convert(stored, StoredKey) for id_, stored in section.items()}
        self._callers = {id_: (key, _caller(id_, key)) for id_, key in keys.items()}
        self._tenants.clear()

    def identify(self, headers: CIMultiDictProxy[str], key: str | None = None) -> Caller:
        """Identify the caller.

        Args:
            headers: of the request.
            key: that the request names in another way.

        Raises:
            Unauthorized: the request has a key, but it is wrong or expired.
            Unavailable: the key is unknown, and another host may have made it.
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
        if known is None:
            self._check_keys_complete()
        salt = bytes.fromhex(known[0].salt) if known else _NO_SALT
        expected = known[0].hash if known else ""
        if not hmac.compare_digest(hash_secret(secret, salt), expected) or known is None:
            raise Unauthorized("the API key is wrong", advice=_advice(token))
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
        if known is None:
            self._check_keys_complete()
            return None
        return known[0].signing

    def _check_keys_complete(self) -> None:
        """Raise if a key that is not known may have been made on another host meanwhile.

        Raises:
            Unavailable: it may.
        """
        try:
            self._catalog.check_complete()
        except Unavailable as error:  # whose message is for those with a key
            raise Unavailable(
                "this host may lack the newest API keys: try again shortly, or another host",
                code=error.code,
            ) from None

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

    def check_transfer(self, caller: Caller) -> None:
        """Check that the caller may give the items of one index to another.

        That is to read them and to write them. The caller may configure, as the route says.

        Raises:
            Forbidden: the key does not allow it.
        """
        for action in (Action.SEARCH, Action.WRITE):
            self.check_action(caller, action)

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
            Forbidden: the key is for other indexes, or its filter is.
            NotFound: `index_not_found`.
            Unavailable: another host may have created it.
        """
        try:
            index = self._catalog.index(name)
        except Unavailable:
            self.check_index(caller, name)
            raise
        except NotFound as error:
            self.check_index(caller, name)
            known = [one for one in self._catalog.indexes if caller.may_use(one)]
            if len(known) <= _CANDIDATES_MAX and (meant := did_you_mean(name[:100], known)):
                fault = error.details["fault"] + meant
                raise NotFound(fault, advice=error.advice, code=error.code) from None
            raise
        if not caller.may_use(index.name):
            self.check_index(caller, name)
        if caller.filter is not None:
            _check_filter(caller.filter, index)
        return index


def _check_filter(condition: Filter, index: Index) -> None:
    """Check that an index supports a key's filter.

    A key may cover indexes that do not exist yet. In one without this field of points, a radius
    would find no items, and its negation all of them.

    Raises:
        Forbidden: it does not.
    """
    try:
        check_objects(condition, index.configuration)
    except Mistake as mistake:
        raise Forbidden(
            f"the filter of the API key {mistake.message}",
            advice="ask an operator for a key whose filter fits this index",
        ) from None


def _advice(token: str) -> str:
    """Return what to do about a wrong key."""
    try:
        decoded = base64.b64decode(token, validate=True)
    except ValueError:
        decoded = b""
    if _SECURED.match(decoded):
        return "a secured key of Algolia is a tenant token here: facetd.tenant_token signs it"
    return "ask an operator for a valid one"


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
