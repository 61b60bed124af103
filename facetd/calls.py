"""Calls: what each method of the clients sends, and the type of its result (pure).

Both clients share these; they differ only in the transport.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from copy import copy as copy_of
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Raw

from facetd.errors import ApiError, error_of, not_facetd, redirected
from facetd.results import (
    ConfigurationResult,
    ExplanationPage,
    FacetPage,
    FailedSearch,
    SearchPage,
    SearchPages,
    SuggestionPage,
    WriteResult,
    decoded,
)
from facetd.retries import Retries

Item = Mapping[str, Any]
Document = dict[str, Any]
T = TypeVar("T")
NDJSON: Final = "application/x-ndjson"
_JSON: Final = msgspec.json.Encoder(decimal_format="number")
"""Decimals, such as prices from a database, are numbers: as texts no range would find them."""


class ItemsFailed(Exception):
    """The caller's items raised an error while they were sent: it is not one of the connection.

    Attributes:
        error: what they raised.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Call(NamedTuple, Generic[T]):
    """One request."""

    method: str
    path: str
    """With query string, quoted; relative to the prefix of the URL."""
    result: type[T]
    """Type of the response."""
    body: bytes | Iterable[bytes] | AsyncIterable[bytes] | None = None
    is_repeatable: bool = True
    """Whether sending it twice has the same effect as sending it once."""
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


class Address(NamedTuple):
    """The address of a service."""

    is_secure: bool
    host: str
    port: int
    prefix: str
    """Path under which a proxy serves it; "" or "/search"."""

    @property
    def url(self) -> str:
        """The URL, without a trailing slash."""
        scheme, usual = ("https", 443) if self.is_secure else ("http", 80)
        name = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == usual else f":{self.port}"
        return f"{scheme}://{name}{port}{self.prefix}"


def address_of(url: str) -> Address:
    """Parse a URL: `http://host:port`, `https://host/prefix`.

    Raises:
        ValueError: it is malformed.
    """
    parts = urlsplit(url if "//" in url else f"http://{url}")
    if parts.username is not None:  # without quoting it: messages end in logs
        raise ValueError("the URL must be without user and password; facetd takes an API key")
    host = parts.hostname or ""
    try:
        port = parts.port
        host.encode("idna")
    except ValueError:  # a port that is not a number, or out of range; a host that is no name
        port = -1
    if (
        port == -1
        or parts.scheme not in ("http", "https")
        or not host
        or any(one.isspace() or not one.isprintable() for one in host)
        or parts.query
        or parts.fragment
    ):
        raise ValueError(
            "the URL must be http://HOST:PORT or https://HOST:PORT, with a path if a proxy serves "
            f"facetd under one, not {url}"
        )
    is_secure = parts.scheme == "https"
    return Address(
        is_secure,
        host,
        port or (443 if is_secure else 80),
        quote(parts.path.rstrip("/"), safe="/%"),
    )


def headers_of(key: str | None) -> dict[str, str]:
    """Return the headers of every request.

    Raises:
        ValueError: the key has characters that no key has.
    """
    if key is not None and (not key.isascii() or not key.isprintable() or " " in key):
        raise ValueError(
            "the key has a blank, a line break or a character that no API key and no tenant token "
            "has; give it as it was made, fk_ and all that follows"
        )
    headers = {"Accept": "application/json", "User-Agent": "facetd-python"}
    return headers if key is None else {**headers, "Authorization": f"Bearer {key}"}


