"""Scans lines or an array of items, and their values: the kernels of `common.json.item_scanner`.

`_scan_value` walks one value with a stack that holds, by depth, whether the open container is an
object, how many keys it has with all that is nested in it, and how many elements. Two loops: the
outer reads a value (opening containers on the way), the inner closes what ends after it.

    {"a": [1, {"b": 2}]}
    │     │   │     ├── outer: 2    inner: } ] }
    │     │   └── outer: opens; inner: key "b"
    │     ├── outer: opens, then 1  inner: ,
    └── outer: opens; inner: key "a"

A value that breaks the syntax stops the scan (`stop`, FAULT). One that breaks a limit is refused
(`refuse`) and scanned to its end, so that the next item can be found.

`scan_lines` and `scan_array` do this for consecutive items and write a row for each, good or not.
`token_scan` says which bytes are which numbers.

Cost: 2 GB/s and core for items of 600 bytes, hash of the ids included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.item_ids import ID_BYTES_MAX
from common.item_placement import xxh64
from common.json.token_scan import (
    AT,
    BAD_KEY,
    BAD_VALUE,
    FAR_TOO_DEEP,
    FAULT,
    ID_END,
    ID_KIND,
    ID_START,
    INCOMPLETE,
    INVALID_ID,
    ITEM_TOO_LONG,
    KEY_TOO_LONG,
    NO_COLON,
    NO_COMMA_IN_ARRAY,
    NO_COMMA_IN_OBJECT,
    NOT_AN_OBJECT,
    NUM_FOUND,
    REASON,
    REFUSED,
    REFUSED_AT,
    TOO_DEEP,
    TOO_MANY_FIELDS,
    TOO_MANY_VALUES,
    TRAILING_CONTENT,
    refuse,
    scan_number,
    scan_string,
    stop,
    text_length,
    unescape,
)
from common.kernels.decorator import arguments, kernel
from common.kernels.types import U64, I64Array, Rows, U8Array, int64, uint32, uint64

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STACK_MAX: Final = 1024
"""Depth to which a scan follows an item that is refused as too deep, as orjson does."""
_SCRATCH_BYTES: Final = 6 * ID_BYTES_MAX
"""Longest id or key (which is no longer), with every byte escaped."""
NO_ID: Final = 0
TEXT_ID: Final = 1
INTEGER_ID: Final = 2
_WRONG_ID: Final = 3

BETWEEN_START: Final = 0
BETWEEN_AFTER_COMMA: Final = 1
BETWEEN_AFTER_ITEM: Final = 2
BETWEEN_CLOSED: Final = 3
"""What precedes the next byte of an array: its bracket, a comma, an item, its closing bracket."""

# Columns of a row, int64: one row an item, good or not.
ROW_START: Final = 0
ROW_END: Final = 1
ROW_POSITION: Final = 2
ROW_FAULT: Final = 3
ROW_FAULT_AT: Final = 4
ROW_ID_KIND: Final = 5
ROW_ID_START: Final = 6
ROW_ID_END: Final = 7
NUM_COLUMNS: Final = 8


@arguments
class ScanBounds(NamedTuple):
    """The bounds of a scan: limits of the same names, and the fields to which they apply.

    Attributes:
        depth_max: as `json_depth_max`.
        fields_max: as `item_fields_max`.
        key_bytes_max: as `field_name_bytes_max`.
        values_max: as `item_facet_values_max`, for the limited fields.
        item_bytes_max: as the limit.
        limited_names: names of the fields whose arrays are limited, concatenated.
        limited_ends: where each name ends.
    """

    depth_max: int
    fields_max: int
    key_bytes_max: int
    values_max: int
    item_bytes_max: int
    limited_names: NDArray[np.uint8]
    limited_ends: NDArray[np.int64]


@arguments
class _Scratch(NamedTuple):
    """Working memory of the scan of a value.

    Attributes:
        is_object: by depth, whether the open container is one.
        counts: by depth: keys so far, nested ones included; elements of an array so far.
        found: results besides the position; indexed by constants of `common.json.token_scan`.
        text: room for a key or an id.
    """

    is_object: NDArray[np.bool_]
    counts: Rows[np.int64]
    found: NDArray[np.int64]
    text: NDArray[np.uint8]


@arguments
class ItemRows(NamedTuple):
    """Consecutive items, good or not.

    Attributes:
        columns: by item; see `ROW_START`.
        hashes: of their ids.
    """

    columns: Rows[np.int64]
    hashes: NDArray[np.uint64]


@kernel
def _new_scratch() -> _Scratch:
    return _Scratch(
        np.zeros(_STACK_MAX + 1, np.bool_),
        np.zeros((_STACK_MAX + 1, 2), np.int64),
        np.zeros(NUM_FOUND, np.int64),
        np.empty(_SCRATCH_BYTES, np.uint8),
    )


@kernel(inline=True, allocates=False)
def _skip_space(buffer: U8Array, position: int, end: int, is_lines: bool) -> int:
    """Skip white space; in lines, a line feed does not count as such."""
    while position < end:
        byte = buffer[position]
        if byte > 0x20:
            break
        if byte != 0x20 and byte != 0x09 and byte != 0x0D and (byte != 0x0A or is_lines):
            break
        position += 1
    return position


@kernel(inline=True, allocates=False)
def _scan_literal(buffer: U8Array, position: int, end: int, found: I64Array) -> int:
    """Scan true, false or null."""
    first = buffer[position]
    if first == 0x74:
        literal, length = uint32(0x65757274), 4
    elif first == 0x6E:
        literal, length = uint32(0x6C6C756E), 4
    elif first == 0x66:
        literal, length = uint32(0x736C6166), 5
    else:
        stop(found, BAD_VALUE, position)
        return FAULT
    for offset in range(length):
        if position + offset >= end:
            stop(found, INCOMPLETE, end)
            return FAULT
        # Little-endian: the first letter is the lowest byte; only "false" has a fifth.
        expected = (literal >> uint32(8 * offset)) & uint32(0xFF) if offset < 4 else 0x65
        if buffer[position + offset] != expected:
            stop(found, BAD_VALUE, position)
            return FAULT
    return position + length


@arguments
class _Key(NamedTuple):
    """A key: where it begins and ends between its quotes."""

    start: int
    end: int


@kernel(allocates=False)
def _is_id_key(buffer: U8Array, key: _Key, scratch: U8Array) -> bool:
    """Return whether a key is "id", written in any way."""
    start, end = key
    if end - start == 2:
        return buffer[start] == 0x69 and buffer[start + 1] == 0x64
    if end - start != 7 and end - start != 12:  # one of the two letters escaped, or both
        return False
    length = unescape(buffer, start, end, scratch, 0)
    return length == 2 and scratch[0] == 0x69 and scratch[1] == 0x64


@kernel(inline=True, allocates=False)
def _is_longer(buffer: U8Array, start: int, end: int, num_bytes: int) -> bool:
    """Return whether the text of a scanned string has more than this many bytes."""
    return end - start > num_bytes and text_length(buffer, start, end) > num_bytes


@kernel(allocates=False)
def _is_integer_id(buffer: U8Array, start: int, end: int) -> bool:
    """Return whether a number token is an integer in 0 … 2^63-1."""
    number = uint64(0)
    for position in range(start, end):
        if not 0x30 <= buffer[position] <= 0x39:
            return False
        number = number * uint64(10) + uint64(buffer[position] - 0x30)
    # 19 digits fit into 64 bits, so the number did not wrap around.
    return end - start <= 19 and number <= uint64(0x7FFFFFFFFFFFFFFF)


@kernel(allocates=False)
def _is_limited(buffer: U8Array, key: _Key, bounds: ScanBounds, scratch: U8Array) -> bool:
    """Return whether a key names a limited field."""
    start, end = key
    names, name_ends = bounds.limited_names, bounds.limited_ends
    if end - start > len(scratch):
        return False
    length = unescape(buffer, start, end, scratch, 0)
    name_start = 0
    for name in range(len(name_ends)):
        name_end = name_ends[name]
        if name_end - name_start == length:
            position = 0
            while position < length and names[name_start + position] == scratch[position]:
                position += 1
            if position == length:
                return True
        name_start = name_end
    return False


@kernel(inline=True, allocates=False)
def _put_id(found: I64Array, kind: int, start: int, end: int) -> None:
    """Write what the value of the member `id` is."""
    found[ID_KIND] = kind
    found[ID_START] = start
    found[ID_END] = end


@kernel(allocates=False)
def _note_id(buffer: U8Array, start: int, end: int, found: I64Array) -> None:
    """Note the value of the member `id`, which is a scalar.

    It must be a text of 1 to `ID_BYTES_MAX` bytes, or an integer.
    """
    if buffer[start] == 0x22:
        start += 1
        end -= 1
        is_right = end > start and not _is_longer(buffer, start, end, ID_BYTES_MAX)
        _put_id(found, TEXT_ID if is_right else _WRONG_ID, start, end)
    else:
        is_right = _is_integer_id(buffer, start, end)
        _put_id(found, INTEGER_ID if is_right else _WRONG_ID, start, end)


@kernel(inline=True, allocates=False)
def _seek_token(buffer: U8Array, position: int, end: int, is_lines: bool, found: I64Array) -> int:
    """Skip white space; return where the next token begins, or FAULT if the bytes end there."""
    position = _skip_space(buffer, position, end, is_lines)
    if position >= end:
        stop(found, INCOMPLETE, end)
        return FAULT
    return position


@kernel(inline=True, allocates=False)
def _scan_key(buffer: U8Array, position: int, end: int, bounds: ScanBounds, found: I64Array) -> int:
    """Scan a key; return the position after it, or FAULT."""
    if buffer[position] != 0x22:
        stop(found, BAD_KEY, position)
        return FAULT
    start = position + 1
    position = scan_string(buffer, start, end, found)
    if position > 0 and _is_longer(buffer, start, position - 1, bounds.key_bytes_max):
        refuse(found, KEY_TOO_LONG, start)
    return position


@kernel(inline=True, allocates=False)
def _scan_colon(buffer: U8Array, position: int, end: int, is_lines: bool, found: I64Array) -> int:
    """Scan the colon after a key; return where the key's value begins, or FAULT."""
    position = _seek_token(buffer, position, end, is_lines, found)
    if position < 0:
        return FAULT
    if buffer[position] != 0x3A:
        stop(found, NO_COLON, position)
        return FAULT
    return _skip_space(buffer, position + 1, end, is_lines)


