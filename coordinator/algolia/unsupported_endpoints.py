"""The pages of Algolia's protocol that facetd does not have, and the alternatives (pure)."""

from __future__ import annotations

from typing import Final

_ABSENT: Final[tuple[tuple[str | None, str, str], ...]] = (
    ("PUT", "keys/*", "API keys are not changed: create another one and delete this one"),
    ("POST", "keys/*/restore", "API keys that were deleted are gone: create another one"),
    (None, "logs", "requests are not kept for clients: see the service's log and GET /_metrics"),
    (None, "dictionaries", "words are settings of an index: stop_words, language, synonyms"),
    (None, "clusters", "users are not divided over clusters: see docs/several-hosts.md"),
    (None, "security", "keys are not limited to addresses: a proxy in front can do that"),
    (None, "events", "events go to POST /_analytics/clicks"),
    (None, "indexes/*/recommendations", "POST /{index}/search with similar_to finds like items"),
)
"""Method (None: all), the beginning of a path after /1/, and what to say."""


def reason_for(method: str, segments: list[str]) -> str | None:
    """Return why a page of the protocol is not supported; None for unknown pages."""
    path = segments[1:]
    for wanted, pattern, reason in _ABSENT:
        parts = pattern.split("/")
        start = path[: len(parts)]
        is_same = len(start) == len(parts) and all(
            part in ("*", one) for part, one in zip(parts, start, strict=True)
        )
        if is_same and wanted in (None, method):
            return f"this part of Algolia's protocol cannot be honoured: {reason}"
    return None
