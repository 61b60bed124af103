"""Rendering hits: the stored bytes, optionally with a projection and additions.

Only a projection parses the document: additions (`_score`, `_highlight`, …) are spliced in before
the closing brace of the stored object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import orjson

from coordinator.parameters.parsed_parameters import SearchParameters
from coordinator.read.hit_merging import Hit

PROJECTED_FAST_BYTES: Final = 64 * 1024
"""Up to this many bytes of items are projected within a millisecond; more take a thread."""


async def rendered_items(
    parameters: SearchParameters,
    hits: Sequence[Hit],
    documents: list[bytes],
    marks: Sequence[dict[str, Any]] | None = None,
) -> list[bytes]:
    """Return what `render_items` does, on another thread where that takes long."""
    is_projected = parameters.fields is not None or parameters.exclude_fields is not None
    if is_projected and sum(map(len, documents)) > PROJECTED_FAST_BYTES:
        return await asyncio.to_thread(render_items, parameters, hits, documents, marks)
    return render_items(parameters, hits, documents, marks)


def render_items(
    parameters: SearchParameters,
    hits: Sequence[Hit],
    documents: list[bytes],
    marks: Sequence[dict[str, Any]] | None,
) -> list[bytes]:
    """Return the JSON text of each hit in the form that the request specifies.

    Args:
        parameters: the search: projection, `show`.
        hits: of the page.
        documents: stored bytes of each hit.
        marks: `_highlight` and `_snippet` of each hit, if requested.
    """
    if parameters.fields is not None or parameters.exclude_fields is not None:
        projection = Projection(parameters.fields, parameters.exclude_fields)
        documents = [projection.of(document) for document in documents]
    distance_key = parameters.distance_key
    if not parameters.show and distance_key is None and marks is None:
        return documents
    wants_score = bool(parameters.show & {"score", "score_details"})
    wants_elements = "elements" in parameters.show
    rendered = []
    for i, (hit, document) in enumerate(zip(hits, documents, strict=True)):
        additions: dict[str, Any] = {}
        if wants_score:
            additions["_score"] = hit.score
        explanations = hit.answer.explanations
        if "score_details" in parameters.show and hit.rank < len(explanations):
            additions["_score_details"] = explanations[hit.rank]
        if distance_key is not None and hit.sort_values[distance_key] is not None:
            additions["_geoDistance"] = round(hit.sort_values[distance_key])
        if wants_elements and hit.rank < len(hit.answer.elements):
            additions["_elements"] = hit.answer.elements[hit.rank]
        if marks is not None:
            additions.update(marks[i])
        rendered.append(add_members(document, additions))
    return rendered


def add_members(document: bytes, additions: dict[str, Any]) -> bytes:
    """Append members to a JSON object; its own bytes stay as they are.

    >>> add_members(b'{"id":1}', {"_score": 2.0})
    b'{"id":1,"_score":2.0}'
    """
    if not additions:
        return document
    head = document.rstrip()[:-1]
    separator = b"" if head.strip() == b"{" else b","
    return head + separator + orjson.dumps(additions)[1:]


def add_group(document: bytes, size: int, members: Sequence[bytes] | None) -> bytes:
    """Append the group of an item to its JSON object.

    >>> add_group(b'{"id":1}', 2, None)
    b'{"id":1,"_group":{"size":2}}'
    >>> add_group(b'{}', 1, [b'{}'])
    b'{"_group":{"size":1,"items":[{}]}}'
    """
    head = document.rstrip()[:-1]
    separator = b"" if head.strip() == b"{" else b","
    listed = b"" if members is None else b',"items":[%b]' % b",".join(members)
    return b'%b%b"_group":{"size":%d%b}}' % (head, separator, size, listed)


class Projection:
    """Keeps only some, or leaves out some, of the dotted paths of JSON objects.

    A path names a key, or leads through objects and arrays of objects. Keys that contain a dot
    themselves are found too. Members keep their order.

    Args:
        fields: to keep; None: all.
        exclude_fields: to leave out; None: none.
    """

    __slots__ = ("_excluded", "_kept")

    def __init__(self, fields: Sequence[str] | None, exclude_fields: Sequence[str] | None) -> None:
        self._kept = None if fields is None else _paths_of(fields)
        self._excluded = None if exclude_fields is None else _paths_of(exclude_fields)

    def of(self, document: bytes) -> bytes:
        """Return a JSON object as it is shown."""
        return orjson.dumps(self.of_item(orjson.loads(document)))

    def of_item(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return a decoded object as it is shown, with members of the given one."""
        if self._kept is not None:
            item = _only(item, self._kept)
        return item if self._excluded is None else _without(item, self._excluded)


_Paths: TypeAlias = "dict[str | None, _Paths]"
"""A trie of paths, by their parts between the dots; None ends one."""


def _paths_of(fields: Iterable[str]) -> _Paths:
    paths: _Paths = {}
    for field in fields:
        node = paths
        for part in field.split("."):
            node = node.setdefault(part, {})
        node[None] = {}
    return paths


def _after(key: str, paths: _Paths) -> _Paths:
    """Return how paths go on after a key of an item; empty: none does.

    A key with dots belongs to what its first parts name, as if objects were written out.
    """
    if "." not in key:
        return paths.get(key, {})
    for part in key.split("."):
        paths = paths.get(part, {})
        if None in paths:
            break
    return paths


def _only(value: Any, paths: _Paths) -> Any:
    """Keep only the members that the paths name."""
    if isinstance(value, list):
        return [_only(element, paths) for element in value if isinstance(element, dict)]
    result = {}
    for key, member in value.items():
        rests = _after(key, paths)
        if None in rests:
            result[key] = member
        elif rests and isinstance(member, dict | list):
            kept = _only(member, rests)
            if kept:
                result[key] = kept
    return result


def _without(value: Any, paths: _Paths) -> Any:
    """Remove the members that the paths name."""
    if isinstance(value, list):
        return [_without(element, paths) for element in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, member in value.items():
        rests = _after(key, paths)
        if None not in rests:
            result[key] = _without(member, rests) if rests else member
    return result
