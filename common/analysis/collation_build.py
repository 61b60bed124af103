"""Write `collation.bin`: the orders of languages, as ICU has them from CLDR.

    python -m common.analysis.collation_build FOLDER

FOLDER has ICU's shared libraries (libicudata, libicuuc, libicui18n of one version); the wheel of
icu4py, unpacked, has them in `icu4py.libs`. Only this program needs ICU: the file has all that
`common.analysis.collation_tables` reads, so every host and every version of Python sorts alike.

ICU returns the collation elements of every assigned character and of every contraction, in
the root order and in each language; what a language shares with the root is stored once. CLDR and
ICU are © Unicode, Inc., under the Unicode License v3 (https://www.unicode.org/license.txt).
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int8, c_int32, c_void_p
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import zstandard

from common.analysis.collation_names import COLLATION_LANGUAGES
from common.analysis.collation_tables import DATA_FILE, CollationData, LanguageData

_KINDS: Final = frozenset(("phonebook", "traditional"))
"""Orders of a language beside its usual one, as CLDR calls them."""
_E: Final = POINTER(c_int)
"""The last argument of functions of ICU that report errors."""
_UNIFIED_IDEOGRAPH: Final = 29
_UNASSIGNED: Final = (0, 17, 18)
"""General categories without characters: unassigned, private use, surrogates."""
_LETTERS_AND_MARKS: Final = (1, 2, 5, 6, 8)
"""General categories whose primary weights are those of a script."""
_BLOCKS: Final = (
    # The others have weights by code point: ideographs, hieroglyphs, Tangut, sign writing.
    (0x0000, 0xF8FF),
    (0xFB00, 0x12FFF),
    (0x16A40, 0x16AFF),
    (0x16E40, 0x16E9A),
    (0x1D400, 0x1D7FF),
    (0x1E000, 0x1FFFF),
)
_EXPANSION_MAX: Final = 8
"""Elements per byte of UTF-8, which the kernel has room for."""


class IcuLibrary:
    """The few functions of ICU that are needed."""

    def __init__(self, folder: Path) -> None:
        found = {name: next(folder.glob(f"libicu{name}*.so*")) for name in ("data", "uc", "i18n")}
        ctypes.CDLL(str(found["data"]), ctypes.RTLD_GLOBAL)
        self._uc = ctypes.CDLL(str(found["uc"]), ctypes.RTLD_GLOBAL)
        self._i18n = ctypes.CDLL(str(found["i18n"]))
        version = re.search(r"\.so\.([0-9]+)", found["uc"].name)
        assert version is not None, "a library without a version"
        self.version = version[1]
        self._error = c_int(0)

    def call(self, name: str, result: Any, types: tuple[Any, ...], *values: Any) -> Any:
        """Call a function by name."""
        library = self._i18n if name.startswith("ucol") else self._uc
        function = getattr(library, f"{name}_{self.version}")
        function.restype = result
        reports_error = bool(types) and types[-1] is _E
        function.argtypes = types
        self._error.value = 0
        given = function(*values, self._error) if reports_error else function(*values)
        assert self._error.value <= 0, f"{name}: error {self._error.value}"
        return given


class IcuCollator:
    """The order of one language."""

    def __init__(self, icu: IcuLibrary, locale: str) -> None:
        self._icu = icu
        self.collator = icu.call("ucol_open", c_void_p, (c_char_p, _E), locale.encode())
        self._elements = icu.call(
            "ucol_openElements",
            c_void_p,
            (c_void_p, c_char_p, c_int32, _E),
            self.collator,
            b"a\0",
            1,
        )
        self._set_text = getattr(icu._i18n, f"ucol_setText_{icu.version}")
        self._set_text.restype = None
        self._set_text.argtypes = (c_void_p, c_char_p, c_int32, _E)
        self._next = getattr(icu._i18n, f"ucol_next_{icu.version}")
        self._next.restype = c_int32
        self._next.argtypes = (c_void_p, _E)
        self._error = c_int(0)

    def elements(self, text: str) -> tuple[tuple[int, int, int], ...]:
        """Return (primary, secondary, tertiary with case bits) of each element."""
        encoded = text.encode("utf-16-le", "surrogatepass")
        self._set_text(self._elements, encoded, len(encoded) // 2, self._error)
        found: list[tuple[int, int, int]] = []
        while (order := self._next(self._elements, self._error)) != -1:
            half = order & 0xFFFFFFFF
            parts = (half >> 16, half >> 8 & 0xFF, half & 0xFF)
            if half & 0xC0 == 0xC0 and found:
                first = found.pop()
                parts = (first[0] | parts[0], first[1] | parts[1], first[2] | parts[2] & 0x3F)
                found.append(parts)
            else:
                found.append((parts[0] << 16, parts[1] << 8, parts[2] << 8))
        assert self._error.value <= 0, f"elements of {text!r}: error {self._error.value}"
        return tuple(one for one in found if any(one))

    def attribute(self, number: int) -> int:
        """Return an attribute by its number in ICU."""
        types = (c_void_p, c_int32, _E)
        return int(self._icu.call("ucol_getAttribute", c_int32, types, self.collator, number))

    def contractions(self) -> list[str]:
        """Return the texts of several characters that have their own elements."""
        icu = self._icu
        both = [icu.call("uset_openEmpty", c_void_p, ()) for _ in range(2)]
        types = (c_void_p, c_void_p, c_void_p, c_bool, _E)
        icu.call("ucol_getContractionsAndExpansions", None, types, self.collator, *both, False)
        found = []
        first, last = c_int32(), c_int32()
        buffer = ctypes.create_string_buffer(400)
        item = (c_void_p, c_int32, POINTER(c_int32), POINTER(c_int32), c_void_p, c_int32, _E)
        for i in range(icu.call("uset_getItemCount", c_int32, (c_void_p,), both[0])):
            length = icu.call("uset_getItem", c_int32, item, both[0], i, first, last, buffer, 200)
            if length > 0:
                found.append(buffer.raw[: 2 * length].decode("utf-16-le", "surrogatepass"))
        return [one for one in found if len(one) > 1 and not "\ufdd0" <= one[0] <= "\ufdef"]

    def scripts(self) -> list[int]:
        """Return the scripts that the language sorts before others, by number."""
        buffer = (c_int32 * 100)()
        types = (c_void_p, c_void_p, c_int32, _E)
        count = self._icu.call("ucol_getReorderCodes", c_int32, types, self.collator, buffer, 100)
        return list(buffer[:count])


_Elements = tuple[tuple[int, int, int], ...]
"""Primary, secondary and tertiary weight of each element of a text."""


def _assigned_characters(icu: IcuLibrary) -> list[str]:
    """Return the characters that have weights of their own, in the order of code points."""
    return [
        chr(point)
        for first, last in _BLOCKS
        for point in range(first, last + 1)
        if icu.call("u_charType", c_int8, (c_int32,), point) not in _UNASSIGNED
        and not 0xAC00 <= point <= 0xD7A3  # Hangul syllables: ICU decomposes them
        and not icu.call(
            "u_hasBinaryProperty", c_int8, (c_int32, c_int32), point, _UNIFIED_IDEOGRAPH
        )
    ]


def _root_elements(icu: IcuLibrary) -> dict[str, _Elements]:
    """Return the elements of every character and contraction in the root order."""
    root = IcuCollator(icu, "root")
    texts = [*_assigned_characters(icu), *root.contractions()]
    by_text = {text: root.elements(text) for text in texts}
    ideographs = root.elements("\u4e00")[0][0]
    for text, elements in list(by_text.items()):
        if any(primary >= ideographs for primary, _, _ in elements):
            del by_text[text]
        else:
            size = len(text.encode("utf-8", "surrogatepass"))
            assert len(elements) <= _EXPANSION_MAX * size, text
    return by_text


class _LanguageOrder(NamedTuple):
    """How the order of a language differs from the root."""

    elements: dict[str, _Elements]
    """Of texts whose elements differ."""
    is_upper_first: bool
    is_backwards: bool
    """Whether accents are compared from the end."""
    scripts: list[int]
    """Those sorted before others, by number."""


def _language_order(icu: IcuLibrary, name: str, root: dict[str, _Elements]) -> _LanguageOrder:
    """Return the order of a language, called as in `COLLATION_LANGUAGES`."""
    base, _, kind = name.partition("-")
    locale = f"{base}@collation={kind}" if kind in _KINDS else name.replace("-", "_")
    own = IcuCollator(icu, locale)
    differing = {
        text: elements
        for text in sorted({*root, *own.contractions()})
        if (elements := own.elements(text)) != root.get(text) and (len(text) > 1 or text in root)
    }
    return _LanguageOrder(differing, own.attribute(2) == 25, own.attribute(0) == 17, own.scripts())


class _WeightNumbers:
    """Small numbers for ICU's weights, which compare as these do.

    All languages share one numbering, so that their elements compare with the root's.

    Attributes:
        levels: the weights of each level, ascending.
        numbers: by level, the number of each weight.
    """

    def __init__(self, orders: Iterable[dict[str, _Elements]]) -> None:
        used = {element for elements in orders for row in elements.values() for element in row}
        self.levels = [sorted({element[i] for element in used} | {0}) for i in range(3)]
        self.numbers = [
            {weight: number for number, weight in enumerate(level)} for level in self.levels
        ]
        assert len(self.levels[0]) < 0xF000, "primary weights need more than 16 bits"
        assert len(self.levels[1]) < 255 + 128, "secondary weights need more than two bytes"
        assert len(self.levels[2]) < 128, "tertiary weights need more than 7 bits"

    def primary(self, elements: _Elements) -> int:
        """Return the number of the first element's primary weight."""
        return self.numbers[0][elements[0][0]]

    def secondary(self, elements: _Elements) -> int:
        """Return the number of the first element's secondary weight."""
        return self.numbers[1][elements[0][1]]

    def encode(self, by_text: dict[str, _Elements]) -> tuple[str, bytes, bytes]:
        """Return texts, one after the other, their lengths, and their elements as uint32."""
        lengths = bytes(n for text, row in by_text.items() for n in (len(text), len(row)))
        primaries, secondaries, tertiaries = self.numbers
        elements = [
            primaries[primary] << 16 | secondaries[secondary] << 7 | tertiaries[tertiary]
            for row in by_text.values()
            for primary, secondary, tertiary in row
        ]
        return "".join(by_text), lengths, np.array(elements, "<u4").tobytes()


