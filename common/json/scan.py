r"""The trust boundary: finds and validates the items in the bytes of a body.

A request body is scanned once, here, in the coordinator; no later stage parses untrusted JSON.
A scan accepts exactly what orjson accepts (RFC 8259, UTF-8, no lone surrogates, finite numbers)
within further limits, which keep every later stage bounded:

    an item is an object                         else invalid_item
    its id, if any, is an integer in 0 … 2^63-1
    or a text of 1-256 bytes                     else invalid_id
    integers in -2^63 … 2^64-1, floats finite    else invalid_number
    depth ≤ json_depth_max                       else too_deep
    keys of the item ≤ item_fields_max           else too_many_fields
    bytes of a key ≤ field_name_bytes_max        else invalid_item
    bytes of the item ≤ item_bytes_max           else invalid_item
    (for facets) elements of an array
    ≤ item_facet_values_max                      else too_many_values

Keys of nested objects count; of an array, the element with the most keys counts for all, because
elements share their fields: {"a": 1, "b": {"c": 1}, "d": [{"e": 1}, {"e": 2, "f": 3}]} has 6.

A body is an array of items or has an item a line (blank lines do not count); its first character
says which. It comes in chunks of any length:

    feed(b'{"id":1}\n{"id"')  →  item of line 1          rest: {"id"
    feed(b':2}\n{"id":}\n')   →  item of line 2, error of line 3 (invalid_json)
    finish()                  →  nothing left

Lines: a line is complete when its line feed is there, and JSON has no line feed inside an item that
is written on one line, so the scan works on complete lines, and after an error goes on after the
next line feed. Array: the scan stops at an incomplete item and scans it again from its start when
twice as much of it has arrived: linear in total. Broken JSON ends an array's scan, because the
start of the next item is unknown; an item that is refused for a limit does not.

`_scan_value` walks one value with a stack that holds, by depth, whether the open container is an
object, how many keys it has with all that is nested in it, and how many elements. Two loops: the
outer reads a value (opening containers on the way), the inner closes what ends after it.

Cost: 2 GB/s and core for items of 600 bytes, hash of the ids included; 1 GB/s with the copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from common.json import tokens as reason
from common.json.tokens import (
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
from common.kernels.types import I64Array, Rows, U8Array, uint32, uint64
from common.limits import DEFAULT_LIMITS, Limits
from common.placement import ID_BYTES_MAX, xxh64

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

STORED_LIMITS: Final = replace(
    DEFAULT_LIMITS, item_fields_max=1 << 62, item_facet_values_max=1 << 62, item_bytes_max=1 << 62
)
"""For items that were accepted before, possibly under wider limits than today's."""

_STACK_MAX: Final = 1024
"""Depth to which a scan follows an item that is refused as too deep, as orjson does."""
_SCRATCH_BYTES: Final = 6 * ID_BYTES_MAX
"""Longest id or key (which is no longer), with every byte escaped."""
_NO_ID: Final = 0
_TEXT_ID: Final = 1
_INTEGER_ID: Final = 2
_WRONG_ID: Final = 3

_BETWEEN_START: Final = 0
_BETWEEN_AFTER_COMMA: Final = 1
_BETWEEN_AFTER_ITEM: Final = 2
_BETWEEN_CLOSED: Final = 3

