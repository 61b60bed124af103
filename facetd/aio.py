"""The asynchronous client, on aiohttp: the methods of `facetd.client.Client` as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from facetd import calls
from facetd.calls import Call, Item, T
from facetd.client import is_stream
from facetd.errors import ConnectionFailed, FacetdError, error_of
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
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
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

    async def add(self, index: str, items: Sequence[Item]) -> WriteResult:
        """Add items, or replace those whose id exists: all or none."""
        return await self._result(calls.add(index, items))

    async def update(
        self, index: str, item_id: int | str, fields: Item, *, version: str | None = None
    ) -> WriteResult:
        """Set fields of one item; with `version` (an ETag), only if it still has that version."""
        return await self._result(calls.update(index, item_id, fields, version))

    async def delete(
        self, index: str, ids: Sequence[int | str] | None = None, *, filter: str | None = None
    ) -> WriteResult:
        """Delete items by ids, or all that match a filter expression."""
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
        import aiohttp

        rest = b""
        call = calls.export(index, parameters)
        try:
            async with self._send(call) as response:
                if response.status >= 400:
                    retry_after = response.headers.get("Retry-After")
                    raise error_of(response.status, await response.read(), retry_after)
                async for piece in response.content.iter_any():
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        yield msgspec.json.decode(line)
        except aiohttp.ClientConnectorError as error:
            raise ConnectionFailed(
                f"no answer from {self.address.url}: {error}", was_sent=False
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionFailed(
                f"{self.address.url} broke off: {error or type(error).__name__}", was_sent=True
            ) from error

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

    async def statistics(self, index: str | None = None) -> dict[str, Any]:
        """Return sizes, fields and segments of an index, or a summary of all indexes."""
        return await self._result(calls.statistics(index))

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
        tries = self.retries.begin(is_repeatable=call.is_repeatable, is_stream=is_stream(call))
        while True:
            try:
                return await self._once(call)
            except FacetdError as error:
                wait = tries.wait_after(error)
                if wait is None:
                    raise
            on_wait()
            await asyncio.sleep(wait)

    async def _once(self, call: Call[Any]) -> bytes:
        """Make a call once; return the content of a successful response."""
        import aiohttp

        try:
            async with self._send(call) as response:
                content: bytes = await response.read()
        except aiohttp.ClientConnectorError as error:
            raise ConnectionFailed(
                f"no answer from {self.address.url}: {error}", was_sent=False
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionFailed(
                f"no answer from {self.address.url}: {error or type(error).__name__}",
                was_sent=True,
            ) from error
        if response.status >= 400:
            raise error_of(response.status, content, response.headers.get("Retry-After"))
        return content

    def _send(self, call: Call[Any]) -> Any:
        """Return the request as a context manager; non-repeatable calls get a new connection."""
        import aiohttp
        from yarl import URL

        session = self._sessions.get(call.is_repeatable)
        if session is None:
            session = self._sessions[call.is_repeatable] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=not call.is_repeatable),
                timeout=aiohttp.ClientTimeout(total=None, sock_read=self._timeout),
                headers=self._headers,
            )
        headers = dict(call.headers)
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        url = URL(self.address.url + call.path, encoded=True)
        return session.request(call.method, url, data=call.body, headers=headers)


async def _lines(
    items: Iterable[Item | bytes] | AsyncIterable[Item | bytes],
) -> AsyncIterator[bytes]:
    """Yield items as lines of JSON, several at a time."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield b"".join(calls.lines_of([item]))
    else:
        for piece in calls.lines_of(items):
            yield piece
