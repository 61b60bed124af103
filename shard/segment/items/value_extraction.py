r"""From the JSON bytes of a batch to its values: one pass of a kernel, no Python object per value.

Question it answers, for every structure of a segment being built: which values does the batch have,
of which document and field, of which kind, and where are their bytes? The input is valid JSON
(`common.json.item_scanner` checked it, and LMDB keeps it as checked), so nothing is checked here.

    payload   {"id": 7, "title": "Caf\u00e9", "tags": ["a", "b"]}
    text      {"id": 7, "title": "Café…     ", "tags": ["a", "b"]}
              the payload, strings with escapes decoded in place (that is never longer)
    doc    field   kind      shape     text[start:end]
    0      id      INTEGER   SCALAR    7         id_start, id_end of document 0 name it too
    0      title   STRING    SCALAR    Café
    0      tags    STRING    ELEMENT   a
    0      tags    STRING    ELEMENT   b

Values are in document order. If a key occurs twice in one object, the last one wins, as in orjson.
``{"a.b": 1, "a": {"b": 2}}`` has both values at the path a.b, as their keys are in two objects.

The kernel walks with a stack of open containers. Each level keeps the path up to its keys (length
in the path buffer, and hash). So reading a key means: append it to the buffer, continue the hash,
look the number up in the registry's table. An unknown path ends the kernel at that document; Python
registers the path and the kernel redoes the document. Full value arrays end it likewise. Both are
rare: a few dozen times in the life of an index. `common.json.token_scan` says which bytes are which
numbers.

Cost: about 2 ns a byte (≥ 250 MB/s), most of it for finding the ends of strings and reading keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from common.field_path_hash import DOT, HASH_BASIS, hash_step
from common.json.token_scan import find_closing_quote, find_quote_or_backslash, unescape
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, Rows, U8Array, int64
from common.value_kinds_and_facet_keys import ValueKind
from shard.segment.field_registry import FieldRegistry, PathTable, find_field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

DEPTH_MAX: Final = 64
"""The depth that `common.json.item_scanner` accepts."""
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
_NO_VALUE: Final = -1
"""Kind of a container that is opened: its values follow."""

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
class _Fields(NamedTuple):
    """The numbers of paths; see `FieldRegistry`.

    Attributes:
        paths: those that are known.
        overflow: the field of all other paths; -1: register them.
        only: the one path whose values are wanted; empty: those of all paths are.
    """

    paths: PathTable
    overflow: int
    only: NDArray[np.uint8]


@arguments
class _Stack(NamedTuple):
    """By depth, the state of an open container, to continue after what is nested in it.

    Attributes:
        is_object: whether it is an object; else an array.
        base_lengths: bytes of the path before an object's keys, dot included; of an array's key.
        base_hashes: hash of that path.
        fields: object: of the key being read; array: of the key that it is a value of.
        objects: number of the object, or of the one around the array.
        arrays: array: arrays since the last key, itself included.
        outer_arrays: arrays on the path to the object: 0 none, 1 flat, 2 an array in an array.
    """

    is_object: NDArray[np.bool_]
    base_lengths: NDArray[np.int64]
    base_hashes: NDArray[np.uint64]
    fields: NDArray[np.int64]
    objects: NDArray[np.int64]
    arrays: NDArray[np.int64]
    outer_arrays: NDArray[np.int64]


# Columns of `_Walk.seen` and `_Walk.hidden`.
_OBJECT: Final = 0
_FIRST_VALUE: Final = 1
_END_VALUE: Final = 2
_FIELD: Final = 3
_DEPTH: Final = 4


@arguments
class _Walk(NamedTuple):
    """Scratch state of a walk through documents.

    Attributes:
        seen: by field number: the object in which the key last occurred, and the range of values
            that it has there.
        hidden: rows of `seen` of open objects that the same path inside of them has replaced, with
            the field and the depth of the inner object; put back when that ends.
        path: path of the current key.
        stack: of open containers.
    """

    seen: Rows[np.int64]
    hidden: Rows[np.int64]
    path: NDArray[np.uint8]
    stack: _Stack


@arguments
class _Location(NamedTuple):
    """The path of a value's key, and the arrays around the value.

    Attributes:
        field: number of the path.
        length: bytes of that path.
        path_hash: hash of that path.
        arrays: arrays around the value, since the key.
        outer_arrays: arrays on the path to the key: 0 none, 1 flat, 2 an array in an array.
    """

    field: int
    length: int
    path_hash: U64
    arrays: int
    outer_arrays: int


@arguments
class _Progress(NamedTuple):
    """The position of an extraction.

    Attributes:
        doc: the next document.
        num_values: values of those before.
        num_objects: objects of those before.
    """

    doc: int
    num_values: int
    num_objects: int


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
def _open_object(walk: _Walk, depth: int, location: _Location, number: int) -> None:
    """Push an object, whose own path precedes those of its keys."""
    path, stack = walk.path, walk.stack
    length, path_hash, outer_arrays = location.length, location.path_hash, location.outer_arrays
    if location.arrays > 0:
        outer_arrays = max(outer_arrays, min(location.arrays, 2))
    if depth > 1:
        path[length] = DOT
        length += 1
        path_hash = hash_step(path_hash, DOT)
    stack.is_object[depth] = True
    stack.base_lengths[depth] = length
    stack.base_hashes[depth] = path_hash
    stack.fields[depth] = location.field  # until the first key: there may be none that is wanted
    stack.objects[depth] = number
    stack.outer_arrays[depth] = outer_arrays


@kernel(inline=True, allocates=False)
def _open_array(stack: _Stack, depth: int, location: _Location) -> _Location:
    """Push an array; return the location of its elements."""
    arrays = location.arrays + 1
    stack.is_object[depth] = False
    stack.base_lengths[depth] = location.length
    stack.base_hashes[depth] = location.path_hash
    stack.fields[depth] = location.field
    stack.objects[depth] = stack.objects[depth - 1]
    stack.arrays[depth] = arrays
    stack.outer_arrays[depth] = location.outer_arrays
    return _Location(
        location.field, location.length, location.path_hash, arrays, location.outer_arrays
    )


@kernel(inline=True, allocates=False)
def _next_element(stack: _Stack, depth: int) -> _Location:
    """Return the location of the open array's next element: that of the elements before."""
    return _Location(
        stack.fields[depth],
        stack.base_lengths[depth],
        stack.base_hashes[depth],
        stack.arrays[depth],
        stack.outer_arrays[depth],
    )


