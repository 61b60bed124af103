"""The Python client of facetd.

    from facetd import AsyncClient, Client

    with Client("https://search.example.org", key="fk_…") as client:
        client.add("films", [{"id": 1, "name": "The Godfather", "year": 1972}])
        found = client.search("films", query="godfathr", facet_fields=["year"])
        print(found.total, found.items[0]["name"], found.facets["year"].counts)

`AsyncClient` has the same methods as coroutines. Importing this package starts nothing and imports
no server code. Errors are typed (`facetd.errors`); `facetd.retries` documents which calls are
retried after a failure, and when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facetd.client import Client
from facetd.errors import (
    ApiError,
    BadRequest,
    Conflict,
    ConnectionFailed,
    FacetdError,
    Forbidden,
    NotFound,
    ServerError,
    StorageFull,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from facetd.results import (
    Bucket,
    Explanation,
    Facet,
    FacetPage,
    SearchPage,
    Suggestion,
    TreeNode,
    WriteResult,
)
from facetd.retries import Retries
from facetd.tokens import tenant_token

if TYPE_CHECKING:
    from facetd.aio import AsyncClient

__all__ = [
    "ApiError",
    "AsyncClient",
    "BadRequest",
    "Bucket",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Explanation",
    "Facet",
    "FacetPage",
    "FacetdError",
    "Forbidden",
    "NotFound",
    "Retries",
    "SearchPage",
    "ServerError",
    "StorageFull",
    "Suggestion",
    "TooLarge",
    "TooManyRequests",
    "TreeNode",
    "Unauthorized",
    "Unavailable",
    "WriteResult",
    "tenant_token",
]


def __getattr__(name: str) -> Any:
    """Import the asynchronous client when it is used: asyncio doubles the time of our import."""
    if name == "AsyncClient":
        from facetd.aio import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
