"""The kernel image: machine code of all kernels in one file, mapped and called without numba.

numba is needed to make machine code, not to run it; loaded only to find its cached code again, it
takes 0.8 s of processor time and 80 MB a process. So when the kernels have been compiled,
`common.kernels.build.builder` links them into one image, with an entry for each that Python can
call (`common.kernels.build.entries`), and server processes map that: 1 ms, pages that all of them
share.

    offset  size
    0       8     magic "FACETKRN"
    8       8     xxh3_64 of bytes [16, file size)
    16      8     size of the code part, a multiple of the page size      (little-endian)
    24      8     size of the directory
    32            code part: machine code and constants, never written to
                  (the header is its first 32 bytes, so all offsets count from the file's start)
    ...           data part: pointers to be filled in
    ...           directory: JSON {"functions": {name: offset}, "slots": {symbol: offset},
                                   "fixups": [offset, …]}

A *fixup* is a word that holds an offset and needs the mapping's address added. A *slot* is a word
that needs the address of a symbol of Python, numpy or libc. Both lie in the data part only: all
that points from code to code or from code to data is relative.

An entry is a C function of the METH_FASTCALL convention. It takes arrays only if type, number of
dimensions and layout are those that the kernel was compiled for, and raises TypeError otherwise.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import xxhash

MAGIC: Final = b"FACETKRN"
HEADER_BYTES: Final = 32
PAGE_BYTES: Final = 4096

DESCRIPTOR_PREFIX: Final = "facetd.descriptor."
"""A slot of this name and a dtype's number wants the address of that dtype."""

_METH_FASTCALL: Final = 0x80
# Where numpy's C API table has them: a part of its binary interface.
_NUMPY_API: Final = {"PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}


class Directory(msgspec.Struct):
    """What the image says of itself.

    Attributes:
        functions: offset of the entry of each kernel, by "module.function".
        slots: where the address of each foreign symbol goes.
        fixups: words to which the image's own address is added.
    """

    functions: dict[str, int]
    slots: dict[str, int]
    fixups: list[int]


class DamagedImage(Exception):
    """The file is not a whole image: the kernels must be compiled again."""


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef of CPython."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class KernelImage:
    """An image, mapped for as long as the process lives.

    Args:
        path: of the file.

    Raises:
        DamagedImage: it is cut or changed.
        OSError: it is not there, or the system does not let it be executed.
        ValueError: a symbol that it needs is not there.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            header = file.read(HEADER_BYTES)
            if size < HEADER_BYTES or header[:8] != MAGIC:
                raise DamagedImage(f"{path} is no kernel image")
            self._mapping = mmap.mmap(
                file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
            )
        view = memoryview(self._mapping)
        if xxhash.xxh3_64_intdigest(view[16:]) != int.from_bytes(header[8:16], "little"):
            raise DamagedImage(f"{path} is damaged")
        code_bytes = int.from_bytes(header[16:24], "little")
        directory_bytes = int.from_bytes(header[24:32], "little")
        directory = msgspec.json.decode(view[size - directory_bytes :], type=Directory)
        self._functions = directory.functions
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._mapping))
        words = np.frombuffer(self._mapping, np.uint64, (size - directory_bytes) // 8)
        fixups = np.array(directory.fixups, np.int64) >> 3
        words[fixups] += np.uint64(self._address)
        for symbol, offset in directory.slots.items():
            words[offset >> 3] = _address_of(symbol)
        _make_executable(self._address, code_bytes)
        self._definitions: list[_MethodDefinition] = []
        # At the end of the process arrays are freed by code of the image, in no certain order.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def function(self, function: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the compiled form of a Python function, or None if the image has none."""
        offset = self._functions.get(f"{function.__module__}.{function.__qualname__}")
        if offset is None:
            return None
        definition = _MethodDefinition(
            function.__name__.encode(),
            self._address + offset,
            _METH_FASTCALL,
            (function.__doc__ or "").encode(),
        )
        self._definitions.append(definition)  # the function object points to it
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object)
        made: Callable[..., Any] = make(ctypes.addressof(definition), None, function.__module__)
        return made


def _address_of(symbol: str) -> int:
    """Return where something of Python, numpy or libc is."""
    if symbol.startswith(DESCRIPTOR_PREFIX):
        number = int(symbol.removeprefix(DESCRIPTOR_PREFIX))
        return id(_DTYPES[number])
    if symbol == "PyArray_Type":
        return id(np.ndarray)
    if symbol in _NUMPY_API:
        return _numpy_api(_NUMPY_API[symbol])
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, symbol))


# dtypes of numpy itself, which are never freed
_DTYPES: Final[dict[int, Any]] = {
    np.dtype(name).num: np.dtype(name)
    for name in ("bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f8")
}


def _numpy_api(index: int) -> int:
    """Return a function of numpy's C API."""
    module = importlib.import_module("numpy._core._multiarray_umath")  # as numpy's own header does
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = (ctypes.py_object, ctypes.c_char_p)
    table = get(module._ARRAY_API, None)
    return int(ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[index] or 0)


def _make_executable(address: int, size: int) -> None:
    """Let a part of a mapping be executed, and not be written to any more."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "machine code must not be executed here")
