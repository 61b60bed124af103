r"""From the JSON bytes of a batch to its values: one pass of a kernel, no Python object per value.

Question it answers, for every structure of a segment being built: which values does the batch have,
of which document and field, of which kind, and where are their bytes? The input is valid JSON
(`common.json.scan` checked it, and LMDB keeps it as checked), so nothing is checked here.

    payload   {"id": 7, "title": "Caf\u00e9", "tags": ["a", "b"]}
    text      {"id": 7, "title": "Café…     ", "tags": ["a", "b"]}
              the payload, strings with escapes decoded in place (that is never longer)
    doc    field   kind      shape     text[start:end]
    0      id      INTEGER   SCALAR    7         id_start, id_end of document 0 name it too
    0      title   STRING    SCALAR    Café
    0      tags    STRING    ELEMENT   a
    0      tags    STRING    ELEMENT   b

Values are in document order. If a key occurs twice in one object, the last one wins, as in orjson.

The kernel walks with a stack of open containers. Each level keeps the path up to its keys (length
in the path buffer, and hash). So reading a key means: append it to the buffer, continue the hash,
look the number up in the registry's table. An unknown path ends the kernel at that document; Python
registers the path and the kernel redoes the document. Full value arrays end it likewise. Both are
rare: a few dozen times in the life of an index.

Cost: about 2 ns a byte (≥ 250 MB/s), most of it for finding the ends of strings and reading keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.json.tokens import find_closing_quote, find_quote_or_backslash, unescape
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, Rows, U8Array, uint8
from common.values import ValueKind
from shard.segment.field_registry import (
    HASH_BASIS,
    FieldRegistry,
    PathTable,
    find_field,
    hash_step,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

DEPTH_MAX: Final = 64
"""The depth that `common.json.scan` accepts."""
_PATH_BYTES_MAX: Final = DEPTH_MAX * 257
"""Each key has at most 256 bytes, plus a dot."""

_STRING: Final = int(ValueKind.STRING)
_INTEGER: Final = int(ValueKind.INTEGER)
_FLOAT: Final = int(ValueKind.FLOAT)
_TRUE: Final = int(ValueKind.TRUE)
_FALSE: Final = int(ValueKind.FALSE)
_NULL: Final = int(ValueKind.NULL)
_EMPTY_ARRAY: Final = int(ValueKind.EMPTY_ARRAY)
_EMPTY_OBJECT: Final = int(ValueKind.EMPTY_OBJECT)
_DROPPED: Final = 255
"""Kind of a value whose key was repeated, until the end of its document."""

NO_FIELD: Final = (1 << 16) - 1
"""Means "no field" among field numbers."""

_DONE: Final = 0
_UNKNOWN_PATH: Final = 1
_FULL: Final = 2


@arguments
class Extraction(NamedTuple):
    """The values of a batch of documents, as parallel arrays in document order.

    Attributes:
        text: what all spans point into: the payload, its strings decoded to UTF-8 in place.
        num_docs: number of documents of the batch.
        doc: document ordinal of each value, ascending, uint32.
        field: field number, uint16.
        kind: `ValueKind`, uint8.
        start: where the value's text begins, int64; strings without quotes, numbers and literals as
            in the JSON.
        end: where it ends, int64.
        shape: `Shape`, uint8.
        id_start: by document, where its canonical id begins, int64.
        id_end: where it ends; equal to `id_start` if the document has no id.
        object: number of the innermost object around each value, across arrays, uint32.
        parents: by number of an object (from 1): the object around it, uint32; 0: none.
        object_fields: by number of an object: the field that it is a value of, uint16; NO_FIELD for
            a document. These three are empty unless objects are requested.
    """

    text: NDArray[np.uint8]
    num_docs: int
    doc: NDArray[np.uint32]
    field: NDArray[np.uint16]
    kind: NDArray[np.uint8]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    shape: NDArray[np.uint8]
    id_start: NDArray[np.int64]
    id_end: NDArray[np.int64]
    object: NDArray[np.uint32]
    parents: NDArray[np.uint32]
    object_fields: NDArray[np.uint16]


@kernel(inline=True, allocates=False)
def _skip_space(payload: U8Array, position: int) -> int:
    while payload[position] <= 0x20:
        position += 1
    return position


@arguments
class _Documents(NamedTuple):
    """JSON of documents; see `extract`."""

    payload: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@arguments
class _Walk(NamedTuple):
    """Scratch state of a walk through documents.

    Attributes:
        seen: by field number: the object in which the key last occurred, and the range of values
            that it has there.
        path: path of the current key.
        stack: by depth of open containers, what their keys or elements need.
        base_hash: by depth, hash of the path before the keys of the object.
        num_objects: a single number: objects so far.
    """

    seen: Rows[np.int64]
    path: NDArray[np.uint8]
    stack: Rows[np.int64]
    base_hash: NDArray[np.uint64]
    num_objects: NDArray[np.int64]


@kernel(inline=True, allocates=False)
def _end_of_number(payload: U8Array, position: int) -> tuple[int, int]:
    """Return where the number that begins at `position` ends, and its kind.

    It is an integer until a point or an exponent says otherwise, and ends at ',', ']', '}' or white
    space.
    """
    kind = _INTEGER
    position += 1
    while True:
        byte = payload[position]
        if 0x30 <= byte <= 0x39 or byte == 0x2D or byte == 0x2B:
            position += 1
        elif byte == 0x2E or byte == 0x65 or byte == 0x45:
            kind = _FLOAT
            position += 1
        else:
            return position, kind


@kernel(inline=True, allocates=False)
def _end_of_string(payload: U8Array, start: int, text: U8Array) -> tuple[int, int]:
    """Return the position after a string, and where its text ends in `text`.

    Its span lies between the quotes; escapes are decoded into `text` at the same offset.
    """
    close = find_quote_or_backslash(payload, start)
    end = close
    if payload[close] == 0x5C:
        close = find_closing_quote(payload, close)
        end = unescape(payload, start, close, text, start)
    return close + 1, end


@kernel(inline=True, allocates=False)
def _end_of_literal(payload: U8Array, position: int) -> tuple[int, int]:
    """Return where a number or literal that begins at `position` ends, and its kind."""
    byte = payload[position]
    if byte == 0x74:
        return position + 4, _TRUE
    if byte == 0x66:
        return position + 5, _FALSE
    if byte == 0x6E:
        return position + 4, _NULL
    return _end_of_number(payload, position)


@kernel(inline=True, allocates=False)
def _is_id(path: U8Array, length: int) -> bool:
    """Return whether the path of a member of the document is `id`."""
    return length == 2 and path[0] == 0x69 and path[1] == 0x64


@kernel(inline=True, allocates=False)
def _drop_values(out: Extraction, first: int, end: int) -> None:
    """Mark the values that a key had when it was in the same object before."""
    for value in range(first, end):
        out.kind[value] = _DROPPED


@kernel(inline=True, allocates=False)
def _append_key(
    payload: U8Array, key_start: int, path: U8Array, length: int, path_hash: U64
) -> tuple[int, int, U64]:
    """Append a key to the path of its object, and continue the path's hash.

    Args:
        payload: the JSON.
        key_start: after the quote before the key.
        path: that of the object, dot included; changed.
        length: its bytes.
        path_hash: its hash.

    Returns:
        (position of the quote after the key, bytes of the path, its hash).
    """
    close = find_quote_or_backslash(payload, key_start)
    if payload[close] == 0x5C:
        close = find_closing_quote(payload, close)
        key_end = unescape(payload, key_start, close, path, length)
        while length < key_end:
            path_hash = hash_step(path_hash, path[length])
            length += 1
    else:
        for position in range(key_start, close):
            byte = payload[position]
            path[length] = byte
            path_hash = hash_step(path_hash, byte)
            length += 1
    return close, length, path_hash


@kernel(allocates=False)
def _remove_dropped(out: Extraction, first: int, end: int) -> int:
    """Compact a document's values over those of repeated keys; return where the rest ends."""
    tracks = len(out.parents) > 0
    kept = first
    for value in range(first, end):
        if out.kind[value] != _DROPPED:
            out.field[kept] = out.field[value]
            out.kind[kept] = out.kind[value]
            out.start[kept] = out.start[value]
            out.end[kept] = out.end[value]
            out.shape[kept] = out.shape[value]
            if tracks:
                out.object[kept] = out.object[value]
            kept += 1
    return kept


