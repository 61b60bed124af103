"""The result of every importer, and code that importers share."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from common.analysis.analyzer import TYPO_LENGTHS_DEFAULT
from common.configuration import parse_typo_lengths
from coordinator.cli.sources.opening import Opened
from coordinator.cli.sources.source import SourceError

PIECE_BYTES: Final = 256 * 1024
FACET_SIZE_MAX: Final = 1_000
URL_SECONDS: Final = 120.0


@dataclass(slots=True)
class Imported:
    """One index of another engine.

    Attributes:
        name: its name there.
        items: yields the items, each with its `id`.
        configuration: the settings that have an equivalent.
        notes: the settings that have none, each with what to do instead.
    """

    name: str
    items: Callable[[], Iterable[dict[str, Any]]]
    configuration: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def pieces(self) -> Iterator[bytes]:
        """Yield the items as JSON, one per line."""
        piece = bytearray()
        for item in self.items():
            piece += orjson.dumps(item)
            piece += b"\n"
            if len(piece) >= PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)

    def note_rest(self, settings: Mapping[str, Any], known: Iterable[str]) -> None:
        """Note every setting that has a value and was not converted."""
        for name in sorted(set(settings) - set(known)):
            if settings[name] not in (None, [], {}, "", False):
                self.notes.append(f"{name}: has no equivalent here, left out")


def with_id(item: Mapping[str, Any], value: Any, former: str) -> dict[str, Any]:
    """Return an item with its id under our name.

    Raises:
        SourceError: it has no value that is valid as an id.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "":
        raise SourceError(f"an item has no {former!r} that can be its id: {str(dict(item))[:100]}")
    if isinstance(value, int) and value < 0:
        value = str(value)
    return {"id": value, **{name: one for name, one in item.items() if name not in ("id", former)}}


def read_object(name: str) -> dict[str, Any]:
    """Read a file or URL that holds one JSON object."""
    with Opened(name).open_once() as stream:
        content = stream.read()
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise SourceError(f"{name} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise SourceError(f"{name} must hold a JSON object")
    return document


def read_items(name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array, or of lines."""
    with Opened(name).open_once() as stream:
        start = stream.peek(64)[:64] if hasattr(stream, "peek") else b""
        if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            try:
                found = orjson.loads(stream.read())
            except orjson.JSONDecodeError as error:
                raise SourceError(f"{name} is no JSON: {error}") from error
            for position, item in enumerate(found):
                if not isinstance(item, dict):
                    raise SourceError(f"{name}, item {position}: it is no object")
                yield item
            return
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                item = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise SourceError(f"{name}, line {number}: {error}") from error
            if not isinstance(item, dict):
                raise SourceError(f"{name}, line {number}: it is no object")
            yield item


def fetch(
    url: str, headers: Mapping[str, str], body: Any = None, method: str | None = None
) -> Iterator[bytes]:
    """Send a request to another engine; yield the lines of its response.

    Raises:
        SourceError: it cannot be reached, or refuses.
    """
    data = None if body is None else json.dumps(body).encode()
    sent = {"User-Agent": "facetd", "Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, data, sent, method=method)
    try:
        with urllib.request.urlopen(request, timeout=URL_SECONDS) as response:
            yield from response
    except urllib.error.HTTPError as error:
        reason = error.read(300).decode("utf-8", "replace")
        raise SourceError(f"{url} answers {error.code}: {reason}") from error
    except (OSError, ValueError) as error:
        raise SourceError(f"cannot fetch {url}: {getattr(error, 'reason', error)}") from error


def fetch_object(
    url: str, headers: Mapping[str, str], body: Any = None, method: str | None = None
) -> dict[str, Any]:
    """Send a request to another engine and decode its response."""
    content = b"".join(fetch(url, headers, body, method))
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise SourceError(f"{url} answers no JSON: {error}") from error
    return document if isinstance(document, dict) else {"results": document}


def add_typos(
    imported: Imported, one_typo: object, two_typos: object, exact_fields: object, source: str
) -> None:
    """Add typo lengths, and fields without typos, to the configuration of an import.

    Args:
        imported: to add to.
        one_typo: letters from which on a word may have one typo; None: not said.
        two_typos: the same for two.
        exact_fields: fields without typos.
        source: names the setting in a note, if its lengths are none here.
    """
    configuration = imported.configuration
    if one_typo is not None or two_typos is not None:
        lengths = [
            given if given is not None else usual
            for given, usual in zip((one_typo, two_typos), TYPO_LENGTHS_DEFAULT, strict=True)
        ]
        if parse_typo_lengths(lengths) is None:
            imported.notes.append(f"{source}: {lengths} are no typo_lengths here, left out")
        elif lengths != list(TYPO_LENGTHS_DEFAULT):
            configuration["typo_lengths"] = lengths
    if exact_fields and isinstance(exact_fields, list):
        configuration["field_typo_lengths"] = {str(name): "none" for name in exact_fields}


def weighted(names: Iterable[str]) -> list[str]:
    """Return fields, ordered by importance, with decreasing weights."""
    listed = list(dict.fromkeys(names))
    return [
        f"{name}^{len(listed) - i}" if i < len(listed) - 1 else name
        for i, name in enumerate(listed)
    ]
