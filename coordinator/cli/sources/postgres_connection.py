"""A connection to PostgreSQL: every value of a row, and errors that become ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from coordinator.cli.sources.source import SourceError, importing_extra

if TYPE_CHECKING:
    import psycopg

ROWS_AT_ONCE: Final = 1_000
"""Rows that the server sends at a time."""
_OPTIONS: Final = MappingProxyType(
    {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
)
"""A server that vanished without a word is noticed after a minute, not after the system's hours."""
_SETTINGS: Final = MappingProxyType(
    {
        **dict.fromkeys(
            ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout"), 0
        ),
        **{f"tcp_{name}": value for name, value in _OPTIONS.items()},
    }
)
"""Of a session that follows. Timeouts, made for the requests of a page, would end a copy or a long
read of the log. And a server that does not notice that we vanished keeps our lock for hours."""
_PASSING_CLASSES: Final = ("08", "40", "53", "55", "57")
"""Classes of errors that may pass: connection, conflict, no room, state (the slot is in use, or has
lost its log), an administrator's doing."""
_UNKNOWN: Final = ("42P01", "42703", "42704")
"""Errors about a table, a column, and any other object."""
_MOMENTS: Final = ("date", "time", "timetz", "timestamp", "timestamptz", "interval")
"""Types of which Python lacks some values: infinity, 24:00, years before 1 and after 9999."""
_RANGES: Final = tuple(
    f"{kind}{form}"
    for kind in ("int4", "int8", "num", "date", "ts", "tstz")
    for form in ("range", "multirange")
)
"""Types that JSON has no counterpart of."""
_FORBIDDEN: Final = "42501"
"""Error about a right that the user lacks."""
_PASSWORD: Final = re.compile(r"^([^:/?#]+://[^/?#@:]*):[^/?#]*@")
_PASSWORD_OPTION: Final = re.compile(r"([?&]password=)[^&#]*", re.IGNORECASE)


class Disconnected(Exception):
    """The database went away or refuses for the moment; to be tried again."""


class RightMissing(SourceError):
    """The user may not do that."""


class UnknownName(SourceError):
    """The database has no such table, column, publication or slot (any more)."""


def open_connection(url: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect to a server; values that Python lacks are read as the server writes them.

    Args:
        url: postgres://…; what it says comes before our own options.
        options: of psycopg.

    Raises:
        psycopg.Error: it cannot be reached, or refuses.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import Format
    from psycopg.types.json import set_json_loads
    from psycopg.types.string import TextLoader

    given = conninfo_to_dict(url)
    own: dict[str, Any] = {n: value for n, value in _OPTIONS.items() if n not in given}
    # The log's messages are in the client's encoding, which is else that of the database.
    connection = psycopg.connect(url, client_encoding="utf8", **own, **options)
    adapters = connection.adapters
    for name in _MOMENTS:
        oid = adapters.types[name].oid
        exact = adapters.get_loader(oid, Format.TEXT)
        assert exact is not None
        adapters.register_loader(oid, _or_text(exact))
    for name in _RANGES:
        if (known := adapters.types.get(name)) is not None:
            adapters.register_loader(known.oid, TextLoader)
    set_json_loads(_json_or_text, connection)
    return connection


def _or_text(exact: type[Any]) -> type[Any]:
    """Return a loader that returns the text of values that another one refuses."""
    from psycopg import DataError
    from psycopg.adapt import Loader

    class OrText(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._exact = exact(oid, context)

        def load(self, data: Any) -> Any:
            text = bytes(data)
            if not text.endswith(b"infinity"):  # as an interval, it would be 0
                try:
                    return self._exact.load(text)
                except DataError:
                    pass
            return text.decode()

    return OrText


def _json_or_text(content: str | bytes) -> Any:
    """Decode JSON; return the text of what Python does not decode: numbers of 4,300 digits."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content.decode() if isinstance(content, bytes) else content


class PostgresConnection:
    """A connection in which each statement is a transaction, unless one is begun.

    Args:
        url: postgres://…
        application: as the server's list of sessions shows it.

    Attributes:
        raw: the library's connection.

    Raises:
        SourceError: the library is not installed, or the server refuses.
        Disconnected: it cannot be reached now.
    """

    def __init__(self, url: str, application: str) -> None:
        with importing_extra("postgres", "PostgreSQL"):
            import psycopg
        self._psycopg = psycopg
        self._url = url
        with self.translated_errors():
            self.raw = open_connection(url, autocommit=True, application_name=application)
            for name, value in _SETTINGS.items():
                self.execute(f"SET {name} = {value}".encode())

    def close(self) -> None:
        """Disconnect."""
        self.raw.close()

    def execute(self, query: Any, *values: Any) -> None:
        """Run a statement."""
        self.raw.execute(query, values or None)

    def one(self, query: str, *values: Any) -> tuple[Any, ...]:
        """Return the only row of a query."""
        row = self.raw.execute(query.encode(), values or None).fetchone()
        assert row is not None
        return row

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise our errors instead of the library's.

        Raises:
            SourceError: the database refuses.
            Disconnected: it may work again later.
        """
        try:
            yield
        except self._psycopg.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: psycopg.Error) -> SourceError | Disconnected:
        """Return what to raise for an error of the database."""
        text = f"{without_password(self._url)}: {str(error).strip()}"
        state = error.sqlstate
        if state is None:  # not from the server: the connection, or a value that is not understood
            psycopg = self._psycopg
            is_lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
            return Disconnected(text) if is_lost else SourceError(text)
        if state[:2] in _PASSING_CLASSES:
            return Disconnected(text)
        if state == _FORBIDDEN:
            return RightMissing(text)
        return UnknownName(text) if state in _UNKNOWN else SourceError(text)


def without_password(url: str) -> str:
    """Return a URL without its password, for messages; the URL may be malformed."""
    return _PASSWORD_OPTION.sub(r"\1…", _PASSWORD.sub(r"\1:…@", url))