@kernel(allocates=False)
def _extract(
    documents: _Documents,
    first_doc: int,
    num_values: int,
    paths: PathTable,
    overflow_field: int,
    walk: _Walk,
    out: Extraction,
) -> tuple[int, int, int, int]:
    """Extract documents until all are done, a path is unknown or the arrays are full.

    Returns:
        (why it stopped, document to resume with, number of values, length of the unknown path).
    """
    payload, starts, ends = documents
    seen, path, stack, base_hash, objects_seen = walk
    num_objects = objects_seen[0]
    tracks = len(out.parents) > 0
    # The rows of the stack, by depth: a row is what one kind of container needs to go on after what
    # is nested in it.
    is_object = stack[0]
    base_length = stack[1]  # the path before the keys of the object, dot included
    of_field = stack[2]  # object: the key being read; array: the key that it is a value of
    of_object = stack[3]  # number of the object, or of the one around the array
    arrays = stack[4]  # array: nested arrays since the last key, itself included
    nesting = stack[5]  # arrays on the path to the object: 0 none, 1 flat, 2 an array in an array

    for doc in range(first_doc, len(starts)):
        # A value takes at least two bytes (itself and a separator): stop early if this document may
        # not fit. So nothing inside the loop checks the length of an array.
        most = ((ends[doc] - starts[doc]) >> 1) + 1
        objects_seen[0] = num_objects
        if num_values + most > len(out.doc) or (tracks and num_objects + most >= len(out.parents)):
            return _FULL, doc, num_values, 0
        first_value = num_values
        has_dropped = False
        out.id_start[doc] = 0
        out.id_end[doc] = 0
        depth = 0
        of_object[0] = 0
        field = 0
        num_arrays = 0
        length = 0
        path_hash = HASH_BASIS
        outer_arrays = 0
        position = _skip_space(payload, starts[doc])
        while True:
            # A value begins at `position`; `field`, `path`, `num_arrays` and
            # `outer_arrays` say where in the document it is.
            byte = payload[position]
            value_start = position
            kind = -1
            needs_key = False
            if byte == 0x22:
                kind = _STRING
                value_start = position + 1
                position, value_end = _end_of_string(payload, value_start, out.text)
            elif byte == 0x7B:
                # Object: empty, it is a value; otherwise push a level and read its first key.
                position = _skip_space(payload, position + 1)
                if payload[position] == 0x7D:
                    position += 1
                    value_end = position
                    if depth > 0:
                        kind = _EMPTY_OBJECT
                else:
                    if num_arrays > 0:
                        outer_arrays = max(outer_arrays, min(num_arrays, 2))
                    if depth > 0:
                        path[length] = 0x2E
                        length += 1
                        path_hash = hash_step(path_hash, uint8(0x2E))
                    depth += 1
                    num_objects += 1
                    is_object[depth] = True
                    base_length[depth] = length
                    base_hash[depth] = path_hash
                    nesting[depth] = outer_arrays
                    of_object[depth] = num_objects
                    if tracks:
                        out.parents[num_objects] = of_object[depth - 1]
                        out.object_fields[num_objects] = field if depth > 1 else NO_FIELD
                    needs_key = True
            elif byte == 0x5B:
                # Array: empty, it is a value; otherwise push a level and read its first element.
                position = _skip_space(payload, position + 1)
                if payload[position] == 0x5D:
                    position += 1
                    value_end = position
                    kind = _EMPTY_ARRAY
                else:
                    num_arrays += 1
                    depth += 1
                    is_object[depth] = False
                    base_length[depth] = length
                    base_hash[depth] = path_hash
                    nesting[depth] = outer_arrays
                    arrays[depth] = num_arrays
                    of_field[depth] = field
                    of_object[depth] = of_object[depth - 1]
                    continue
            else:
                position, kind = _end_of_literal(payload, position)
                value_end = position
            if kind >= 0:
                # A scalar or an empty container: append it.
                out.doc[num_values] = doc
                out.field[num_values] = field
                out.kind[num_values] = kind
                out.start[num_values] = value_start
                out.end[num_values] = value_end
                out.shape[num_values] = 2 if num_arrays > 1 else max(outer_arrays, num_arrays)
                if tracks:
                    out.object[num_values] = of_object[depth]
                num_values += 1
                if depth == 1 and kind <= _INTEGER and _is_id(path, length):
                    out.id_start[doc] = value_start
                    out.id_end[doc] = value_end
            # Close the containers that end here, read a key if one follows; stop at the next value.
            while True:
                if needs_key:
                    needs_key = False
                    # The path starts over for each key.
                    close, length, path_hash = _append_key(
                        payload, position + 1, path, base_length[depth], base_hash[depth]
                    )
                    field = find_field(path_hash, path, length, paths)
                    if field < 0:
                        if overflow_field < 0:
                            objects_seen[0] = num_objects
                            return _UNKNOWN_PATH, doc, first_value, length
                        field = overflow_field
                    elif seen[field, 0] == of_object[depth]:
                        _drop_values(out, seen[field, 1], seen[field, 2])
                        has_dropped = True
                    seen[field, 0] = of_object[depth]
                    seen[field, 1] = num_values
                    of_field[depth] = field
                    num_arrays = 0
                    outer_arrays = nesting[depth]
                    position = _skip_space(payload, close + 1)  # the colon
                    position = _skip_space(payload, position + 1)
                    break
                if depth == 0:
                    break
                position = _skip_space(payload, position)
                byte = payload[position]
                position += 1
                if is_object[depth]:
                    seen[of_field[depth], 2] = num_values
                # Comma: a key follows in an object; in an array, the next element, with the array's
                # own state.
                if byte == 0x2C:
                    position = _skip_space(payload, position)
                    if is_object[depth]:
                        needs_key = True
                        continue
                    length = base_length[depth]
                    path_hash = base_hash[depth]
                    field = of_field[depth]
                    num_arrays = arrays[depth]
                    outer_arrays = nesting[depth]
                    break
                depth -= 1
            if depth == 0:
                break
        if has_dropped:
            num_values = _remove_dropped(out, first_value, num_values)
    objects_seen[0] = num_objects
    return _DONE, len(starts), num_values, 0