class ClientBase:
    """Common base of the synchronous and the asynchronous client.

    Args:
        url: `http://host:port` or `https://host`, plus a path if a proxy serves it under one.
        key: API key or tenant token, if the service requires one.
        timeout: seconds without receiving a byte after which a try of a call fails.
        retries: policy for failed calls; a retry never applies a change twice.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:3000",
        key: str | None = None,
        *,
        timeout: float = 60.0,
        retries: Retries | None = None,
    ) -> None:
        self.address = address_of(url)
        self.retries = retries or Retries()
        self._headers = headers_of(key)
        self._timeout = timeout
        self._prepare()

    def _prepare(self) -> None:
        """Make room for the connections of this client."""

    def with_timeout(self, seconds: float) -> Self:
        """Return this client with another timeout, for one call or more; they share connections.

        Raises:
            ValueError: it is not above 0.
        """
        if not seconds > 0:
            raise ValueError(f"the timeout must be above 0 seconds, not {seconds}")
        other = copy_of(self)
        other._timeout = seconds
        return other

    def _decoded(self, content: bytes | Raw, kind: type[T]) -> T:
        """Decode a response.

        Raises:
            ServerError: facetd would not answer so.
        """
        try:
            return decoded(content, kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise not_facetd(self.address.url) from error

    def _refusal(
        self, status: int, content: bytes, header: Callable[[str], str | None]
    ) -> ApiError:
        """Return the error for a response that is none of success.

        Args:
            status: 300 or above.
            content: of the response.
            header: returns a header of it, if present.
        """
        if status < 400:
            return redirected(self.address.url, status, header("Location"))
        return error_of(status, content, header("Retry-After"))

    def _pages(self, found: SearchPages) -> list[SearchPage]:
        """Decode the pages of several searches.

        Raises:
            ApiError: of the first search that failed.
        """
        for result in found.results:
            failure = self._decoded(result, FailedSearch).error
            if failure is not None:
                raise error_of(failure.get("status", 500), bytes(result))
        return [self._decoded(result, SearchPage) for result in found.results]


def path_of(*segments: str | int) -> str:
    """Return a path of quoted segments.

    Raises:
        ValueError: one of them would make it the path of something else: of all items, or, since
            proxies take dots for folders, of an index.
    """
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(
                f"an index or id that is empty or dots cannot be in a URL, as {segment!r} is; "
                'a search with a filter on "id" finds such an item'
            )
    return "".join(f"/{quote(str(segment), safe='')}" for segment in segments)


def encoded(document: Any) -> bytes:
    """Encode a document as JSON."""
    return _JSON.encode(document)


def search(index: str, parameters: Mapping[str, Any]) -> Call[SearchPage]:
    """`POST /{index}/search`."""
    return Call("POST", path_of(index, "search"), SearchPage, encoded(parameters))


def searches(listed: Sequence[Mapping[str, Any]]) -> Call[SearchPages]:
    """`POST /_search`."""
    return Call("POST", "/_search", SearchPages, encoded({"searches": listed}))


def facet(index: str, name: str, parameters: Mapping[str, Any]) -> Call[FacetPage]:
    """`POST /{index}/facet`."""
    body = encoded({"name": name, **parameters})
    return Call("POST", path_of(index, "facet"), FacetPage, body)


def suggest(index: str, query: str, parameters: Mapping[str, Any]) -> Call[SuggestionPage]:
    """`POST /{index}/suggest`."""
    body = encoded({"query": query, **parameters})
    return Call("POST", path_of(index, "suggest"), SuggestionPage, body)


def explain(index: str, item_id: int | str, parameters: Mapping[str, Any]) -> Call[ExplanationPage]:
    """`POST /{index}/explain`."""
    body = encoded({**parameters, "id": item_id})
    return Call("POST", path_of(index, "explain"), ExplanationPage, body)


def get(index: str, item_id: int | str) -> Call[Document]:
    """`GET /{index}/items/{id}`."""
    return Call("GET", path_of(index, "items", item_id), Document)


def add(index: str, items: Item | Iterable[Item]) -> Call[WriteResult]:
    """`POST /{index}/items`; items without an id are stored again each time they are sent."""
    given = [items] if isinstance(items, Mapping) else list(items)
    has_ids = all(item.get("id") is not None for item in given)
    body = encoded(given)
    return Call("POST", path_of(index, "items"), WriteResult, body, is_repeatable=has_ids)


def update(index: str, item_id: int | str, fields: Item, version: str | None) -> Call[WriteResult]:
    """`POST /{index}/items/{id}/partial`."""
    return Call(
        "POST",
        path_of(index, "items", item_id, "partial"),
        WriteResult,
        encoded(fields),
        is_repeatable=version is None,
        headers={} if version is None else {"If-Match": version},
    )


def update_items(index: str, items: Iterable[Item]) -> Call[WriteResult]:
    """`PATCH /{index}/items`."""
    return Call("PATCH", path_of(index, "items"), WriteResult, encoded(list(items)))


def delete(
    index: str, ids: int | str | Iterable[int | str] | None, filter: str | None
) -> Call[WriteResult]:
    """`POST /{index}/items/delete`: by ids, or by a filter expression.

    Raises:
        ValueError: both or neither are given.
    """
    if (ids is None) == (filter is None):
        raise ValueError("delete takes either ids or a filter")
    chosen: dict[str, Any] = {"filter": filter}
    if ids is not None:
        chosen = {"ids": [ids] if isinstance(ids, int | str) else list(ids)}
    return Call("POST", path_of(index, "items", "delete"), WriteResult, encoded(chosen))


def load(
    index: str, body: bytes | Iterable[bytes] | AsyncIterable[bytes], *, skips_bad: bool
) -> Call[WriteResult]:
    """`POST /{index}/index`: a body of any size; a stream cannot be sent again."""
    query = "?on_error=skip" if skips_bad else ""
    path = path_of(index, "index") + query
    return Call("POST", path, WriteResult, body, is_repeatable=False, content_type=NDJSON)


def lines_of(items: Iterable[Item | bytes]) -> Iterable[bytes]:
    """Yield items as lines of JSON, several at a time.

    Raises:
        TypeError: texts or bytes were given in place of items.
    """
    lines: list[bytes] = []
    num_bytes = 0
    for item in items:
        if isinstance(item, str | int):  # of one dict, a file of text, or bytes
            raise TypeError(
                f"an item is a dict, not {item!r:.40}; one item: [item], a file of lines of JSON:"
                " open(path, 'rb')"
            )
        line = item if isinstance(item, bytes) else encoded(item) + b"\n"
        lines.append(line)
        num_bytes += len(line)
        if num_bytes >= 256 * 1024:
            yield b"".join(lines)
            lines, num_bytes = [], 0
    if lines:
        yield b"".join(lines)


def guarded(pieces: Iterable[bytes]) -> Iterable[bytes]:
    """Pass a body on, which the caller's items make.

    Raises:
        ItemsFailed: they raise an error.
    """
    try:
        yield from pieces
    except Exception as error:
        raise ItemsFailed(error) from error


def export(index: str, parameters: Mapping[str, Any]) -> Call[Document]:
    """`GET /{index}/items`: a stream of lines."""
    given = {
        name: value if isinstance(value, str) else encoded(value).decode()
        for name, value in parameters.items()
        if value is not None
    }
    path = path_of(index, "items")
    return Call("GET", f"{path}?{urlencode(given)}" if given else path, Document)


def configure(index: str, document: Mapping[str, Any]) -> Call[ConfigurationResult]:
    """`POST /{index}/configuration`."""
    path = path_of(index, "configuration")
    return Call("POST", path, ConfigurationResult, encoded(document))


def configuration(index: str) -> Call[Document]:
    """`GET /{index}/configuration`."""
    return Call("GET", path_of(index, "configuration"), Document)


def delete_index(index: str) -> Call[Document]:
    """`DELETE /{index}`; not repeated, since a second call would fail with 404."""
    return Call("DELETE", path_of(index), Document, is_repeatable=False)


def rename(index: str, to: str, *, alias: bool, replace: bool) -> Call[Document]:
    """`POST /{index}/rename`; not repeated, since a second call would fail with 404."""
    chosen = {"to": to, "alias": alias, "replace": replace}
    return Call("POST", path_of(index, "rename"), Document, encoded(chosen), is_repeatable=False)


def copy(index: str, to: str) -> Call[Document]:
    """`POST /{index}/copy`; not repeated, since a second call would fail with 409."""
    body = encoded({"to": to})
    return Call("POST", path_of(index, "copy"), Document, body, is_repeatable=False)


def statistics(index: str | None) -> Call[Document]:
    """`GET /{index}/stats`, or `GET /_indexes`."""
    return Call("GET", "/_indexes" if index is None else path_of(index, "stats"), Document)


def ready() -> Call[Document]:
    """`GET /_ready`."""
    return Call("GET", "/_ready", Document)