@kernel(inline=True, allocates=False)
def _open_container(
    is_object: bool, position: int, depth: int, bounds: ScanBounds, scratch: _Scratch
) -> bool:
    """Push a container; return whether the scan can go on.

    One that is too deep is refused, but scanned on, so that the scan finds the end of its item;
    only the stack bounds that.
    """
    found = scratch.found
    if depth > bounds.depth_max:
        refuse(found, TOO_DEEP, position)
        if depth > _STACK_MAX:
            stop(found, FAR_TOO_DEEP, position)
            return False
    scratch.is_object[depth] = is_object
    scratch.counts[depth, 0] = 0
    scratch.counts[depth, 1] = 1
    return True


@kernel(inline=True, allocates=False)
def _close_container(byte: int, position: int, depth: int, scratch: _Scratch) -> bool:
    """Pop the open container if `byte` is its bracket; return whether it is.

    Its keys count for the container around it. Of an array's elements, the one with the most keys
    counts.
    """
    is_object, counts, found, _ = scratch
    if is_object[depth]:
        if byte != 0x7D:
            stop(found, NO_COMMA_IN_OBJECT, position)
            return False
    elif byte != 0x5D:
        stop(found, NO_COMMA_IN_ARRAY, position)
        return False
    if is_object[depth - 1]:
        counts[depth - 1, 0] += counts[depth, 0]
    else:
        counts[depth - 1, 0] = max(counts[depth - 1, 0], counts[depth, 0])
    return True


