"""A connection to PostgreSQL for several statements; its errors become ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from coordinator.cli.sources.source import SourceError, importing_extra

if TYPE_CHECKING:
    import psycopg

ROWS_AT_ONCE: Final = 1_000
"""Rows that the server sends at a time."""
_PASSWORD: Final = re.compile(r"^([^:/?#]+://[^/?#@:]*):[^/?#]*@")
_PASSWORD_OPTION: Final = re.compile(r"([?&]password=)[^&#]*", re.IGNORECASE)


class Disconnected(Exception):
    """The database went away or refuses for the moment; to be tried again."""


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
            self.raw: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(
                url, autocommit=True, application_name=application
            )

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
        # No state: the connection; 08, 57P: it ends; 55006: the slot is in use; 40: conflict.
        if (
            state is None
            or state[:2] in ("08", "40", "53")
            or state[:3] == "57P"
            or state == "55006"
        ):
            return Disconnected(text)
        return SourceError(text)


def without_password(url: str) -> str:
    """Return a URL without its password, for messages; the URL may be malformed."""
    return _PASSWORD_OPTION.sub(r"\1…", _PASSWORD.sub(r"\1:…@", url))
