"""The blocking client, on the standard library's `http.client`, with persistent connections."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from facetd import calls
from facetd.calls import Call, Item, T
from facetd.errors import ConnectionFailed, FacetdError, not_facetd
from facetd.results import (
    ConfigurationResult,
    Explanation,
    ExplanationPage,
    FacetPage,
    SearchPage,
    SearchPages,
    Suggestion,
    SuggestionPage,
    WriteResult,
)

IDLE_CONNECTIONS_MAX: Final = 8
_STREAM_BYTES: Final = 256 * 1024
R = TypeVar("R")


class Client(calls.ClientBase):
    """Talks to one service; safe to share between threads. Its arguments are `ClientBase`'s."""

    def _prepare(self) -> None:
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close idle connections; the client remains usable."""
        with self._lock:
            idle = self._idle.copy()
            self._idle.clear()
        for connection in idle:
            connection.close()

    # --- searches

    def search(self, index: str, **parameters: Any) -> SearchPage:
        """Search; `/_docs` describes the parameters: query, filters, sort and so on."""
        return self._result(calls.search(index, parameters))

    def searches(self, *searches: Mapping[str, Any]) -> list[SearchPage]:
        """Run several searches at once; each has parameters and an `index`.

        Raises:
            ApiError: of the first search that failed; `param` says which.
        """
        found: SearchPages = self._result(calls.searches(searches))
        return self._pages(found)

    def facet(self, index: str, name: str, **parameters: Any) -> FacetPage:
        """Return a page of the values of a facet: page, facet_query and so on."""
        return self._result(calls.facet(index, name, parameters))

    def suggest(self, index: str, query: str, **parameters: Any) -> list[Suggestion]:
        """Return what a text as typed may become: size, filters and so on."""
        found: SuggestionPage = self._result(calls.suggest(index, query, parameters))
        return found.data.suggestions

    def explain(self, index: str, item_id: int | str, **parameters: Any) -> Explanation:
        """Return why an item is a hit of a search, or what keeps it out."""
        found: ExplanationPage = self._result(calls.explain(index, item_id, parameters))
        return found.data

    # --- items

    def get(self, index: str, item_id: int | str) -> dict[str, Any]:
        """Return one item.

        Raises:
            NotFound: it does not exist.
        """
        return self._result(calls.get(index, item_id))

    def add(self, index: str, items: Item | Iterable[Item]) -> WriteResult:
        """Add one item or several, or replace those whose id exists: all or none."""
        return self._result(calls.add(index, items))

    def update(
        self, index: str, item_id: int | str, fields: Item, *, version: str | None = None
    ) -> WriteResult:
        """Set fields of one item; with `version` (an ETag), only if it still has that version."""
        return self._result(calls.update(index, item_id, fields, version))

    def update_items(self, index: str, items: Iterable[Item]) -> WriteResult:
        """Set fields of many items, each given with its id; `errors` lists those not found."""
        return self._result(calls.update_items(index, items))

    def delete(
        self,
        index: str,
        ids: int | str | Iterable[int | str] | None = None,
        *,
        filter: str | None = None,
    ) -> WriteResult:
        """Delete items by their ids (or one by its id), or all that match a filter expression."""
        return self._result(calls.delete(index, ids, filter))

    def load(
        self, index: str, items: Iterable[Item | bytes], *, skips_bad: bool = False
    ) -> WriteResult:
        """Load any number of items as a stream; if any of them is invalid, nothing is stored.

        Args:
            index: the target.
            items: objects, or pieces of newline-delimited JSON.
            skips_bad: store the valid items even if others are invalid.
        """
        return self._result(calls.load(index, calls.lines_of(items), skips_bad=skips_bad))

    def export(self, index: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Yield all items of one state of the index, or those that match a filter or query."""
        rest = b""
        call = calls.export(index, parameters)
        for piece in self.stream(call):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield self._decoded(line, call.result)
        if rest:  # our last line ends, too
            raise not_facetd(self.address.url)

    # --- indexes

    def configure(self, index: str, document: Mapping[str, Any]) -> ConfigurationResult:
        """Create an index, or replace its configuration."""
        return self._result(calls.configure(index, document))

    def configuration(self, index: str) -> dict[str, Any]:
        """Return the configuration as posted."""
        return self._result(calls.configuration(index))

    def delete_index(self, index: str) -> None:
        """Delete an index and its data."""
        self._result(calls.delete_index(index))

    def rename(self, index: str, to: str, *, alias: bool = False, replace: bool = False) -> None:
        """Give an index another name; its aliases go with it.

        Args:
            index: its name.
            to: its new name.
            alias: make the former name an alias.
            replace: take the name from an index that has it, which is deleted at the same moment.
        """
        self._result(calls.rename(index, to, alias=alias, replace=replace))

    def copy(self, index: str, to: str) -> None:
        """Copy an index, its items and its configuration, as of this moment.

        A large index takes longer than the timeout: `client.with_timeout(600).copy(…)`.
        """
        self._result(calls.copy(index, to))

    def statistics(self, index: str | None = None) -> dict[str, Any]:
        """Return sizes, fields and segments of an index, or a summary of all indexes."""
        return self._result(calls.statistics(index))

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Return once all shards are serving.

        Raises:
            FacetdError: they are not, within the time.
        """
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                self.send(calls.ready())
            except FacetdError:
                if time.monotonic() >= give_up_at:
                    raise
                time.sleep(0.1)
            else:
                return

    # --- transport

    def _result(self, call: Call[T]) -> T:
        """Make a call, retry it where that is safe, and return its result."""
        return self._decoded(self.deliver(call), call.result)

    def deliver(self, call: Call[Any], on_wait: Callable[[], object] = lambda: None) -> bytes:
        """Make a call, retry it where that is safe; return the content of a successful response.

        Args:
            call: to make.
            on_wait: called before each wait for the next try.

        Raises:
            ConnectionFailed: no response.
            ApiError: an error response.
        """
        return self._retried(call, self.send, on_wait)

    def stream(
        self, call: Call[Any], on_wait: Callable[[], object] = lambda: None
    ) -> Iterator[bytes]:
        """Make a call with a response of any size; yield its pieces.

        It is retried like any other, until the response begins.

        Args:
            call: to make.
            on_wait: called before each wait for the next try.

        Raises:
            ConnectionFailed: no response, or a truncated one.
            ApiError: an error response.
        """
        connection, response = self._retried(call, self._begin, on_wait)
        try:
            while piece := response.read1(_STREAM_BYTES):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionFailed(
                f"{self.address.url} broke off: {error or type(error).__name__}", was_sent=True
            ) from error
        finally:
            connection.close()

    def _retried(
        self, call: Call[Any], attempt: Callable[[Call[Any]], R], on_wait: Callable[[], object]
    ) -> R:
        """Attempt a call, again where that is safe."""
        tries = self.retries.begin(is_repeatable=call.is_repeatable, is_stream=is_stream(call))
        while True:
            try:
                return attempt(call)
            except calls.ItemsFailed as failed:
                raise failed.error from None
            except FacetdError as error:
                wait = tries.wait_after(error)
                if wait is None:
                    raise
            on_wait()
            time.sleep(wait)

    def send(self, call: Call[Any]) -> bytes:
        """Make a call once; return the content of a successful response.

        Raises:
            ConnectionFailed: no response.
            ApiError: an error response.
        """
        connection, is_new = self._connection(call)
        is_kept = False
        try:
            response = self._response(call, connection, is_new=is_new)
            content = response.read()
            is_kept = call.is_repeatable and not response.will_close
        except (OSError, http.client.HTTPException) as error:
            raise self._no_answer(error, was_sent=True) from error
        finally:
            self._keep(connection) if is_kept else connection.close()
        if response.status >= 300:
            raise self._refusal(response.status, content, response.getheader)
        return content

    def _begin(
        self, call: Call[Any]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Make a call once; return its connection, and a successful response to be read."""
        connection = self._new_connection()
        has_begun = False
        try:
            response = self._response(call, connection, is_new=True)
            if response.status >= 300:
                raise self._refusal(response.status, response.read(), response.getheader)
            has_begun = True
        except (OSError, http.client.HTTPException) as error:
            raise self._no_answer(error, was_sent=True) from error
        finally:
            if not has_begun:
                connection.close()
        return connection, response

    def _response(
        self, call: Call[Any], connection: http.client.HTTPConnection, *, is_new: bool
    ) -> http.client.HTTPResponse:
        """Send a call; return its response, of which the headers are read.

        Raises:
            ConnectionFailed: nothing was sent.
            OSError, HTTPException: the connection broke.
        """
        if is_new:
            try:
                connection.connect()
            except (OSError, http.client.HTTPException) as error:
                raise self._no_answer(error, was_sent=False) from error
        # A server that rejects a body early stops reading; its response says why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(*request_of(call, self.address.prefix, self._headers))
        return connection.getresponse()

    def _no_answer(self, error: Exception, *, was_sent: bool) -> ConnectionFailed:
        return ConnectionFailed(
            f"no answer from {self.address.url}: {error or type(error).__name__}",
            was_sent=was_sent,
        )

    def _connection(self, call: Call[Any]) -> tuple[http.client.HTTPConnection, bool]:
        """Return a connection, and whether it is new.

        The server may have closed an idle connection, which shows only after sending. So calls that
        must not repeat get a new one.
        """
        if call.is_repeatable:
            with self._lock:
                if self._idle:
                    return self._idle_connection(), False
        return self._new_connection(), True

    def _idle_connection(self) -> http.client.HTTPConnection:
        """Return an idle connection, which may be of a client with another timeout."""
        connection = self._idle.pop()
        connection.timeout = self._timeout
        if connection.sock is not None:
            connection.sock.settimeout(self._timeout)
        return connection

    def _new_connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.address.is_secure else http.client.HTTPConnection
        return kind(self.address.host, self.address.port, timeout=self._timeout)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
                return
        connection.close()


def is_stream(call: Call[Any]) -> bool:
    """Return whether a call's body can be read only once."""
    return call.body is not None and not isinstance(call.body, bytes)


def request_of(
    call: Call[Any], prefix: str, headers: Mapping[str, str]
) -> tuple[str, str, Any, dict[str, str]]:
    """Return the arguments of `http.client` for a call."""
    sent = {**headers, **call.headers}
    body: Any = call.body
    if body is not None:
        sent["Content-Type"] = call.content_type
    if is_stream(call):
        body = calls.guarded(body)
    return call.method, prefix + call.path, body, sent