@kernel(allocates=False)
def _scan_value(
    buffer: U8Array, position: int, end: int, is_lines: bool, bounds: ScanBounds, scratch: _Scratch
) -> int:
    """Scan one value that begins at `position`, as an item.

    Args:
        buffer: the bytes.
        position: where the value begins, no white space.
        end: where the bytes end.
        is_lines: whether a line feed ends the item.
        bounds: of depth, fields and so on.
        scratch: gets what was found.

    Returns:
        The position after the value; FAULT if it is broken or incomplete. A value that is well
        formed but refused is scanned to its end, with the reason in ``found[REFUSED]``.
    """
    is_object, counts, found, text = scratch
    found[REASON] = 0
    found[REFUSED] = 0
    found[ID_KIND] = NO_ID
    depth = 0
    item_key = _Key(int64(0), int64(0))  # the item's own key whose value is being scanned
    reads_id = False  # whether the next value is that of the member `id`
    needs_key = False
    if buffer[position] != 0x7B:
        refuse(found, NOT_AN_OBJECT, position)
    while True:
        # A value begins at `position`, unless it is the end of the bytes.
        if position >= end:
            stop(found, INCOMPLETE, end)
            return FAULT
        byte = buffer[position]
        start = position
        if byte == 0x7B or byte == 0x5B:
            depth += 1
            if not _open_container(byte == 0x7B, position, depth, bounds, scratch):
                return FAULT
            if reads_id:
                _put_id(found, _WRONG_ID, start, start)
                reads_id = False
            position = _seek_token(buffer, position + 1, end, is_lines, found)
            if position < 0:
                return FAULT
            if buffer[position] != byte + 2:  # not the closing bracket
                # Not empty: an array continues with a value, an object with a key.
                if byte == 0x5B:
                    continue
                needs_key = True
        else:
            if byte == 0x22:
                position = scan_string(buffer, position + 1, end, found)
            elif byte == 0x2D or 0x30 <= byte <= 0x39:
                position = scan_number(buffer, position, end, found)
            else:
                position = _scan_literal(buffer, position, end, found)
            if position < 0:
                return FAULT
            if reads_id:
                _note_id(buffer, start, position, found)
                reads_id = False
        # Close what ends here, read the key of the next value, stop where that begins.
        while depth > 0:
            position = _seek_token(buffer, position, end, is_lines, found)
            if position < 0:
                return FAULT
            byte = buffer[position]
            if needs_key:
                needs_key = False
                key_start = position + 1
                position = _scan_key(buffer, position, end, bounds, found)
                if position < 0:
                    return FAULT
                counts[depth, 0] += 1
                if depth == 1:
                    item_key = _Key(key_start, position - 1)
                    reads_id = _is_id_key(buffer, item_key, text)
                position = _scan_colon(buffer, position, end, is_lines, found)
                if position < 0:
                    return FAULT
                break
            # A comma: the next key, or the next element.
            if byte == 0x2C:
                position = _skip_space(buffer, position + 1, end, is_lines)
                if is_object[depth]:
                    needs_key = True
                    continue
                counts[depth, 1] += 1
                break
            # Else the open container must close.
            if not _close_container(byte, position, depth, scratch):
                return FAULT
            # Elements are counted, and only if there are too many the field's name matters.
            if (
                depth == 2
                and not is_object[2]
                and counts[2, 1] > bounds.values_max
                and is_object[1]
                and _is_limited(buffer, item_key, bounds, text)
            ):
                refuse(found, TOO_MANY_VALUES, position)
            position += 1
            depth -= 1
        if depth == 0:
            break
    if counts[1, 0] > bounds.fields_max:
        refuse(found, TOO_MANY_FIELDS, position - 1)
    if found[ID_KIND] == _WRONG_ID:
        refuse(found, INVALID_ID, found[ID_START])
    return position


