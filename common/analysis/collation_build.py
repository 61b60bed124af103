"""Write `collation.bin`: the orders of languages, as ICU has them from CLDR.

    python -m common.analysis.collation_build FOLDER

FOLDER has ICU's shared libraries (libicudata, libicuuc, libicui18n of one version); the wheel of
icu4py, unpacked, has them in `icu4py.libs`. Only this program needs ICU: the file has all that
`common.analysis.collation` reads, so every host and every version of Python sorts alike.

ICU returns the collation elements of every assigned character and of every contraction, in
the root order and in each language; what a language shares with the root is stored once. CLDR and
ICU are © Unicode, Inc., under the Unicode License v3 (https://www.unicode.org/license.txt).
"""

from __future__ import annotations

import ctypes
import re
import sys
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int8, c_int32, c_void_p
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import zstandard

from common.analysis.collation import DATA_FILE, CollationData, LanguageData
from common.analysis.collations import COLLATION_LANGUAGES

_TYPES: Final = {"phonebook": "phonebook", "traditional": "traditional"}
_UNIFIED_IDEOGRAPH: Final = 29
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
        error = bool(types) and types[-1] is POINTER(c_int)
        function.argtypes = types
        self._error.value = 0
        given = function(*values, self._error) if error else function(*values)
        assert self._error.value <= 0, f"{name}: error {self._error.value}"
        return given


_E: Final = POINTER(c_int)


class IcuCollator:
    """The order of one language."""

    def __init__(self, icu: IcuLibrary, locale: str) -> None:
        self._icu = icu
        self.collator = icu.call("ucol_open", c_void_p, (c_char_p, _E), locale.encode())
        self._elements = icu.call(
            "ucol_openElements",
            c_void_p,
            (c_void_p, c_char_p, c_int32, _E),
            *(self.collator, b"a\0", 1),
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
        room = ctypes.create_string_buffer(400)
        item = (c_void_p, c_int32, POINTER(c_int32), POINTER(c_int32), c_void_p, c_int32, _E)
        for i in range(icu.call("uset_getItemCount", c_int32, (c_void_p,), both[0])):
            length = icu.call("uset_getItem", c_int32, item, both[0], i, first, last, room, 200)
            if length > 0:
                found.append(room.raw[: 2 * length].decode("utf-16-le", "surrogatepass"))
        return [one for one in found if len(one) > 1 and not "\ufdd0" <= one[0] <= "\ufdef"]

    def scripts(self) -> list[int]:
        """Return the scripts that the language sorts before others, by number."""
        room = (c_int32 * 100)()
        types = (c_void_p, c_void_p, c_int32, _E)
        count = self._icu.call("ucol_getReorderCodes", c_int32, types, self.collator, room, 100)
        return list(room[:count])


def main(folder: Path) -> None:
    """Ask ICU, and write the file."""
    icu = IcuLibrary(folder)
    points = [
        point
        for first, last in _BLOCKS
        for point in range(first, last + 1)
        if icu.call("u_charType", c_int8, (c_int32,), point) not in (0, 17, 18)
        and not 0xAC00 <= point <= 0xD7A3
        and not icu.call(
            "u_hasBinaryProperty", c_int8, (c_int32, c_int32), point, _UNIFIED_IDEOGRAPH
        )
    ]
    root = IcuCollator(icu, "root")
    by_text = {chr(point): root.elements(chr(point)) for point in points}
    by_text |= {text: root.elements(text) for text in root.contractions()}
    ideographs = root.elements("\u4e00")[0][0]
    by_text = {
        text: elements
        for text, elements in by_text.items()
        if all(primary < ideographs for primary, _, _ in elements)
    }
    for text, elements in by_text.items():
        size = len(text.encode("utf-8", "surrogatepass"))
        assert len(elements) <= _EXPANSION_MAX * size, text
    differing: dict[str, dict[str, tuple[tuple[int, int, int], ...]]] = {}
    languages: dict[str, Any] = {}
    for name in COLLATION_LANGUAGES:
        base, _, kind = name.partition("-")
        locale = f"{base}@collation={_TYPES[kind]}" if kind in _TYPES else name.replace("-", "_")
        own = IcuCollator(icu, locale)
        texts = {*by_text, *own.contractions()}
        differing[name] = {
            text: elements
            for text in sorted(texts)
            if (elements := own.elements(text)) != by_text.get(text)
            and (len(text) > 1 or text in by_text)
        }
        languages[name] = (own.attribute(2) == 25, own.attribute(0) == 17, own.scripts())
    # Number the weights of all languages together, so that they compare as before.
    every = [one for own in (by_text, *differing.values()) for row in own.values() for one in row]
    levels = [sorted({one[i] for one in every} | {0}) for i in range(3)]
    numbers = [{weight: number for number, weight in enumerate(level)} for level in levels]
    print(f"{len(by_text)} texts, {[len(level) for level in levels]} weights")
    assert len(levels[0]) < 0xF000, "primary weights need more than 16 bits"
    assert len(levels[1]) < 255 + 128, "secondary weights need more than two bytes"
    assert len(levels[2]) < 128, "tertiary weights need more than 7 bits"

    def packed(row: tuple[tuple[int, int, int], ...]) -> list[int]:
        return [
            numbers[0][one[0]] << 16 | numbers[1][one[1]] << 7 | numbers[2][one[2]] for one in row
        ]

    def encoded(rows: dict[str, tuple[tuple[int, int, int], ...]]) -> tuple[str, bytes, bytes]:
        lengths = bytes(n for text, row in rows.items() for n in (len(text), len(row)))
        elements = [one for row in rows.values() for one in packed(row)]
        return "".join(rows), lengths, np.array(elements, "<u4").tobytes()

    # The primary weights of each script, as a range of numbers from the first letter on.
    letters = numbers[0][by_text["a"][0][0]]
    ranges: dict[int, tuple[int, int]] = {}
    types = (c_int32, _E)
    for text, row in by_text.items():
        general = icu.call("u_charType", c_int8, (c_int32,), ord(text[0]))
        if len(text) == 1 and len(row) == 1 and general in (1, 2, 5, 6, 8) and row[0][0]:
            script = icu.call("uscript_getScript", c_int32, types, ord(text))
            number = numbers[0][row[0][0]]
            low, high = ranges.get(script, (number, number))
            if number >= letters:
                ranges[script] = (min(low, number), max(high, number))
    reordered = {
        name: [ranges[script] for script in scripts if script > 1 and script in ranges]
        for name, (_, _, scripts) in languages.items()
    }
    data = CollationData(
        f"ICU {icu.version}",
        *encoded(by_text),
        letters,
        [numbers[0][by_text[digit][0][0]] for digit in "0123456789"],
        levels[2],
        numbers[1][by_text["a"][0][1]],
        {
            name: LanguageData(*encoded(differing[name]), reordered[name], upper, backwards)
            for name, (upper, backwards, _) in languages.items()
        },
    )
    content = zstandard.compress(msgspec.msgpack.encode(data), 19)
    DATA_FILE.write_bytes(content)
    print(f"{len(content)} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
