"""The asynchronous client, on aiohttp: the methods of `facetd.client.Client` as coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from facetd import calls
from facetd.calls import Call, Item, T
from facetd.client import R, is_stream
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

if TYPE_CHECKING:
    import aiohttp


class AsyncClient(calls.ClientBase):
    """Talks to one service from one event loop. Its arguments are `ClientBase`'s."""

    def _prepare(self) -> None:
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Close idle connections; the client remains usable."""
        sessions = [*self._sessions.values()]
        self._sessions.clear()
        for session in sessions:
            await session.close()

    # --- searches

    async def search(self, index: str, **parameters: Any) -> SearchPage:
        """Search; `/_docs` describes the parameters: query, filters, sort and so on."""
        return await self._result(calls.search(index, parameters))

    async def searches(self, *searches: Mapping[str, Any]) -> list[SearchPage]:
        """Run several searches at once; each has parameters and an `index`.

        Raises:
            ApiError: of the first search that failed; `param` says which.
        """
        found: SearchPages = await self._result(calls.searches(searches))
        return self._pages(found)

    async def facet(self, index: str, name: str, **parameters: Any) -> FacetPage:
        """Return a page of the values of a facet: page, facet_query and so on."""
        return await self._result(calls.facet(index, name, parameters))

    async def suggest(self, index: str, query: str, **parameters: Any) -> list[Suggestion]:
        """Return what a text as typed may become: size, filters and so on."""
        found: SuggestionPage = await self._result(calls.suggest(index, query, parameters))
        return found.data.suggestions

    async def explain(self, index: str, item_id: int | str, **parameters: Any) -> Explanation:
        """Return why an item is a hit of a search, or what keeps it out."""
        found: ExplanationPage = await self._result(calls.explain(index, item_id, parameters))
        return found.data

    # --- items

    async def get(self, index: str, item_id: int | str) -> dict[str, Any]:
        """Return one item.

        Raises:
            NotFound: it does not exist.
        """
        return await self._result(calls.get(index, item_id))

    async def add(self, index: str, items: Item | Iterable[Item]) -> WriteResult:
        """Add one item or several, or replace those whose id exists: all or none."""
        return await self._result(calls.add(index, items))

    async def update(
        self, index: str, item_id: int | str, fields: Item, *, version: str | None = None
    ) -> WriteResult:
        """Set fields of one item; with `version` (an ETag), only if it still has that version."""
        return await self._result(calls.update(index, item_id, fields, version))

    async def update_items(self, index: str, items: Iterable[Item]) -> WriteResult:
        """Set fields of many items, each given with its id; `errors` lists those not found."""
        return await self._result(calls.update_items(index, items))

    async def delete(
        self,
        index: str,
        ids: int | str | Iterable[int | str] | None = None,
        *,
        filter: str | None = None,
    ) -> WriteResult:
        """Delete items by their ids (or one by its id), or all that match a filter expression."""
        return await self._result(calls.delete(index, ids, filter))

    async def load(
        self,
        index: str,
        items: Iterable[Item | bytes] | AsyncIterable[Item | bytes],
        *,
        skips_bad: bool = False,
    ) -> WriteResult:
        """Load any number of items as a stream; if any of them is invalid, nothing is stored.

        Args:
            index: the target.
            items: objects, or pieces of newline-delimited JSON.
            skips_bad: store the valid items even if others are invalid.
        """
        return await self._result(calls.load(index, _lines(items), skips_bad=skips_bad))

    async def export(self, index: str, **parameters: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield all items of one state of the index, or those that match a filter or query."""
        rest = b""
        call = calls.export(index, parameters)
        async with await self._retried(call, self._begin) as response:
            pieces = response.content.iter_any()
            while piece := await self._next_piece(pieces):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield self._decoded(line, call.result)
        if rest:  # our last line ends, too
            raise not_facetd(self.address.url)

    # --- indexes

    async def configure(self, index: str, document: Mapping[str, Any]) -> ConfigurationResult:
        """Create an index, or replace its configuration."""
        return await self._result(calls.configure(index, document))

    async def configuration(self, index: str) -> dict[str, Any]:
        """Return the configuration as posted."""
        return await self._result(calls.configuration(index))

    async def delete_index(self, index: str) -> None:
        """Delete an index and its data."""
        await self._result(calls.delete_index(index))

    async def rename(
        self, index: str, to: str, *, alias: bool = False, replace: bool = False
    ) -> None:
        """Give an index another name; its aliases go with it.

        Args:
            index: its name.
            to: its new name.
            alias: make the former name an alias.
            replace: take the name from an index that has it, which is deleted at the same moment.
        """
        await self._result(calls.rename(index, to, alias=alias, replace=replace))

    async def copy(self, index: str, to: str) -> None:
        """Copy an index, its items and its configuration, as of this moment.

        A large index takes longer than the timeout: `client.with_timeout(600).copy(…)`.
        """
        await self._result(calls.copy(index, to))

    async def statistics(self, index: str | None = None) -> dict[str, Any]:
        """Return sizes, fields and segments of an index, or a summary of all indexes."""
        return await self._result(calls.statistics(index))

    async def wait_ready(self, seconds: float = 60.0) -> None:
        """Return once all shards are serving.

        Raises:
            FacetdError: they are not, within the time.
        """
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                await self._once(calls.ready())
            except FacetdError:
                if time.monotonic() >= give_up_at:
                    raise
                await asyncio.sleep(0.1)
            else:
                return

    # --- transport

    async def _result(self, call: Call[T]) -> T:
        """Make a call, retry it where that is safe, and return its result."""
        return self._decoded(await self.deliver(call), call.result)

    async def deliver(self, call: Call[Any], on_wait: Callable[[], object] = lambda: None) -> bytes:
        """Make a call, retry it where that is safe; return the content of a successful response.

        Args:
            call: to make.
            on_wait: called before each wait for the next try.

        Raises:
            ConnectionFailed: no response.
            ApiError: an error response.
        """
        return await self._retried(call, self._once, on_wait)

    async def _retried(
        self,
        call: Call[Any],
        attempt: Callable[[Call[Any]], Awaitable[R]],
        on_wait: Callable[[], object] = lambda: None,
    ) -> R:
        """Attempt a call, again where that is safe."""
        tries = self.retries.begin(is_repeatable=call.is_repeatable, is_stream=is_stream(call))
        while True:
            try:
                return await attempt(call)
            except FacetdError as error:
                wait = tries.wait_after(error)
                if wait is None:
                    raise
            on_wait()
            await asyncio.sleep(wait)

    async def _once(self, call: Call[Any]) -> bytes:
        """Make a call once; return the content of a successful response."""
        async with await self._begin(call) as response:
            with self._translated_errors("no answer from {}"):
                content: bytes = await response.read()
        return content

    async def _begin(self, call: Call[Any]) -> aiohttp.ClientResponse:
        """Make a call once; return a successful response, to be read and closed."""
        with self._translated_errors("no answer from {}"):
            response = await self._send(call)
            if response.status < 300:
                return response
            async with response:
                content = await response.read()
        raise self._refusal(response.status, content, response.headers.get)

    async def _next_piece(self, pieces: AsyncIterator[bytes]) -> bytes:
        """Return the next piece of a response; empty at its end."""
        with self._translated_errors("{} broke off"):
            return await anext(pieces, b"")

    @contextmanager
    def _translated_errors(self, what: str) -> Iterator[None]:
        """Raise our errors instead of the library's.

        Args:
            what: happened, in words, with {} for the URL.
        """
        import aiohttp

        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _raise_error_of_items(error)
            was_connected = not isinstance(
                error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
            )
            raise ConnectionFailed(
                f"{what.format(self.address.url)}: {error or type(error).__name__}",
                was_sent=was_connected,
            ) from error

    async def _send(self, call: Call[Any]) -> aiohttp.ClientResponse:
        """Send a request; return its response. Non-repeatable calls get a new connection."""
        import aiohttp
        from yarl import URL

        session = self._sessions.get(call.is_repeatable)
        if session is None:
            session = self._sessions[call.is_repeatable] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=not call.is_repeatable),
                headers=self._headers,
            )
        headers = dict(call.headers)
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        url = URL(self.address.url + call.path, encoded=True)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timeout, sock_read=self._timeout
        )
        return await session.request(
            call.method,
            url,
            data=call.body,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
        )


def _raise_error_of_items(error: BaseException | None) -> None:
    """Raise what the caller's items raised, if that is what ended the request."""
    while error is not None:
        if isinstance(error, calls.ItemsFailed):
            raise error.error from None
        error = error.__cause__


async def _lines(
    items: Iterable[Item | bytes] | AsyncIterable[Item | bytes],
) -> AsyncIterator[bytes]:
    """Yield items as lines of JSON, several at a time.

    Raises:
        ItemsFailed: they raise an error.
    """
    if not isinstance(items, AsyncIterable):
        for piece in calls.guarded(calls.lines_of(items)):
            yield piece
        return
    try:
        async for item in items:
            yield b"".join(calls.lines_of([item]))
    except Exception as error:
        raise calls.ItemsFailed(error) from error