# --- consecutive items ----------------------------------------------------------------------------


@kernel(allocates=False)
def _write_row(
    columns: Rows[np.int64],
    row: int,
    start: int,
    end: int,
    position: int,
    bytes_max: int,
    found: I64Array,
) -> None:
    """Write what the scan of an item found; `end` is FAULT if it is broken."""
    columns[row, ROW_START] = start
    columns[row, ROW_END] = end
    columns[row, ROW_POSITION] = position
    columns[row, ROW_FAULT] = found[REASON] if end < 0 else found[REFUSED]
    columns[row, ROW_FAULT_AT] = found[AT] if end < 0 else found[REFUSED_AT]
    if end - start > bytes_max and columns[row, ROW_FAULT] == 0:
        columns[row, ROW_FAULT] = ITEM_TOO_LONG
        columns[row, ROW_FAULT_AT] = start + bytes_max
    columns[row, ROW_ID_KIND] = found[ID_KIND]
    columns[row, ROW_ID_START] = found[ID_START]
    columns[row, ROW_ID_END] = found[ID_END]


@kernel(allocates=False)
def _hash_id(buffer: U8Array, scratch: _Scratch) -> U64:
    """Return the hash of the id that the scan of an item found; 0 if there is none."""
    found = scratch.found
    if found[ID_KIND] == NO_ID or found[ID_KIND] == _WRONG_ID:
        return uint64(0)
    start, end = found[ID_START], found[ID_END]
    for byte in range(start, end):
        if buffer[byte] == 0x5C:
            length = unescape(buffer, start, end, scratch.text, 0)
            return xxh64(scratch.text, 0, length)
    return xxh64(buffer, start, end)