@kernel(inline=True, allocates=False)
def _put_value(
    out: Extraction, at: int, doc: int, kind: int, start: int, end: int, location: _Location
) -> None:
    """Write a scalar or an empty container."""
    out.doc[at] = doc
    out.field[at] = location.field
    out.kind[at] = kind
    out.start[at] = start
    out.end[at] = end
    out.shape[at] = 2 if location.arrays > 1 else max(location.outer_arrays, location.arrays)


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
def _hide_seen(walk: _Walk, field: int, depth: int, num_hidden: int) -> int:
    """Keep what is known of a path of an outer object; return the number of rows kept."""
    for column in range(_FIELD):
        walk.hidden[num_hidden, column] = walk.seen[field, column]
    walk.hidden[num_hidden, _FIELD] = field
    walk.hidden[num_hidden, _DEPTH] = depth
    return num_hidden + 1


@kernel(inline=True, allocates=False)
def _restore_seen(walk: _Walk, depth: int, num_hidden: int) -> int:
    """Put back what objects below a depth have replaced; return the number of rows left."""
    while num_hidden > 0 and walk.hidden[num_hidden - 1, _DEPTH] > depth:
        num_hidden -= 1
        field = walk.hidden[num_hidden, _FIELD]
        for column in range(_FIELD):
            walk.seen[field, column] = walk.hidden[num_hidden, column]
    return num_hidden


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


@kernel(inline=True, allocates=False)
def _end_of_value(payload: U8Array, position: int) -> int:
    """Return where the value that begins at `position` ends."""
    depth = 0
    while True:
        byte = payload[position]
        position += 1
        if byte == 0x22:
            position = find_closing_quote(payload, position) + 1
        elif byte == 0x7B or byte == 0x5B:
            depth += 1
        elif byte == 0x7D or byte == 0x5D:
            depth -= 1
        elif depth == 0:
            position, _ = _end_of_literal(payload, position - 1)
        if depth == 0:
            return position


@kernel(inline=True, allocates=False)
def _leads_to(payload: U8Array, key_start: int, path: U8Array, length: int, only: U8Array) -> bool:
    """Return whether a key continues the path of its object to the wanted one, or towards it.

    Args:
        payload: the JSON.
        key_start: after the quote before the key.
        path: that of the object, dot included, then scratch space.
        length: its bytes; the wanted path begins with them, or is the object's own.
        only: the wanted path.
    """
    at = length
    position = key_start
    while payload[position] != 0x22:
        if payload[position] == 0x5C:  # compare what the escapes mean
            _, end, _ = _append_key(payload, key_start, path, length, HASH_BASIS)
            at = length
            while at < end and at < len(only) and path[at] == only[at]:
                at += 1
            if at < end:
                return False
            break
        if at >= len(only) or payload[position] != only[at]:
            return False
        at += 1
        position += 1
    return at == len(only) or (at < len(only) and only[at] == DOT)