def extract(
    payload: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    registry: FieldRegistry,
    *,
    wants_objects: bool = False,
) -> Extraction:
    """Extract the values of a batch of documents; new paths get numbers.

    Args:
        payload: bytes that hold the documents, each one valid JSON object within the limits of
            `common.json.scan`.
        starts: where each document begins.
        ends: where it ends.
        registry: the index's paths; grows.
        wants_objects: whether to record the object around each value; takes 4 bytes a value.

    Returns:
        The values. `text` is a copy, so the payload may be reused.
    """
    documents = _Documents(payload, starts, ends)
    walk = _Walk(
        seen=_nothing_seen(registry),
        path=np.empty(_PATH_BYTES_MAX, np.uint8),
        stack=np.empty((6, DEPTH_MAX + 1), np.int64),
        base_hash=np.empty(DEPTH_MAX + 1, np.uint64),
        num_objects=np.zeros(1, np.int64),
    )
    out = _reserve(documents, wants_objects=wants_objects)
    doc = num_values = 0
    while True:
        reason, doc, num_values, length = _extract(
            documents, doc, num_values, registry.table, registry.overflow_number, walk, out
        )
        if reason == _DONE:
            break
        if reason == _UNKNOWN_PATH:
            registry.learn(walk.path[:length].tobytes().decode())
            walk = walk._replace(seen=_nothing_seen(registry))
        else:
            out = _change(out, _BY_VALUE, lambda array: np.concatenate((array, array)))
            out = _change(out, _BY_OBJECT, lambda array: np.concatenate((array, array)))
    num_objects = int(walk.num_objects[0])
    out = _change(out, _BY_OBJECT, lambda array: array[: num_objects + 1])
    return _change(out, _BY_VALUE, lambda array: array[:num_values])