@kernel
def scan_lines(
    buffer: U8Array, position: int, line: int, bounds: ScanBounds, rows: ItemRows
) -> tuple[int, int, int]:
    """Scan complete lines, to the end or until the rows are full.

    Returns:
        (position and number of the next line, number of rows).
    """
    scratch = _new_scratch()
    found = scratch.found
    columns, hashes = rows
    num_rows = len(hashes)
    bytes_max = bounds.item_bytes_max
    end = len(buffer)
    row = 0
    while position < end and row < num_rows:
        start = _skip_space(buffer, position, end, True)
        position = start
        if buffer[start] != 0x0A:
            position = _scan_value(buffer, start, end, True, bounds, scratch)
            item_end = position
            if position >= 0:
                position = _skip_space(buffer, position, end, True)
                if buffer[position] != 0x0A:
                    stop(found, TRAILING_CONTENT, position)
                    item_end = FAULT
            else:
                position = found[AT]
            _write_row(columns, row, start, item_end, line, bytes_max, found)
            hashes[row] = _hash_id(buffer, scratch)
            row += 1
            while buffer[position] != 0x0A:
                position += 1
        position += 1
        line += 1
    return position, line, row


@kernel
def scan_array(
    buffer: U8Array, position: int, index: int, state: int, bounds: ScanBounds, rows: ItemRows
) -> tuple[int, int, int, int]:
    """Scan items of an array, to the end, the first broken or incomplete one, or full rows.

    Returns:
        (position to continue at, index of the item there, state between items, number of rows). A
        broken item is the last row; an incomplete one is a row too, with the reason INCOMPLETE.
    """
    scratch = _new_scratch()
    found = scratch.found
    columns, hashes = rows
    num_rows = len(hashes)
    bytes_max = bounds.item_bytes_max
    end = len(buffer)
    row = 0
    while row < num_rows:
        position = _skip_space(buffer, position, end, False)
        if position >= end:
            break
        byte = buffer[position]
        start = position
        item_end = FAULT
        found[ID_KIND] = NO_ID
        # Between items: a comma, the closing bracket, or an error.
        if state == BETWEEN_CLOSED:
            stop(found, TRAILING_CONTENT, position)
        elif state == BETWEEN_AFTER_ITEM:
            if byte == 0x2C:
                state = BETWEEN_AFTER_COMMA
                position += 1
                continue
            if byte == 0x5D:
                state = BETWEEN_CLOSED
                position += 1
                continue
            stop(found, NO_COMMA_IN_ARRAY, position)
        elif state == BETWEEN_START and byte == 0x5D:
            state = BETWEEN_CLOSED
            position += 1
            continue
        else:
            item_end = _scan_value(buffer, start, end, False, bounds, scratch)
        _write_row(columns, row, start, item_end, index, bytes_max, found)
        hashes[row] = _hash_id(buffer, scratch)
        row += 1
        if item_end < 0:
            break
        position = item_end
        state = BETWEEN_AFTER_ITEM
        index += 1
    return position, index, state, row