_CODES: Final[Mapping[int, tuple[str, str]]] = {
    INCOMPLETE: ("invalid_json", "it ends in the middle of a value"),
    BAD_VALUE: ("invalid_json", "a value must begin here"),
    BAD_KEY: ("invalid_json", "a key in double quotes must stand here"),
    NO_COLON: ("invalid_json", "a colon must follow the key"),
    NO_COMMA_IN_OBJECT: ("invalid_json", "a comma or the end of the object must follow"),
    NO_COMMA_IN_ARRAY: ("invalid_json", "a comma or the end of the array must follow"),
    reason.BAD_ESCAPE: ("invalid_json", "unknown escape in a text"),
    reason.CONTROL_CHARACTER: ("invalid_json", "control characters in a text must be escaped"),
    reason.BAD_UTF8: ("invalid_json", "text is not valid UTF-8"),
    reason.BAD_NUMBER: ("invalid_json", "a digit must stand here"),
    reason.LONE_SURROGATE: ("invalid_json", "a surrogate escape must be one of a pair"),
    TRAILING_CONTENT: ("invalid_json", "nothing may follow here"),
    FAR_TOO_DEEP: ("too_deep", "values may be nested {json_depth_max} deep"),
    NOT_AN_OBJECT: ("invalid_item", "an item must be an object"),
    TOO_DEEP: ("too_deep", "values may be nested {json_depth_max} deep"),
    TOO_MANY_FIELDS: (
        "too_many_fields",
        "an item may have {item_fields_max} fields, nested ones included",
    ),
    KEY_TOO_LONG: ("invalid_item", "a field's name may have {field_name_bytes_max} bytes"),
    reason.NUMBER_OUT_OF_RANGE: (
        "invalid_number",
        "integers must be from -2^63 to 2^64-1, other numbers within the range of a double",
    ),
    INVALID_ID: (
        "invalid_id",
        f"an id must be an integer from 0 to 2^63-1 or a text of 1 to {ID_BYTES_MAX} bytes",
    ),
    TOO_MANY_VALUES: (
        "too_many_values",
        "a facet may have {item_facet_values_max} values in an item",
    ),
    ITEM_TOO_LONG: ("invalid_item", "an item may have {item_bytes_max} bytes"),
}


_LIMIT_NAME: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class ItemError:
    """Why an item was refused.

    Attributes:
        position: line (from 1) or array index (from 0) of the item in its body.
        id: the item's id, where it was read before the fault.
        code: error code, see the module.
        message: what is wrong, where, and what would be valid.
        byte: where, counted from 1: in the line, in the body of an array, or in the single item.
    """

    position: int
    id: str | None
    code: str
    message: str
    byte: int


@dataclass(frozen=True, slots=True)
class ScannedItems:
    """The good items of a stretch of a body, and the errors of the others, both in their order.

    Attributes:
        payload: bytes that hold the items, uint8, writable.
        starts: where each item begins in the payload, int64.
        ends: where it ends.
        id_hashes: xxh64 of each item's canonical id, uint64; 0 without id.
        has_id: whether the item has an id.
        lines: line (from 1) or array index (from 0) of each item, int64.
        errors: items that were refused.
    """

    payload: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    id_hashes: NDArray[np.uint64]
    has_id: NDArray[np.bool_]
    lines: NDArray[np.int64]
    errors: list[ItemError] = field(default_factory=list)

    @property
    def num_items(self) -> int:
        """Number of good items."""
        return len(self.starts)

    def item(self, ordinal: int) -> bytes:
        """Return the bytes of one item."""
        return self.payload[self.starts[ordinal] : self.ends[ordinal]].tobytes()


@arguments
class _Bounds(NamedTuple):
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
        found: results besides the position; indexed by constants of `common.json.tokens`.
        text: room for a key or an id.
    """

    is_object: NDArray[np.bool_]
    counts: Rows[np.int64]
    found: NDArray[np.int64]
    text: NDArray[np.uint8]


@arguments
class _Rows(NamedTuple):
    """Consecutive items, good or not.

    Attributes:
        columns: by item; see `_START`.
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


@kernel(allocates=False)
def _is_id_key(buffer: U8Array, start: int, end: int, scratch: U8Array) -> bool:
    """Return whether the key inside ``buffer[start:end]`` is "id", written in any way."""
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
def _is_limited(buffer: U8Array, start: int, end: int, bounds: _Bounds, scratch: U8Array) -> bool:
    """Return whether the key in ``buffer[start:end]`` names a limited field."""
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


