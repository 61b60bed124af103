"""Tenant tokens: short-lived keys that the holder of an API key signs without calling us.

    {"alg": "HS256", "typ": "JWT", "kid": "3f9a1c20d4e8"}        id of the parent key
    {"exp": 1763798506, "filter": "tenant = 42", "indexes": ["films"], "actions": ["search"]}

A JSON Web Token, signed with the SHA-256 (in hexadecimal) of the complete parent key; that hash is
all that the catalog keeps for this purpose. A token allows what both it and its parent allow: the
common actions and indexes, both filters, until the earlier expiry; it dies with its parent. It
never allows configuring or administering, so it cannot extend its own life. Unknown claims are
rejected: a misspelt "filter" must not grant everything.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from common.errors import InvalidRequest, Unauthorized
from common.limits import Limits
from common.query_syntax_tree import And, Filter
from coordinator.parameters.filter_parser import parse_filter

CLAIMS: Final = ("exp", "iat", "nbf", "iss", "sub", "jti", "actions", "indexes", "filter")
ACTIONS: Final = frozenset(("search", "write"))
TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_MALFORMED: Final = (ValueError, TypeError, OverflowError, RecursionError)
"""What the library lets through: claims of a wrong type, and JSON that is nested too deep, which
any client can send."""
_PATTERNS_MAX: Final = 100
_PATTERN_CHARS_MAX: Final = 64


class Claims(msgspec.Struct, frozen=True):
    """The content of a valid token."""

    parent: str
    expires: float
    actions: frozenset[str]
    indexes: tuple[str, ...] | None
    filter: Filter | None


def signing_key(token: str) -> str:
    """Return the key that signs the tenant tokens of an API key."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_token(token: str, key_of: Callable[[str], str | None], limits: Limits) -> Claims:
    """Verify a token and return its claims.

    Args:
        token: as sent.
        key_of: returns the signing key by the id of the parent key; None if there is none.
        limits: of a token's lifetime and its filter.

    Raises:
        Unauthorized: it is invalid; the message says why.
    """
    import jwt  # loaded only when a client sends a token

    try:
        parent = jwt.get_unverified_header(token).get("kid")
        secret = key_of(parent) if isinstance(parent, str) else None
        if secret is None:
            raise Unauthorized(
                "the tenant token's kid is not the id of a key that can sign; sign with a key that "
                "this service made, fk_<kid>_…"
            )
        claims = jwt.decode(
            token,
            secret,
            algorithms=["HS256"],
            options={"require": ["exp"], "verify_aud": False, "verify_iss": False},
        )
    except jwt.ExpiredSignatureError:
        raise Unauthorized("the tenant token has expired; sign a new one") from None
    except (jwt.InvalidTokenError, *_MALFORMED) as error:
        raise Unauthorized(
            f"the tenant token is not valid ({error}); sign it by HS256 with the SHA-256 of the "
            "parent key, in hexadecimal"
        ) from None
    assert isinstance(parent, str)
    return _checked(parent, claims, limits)


def _checked(parent: str, claims: Mapping[str, Any], limits: Limits) -> Claims:
    """Check the claims of a token with a valid signature."""
    for name in claims:
        if name not in CLAIMS:
            raise _wrong(f"has an unknown claim {name[:40]!r}; known are {', '.join(CLAIMS)}")
    expires = float(claims["exp"])
    if expires - time.time() > limits.tenant_token_seconds_max:
        raise _wrong(
            f"may be valid for {limits.shown('tenant_token_seconds_max')} seconds from now"
        )
    actions = claims.get("actions", ["search"])
    if not isinstance(actions, list) or not actions or not set(map(str, actions)) <= ACTIONS:
        raise _wrong(f"must have actions that are some of {', '.join(sorted(ACTIONS))}")
    indexes = claims.get("indexes")
    if indexes is not None and not _are_patterns(indexes):
        raise _wrong("must have indexes that are a list of names or patterns")
    expression = claims.get("filter")
    condition = None
    if expression is not None:
        if not isinstance(expression, str) or not expression.strip():
            raise _wrong("must have a filter that is an expression such as 'tenant = 42'")
        try:
            condition = parse_filter(expression, limits)
        except InvalidRequest as error:
            raise _wrong(f"has a wrong filter: {error.message}") from None
    return Claims(
        parent,
        expires,
        frozenset(actions),
        None if indexes is None else tuple(indexes),
        condition,
    )


def _are_patterns(indexes: object) -> bool:
    return (
        isinstance(indexes, list)
        and 1 <= len(indexes) <= _PATTERNS_MAX
        and all(isinstance(one, str) and 1 <= len(one) <= _PATTERN_CHARS_MAX for one in indexes)
    )


def _wrong(message: str) -> Unauthorized:
    return Unauthorized(f"the tenant token {message}")


def both(one: Filter | None, other: Filter | None) -> Filter | None:
    """Return the conjunction of two filters; None means no filter."""
    if one is None or other is None:
        return other if one is None else one
    return And((one, other))


def earlier(one: float | None, other: float) -> float:
    """Return the earlier of two moments; None is never."""
    return other if one is None else min(one, other)
