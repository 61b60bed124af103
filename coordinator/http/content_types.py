"""Content types: which of them a route accepts (pure)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from common.errors import UnsupportedMediaType
from coordinator.http.api_description.route import Body

_CONTENT_ADVICE: Final = {
    "": "; curl takes it as -H 'Content-Type: application/json'",
    "application/x-www-form-urlencoded": "; curl takes it as -H 'Content-Type: application/json'",
    "multipart/form-data": "; a file is the body itself: curl --data-binary @FILE, not -F",
    "text/csv": "; the command facetd load reads CSV",
}
"""What helps with a content type that is not accepted, after those that are."""


class ContentType(NamedTuple):
    """A Content-Type header, in lower case."""

    media_type: str
    """Empty if absent."""
    charset: str
    """utf-8 if absent."""


def parse_content_type(header: str) -> ContentType:
    """Parse a Content-Type header."""
    media_type, *parameters = header.split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return ContentType(media_type.strip().lower(), value.strip().strip('"').lower())
    return ContentType(media_type.strip().lower(), "utf-8")


@lru_cache(maxsize=64)  # clients send few; a client that sends many evicts only these
def check_content_type(body: Body, header: str) -> None:
    """Check that a route with such a body accepts a Content-Type.

    A JSON route accepts nothing but JSON: browsers send `text/plain` from any page without a
    preflight. A stream without a type comes from a script, not from a browser's form.

    Raises:
        UnsupportedMediaType: names the accepted types.
    """
    media_type, charset = parse_content_type(header)
    is_known = (
        media_type in body.value
        or (body is Body.STREAM and not media_type)
        or (media_type.startswith("application/") and media_type.endswith("+json"))
    )
    if not is_known:
        raise UnsupportedMediaType(
            f"content type {media_type[:80]!r} is not accepted here; send "
            f"{' or '.join(filter(None, body.value))}{_CONTENT_ADVICE.get(media_type, '')}"
        )
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedMediaType(f"charset {charset[:40]!r} is not accepted; send utf-8")