@kernel(allocates=False)
def _scan_value(
    buffer: U8Array, position: int, end: int, is_lines: bool, bounds: _Bounds, scratch: _Scratch
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
    found[ID_KIND] = _NO_ID
    depth = 0
    reads_id = False
    needs_key = False
    top_key_start = 0  # of the item's own key whose value is being scanned
    top_key_end = 0
    if buffer[position] != 0x7B:
        refuse(found, NOT_AN_OBJECT, position)
    while True:
        # A value begins at `position`, unless it is the end of the bytes.
        if position >= end:
            stop(found, INCOMPLETE, end)
            return FAULT
        byte = buffer[position]
        start = position
        if byte == 0x22:
            position = scan_string(buffer, position + 1, end, found)
            if position < 0:
                return FAULT
            # As an id, a text must have 1 to `ID_BYTES_MAX` bytes.
            if reads_id:
                is_wrong = position - start == 2 or _is_longer(
                    buffer, start + 1, position - 1, ID_BYTES_MAX
                )
                found[ID_KIND] = _WRONG_ID if is_wrong else _TEXT_ID
                found[ID_START] = start + 1
                found[ID_END] = position - 1
        elif byte == 0x7B or byte == 0x5B:
            # A container opens. One that is too deep is refused, but scanned on, so that the scan
            # finds the end of its item; only the stack bounds that.
            depth += 1
            if depth > bounds.depth_max:
                refuse(found, TOO_DEEP, position)
                if depth > _STACK_MAX:
                    stop(found, FAR_TOO_DEEP, position)
                    return FAULT
            if reads_id:
                found[ID_KIND] = _WRONG_ID
                found[ID_START] = start
            reads_id = False
            is_object[depth] = byte == 0x7B
            counts[depth, 0] = 0
            counts[depth, 1] = 1
            position = _skip_space(buffer, position + 1, end, is_lines)
            if position >= end:
                stop(found, INCOMPLETE, end)
                return FAULT
            if buffer[position] != byte + 2:  # not the closing bracket
                # Not empty: an array continues with a value, an object with a key.
                if not is_object[depth]:
                    continue
                needs_key = True
        elif byte == 0x2D or 0x30 <= byte <= 0x39:
            position = scan_number(buffer, position, end, found)
            if position < 0:
                return FAULT
            if reads_id:
                is_right = _is_integer_id(buffer, start, position)
                found[ID_KIND] = _INTEGER_ID if is_right else _WRONG_ID
                found[ID_START] = start
                found[ID_END] = position
        else:
            position = _scan_literal(buffer, position, end, found)
            if position < 0:
                return FAULT
            if reads_id:
                found[ID_KIND] = _WRONG_ID
                found[ID_START] = start
        reads_id = False
        # Close what ends here, read the key of the next value, stop where that begins.
        while depth > 0:
            position = _skip_space(buffer, position, end, is_lines)
            if position >= end:
                stop(found, INCOMPLETE, end)
                return FAULT
            byte = buffer[position]
            if needs_key:
                needs_key = False
                if byte != 0x22:
                    stop(found, BAD_KEY, position)
                    return FAULT
                # A key: check its length, count it, and note whether it is the item's id.
                key_start = position + 1
                position = scan_string(buffer, key_start, end, found)
                if position < 0:
                    return FAULT
                if position - 1 - key_start > bounds.key_bytes_max and _is_longer(
                    buffer, key_start, position - 1, bounds.key_bytes_max
                ):
                    refuse(found, KEY_TOO_LONG, key_start)
                counts[depth, 0] += 1
                if depth == 1:
                    top_key_start = key_start
                    top_key_end = position - 1
                    reads_id = _is_id_key(buffer, top_key_start, top_key_end, text)
                position = _skip_space(buffer, position, end, is_lines)
                if position >= end:
                    stop(found, INCOMPLETE, end)
                    return FAULT
                # The colon; the value of the key begins after it.
                if buffer[position] != 0x3A:
                    stop(found, NO_COLON, position)
                    return FAULT
                position = _skip_space(buffer, position + 1, end, is_lines)
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
            if is_object[depth]:
                if byte != 0x7D:
                    stop(found, NO_COMMA_IN_OBJECT, position)
                    return FAULT
            else:
                if byte != 0x5D:
                    stop(found, NO_COMMA_IN_ARRAY, position)
                    return FAULT
                if (
                    depth == 2
                    and counts[2, 1] > bounds.values_max
                    and is_object[1]
                    and _is_limited(buffer, top_key_start, top_key_end, bounds, text)
                ):
                    refuse(found, TOO_MANY_VALUES, position)
            # Its keys count for the container around it; of an array's elements, the one with the
            # most keys counts.
            position += 1
            depth -= 1
            if is_object[depth]:
                counts[depth, 0] += counts[depth + 1, 0]
            else:
                counts[depth, 0] = max(counts[depth, 0], counts[depth + 1, 0])
        if depth == 0:
            break
    if counts[1, 0] > bounds.fields_max:
        refuse(found, TOO_MANY_FIELDS, position - 1)
    if found[ID_KIND] == _WRONG_ID:
        refuse(found, INVALID_ID, found[ID_START])
    return position


# --- consecutive items ----------------------------------------------------------------------------

# Columns of a row, int64: one row an item, good or not.
_START: Final = 0
_END: Final = 1
_POSITION: Final = 2
_FAULT: Final = 3
_FAULT_AT: Final = 4
_ROW_ID_KIND: Final = 5
_ROW_ID_START: Final = 6
_ROW_ID_END: Final = 7
_NUM_COLUMNS: Final = 8


@kernel(allocates=False)
def _write_row(
    items: _Rows,
    row: int,
    buffer: U8Array,
    start: int,
    end: int,
    position: int,
    bytes_max: int,
    scratch: _Scratch,
) -> None:
    """Note what the scan of one value found; `end` is FAULT if it is broken."""
    rows, hashes = items
    found = scratch.found
    rows[row, _START] = start
    rows[row, _END] = end
    rows[row, _POSITION] = position
    rows[row, _FAULT] = found[REASON] if end < 0 else found[REFUSED]
    rows[row, _FAULT_AT] = found[AT] if end < 0 else found[REFUSED_AT]
    if end - start > bytes_max and rows[row, _FAULT] == 0:
        rows[row, _FAULT] = ITEM_TOO_LONG
        rows[row, _FAULT_AT] = start + bytes_max
    rows[row, _ROW_ID_KIND] = found[ID_KIND]
    rows[row, _ROW_ID_START] = found[ID_START]
    rows[row, _ROW_ID_END] = found[ID_END]
    hashes[row] = 0
    if found[ID_KIND] == _NO_ID or found[ID_KIND] == _WRONG_ID:
        return
    for byte in range(found[ID_START], found[ID_END]):
        if buffer[byte] == 0x5C:
            length = unescape(buffer, found[ID_START], found[ID_END], scratch.text, 0)
            hashes[row] = xxh64(scratch.text, 0, length)
            return
    hashes[row] = xxh64(buffer, found[ID_START], found[ID_END])


@kernel
def _scan_lines(
    buffer: U8Array, position: int, line: int, bounds: _Bounds, rows: _Rows
) -> tuple[int, int, int]:
    """Scan complete lines, to the end or until the rows are full.

    Returns:
        (position and number of the next line, number of rows).
    """
    scratch = _new_scratch()
    found = scratch.found
    num_rows = len(rows.hashes)
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
            _write_row(rows, row, buffer, start, item_end, line, bytes_max, scratch)
            row += 1
            while buffer[position] != 0x0A:
                position += 1
        position += 1
        line += 1
    return position, line, row


@kernel
def _scan_array(
    buffer: U8Array, position: int, index: int, state: int, bounds: _Bounds, rows: _Rows
) -> tuple[int, int, int, int]:
    """Scan items of an array, to the end, the first broken or incomplete one, or full rows.

    Returns:
        (position to continue at, index of the item there, state between items, number of rows). A
        broken item is the last row; an incomplete one is a row too, with the reason INCOMPLETE.
    """
    scratch = _new_scratch()
    found = scratch.found
    num_rows = len(rows.hashes)
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
        found[ID_KIND] = _NO_ID
        # Between items: a comma, the closing bracket, or an error.
        if state == _BETWEEN_CLOSED:
            stop(found, TRAILING_CONTENT, position)
        elif state == _BETWEEN_AFTER_ITEM:
            if byte == 0x2C:
                state = _BETWEEN_AFTER_COMMA
                position += 1
                continue
            if byte == 0x5D:
                state = _BETWEEN_CLOSED
                position += 1
                continue
            stop(found, NO_COMMA_IN_ARRAY, position)
        elif state == _BETWEEN_START and byte == 0x5D:
            state = _BETWEEN_CLOSED
            position += 1
            continue
        else:
            item_end = _scan_value(buffer, start, end, False, bounds, scratch)
        _write_row(rows, row, buffer, start, item_end, index, bytes_max, scratch)
        row += 1
        if item_end < 0:
            break
        position = item_end
        state = _BETWEEN_AFTER_ITEM
        index += 1
    return position, index, state, row


class ItemScanner:
    """Scans one body, chunk by chunk.

    Attributes:
        is_array: whether the body is an array; None until its first character came.
        is_broken: whether broken JSON ended the scan of an array; further chunks are ignored.
        num_bytes: bytes fed so far.
    """

    def __init__(self, limited_fields: Iterable[str] = (), limits: Limits = DEFAULT_LIMITS) -> None:
        """Scan a body from its beginning.

        Args:
            limited_fields: top-level fields whose arrays are limited (facets).
            limits: of items.
        """
        self.is_array: bool | None = None
        self.is_broken = False
        self.num_bytes = 0
        self._limits = limits
        self._bounds = _bounds(limits, limited_fields)
        self._rest = bytearray()
        self._position = 1  # of the next item: line, or index
        self._state = _BETWEEN_START
        self._num_wanted = 0  # an incomplete item is scanned again when the rest is so long
        self._skips_line = False  # the rest of a line that is too long

    def feed(self, chunk: Buffer) -> ScannedItems:
        """Scan a further chunk of the body.

        Returns:
            The items that became complete with it.
        """
        if self.is_broken:
            return _no_items()
        self._rest += chunk
        self.num_bytes += memoryview(chunk).nbytes
        if self.is_array is None and not self._detect_array():
            return _no_items()
        return self._scan_array() if self.is_array else self._scan_lines()

    def finish(self) -> ScannedItems:
        """Scan the remaining bytes at the end of the body.

        Returns:
            The last items; an error if the body ends in the middle of an item or of the array.
        """
        if self.is_broken or self.is_array is None:
            return _no_items()
        if not self.is_array:
            self._rest += b"\n"
            return self._scan_lines()
        self._num_wanted = 0
        items = self._scan_array()
        if self._state != _BETWEEN_CLOSED and not self.is_broken:
            self._break_off(items, INCOMPLETE)
        return items

    def _detect_array(self) -> bool:
        """Look at the first character; return False while there is none but white space.

        Blank lines are dropped; a first line that is too long is left to the scan of lines.
        """
        is_start = self.num_bytes == len(self._rest)
        if is_start and self._rest[:1] == _BYTE_ORDER_MARK[:1]:
            if len(self._rest) < len(_BYTE_ORDER_MARK):
                return False
            self._rest = self._rest.removeprefix(_BYTE_ORDER_MARK)
        num_spaces = len(self._rest) - len(self._rest.lstrip(b" \t\r\n"))
        first_line = self._rest.rfind(b"\n", 0, num_spaces) + 1
        self._position += self._rest.count(b"\n", 0, first_line)
        del self._rest[:first_line]
        num_spaces -= first_line
        if num_spaces == len(self._rest) <= self._limits.item_bytes_max:
            return False
        self.is_array = self._rest[num_spaces : num_spaces + 1] == b"["
        if self.is_array:
            self._position = 0
            del self._rest[: num_spaces + 1]
        return True

    def _scan_lines(self) -> ScannedItems:
        """Scan the complete lines of the rest."""
        if self._skips_line:
            end_of_line = self._rest.find(b"\n") + 1
            del self._rest[: end_of_line or len(self._rest)]
            self._skips_line = end_of_line == 0
            self._position += 1 if end_of_line else 0
        end = self._rest.rfind(b"\n") + 1
        lines, self._rest = self._rest, self._rest[end:]
        buffer = np.frombuffer(lines, np.uint8, end)
        batches: list[_Rows] = []
        position = 0
        while position < end:
            rows = _new_rows(end - position)
            position, self._position, num_rows = _scan_lines(
                buffer, position, self._position, self._bounds, rows
            )
            batches.append(_first_rows(rows, num_rows))
        items = _collect(
            buffer, batches, lambda at: at - lines.rfind(b"\n", 0, at), "line", self._limits
        )
        bytes_max = self._limits.item_bytes_max
        if len(self._rest) > bytes_max:
            items.errors.append(
                _error(ITEM_TOO_LONG, self._position, bytes_max, "line", self._limits)
            )
            self._rest.clear()
            self._skips_line = True
        return items

    def _scan_array(self) -> ScannedItems:
        """Scan the complete items of the rest."""
        if len(self._rest) < self._num_wanted:
            return _no_items()
        offset = self.num_bytes - len(self._rest)
        buffer = np.frombuffer(self._rest, np.uint8)
        batches: list[_Rows] = []
        position = 0
        while position < len(buffer):
            rows = _new_rows(len(buffer) - position)
            position, self._position, self._state, num_rows = _scan_array(
                buffer, position, self._position, self._state, self._bounds, rows
            )
            is_stopped = num_rows > 0 and rows.columns[num_rows - 1, _END] == FAULT
            if is_stopped and rows.columns[num_rows - 1, _FAULT] == INCOMPLETE:
                num_rows -= 1
            else:
                self.is_broken = is_stopped
            batches.append(_first_rows(rows, num_rows))
            if is_stopped:
                break
        items = _collect(buffer, batches, lambda at: offset + at + 1, "item", self._limits)
        self._rest = self._rest[position:]
        self._num_wanted = 2 * len(self._rest)
        if len(self._rest) > self._limits.item_bytes_max and not self.is_broken:
            self._break_off(items, ITEM_TOO_LONG)
        return items

    def _break_off(self, items: ScannedItems, fault: int) -> None:
        """Give up on an array whose last item is incomplete."""
        self.is_broken = True
        byte = self.num_bytes + 1
        items.errors.append(_error(fault, self._position, byte, "item", self._limits))


_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def scan_item(
    item: Buffer, limited_fields: Iterable[str] = (), limits: Limits = DEFAULT_LIMITS
) -> ItemError | bytes | None:
    """Scan the bytes of a single item.

    Returns:
        An error if it is not valid; else its canonical id, None if it has none.
    """
    # The line feed makes numbers and literals at the end complete.
    buffer = np.frombuffer(bytearray(item) + b"\n", np.uint8)
    rows = _new_rows(1)
    bounds = _bounds(limits, limited_fields)
    *_, num_rows = _scan_array(buffer, 0, 0, _BETWEEN_AFTER_COMMA, bounds, rows)
    if num_rows == 0:
        return _error(INCOMPLETE, 0, 1, "", limits)
    row = rows.columns[0]
    end, fault, fault_at = row[[_END, _FAULT, _FAULT_AT]].tolist()
    text = _id_text(buffer, row)
    rest = b"" if end == FAULT else buffer[end:].tobytes().lstrip(b" \t\r\n")
    if rest:
        fault, fault_at = TRAILING_CONTENT, len(buffer) - len(rest)
    if fault:
        return _error(fault, 0, min(fault_at, len(buffer) - 1) + 1, "", limits, text)
    return None if text is None else text.encode()


def validate_item(
    item: Buffer, limited_fields: Iterable[str] = (), limits: Limits = DEFAULT_LIMITS
) -> ItemError | None:
    """Return why the bytes are not a valid item, or None if they are."""
    found = scan_item(item, limited_fields, limits)
    return found if isinstance(found, ItemError) else None


def canonical_id(item: Buffer) -> bytes | None:
    """Return the canonical id of a stored item, or None if it has none."""
    found = scan_item(item, limits=STORED_LIMITS)
    return None if isinstance(found, ItemError) else found


def _bounds(limits: Limits, fields: Iterable[str]) -> _Bounds:
    """Return the bounds of a scan; the fields are those whose arrays are limited."""
    names = [name.encode() for name in fields]
    return _Bounds(
        limits.json_depth_max,
        limits.item_fields_max,
        limits.field_name_bytes_max,
        limits.item_facet_values_max,
        limits.item_bytes_max,
        np.frombuffer(bytearray(b"".join(names)), np.uint8),
        np.cumsum([len(name) for name in names], dtype=np.int64),
    )


def _new_rows(num_bytes: int) -> _Rows:
    """Return rows for the items of this many bytes; if they run out, the scan continues later."""
    num_rows = (num_bytes + 63) // 64
    return _Rows(np.empty((num_rows, _NUM_COLUMNS), np.int64), np.empty(num_rows, np.uint64))


def _first_rows(rows: _Rows, count: int) -> _Rows:
    return _Rows(rows.columns[:count], rows.hashes[:count])


def _collect(
    buffer: NDArray[np.uint8],
    batches: list[_Rows],
    byte_of: Callable[[int], int],
    unit: str,
    limits: Limits,
) -> ScannedItems:
    """Make items and errors of the rows.

    Args:
        buffer: what was scanned.
        batches: its rows.
        byte_of: turns a position in the buffer into the byte that an error names, from 1.
        unit: what positions of items count: line or item.
        limits: that errors name.
    """
    rows, hashes = batches[0] if batches else _new_rows(0)
    if len(batches) > 1:
        rows = np.concatenate([one.columns for one in batches])
        hashes = np.concatenate([one.hashes for one in batches])
    errors = []
    if rows[:, _FAULT].any():
        for row in rows[rows[:, _FAULT] != 0]:
            fault, fault_at, position = row[[_FAULT, _FAULT_AT, _POSITION]].tolist()
            text = _id_text(buffer, row)
            errors.append(_error(fault, position, byte_of(fault_at), unit, limits, text))
        is_good = rows[:, _FAULT] == 0
        rows = rows[is_good]
        hashes = hashes[is_good]
    return ScannedItems(
        payload=buffer,
        starts=rows[:, _START].copy(),
        ends=rows[:, _END].copy(),
        id_hashes=hashes,
        has_id=rows[:, _ROW_ID_KIND] != _NO_ID,
        lines=rows[:, _POSITION].copy(),
        errors=errors,
    )


def _no_items() -> ScannedItems:
    """Return the result of a chunk that completes no item."""
    return _collect(np.empty(0, np.uint8), [], int, "", DEFAULT_LIMITS)


def _id_text(buffer: NDArray[np.uint8], row: NDArray[np.int64]) -> str | None:
    """Return the id that a row names, if it is valid."""
    kind, start, end = row[[_ROW_ID_KIND, _ROW_ID_START, _ROW_ID_END]].tolist()
    if kind not in (_TEXT_ID, _INTEGER_ID):
        return None
    text = np.empty(end - start, np.uint8)
    return text[: unescape(buffer, start, end, text, 0)].tobytes().decode()


def _error(
    fault: int, position: int, byte: int, unit: str, limits: Limits, identifier: str | None = None
) -> ItemError:
    """Put an error into words."""
    code, what = _CODES[fault]
    name = _LIMIT_NAME.search(what)
    if name is not None:
        what = what.replace(name.group(), limits.shown(name.group(1)))
    where = f"{unit} {position}, byte {byte}" if unit else f"byte {byte}"
    return ItemError(position, identifier, code, f"{where}: {what}", byte)