def _nothing_seen(registry: FieldRegistry) -> NDArray[np.int64]:
    """Return `_Walk.seen` for the fields that a registry knows."""
    return np.zeros((len(registry.table.path_hashes), 3), np.int64)


def _reserve(documents: _Documents, *, wants_objects: bool) -> Extraction:
    """Return arrays for the values of documents: a guess of one value per 16 bytes."""
    payload, starts, ends = documents
    num_docs = len(starts)
    sizes = ends - starts
    capacity = int(sizes.sum()) // 16 + (int(sizes.max()) // 2 if num_docs else 0) + 16
    num_tracked = capacity if wants_objects else 0
    return Extraction(
        payload.copy(),
        num_docs,
        doc=np.empty(capacity, np.uint32),  # untouched pages cost nothing
        field=np.empty(capacity, np.uint16),
        kind=np.empty(capacity, np.uint8),
        start=np.empty(capacity, np.int64),
        end=np.empty(capacity, np.int64),
        shape=np.empty(capacity, np.uint8),
        id_start=np.zeros(num_docs, np.int64),
        id_end=np.zeros(num_docs, np.int64),
        object=np.empty(num_tracked, np.uint32),
        parents=np.zeros(num_tracked, np.uint32),
        object_fields=np.full(num_tracked, NO_FIELD, np.uint16),
    )


_BY_VALUE: Final = ("doc", "field", "kind", "start", "end", "shape", "object")
_BY_OBJECT: Final = ("parents", "object_fields")


def _change(
    extraction: Extraction, names: Sequence[str], change: Callable[[NDArray[Any]], NDArray[Any]]
) -> Extraction:
    """Return an extraction with some arrays changed."""
    changed: dict[str, Any] = {name: change(getattr(extraction, name)) for name in names}
    return extraction._replace(**changed)