@kernel(allocates=False)
def _skip_members(
    payload: U8Array, position: int, path: U8Array, length: int, only: U8Array
) -> int:
    """Return the position of the next key that leads to the wanted path, or of the object's end.

    Args:
        payload: the JSON.
        position: of the quote before a key.
        path: that of the object; see `_leads_to`, as for the others.
        length: its bytes.
        only: the wanted path.
    """
    while not _leads_to(payload, position + 1, path, length, only):
        close = find_closing_quote(payload, position + 1)
        position = _skip_space(payload, close + 1)  # the colon
        position = _end_of_value(payload, _skip_space(payload, position + 1))
        position = _skip_space(payload, position)
        if payload[position] == 0x7D:
            break
        position = _skip_space(payload, position + 1)  # after the comma
    return position


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


@kernel(inline=True, allocates=False)
def _extract_document(
    documents: _Documents, progress: _Progress, fields: _Fields, walk: _Walk, out: Extraction
) -> tuple[bool, int, _Progress]:
    """Extract the next document; the arrays have room for it.

    Two loops: the outer one reads a value, opening the containers around it; the inner one closes
    the containers that end after it, and reads the key of the next value.

    Returns:
        (whether all of its paths are known, length of the unknown one, what has been extracted).
    """
    payload = documents.payload
    seen, _, path, stack = walk
    doc, num_values, num_objects = progress
    first_object = num_objects + 1
    num_hidden = int64(0)
    tracks = len(out.parents) > 0
    first_value = num_values
    has_dropped = False
    out.id_start[doc] = 0
    out.id_end[doc] = 0
    depth = 0
    stack.objects[0] = 0
    location = _Location(int64(0), int64(0), HASH_BASIS, int64(0), int64(0))
    position = _skip_space(payload, documents.starts[doc])
    while True:
        # A value begins at `position`.
        byte = payload[position]
        value_start = position
        kind = _NO_VALUE
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
                depth += 1
                num_objects += 1
                _open_object(walk, depth, location, num_objects)
                if tracks:
                    out.parents[num_objects] = stack.objects[depth - 1]
                    out.object_fields[num_objects] = location.field if depth > 1 else NO_FIELD
                needs_key = True
        elif byte == 0x5B:
            # Array: empty, it is a value; otherwise push a level and read its first element.
            position = _skip_space(payload, position + 1)
            if payload[position] == 0x5D:
                position += 1
                value_end = position
                kind = _EMPTY_ARRAY
            else:
                depth += 1
                location = _open_array(stack, depth, location)
                continue
        else:
            position, kind = _end_of_literal(payload, position)
            value_end = position
        if kind != _NO_VALUE:
            _put_value(out, num_values, doc, kind, value_start, value_end, location)
            if tracks:
                out.object[num_values] = stack.objects[depth]
            num_values += 1
            if depth == 1 and kind <= _INTEGER and _is_id(path, location.length):
                out.id_start[doc] = value_start
                out.id_end[doc] = value_end
        # Close the containers that end here, read a key if one follows; stop at the next value.
        while True:
            if needs_key:
                needs_key = False
                if len(fields.only) > 0:
                    position = _skip_members(
                        payload, position, path, stack.base_lengths[depth], fields.only
                    )
                    if payload[position] == 0x7D:
                        continue
                close, length, path_hash = _append_key(
                    payload, position + 1, path, stack.base_lengths[depth], stack.base_hashes[depth]
                )
                field = find_field(path_hash, path, length, fields.paths)
                if field < 0:
                    if fields.overflow < 0:
                        return False, length, _Progress(doc, first_value, num_objects)
                    field = fields.overflow
                elif seen[field, _OBJECT] == stack.objects[depth]:
                    _drop_values(out, seen[field, _FIRST_VALUE], seen[field, _END_VALUE])
                    has_dropped = True
                elif first_object <= seen[field, _OBJECT] <= stack.objects[depth - 1]:
                    num_hidden = _hide_seen(walk, field, depth, num_hidden)
                seen[field, _OBJECT] = stack.objects[depth]
                seen[field, _FIRST_VALUE] = num_values
                stack.fields[depth] = field
                location = _Location(field, length, path_hash, int64(0), stack.outer_arrays[depth])
                position = _skip_space(payload, close + 1)  # the colon
                position = _skip_space(payload, position + 1)
                break
            if depth == 0:
                break
            position = _skip_space(payload, position)
            byte = payload[position]
            position += 1
            if stack.is_object[depth]:
                seen[stack.fields[depth], _END_VALUE] = num_values
            # Comma: in an object, a key follows; in an array, the next element.
            if byte == 0x2C:
                position = _skip_space(payload, position)
                if stack.is_object[depth]:
                    needs_key = True
                    continue
                location = _next_element(stack, depth)
                break
            depth -= 1
            num_hidden = _restore_seen(walk, depth, num_hidden)
        if depth == 0:
            break
    if has_dropped:
        num_values = _remove_dropped(out, first_value, num_values)
    return True, int64(0), _Progress(doc + 1, num_values, num_objects)


