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

Cost: 2 GB/s and core for items of 600 bytes, hash of the ids included; 1 GB/s with the copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from common.item_ids import ID_BYTES_MAX
from common.json import token_scan as reason
from common.json.item_scan_kernels import (
    BETWEEN_AFTER_COMMA,
    BETWEEN_CLOSED,
    BETWEEN_START,
    INTEGER_ID,
    NO_ID,
    NUM_COLUMNS,
    ROW_END,
    ROW_FAULT,
    ROW_FAULT_AT,
    ROW_ID_END,
    ROW_ID_KIND,
    ROW_ID_START,
    ROW_POSITION,
    ROW_START,
    TEXT_ID,
    ItemRows,
    ScanBounds,
    scan_array,
    scan_lines,
)
from common.json.token_scan import FAULT, unescape
from common.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

STORED_LIMITS: Final = replace(
    DEFAULT_LIMITS, item_fields_max=1 << 62, item_facet_values_max=1 << 62, item_bytes_max=1 << 62
)
"""For items that were accepted before, possibly under wider limits than today's."""

_CODES: Final[Mapping[int, tuple[str, str]]] = {
    reason.INCOMPLETE: ("invalid_json", "it ends in the middle of a value"),
    reason.BAD_VALUE: ("invalid_json", "a value must begin here"),
    reason.BAD_KEY: ("invalid_json", "a key in double quotes must stand here"),
    reason.NO_COLON: ("invalid_json", "a colon must follow the key"),
    reason.NO_COMMA_IN_OBJECT: ("invalid_json", "a comma or the end of the object must follow"),
    reason.NO_COMMA_IN_ARRAY: ("invalid_json", "a comma or the end of the array must follow"),
    reason.BAD_ESCAPE: ("invalid_json", "unknown escape in a text"),
    reason.CONTROL_CHARACTER: ("invalid_json", "control characters in a text must be escaped"),
    reason.BAD_UTF8: ("invalid_json", "text is not valid UTF-8"),
    reason.BAD_NUMBER: ("invalid_json", "a digit must stand here"),
    reason.LONE_SURROGATE: ("invalid_json", "a surrogate escape must be one of a pair"),
    reason.TRAILING_CONTENT: ("invalid_json", "nothing may follow here"),
    reason.FAR_TOO_DEEP: ("too_deep", "values may be nested {json_depth_max} deep"),
    reason.NOT_AN_OBJECT: ("invalid_item", "an item must be an object"),
    reason.TOO_DEEP: ("too_deep", "values may be nested {json_depth_max} deep"),
    reason.TOO_MANY_FIELDS: (
        "too_many_fields",
        "an item may have {item_fields_max} fields, nested ones included",
    ),
    reason.KEY_TOO_LONG: ("invalid_item", "a field's name may have {field_name_bytes_max} bytes"),
    reason.NUMBER_OUT_OF_RANGE: (
        "invalid_number",
        "integers must be from -2^63 to 2^64-1, other numbers within the range of a double",
    ),
    reason.INVALID_ID: (
        "invalid_id",
        f"an id must be an integer from 0 to 2^63-1 or a text of 1 to {ID_BYTES_MAX} bytes",
    ),
    reason.TOO_MANY_VALUES: (
        "too_many_values",
        "a facet may have {item_facet_values_max} values in an item",
    ),
    reason.ITEM_TOO_LONG: ("invalid_item", "an item may have {item_bytes_max} bytes"),
}

