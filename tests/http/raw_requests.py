"""The bytes of requests, right or wrong, as `raw_client` sends them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

HOST = b"Host: 127.0.0.1\r\n"


def request(
    method: str,
    target: str | bytes,
    body: bytes | None = None,
    *headers: str,
    content_type: str | None = "application/json",
    version: str = "1.1",
    host: bytes = HOST,
) -> bytes:
    """Return the bytes of a request."""
    raw_target = target if isinstance(target, bytes) else target.encode()
    lines = [b"%b %b HTTP/%b\r\n" % (method.encode(), raw_target, version.encode()), host]
    lines += [header.encode("latin-1") + b"\r\n" for header in headers]
    if body is not None:
        if content_type is not None:
            lines.append(b"Content-Type: %b\r\n" % content_type.encode())
        if not any(
            header.lower().startswith(("content-length", "transfer-")) for header in headers
        ):
            lines.append(b"Content-Length: %d\r\n" % len(body))
    return b"".join(lines) + b"\r\n" + (body or b"")


def get(target: str, **parameters: Any) -> bytes:
    """Return a GET with query parameters; texts as they are, everything else as JSON."""
    pairs = "&".join(
        f"{name}={quote(value if isinstance(value, str) else json.dumps(value), safe='')}"
        for name, value in parameters.items()
    )
    return request("GET", f"{target}?{pairs}" if pairs else target)


def post(target: str, document: Any, *headers: str) -> bytes:
    """Return a POST of a JSON document (bytes are sent as they are)."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return request("POST", target, body, *headers)


SEARCH = request("GET", "/films/search")
"""A search that is like any other."""
