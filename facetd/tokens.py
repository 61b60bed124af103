"""Tenant tokens: short-lived keys that a backend signs itself, without asking the service.

    {"alg": "HS256", "typ": "JWT", "kid": "3f9a1c20d4e8"}     the parent key's id
    {"exp": 1763798506, "filter": "tenant = 42", "indexes": ["films"]}

A token may what its parent key may at most; with it every search is narrowed by its filter. It is a
JSON Web Token (HS256), so any language can make one: the signing key is the SHA-256 of the whole
parent key, as hexadecimal text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Sequence
from typing import Any

import msgspec


def signing_key(parent_key: str) -> str:
    """Return what signs the tokens of a key, and nothing else."""
    return hashlib.sha256(parent_key.encode()).hexdigest()


def tenant_token(
    parent_key: str,
    *,
    filter: str | None = None,
    indexes: Sequence[str] | None = None,
    actions: Sequence[str] = ("search",),
    expires_in: float = 3_600.0,
) -> str:
    """Make a token to be used as an API key.

    Args:
        parent_key: `fk_…`; never leaves the backend.
        filter: expression that narrows every search: `tenant = 42`.
        indexes: names or patterns; all that the parent may use by default.
        actions: what it allows of what the parent allows.
        expires_in: seconds.

    Raises:
        ValueError: that is no key.
    """
    parts = parent_key.split("_", 2)
    if len(parts) != 3 or parts[0] != "fk":
        raise ValueError("the parent key must be a whole key, fk_…")
    claims: dict[str, Any] = {"exp": int(time.time() + expires_in), "actions": list(actions)}
    if filter is not None:
        claims["filter"] = filter
    if indexes is not None:
        claims["indexes"] = list(indexes)
    head = {"alg": "HS256", "typ": "JWT", "kid": parts[1]}
    signed = b".".join(_base64(msgspec.json.encode(part)) for part in (head, claims))
    signature = hmac.digest(signing_key(parent_key).encode(), signed, "sha256")
    return b".".join((signed, _base64(signature))).decode()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