_OF_FORM: Final = (
    reason.INCOMPLETE,
    reason.BAD_KEY,  # as at the end of the first line of an object that is spread over several
    reason.TRAILING_CONTENT,
    reason.NOT_AN_OBJECT,
)
"""Faults of texts that may be something else than items, one a line."""

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
        is_of_form: whether the text may be something else than items, one a line.
    """

    position: int
    id: str | None
    code: str
    message: str
    byte: int
    is_of_form: bool = False


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
        self._state = BETWEEN_START
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
        is_read = self._state == BETWEEN_CLOSED and not self._rest
        if self.is_broken or self.is_array is None or is_read:
            return _no_items()
        if not self.is_array:
            self._rest += b"\n"
            return self._scan_lines()
        self._num_wanted = 0
        items = self._scan_array()
        if self._state != BETWEEN_CLOSED and not self.is_broken:
            self._break_off(items, reason.INCOMPLETE)
        return items

    def _detect_array(self) -> bool:
        """Look at the first character; return False while there is none but white space.

        Blank lines are dropped; a first line that is too long is left to the scan of lines.
        """
        is_start = self.num_bytes == len(self._rest)
        if is_start and self._rest[:1] == BYTE_ORDER_MARK[:1]:
            if len(self._rest) < len(BYTE_ORDER_MARK):
                return False
            self._rest = self._rest.removeprefix(BYTE_ORDER_MARK)
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
        batches: list[ItemRows] = []
        position = 0
        while position < end:
            rows = _new_rows(end - position)
            position, self._position, num_rows = scan_lines(
                buffer, position, self._position, self._bounds, rows
            )
            batches.append(_first_rows(rows, num_rows))
        items = _collect(
            buffer, batches, lambda at: at - lines.rfind(b"\n", 0, at), "line", self._limits
        )
        bytes_max = self._limits.item_bytes_max
        if len(self._rest) > bytes_max:
            items.errors.append(
                _error(reason.ITEM_TOO_LONG, self._position, bytes_max, "line", self._limits)
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
        batches: list[ItemRows] = []
        position = 0
        while position < len(buffer):
            rows = _new_rows(len(buffer) - position)
            position, self._position, self._state, num_rows = scan_array(
                buffer, position, self._position, self._state, self._bounds, rows
            )
            is_stopped = num_rows > 0 and rows.columns[num_rows - 1, ROW_END] == FAULT
            if is_stopped and rows.columns[num_rows - 1, ROW_FAULT] == reason.INCOMPLETE:
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
            self._break_off(items, reason.ITEM_TOO_LONG)
        return items

    def _break_off(self, items: ScannedItems, fault: int) -> None:
        """Give up on an array whose last item is incomplete."""
        self.is_broken = True
        byte = self.num_bytes + 1
        items.errors.append(_error(fault, self._position, byte, "item", self._limits))


BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""Of UTF-8. Some programs begin a text with it; it belongs to no value."""


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
    *_, num_rows = scan_array(buffer, 0, 0, BETWEEN_AFTER_COMMA, bounds, rows)
    if num_rows == 0:
        return _error(reason.INCOMPLETE, 0, 1, "", limits)
    row = rows.columns[0]
    end, fault, fault_at = row[[ROW_END, ROW_FAULT, ROW_FAULT_AT]].tolist()
    text = _id_text(buffer, row)
    rest = b"" if end == FAULT else buffer[end:].tobytes().lstrip(b" \t\r\n")
    if rest:
        fault, fault_at = reason.TRAILING_CONTENT, len(buffer) - len(rest)
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


def _bounds(limits: Limits, fields: Iterable[str]) -> ScanBounds:
    """Return the bounds of a scan; the fields are those whose arrays are limited."""
    names = [name.encode() for name in fields]
    return ScanBounds(
        limits.json_depth_max,
        limits.item_fields_max,
        limits.field_name_bytes_max,
        limits.item_facet_values_max,
        limits.item_bytes_max,
        np.frombuffer(bytearray(b"".join(names)), np.uint8),
        np.cumsum([len(name) for name in names], dtype=np.int64),
    )


def _new_rows(num_bytes: int) -> ItemRows:
    """Return rows for the items of this many bytes; if they run out, the scan continues later."""
    num_rows = (num_bytes + 63) // 64
    return ItemRows(np.empty((num_rows, NUM_COLUMNS), np.int64), np.empty(num_rows, np.uint64))


def _first_rows(rows: ItemRows, count: int) -> ItemRows:
    return ItemRows(rows.columns[:count], rows.hashes[:count])


def _collect(
    buffer: NDArray[np.uint8],
    batches: list[ItemRows],
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
    if rows[:, ROW_FAULT].any():
        for row in rows[rows[:, ROW_FAULT] != 0]:
            fault, fault_at, position = row[[ROW_FAULT, ROW_FAULT_AT, ROW_POSITION]].tolist()
            text = _id_text(buffer, row)
            errors.append(_error(fault, position, byte_of(fault_at), unit, limits, text))
        is_good = rows[:, ROW_FAULT] == 0
        rows = rows[is_good]
        hashes = hashes[is_good]
    return ScannedItems(
        payload=buffer,
        starts=rows[:, ROW_START].copy(),
        ends=rows[:, ROW_END].copy(),
        id_hashes=hashes,
        has_id=rows[:, ROW_ID_KIND] != NO_ID,
        lines=rows[:, ROW_POSITION].copy(),
        errors=errors,
    )


def _no_items() -> ScannedItems:
    """Return the result of a chunk that completes no item."""
    numbers = np.empty(0, np.int64)
    return ScannedItems(
        payload=np.empty(0, np.uint8),
        starts=numbers,
        ends=numbers,
        id_hashes=np.empty(0, np.uint64),
        has_id=np.empty(0, np.bool_),
        lines=numbers,
    )


def _id_text(buffer: NDArray[np.uint8], row: NDArray[np.int64]) -> str | None:
    """Return the id that a row names, if it is valid."""
    kind, start, end = row[[ROW_ID_KIND, ROW_ID_START, ROW_ID_END]].tolist()
    if kind not in (TEXT_ID, INTEGER_ID):
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
    is_of_form = fault in _OF_FORM or (fault == reason.BAD_VALUE and byte == 1)
    return ItemError(position, identifier, code, f"{where}: {what}", byte, is_of_form)
