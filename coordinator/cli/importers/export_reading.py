"""Reads what other engines export: files, and responses of their APIs."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, Final

from coordinator.cli.sources.exact_json_codec import decoded
from coordinator.cli.sources.opening_and_decompression import BROKEN, OpenedSource
from coordinator.cli.sources.source import SourceError
from coordinator.cli.sources.url_fetching import open_url

SAMPLE_ITEMS: Final = 1_000
"""Records from which fields of points are found, and which a dry run reads."""


def read_object(name: str) -> dict[str, Any]:
    """Read a file or URL that holds one JSON object."""
    with _unbroken(name), OpenedSource(name).open_once() as stream:
        content = stream.read()
    document = _decode(content.removeprefix(BOM_UTF8), f"{name} is not JSON")
    if not isinstance(document, dict):
        raise SourceError(f"{name} must hold a JSON object")
    return document


def read_items(name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array, or of lines."""
    with _unbroken(name), OpenedSource(name).open_once() as stream:
        start = stream.peek(64)[:64] if hasattr(stream, "peek") else b""
        if start.lstrip(BOM_UTF8 + b" \t\r\n").startswith(b"["):
            found = _decode(stream.read().removeprefix(BOM_UTF8), f"{name} is not JSON")
            for position, item in enumerate(found):
                if not isinstance(item, dict):
                    raise SourceError(f"{name}, item {position}: it is not an object")
                yield item
            return
        for number, line in enumerate(stream, 1):
            if not line.strip(BOM_UTF8 + b" \t\r\n"):
                continue
            text = line.removeprefix(BOM_UTF8) if number == 1 else line
            if number == 1 and text.strip() == b"{":
                problem = f"{name} is neither one JSON object nor one on each line"
                yield _decode(b"{" + stream.read(), problem)
                return
            yield object_of(text, f"{name}, line {number}")


@contextmanager
def _unbroken(name: str) -> Iterator[None]:
    """Raise SourceError for a compressed file that turns out to be cut off."""
    try:
        yield
    except BROKEN as error:
        raise SourceError(f"{name} is cut off or damaged: {error}") from error


@contextmanager
def converting(settings: str) -> Iterator[None]:
    """Raise SourceError for settings that do not have the form of their engine.

    Args:
        settings: what is converted, for the message.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SourceError(
            f"{settings}: not in the form that the engine gives ({type(error).__name__}: {error})"
        ) from error


def object_of(line: bytes, place: str) -> dict[str, Any]:
    """Decode the object on one line.

    Raises:
        SourceError: it is none.
    """
    item = _decode(line, place)
    if not isinstance(item, dict):
        raise SourceError(f"{place}: it is not an object")
    return item


def sampled(
    records: Iterable[dict[str, Any]],
) -> tuple[list[dict[str, Any]], Iterator[dict[str, Any]]]:
    """Return the first records, and all of them (which can be read once)."""
    rest = iter(records)
    sample = list(islice(rest, SAMPLE_ITEMS))
    return sample, chain(sample, rest)


def _decode(content: bytes, problem: str) -> Any:
    """Decode JSON.

    Raises:
        SourceError: it is none; the message is the problem and where it is.
    """
    try:
        return decoded(content)
    except ValueError as error:
        raise SourceError(f"{problem}: {error}") from error


def fetch(
    url: str, headers: Mapping[str, str], body: Any = None, method: str | None = None
) -> Iterator[bytes]:
    """Send a request to another engine; yield the lines of its response.

    Raises:
        SourceError: it cannot be reached, refuses, or breaks off.
    """
    with open_url(url, headers, body, method) as stream:
        yield from stream


def fetch_object(
    url: str, headers: Mapping[str, str], body: Any = None, method: str | None = None
) -> dict[str, Any]:
    """Send a request to another engine and decode its response."""
    document = _decode(b"".join(fetch(url, headers, body, method)), f"{url} answers no JSON")
    return document if isinstance(document, dict) else {"results": document}
