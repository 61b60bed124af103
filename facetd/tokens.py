"""Tenant tokens: short-lived keys that a backend signs itself, without calling the service.

    {"alg": "HS256", "typ": "JWT", "kid": "3f9a1c20d4e8"}     the parent key's id
    {"exp": 1763798506, "filter": "tenant = 42", "indexes": ["films"]}

A token allows at most what its parent key does; its filter narrows every search made with it. It is
a JSON Web Token (HS256), so any language can create one: the signing key is the SHA-256 of the
complete parent key, in hexadecimal.
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
    """Return the key that signs a parent key's tokens; it serves no other purpose."""
    return hashlib.sha256(parent_key.encode()).hexdigest()


def tenant_token(
    parent_key: str,
    *,
    filter: str | None = None,
    indexes: Sequence[str] | None = None,
    actions: Sequence[str] = ("search",),
    expires_in: float = 3_600.0,
) -> str:
    """Create a token for use as an API key.

    Args:
        parent_key: `fk_…`; never leaves the backend.
        filter: expression that narrows every search: `tenant = 42`.
        indexes: names or patterns; by default, all that the parent may use.
        actions: among those of the parent.
        expires_in: seconds.

    Raises:
        ValueError: the parent key is malformed.
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
