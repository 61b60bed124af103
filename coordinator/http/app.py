"""The HTTP side of one coordinator: listens, serves, stops.

    socket ─▶ Connection (aiohttp's RequestHandler) ─▶ Request ─▶ Middleware ─▶ route ─▶ Response

`create_app` assembles it; `HttpApp.start` and `stop` are all that the process needs.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from coordinator.http.aiohttp_connections import Server
from coordinator.http.libraries_of_traces import not_installed
from coordinator.http.listening import BACKLOG, listen
from coordinator.http.middleware import Middleware
from coordinator.http.reader_coordinator_forwarding import ReaderMiddleware
from coordinator.http.responses import reset
from coordinator.http.security.listening_without_api_keys import check_address

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from coordinator.http.routing import ServedRoute
    from coordinator.http.services import Services

ANNOUNCE_SECONDS: Final = 0.5
"""How long idle connections stay open at shutdown: a client that writes continuously sends its next
request in that time, and learns from the response that it was the last."""
LOAD_ANSWER_SECONDS: Final = 1.0
"""Time before the end of the shutdown grace in which loads write their last groups and respond."""
CANCEL_SECONDS: Final = 0.01
"""How long requests may take to end that are cancelled after the grace."""


class HttpApp:
    """The HTTP side of one coordinator.

    Args:
        services: used by the routes.
        middleware: answers the requests.
    """

    def __init__(self, services: Services, middleware: Middleware) -> None:
        self.services = services
        self.middleware = middleware
        self._server: Server | None = None
        self._listeners: list[asyncio.Server] = []
        self._taking: set[asyncio.Future[None]] = set()

    async def start(self, host: str, port: int, listeners: Sequence[socket.socket] = ()) -> int:
        """Start to listen.

        Args:
            host: address or name.
            port: 0 chooses a free one.
            listeners: bound to that already; empty: none is.

        Returns:
            The port.

        Raises:
            UnsafeAddress: anyone on the network could do anything.
            OSError: cannot listen on the address.
        """
        check_address(self.services.settings, self.services.catalog)
        loop = asyncio.get_running_loop()
        self._server = Server(self.middleware, self.services)
        for one in listeners or listen(host, port):
            self._listeners.append(
                await loop.create_server(self._server, sock=one, backlog=BACKLOG)
            )
        bound: int = self._listeners[0].sockets[0].getsockname()[1]
        return bound

    def take(self, connection: socket.socket, client: str, is_counted: bool) -> None:
        """Serve a connection on which a reader passes a request on.

        Args:
            connection: of the reader.
            client: address of its client.
            is_counted: whether the request is counted already against the client's rate.
        """
        task = asyncio.ensure_future(self._take(connection, client, is_counted))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    async def _take(self, connection: socket.socket, client: str, is_counted: bool) -> None:
        server = self._server
        assert server is not None
        protocol = server()
        protocol.stand_for(client, is_counted=is_counted)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)
        except OSError:
            connection.close()  # the reader is gone

    async def stop(
        self, grace_seconds: float, others: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Accept no new connections, let running requests finish, then close everything.

        From now on every response announces the end of its connection. Idle connections stay open
        for a moment, in which their next request is still answered, with that announcement. Loads
        that would exceed the grace are ended before it, with a response that says what was stored.

        Args:
            grace_seconds: for running requests.
            others: returns when no reader will pass a request on any more; None: there is none.
        """
        for listener in self._listeners:
            listener.close()
        server = self._server
        if server is not None:
            loop = asyncio.get_running_loop()
            end_loads = loop.call_later(
                max(grace_seconds - LOAD_ANSWER_SECONDS, 0.0), self.services.loads.end
            )
            server.is_stopping = True
            if others is not None:
                give_up_at = loop.time() + grace_seconds
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(give_up_at):
                        await others()
                grace_seconds = max(give_up_at - loop.time(), 0.0)
            announced_at = loop.time() + min(ANNOUNCE_SECONDS, grace_seconds / 2)
            while server.connections and loop.time() < announced_at:  # noqa: ASYNC110 - aiohttp's
                await asyncio.sleep(0.01)
            server.pre_shutdown()  # closes idle connections
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds + 1.0):
                    await server.shutdown(grace_seconds)
            end_loads.cancel()
            for connection in server.connections:  # of requests that have outlived the grace
                if connection.transport is not None:
                    reset(connection.transport)
            await server.shutdown(CANCEL_SECONDS)
        self._listeners.clear()
        await asyncio.to_thread(self.middleware.stop)


def create_app(services: Services, routes: Iterable[ServedRoute]) -> HttpApp:
    """Create the HTTP side.

    Raises:
        SettingError: traces are enabled, and their library is not installed.
    """
    return HttpApp(services, _make_middleware(services, routes))


def _make_middleware(services: Services, routes: Iterable[ServedRoute]) -> Middleware:
    """Return what answers the requests of an owner or a reader, with or without traces."""
    is_reader = services.outbox is not None
    if not services.settings.traces:
        return (ReaderMiddleware if is_reader else Middleware)(services, routes)
    try:
        from coordinator.http import tracing

        provider = tracing.exporting_provider()
    except ImportError as error:
        raise not_installed() from error
    traced = tracing.TracedReader if is_reader else tracing.TracedMiddleware
    return traced(services, routes, provider)
