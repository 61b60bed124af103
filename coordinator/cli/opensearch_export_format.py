"""Items and configuration in the form that OpenSearch and Elasticsearch accept (pure).

    {"id":5,"name":"sea"}   ─▶   {"index":{"_id":"5"}}          body of POST /<index>/_bulk
                                 {"id":5,"name":"sea"}

    {"aggregations":{"tags":{}}} ─▶ {"mappings":{"properties":{"tags":{"type":"keyword", …}}}}
                                                                body of PUT /<index>

Facets become keywords with a text subfield, so that their words are searchable too. All other
fields use the engine's dynamic mapping: text with a keyword subfield.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

_FACET: Final = {"type": "keyword", "fields": {"text": {"type": "text"}}}


def mapping(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return the index mapping for a configuration as posted."""
    facets = configuration.get("aggregations") or {}
    return {"mappings": {"properties": dict.fromkeys(facets, _FACET)}}


def bulk(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Insert an action before every item of newline-delimited JSON that comes in pieces."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield b"".join(map(_with_action, lines))
    yield _with_action(rest)


def _with_action(line: bytes) -> bytes:
    """Return an item after its action; nothing for an empty line."""
    if not line.strip():
        return b""
    item_id = orjson.loads(line).get("id")
    action = {} if item_id is None else {"_id": str(item_id)}
    return orjson.dumps({"index": action}) + b"\n" + line + b"\n"
