"""Errors about Algolia's parameters, which name them as Algolia does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from common.errors import InvalidRequest, ServiceError
from coordinator.parameters.value_parsers import Mistake

WRONG: Final = "invalid_parameter"
UNHONOURED: Final = "unsupported_parameter"

_CODES: Final = {
    "page": "invalid_page",
    "offset": "invalid_page",
    "hitsPerPage": "invalid_per_page",
    "length": "invalid_per_page",
}
"""Error codes of parameters that we have under another name."""

_NAMES: Final = {
    "per_page": "hitsPerPage",
    "search_fields": "restrictSearchableAttributes",
    "highlight": "attributesToHighlight",
    "snippet": "attributesToSnippet",
    "facet_fields": "facets",
    "search_query": "query",
    "facet_query": "facetQuery",
    "sort": "indexName",
    "name": "facetName",
}
"""Our parameters that an error may name, to Algolia's that they came from."""


def guarded(name: str, read: Callable[[], None]) -> None:
    """Run the reader of a parameter; a mistake becomes an error that names the parameter."""
    try:
        read()
    except Mistake as mistake:
        name = mistake.path or name
        code = mistake.code or _CODES.get(name, WRONG)
        raise wrong(name, mistake.message, code) from None


def wrong(name: str, message: str, code: str = WRONG) -> InvalidRequest:
    """Return an error about a parameter; its message begins with the name."""
    return InvalidRequest(f"{name} {message}", code=code, param=name)


def translated(error: ServiceError, **names: str) -> ServiceError:
    """Rewrite an error about one of our parameters to name Algolia's that it came from."""
    if not isinstance(error, InvalidRequest) or error.param is None:
        return error
    head, dot, rest = error.param.partition(".")
    name = {**_NAMES, **names}.get(head)
    if name is None:
        return error
    message = error.message
    if message.startswith(error.param):
        message = name + dot + rest + message[len(error.param) :]
    return InvalidRequest(message, code=error.code, param=name + dot + rest)


def translated_warning(text: str) -> str:
    """Rewrite a warning, which begins with one of our parameters, to name Algolia's."""
    name, space, rest = text.partition(" ")
    return _NAMES.get(name, name) + space + rest
