"""A connection to the servers of the log (NATS): connect, ask, tell."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from common.process.logs import Log
from common.setting_conversion import SettingError
from coordinator.addresses import log_servers, without_user
from coordinator.replication.log.log_errors import LogAway, NotConnected

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

REQUEST_SECONDS: Final = 2.0
CONNECT_SECONDS: Final = 2.0
REPEAT_SECONDS: Final = 0.1
"""Time after which a read without an answer is sent again: a new leader does not know the requests
to the old one."""
RECONNECT_SECONDS: Final = 0.1
PING_SECONDS: Final = 0.5
PINGS_MAX: Final = 2
"""A server that leaves more pings unanswered, so for 1 to 1.5 s, is frozen or cut off: another one
is connected instead."""
DROP_SECONDS: Final = 0.2
"""Interval between two checks whether the client has given up a connection."""
LATE_SECONDS: Final = 0.02
"""Time after a timeout to read what has arrived before it: a process that had no core for longer
than the timeout notices that first."""
UNUSED_SECONDS: Final = 3_600.0
"""Added to the timeout of the client, which makes no such exception."""
CANCEL_SECONDS: Final = 0.1
CANCELLATIONS_MAX: Final = 20
"""How often an attempt to connect is cancelled until it ends, and the time that it gets for it."""

_log = Log("log")


def connect_options(
    urls: str, credentials: str, user: str = "", password: str = ""
) -> dict[str, Any]:
    """Return the options of a connection.

    Raises:
        SettingError: an address is malformed.
    """
    if credentials and not Path(credentials).is_file():
        raise SettingError(f"log_credentials names {credentials}, which is not a file")
    return {
        "servers": log_servers(urls),
        "user_credentials": credentials or None,
        "user": user or None,
        "password": password or None,
        "name": "facetd",
        "connect_timeout": CONNECT_SECONDS,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RECONNECT_SECONDS,
        "ping_interval": PING_SECONDS,
        "max_outstanding_pings": PINGS_MAX,
    }


class LogConnection:
    """A connection to the log's servers; it is reopened whenever it ends.

    Args:
        urls: of the servers, with commas between.
        credentials: file of NATS credentials, or empty.
        user: if neither these nor the addresses name one.
        password: of the user.
    """

    def __init__(
        self, urls: str, credentials: str = "", *, user: str = "", password: str = ""
    ) -> None:
        self._options = connect_options(urls, credentials, user, password)
        self._client: Client | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._dropping: asyncio.Task[None] | None = None
        self._asking: dict[asyncio.Future[Msg], None] = {}  # in the order of asking

    @property
    def servers(self) -> list[str]:
        """Addresses of the servers, as configured: they may have a user and a password."""
        return list(self._options["servers"])

    @property
    def is_connected(self) -> bool:
        """Whether a server is connected now."""
        return self._client is not None and self._client.is_connected

    @property
    def num_known_servers(self) -> int:
        """Number of servers that the connected one knows of."""
        return 0 if self._client is None else len(self._client.servers)

    def start(self) -> None:
        """Begin to connect; retry until it succeeds."""
        self._connecting = asyncio.create_task(self._connect_until_connected())

    async def connect(self) -> None:
        """Connect once.

        Raises:
            LogAway: no server answers.
            SettingError: nats-py is not installed, or the servers refuse our credentials.
        """
        try:
            from nats.aio.client import Client as NatsClient
            from nats.errors import AuthorizationError, Error
        except ImportError as error:
            raise SettingError(
                "--log needs the NATS client: pip install 'facetd[cluster]'"
            ) from error
        logging.getLogger("nats").setLevel(logging.CRITICAL)  # we log what matters ourselves
        refused: list[Exception] = []

        async def note(error: Exception) -> None:
            if isinstance(error, AuthorizationError) or "authorization" in str(error).lower():
                refused.append(error)
            elif not isinstance(error, (Error, OSError, TimeoutError)):
                _log.error("a message that came with the log was not handled", cause=error)

        client = NatsClient()
        try:
            # Hosts begin with different servers. After a loss the client tries all in turn, the
            # lost one last; at random, it might wait for a frozen server once more.
            servers = random.sample(self.servers, len(self.servers))
            connecting = client.connect(
                **{**self._options, "servers": servers},
                dont_randomize=True,
                error_cb=note,
                disconnected_cb=self._note_lost,
                reconnected_cb=self._note_connected,
            )
            await _within(CONNECT_SECONDS * len(self.servers) + 1, connecting)
        except (Error, OSError, TimeoutError) as error:
            await _close(client)
            if refused:
                raise SettingError(f"the log's servers refuse this host: {refused[0]}") from error
            listed = ", ".join(map(without_user, self.servers))
            raise LogAway(f"no server of the log answers: {listed}") from error
        self._client = client
        self._dropping = asyncio.create_task(self._drop_lost(client))

    async def _drop_lost(self, client: Client) -> None:
        """Drop each connection that the client gives up, with all that it has not sent.

        The client waits until the connection is closed before it opens another one. A server that
        is frozen or cut off during a load, with more to send than its socket holds, would keep it
        waiting for as long.
        """
        writer: asyncio.StreamWriter | None = None
        while True:
            if client.is_connected:
                writer = getattr(client._transport, "_io_writer", None)
            elif writer is not None:
                writer.transport.abort()
                writer = None
            await asyncio.sleep(DROP_SECONDS)

    async def _connect_until_connected(self) -> None:
        last_reason = ""
        while self._client is None:
            try:
                await self.connect()
            except (LogAway, SettingError) as error:
                if str(error) != last_reason:
                    last_reason = str(error)
                    _log.warning("log is away", reason=last_reason)
                await asyncio.sleep(RECONNECT_SECONDS * 5)

    async def close(self) -> None:
        """Close the connection."""
        tasks = [one for one in (self._connecting, self._dropping) if one is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await _close(self._client)
            self._client = None

    def client(self) -> Client:
        """Return the connection.

        Raises:
            NotConnected: there is none now.
        """
        if self._client is None or not self._client.is_connected:
            raise NotConnected("no server of the log is connected")
        return self._client

    async def _note_lost(self) -> None:
        """Log that the connection was lost, unless we close it ourselves, and end all requests."""
        if self._client is not None and self._client.is_reconnecting:
            _log.info("connection to a server of the log lost")
        await self._give_up_asking()

    async def _give_up_asking(self) -> None:
        """End all requests: their responses would have come over the lost connection."""
        for asking in list(self._asking):
            asking.cancel()

    async def _note_connected(self) -> None:
        """Log which server is connected now."""
        url = None if self._client is None else self._client.connected_url
        if url is not None:
            _log.info("connected to a server of the log", server=f"{url.hostname}:{url.port}")

    async def request(
        self, subject: str, content: bytes, seconds: float, headers: dict[str, str] | None = None
    ) -> Msg:
        """Send a request and return its answer.

        Raises:
            LogAway: no server answers, or the connection is lost.
        """
        client = self.client()
        asking = asyncio.ensure_future(
            client.request(subject, content, timeout=seconds + UNUSED_SECONDS, headers=headers)
        )
        self._asking[asking] = None
        try:
            with client_errors_as_log_away():
                if await _first_done([asking], seconds) is None:
                    raise TimeoutError
                return asking.result()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise LogAway("the connection to the log was lost") from None
        finally:
            self._asking.pop(asking, None)
            asking.cancel()

    async def ask(
        self, subject: str, content: bytes = b"", seconds: float = REQUEST_SECONDS
    ) -> Msg:
        """Send a request and return its answer.

        Raises:
            LogAway: no server answers.
        """
        return await self.request(subject, content, seconds)

    async def ask_repeatedly(self, subject: str, content: bytes, seconds: float) -> Msg:
        """Send a request until it is answered, and return its answer.

        Raises:
            LogAway: no server answers.
        """
        give_up_at = time.monotonic() + seconds
        asking: list[asyncio.Task[Msg]] = []
        try:
            while (left := give_up_at - time.monotonic()) > 0:
                asking.append(asyncio.create_task(self.request(subject, content, left)))
                answered = await _first_done(asking, min(left, REPEAT_SECONDS))
                if answered is not None:
                    return answered.result()
            raise LogAway("the log does not answer")
        finally:
            for one in asking:
                one.cancel()

    async def ask_all(
        self, subject: str, seconds: float, enough: int = 0, content: bytes = b""
    ) -> list[bytes]:
        """Send a request and return all responses that arrive within some seconds.

        Args:
            subject: to whom.
            seconds: to wait.
            enough: number of responses after which to wait no longer; 0: always wait.
            content: of the request.

        Raises:
            LogAway: no server is connected, or the connection is lost.
        """
        client = self.client()
        inbox = client.new_inbox()
        answers: list[bytes] = []
        is_enough = asyncio.Event()

        async def take(message: Msg) -> None:
            if message.data:
                answers.append(message.data)
            if len(answers) == enough:
                is_enough.set()

        with client_errors_as_log_away():
            subscription = await client.subscribe(inbox, cb=take)
        try:
            with client_errors_as_log_away():
                await client.publish(subject, content, reply=inbox)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await is_enough.wait()
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()
        return answers

    async def tell(self, subject: str, content: bytes, reply: str = "") -> None:
        """Send a message.

        Args:
            subject: to whom.
            content: of the message.
            reply: subject for responses; empty: none is expected.

        Raises:
            LogAway: no server is connected, or the connection is lost.
        """
        client = self.client()
        with client_errors_as_log_away():
            await client.publish(subject, content, reply=reply)


@contextlib.contextmanager
def client_errors_as_log_away() -> Iterator[None]:
    """Report errors of the client as that of the log.

    Even a publication raises one, if the connection was lost while much is unsent.

    Raises:
        LogAway: instead.
    """
    from nats.errors import Error

    try:
        yield
    except (Error, OSError, TimeoutError) as error:
        raise LogAway(f"the log does not answer ({type(error).__name__})") from error


async def _first_done(
    asking: Sequence[asyncio.Future[Msg]], seconds: float
) -> asyncio.Future[Msg] | None:
    """Return the first of some requests that is done; None if none is in time."""
    for timeout in (seconds, LATE_SECONDS):
        done, _ = await asyncio.wait(asking, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return next(one for one in asking if one in done)
    return None


async def _within(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Do some work for at most some seconds.

    Raises:
        TimeoutError: it took longer, and was ended.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise TimeoutError
    finally:
        await _end(task)
    await task


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task of the client until it has ended.

    A single cancellation may get lost: `asyncio.wait_for` of Python 3.11 drops one that arrives in
    the same moment as an error of what it waits for, as when a process had no core. The client,
    which tries its servers in turn, then goes on to the next one, forever.
    """
    for _ in range(CANCELLATIONS_MAX):
        if task.done():
            break
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_SECONDS)


async def _close(client: Client) -> None:
    """Close a connection, within a bound: the client waits for servers that may be gone."""
    with contextlib.suppress(Exception):
        await _within(CONNECT_SECONDS, client.close())
    reconnecting = getattr(client, "_reconnection_task", None)
    if reconnecting is not None:
        await _end(reconnecting)