def _script_ranges(
    icu: IcuLibrary, root: dict[str, _Elements], weights: _WeightNumbers
) -> dict[int, tuple[int, int]]:
    """Return the first and last primary weight of each script, from the letter a on."""
    letters = weights.primary(root["a"])
    ranges: dict[int, tuple[int, int]] = {}
    for text, row in root.items():
        general = icu.call("u_charType", c_int8, (c_int32,), ord(text[0]))
        if len(text) == 1 and len(row) == 1 and general in _LETTERS_AND_MARKS and row[0][0]:
            script = icu.call("uscript_getScript", c_int32, (c_int32, _E), ord(text))
            number = weights.primary(row)
            low, high = ranges.get(script, (number, number))
            if number >= letters:
                ranges[script] = (min(low, number), max(high, number))
    return ranges


def main(folder: Path) -> None:
    """Ask ICU, and write the file."""
    icu = IcuLibrary(folder)
    root = _root_elements(icu)
    orders = {name: _language_order(icu, name, root) for name in COLLATION_LANGUAGES}
    weights = _WeightNumbers([root, *(order.elements for order in orders.values())])
    print(f"{len(root)} texts, {[len(level) for level in weights.levels]} weights")
    ranges = _script_ranges(icu, root, weights)
    data = CollationData(
        f"ICU {icu.version}",
        *weights.encode(root),
        weights.primary(root["a"]),
        [weights.primary(root[digit]) for digit in "0123456789"],
        weights.levels[2],
        weights.secondary(root["a"]),
        {
            name: LanguageData(
                *weights.encode(order.elements),
                [ranges[script] for script in order.scripts if script > 1 and script in ranges],
                order.is_upper_first,
                order.is_backwards,
            )
            for name, order in orders.items()
        },
    )
    content = zstandard.compress(msgspec.msgpack.encode(data), 19)
    DATA_FILE.write_bytes(content)
    print(f"{len(content)} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