@kernel(allocates=False)
def _extract(
    documents: _Documents, progress: _Progress, fields: _Fields, walk: _Walk, out: Extraction
) -> tuple[int, int, _Progress]:
    """Extract documents until all are done, a path is unknown or the arrays are full.

    Returns:
        (why it stopped, length of the unknown path, what has been extracted).
    """
    _, starts, ends = documents
    tracks = len(out.parents) > 0
    while progress.doc < len(starts):
        # A value takes at least two bytes (itself and a separator): stop early if this document may
        # not fit. So nothing inside the loop checks the length of an array.
        most = ((ends[progress.doc] - starts[progress.doc]) >> 1) + 1
        has_room = progress.num_values + most <= len(out.doc)
        if not has_room or (tracks and progress.num_objects + most >= len(out.parents)):
            return _FULL, int64(0), progress
        is_known, length, progress = _extract_document(documents, progress, fields, walk, out)
        if not is_known:
            return _UNKNOWN_PATH, length, progress
    return _DONE, int64(0), progress


def extract(
    payload: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    registry: FieldRegistry,
    *,
    wants_objects: bool = False,
    only: str = "",
) -> Extraction:
    """Extract the values of a batch of documents; new paths get numbers.

    Args:
        payload: bytes that hold the documents, each one valid JSON object within the limits of
            `common.json.item_scanner`.
        starts: where each document begins.
        ends: where it ends.
        registry: the index's paths; grows.
        wants_objects: whether to record the object around each value; takes 4 bytes a value.
        only: the path whose values are wanted; empty: those of all paths are. All else is skipped,
            ids included.

    Returns:
        The values; with `only`, also those at the paths on the way to that one. `text` is a copy,
        so the payload may be reused.
    """
    documents = _Documents(payload, starts, ends)
    walk = _Walk(
        _nothing_seen(registry),
        # A key takes at least four bytes.
        np.empty((int((ends - starts).max(initial=0)) // 4 + 1, 5), np.int64),
        np.empty(_PATH_BYTES_MAX, np.uint8),
        _new_stack(),
    )
    # Paths that share a number have no name to look for.
    name = b"" if registry.overflow_number >= 0 else only.encode()
    wanted = np.frombuffer(bytearray(name), np.uint8)
    out = _reserve(documents, wants_objects=wants_objects)
    progress = _Progress(0, 0, 0)
    while True:
        fields = _Fields(registry.table, registry.overflow_number, wanted)
        reason, length, progress = _extract(documents, progress, fields, walk, out)
        if reason == _DONE:
            break
        if reason == _UNKNOWN_PATH:
            registry.learn(walk.path[:length].tobytes().decode())
            walk = walk._replace(seen=_nothing_seen(registry))
        else:
            out = _change(out, _BY_VALUE, lambda array: np.concatenate((array, array)))
            out = _change(out, _BY_OBJECT, lambda array: np.concatenate((array, array)))
    _, num_values, num_objects = progress
    out = _change(out, _BY_OBJECT, lambda array: array[: num_objects + 1])
    return _change(out, _BY_VALUE, lambda array: array[:num_values])


def _new_stack() -> _Stack:
    """Return the stack of a walk, with room for the document itself at depth 0."""
    size = DEPTH_MAX + 1
    return _Stack(
        is_object=np.empty(size, np.bool_),
        base_lengths=np.empty(size, np.int64),
        base_hashes=np.empty(size, np.uint64),
        fields=np.empty(size, np.int64),
        objects=np.empty(size, np.int64),
        arrays=np.empty(size, np.int64),
        outer_arrays=np.empty(size, np.int64),
    )


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
