"""The linker of kernel images: an object file of LLVM, made into what `common.kernels.image` maps.

    object file                     image
    .text  .rodata  …           ──▶ code part: the same, and a stub for each foreign function
    .data.rel.ro  .bss          ──▶ data part: the same, and a slot for each foreign symbol
    relocations: relative       ──▶ done here
                 absolute       ──▶ fixups, done where the image is mapped

A stub is `jmp *slot(%rip)`: calls between parts of the image stay relative, and only slots need to
know where Python is.

Only for x86-64 with ELF: the six kinds of relocation that LLVM makes of position-independent code
in the small model. Elsewhere there is no image and processes load kernels through numba.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import xxhash

from common.kernels.image import HEADER_BYTES, MAGIC, PAGE_BYTES, Directory

_ELF_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")

_ELF64_LITTLE: Final = b"\x7fELF\x02\x01"
_RELOCATABLE, _X86_64 = 1, 62
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_WRITE, _ALLOC = 1, 2
_UNDEFINED, _RESERVED = 0, 0xFF00

_R_64, _R_PC32, _R_PLT32 = 1, 2, 4
_R_GOT: Final = frozenset((9, 41, 42))
"""GOTPCREL, GOTPCRELX, REX_GOTPCRELX: all want the place where an address is."""

_JUMP: Final = b"\xff\x25"
_STUB_BYTES: Final = 8


class CannotLink(Exception):
    """The object has something that an image cannot have."""


@dataclass(slots=True)
class _Section:
    """A section of the object file; `offset` is where it goes in the image, -1: nowhere."""

    name: str
    kind: int
    flags: int
    content: bytes
    size: int
    link: int
    info: int
    alignment: int
    offset: int = -1


@dataclass(slots=True)
class _Symbol:
    """A symbol: a place in a section, or a foreign one (section 0)."""

    name: str
    section: int
    value: int


def link(code: bytes, functions: Mapping[str, str]) -> bytes:
    """Make an image.

    Args:
        code: the object file.
        functions: symbol of each entry, by the name that it is to have.

    Raises:
        CannotLink: it is for another machine, or has what an image cannot have.
    """
    sections = _read_sections(code)
    symbols = _read_symbols(sections)
    return _Linker(sections, symbols).link(functions)


def _read_sections(code: bytes) -> list[_Section]:
    header = _ELF_HEADER.unpack_from(code)
    if not header[0].startswith(_ELF64_LITTLE) or header[1:3] != (_RELOCATABLE, _X86_64):
        raise CannotLink("kernel images are made for x86-64 with ELF only")
    table, entry_bytes, count, names_index = header[6], header[11], header[12], header[13]
    rows = [_SECTION.unpack_from(code, table + i * entry_bytes) for i in range(count)]
    names = rows[names_index]
    sections = []
    for name, kind, flags, _, start, size, link_, info, alignment, _ in rows:
        content = b"" if kind == _NOBITS else code[start : start + size]
        text = _text_at(code[names[4] : names[4] + names[5]], name)
        sections.append(_Section(text, kind, flags, content, size, link_, info, max(alignment, 1)))
    return sections


def _read_symbols(sections: list[_Section]) -> list[_Symbol]:
    (table,) = (section for section in sections if section.kind == _SYMTAB)
    names = sections[table.link].content
    symbols = []
    for name, _, _, section, value, _ in _SYMBOL.iter_unpack(table.content):
        symbols.append(_Symbol(_text_at(names, name), section, value))
    return symbols


def _text_at(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode()


class _Linker:
    """One run: lay out, relocate, write."""

    def __init__(self, sections: list[_Section], symbols: list[_Symbol]) -> None:
        self._sections = sections
        self._symbols = symbols
        self._relocations = [
            (section.info, offset, information & 0xFFFF_FFFF, symbols[information >> 32], addend)
            for section in sections
            if section.kind == _RELA and self._is_kept(sections[section.info])
            for offset, information, addend in _RELOCATION.iter_unpack(section.content)
        ]
        self._stubs: dict[str, int] = {}
        self._slots: dict[str, int] = {}
        self._fixups: list[int] = []
        self._image = bytearray()

    @staticmethod
    def _is_kept(section: _Section) -> bool:
        """Whether a section is needed to run; nothing is ever unwound through a kernel."""
        return bool(section.flags & _ALLOC) and section.name != ".eh_frame"

    def link(self, functions: Mapping[str, str]) -> bytes:
        foreign = sorted({one[3].name for one in self._relocations if not one[3].section})
        if any(not name for name in foreign):
            raise CannotLink("a relocation without a symbol")
        end = self._place(HEADER_BYTES, is_writable=False)
        for name in foreign:
            self._stubs[name] = end
            end += _STUB_BYTES
        code_bytes = -(-end // PAGE_BYTES) * PAGE_BYTES
        end = -(-self._place(code_bytes, is_writable=True) // 8) * 8
        for name in foreign:
            self._slots[name] = end
            end += 8
        self._image = bytearray(end)
        for section in self._sections:
            if section.offset >= 0:
                at = section.offset
                self._image[at : at + len(section.content)] = section.content
        for name, at in self._stubs.items():
            jump = _JUMP + struct.pack("<i", self._slots[name] - (at + 6))
            self._image[at : at + len(jump)] = jump
        for relocation in self._relocations:
            self._relocate(*relocation)
        return self._write(functions, code_bytes)

    def _place(self, end: int, *, is_writable: bool) -> int:
        """Give the sections of one part their places, from `end` on; returns the new end."""
        for section in self._sections:
            if self._is_kept(section) and bool(section.flags & _WRITE) == is_writable:
                section.offset = -(-end // section.alignment) * section.alignment
                end = section.offset + section.size
        return end

    def _relocate(
        self, section_index: int, offset: int, kind: int, symbol: _Symbol, addend: int
    ) -> None:
        """Fill in one place."""
        section = self._sections[section_index]
        place = section.offset + offset
        if kind == _R_64:
            if not symbol.section or not section.flags & _WRITE or place & 7:
                raise CannotLink(f"an absolute address of {symbol.name!r} in {section.name}")
            struct.pack_into("<q", self._image, place, self._target(symbol) + addend)
            self._fixups.append(place)
            return
        if kind in (_R_PC32, _R_PLT32):
            target = self._target(symbol) if symbol.section else self._stubs[symbol.name]
        elif kind in _R_GOT and not symbol.section:
            target = self._slots[symbol.name]
        else:
            raise CannotLink(f"relocation {kind} of {symbol.name!r} in {section.name}")
        struct.pack_into("<i", self._image, place, target + addend - place)

    def _target(self, symbol: _Symbol) -> int:
        """Return the place of a symbol of the object itself."""
        section = self._sections[symbol.section] if symbol.section < _RESERVED else None
        if section is None or section.offset < 0:
            raise CannotLink(f"{symbol.name!r} is in no section of the image")
        return section.offset + symbol.value

    def _write(self, functions: Mapping[str, str], code_bytes: int) -> bytes:
        by_name = {one.name: one for one in self._symbols if one.section != _UNDEFINED}
        directory = msgspec.json.encode(
            Directory(
                {name: self._target(by_name[symbol]) for name, symbol in functions.items()},
                self._slots,
                sorted(self._fixups),
            )
        )
        sizes = struct.pack("<QQ", code_bytes, len(directory))
        self._image[16:HEADER_BYTES] = sizes
        content = bytes(self._image[16:]) + directory
        checksum = xxhash.xxh3_64_intdigest(content)
        return MAGIC + struct.pack("<Q", checksum) + content
