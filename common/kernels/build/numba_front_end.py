"""numba as front end: from Python functions to LLVM's language, simplified but not optimized yet.

All private names of numba that the build needs are in this file. It uses numba's compiler as it is,
with another end: where numba would optimize each function with all that it calls, and load its
machine code, this keeps the modules, simplified by themselves (`optimizer`). `machine_code` links
and optimizes them once for each module of ours and each level of processors.

A kernel becomes a function of numba's own calling convention under a name of its own, and before it
an *entry*, which the extension calls and which is all that it knows of numba:

    int32_t entry(const union slot *in, union slot *out)

    in   a number: itself; an array: where its data are, its length in each dimension; a tuple: its
         members
    out  the same, but an array has its owner first: what counts references to its memory

numba's structures are made and read by numba's own builders here, and its memory management is its
own source, compiled into the extension (`link`): nothing in our code depends on their layout.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import _dynfunc
from numba.core import cgutils, codegen, serialize
from numba.core import types as _numba_types
from numba.core.compiler import compile_result
from numba.core.environment import Environment
from numba.core.registry import cpu_target
from numba.core.runtime import nrtdynmod, rtsys

from common.kernels import decorator
from common.kernels.annotations_to_signatures import signatures_of
from common.kernels.build.optimizer import simplify_kernel
from common.kernels.build.plan import Plan

types: Final[Any] = _numba_types  # its stubs are incomplete
_REASON_CHARS_MAX: Final = 400
"""Characters of numba's error that are shown."""
_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_SLOTS: Final = _I64.as_pointer()

_ARRAY_CODES: Final = {
    types.boolean: "?",
    types.int8: "b",
    types.uint8: "B",
    types.int16: "h",
    types.uint16: "H",
    types.int32: "i",
    types.uint32: "I",
    types.int64: "q",
    types.uint64: "Q",
    types.float64: "d",
}
"""Letters of the types of array elements, as of the module `array`."""


class CannotEnter(Exception):
    """A kernel has arguments or results that an entry has no way to pass."""


class CannotCompile(Exception):
    """numba does not compile a kernel."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How the extension calls a kernel with one of its signatures.

    Attributes:
        symbol: of the entry.
        arguments: one letter or group each: `i` a number (an integer), `d` a number (a double), `?`
            a truth; `r` or `w`, letter, dimensions: an array that is read or written; `(`, members,
            `)`: a tuple.
        results: the same, but `q` and `Q` for integers with and without sign, `a` for an array, `n`
            for nothing.
    """

    symbol: str
    arguments: str
    results: str


class _Library(codegen.AOTCodeLibrary):
    """What numba puts the modules of a function into; nothing is optimized."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True


class _Codegen(codegen.AOTCPUCodegen):
    """Creates `_Library` objects."""

    _library_class = _Library

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing is run here."""


class FrontEnd:
    """numba in this process, made to keep its modules; the process cannot run kernels any more.

    Args:
        plan: all kernels.
        folder: where results are kept, by the keys of kernels.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._present: set[str] = set()
        self._libraries: set[Any] = set()
        self._context = cpu_target.target_context
        rtsys.initialize(self._context)  # with numba's own code generator, which can run
        self._context._internal_codegen = _Codegen("facetd")
        self._context.get_executable = self._pretend_executable
        self._context.create_cfunc_wrapper = lambda *_, **__: None  # C calls entries
        self._context.mangler = self._mangle
        self._original_mangler = type(self._context).mangler

    def compile(self, name: str) -> None:
        """Write the result of a kernel to the folder; those of its callees must be there."""
        for callee in self._plan.kernels[name].callees:
            self._load(callee)
        dispatcher = decorator.recorded[name]
        for signature in signatures_of(dispatcher.py_func):
            try:
                dispatcher.compile(signature)
            except Exception as error:  # what numba raises changes from release to release
                reason = " ".join(str(error).split())[:_REASON_CHARS_MAX]
                raise CannotCompile(
                    f"numba {numba.__version__} with numpy {np.__version__} does not compile "
                    f"{name}: {type(error).__name__}: {reason}"
                ) from error
        dispatcher.disable_compile()
        self._present.add(name)
        results = list(dispatcher.overloads.values())
        self._libraries |= {result.library for result in results}
        self._store(name, results)

    # --- files

    def _store(self, name: str, results: list[Any]) -> None:
        module = _parse(self._context._internal_codegen._create_empty_module(name))
        entries, parts = [], []
        for i, result in enumerate(results):
            entry = _EntryBuilder(self._context, name, i, result).build()
            entries.append(entry)
            result.fndesc.typemap = result.fndesc.calltypes = None
            parts.append((result.fndesc, result.signature))
        _link_own(module, [result.library for result in results], self._libraries)
        kept = {entry.symbol for entry in entries}
        kept |= {result.fndesc.llvm_func_name for result in results}
        for value in [*module.functions, *module.global_variables]:
            if not value.is_declaration and value.name not in kept:
                value.linkage = "internal"
        module.verify()
        simplify_kernel(module)
        paths = result_paths(self._folder, self._plan.kernels[name].front_key)
        write(paths.module, module.as_bitcode())
        write(paths.description, serialize.dumps((entries, parts)))

    def _load(self, name: str) -> None:
        """Make a kernel known to numba, so that callers can be compiled."""
        if name in self._present:
            return
        self._present.add(name)
        paths = result_paths(self._folder, self._plan.kernels[name].front_key)
        _, parts = serialize.loads(paths.description.read_bytes())
        dispatcher = decorator.recorded[name]
        for fndesc, signature in parts:
            library = self._context._internal_codegen.create_library(name)
            library.finalize()
            self._libraries.add(library)
            environment = Environment.from_fndesc(fndesc)
            result = compile_result(
                typing_context=self._context.typing_context,
                target_context=self._context,
                signature=signature,
                library=library,
                fndesc=fndesc,
                environment=environment,
                entry_point=self._pretend_executable(library, fndesc, environment),
                objectmode=False,
                typing_error=None,
            )
            self._context.insert_user_function(result.entry_point, fndesc, [library])
            dispatcher.add_overload(result)
        dispatcher.disable_compile()

    # --- what numba calls

    @staticmethod
    def _pretend_executable(library: Any, fndesc: Any, environment: Any) -> Any:
        """Return a stub for a compiled function in numba's tables; it is never called."""
        address = ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p).value
        name = fndesc.qualname.split(".")[-1]
        module = fndesc.lookup_module()
        return _dynfunc.make_function(module, name, "", address, environment, (library,))

    def _mangle(
        self, name: str, argtypes: Any, *, abi_tags: Any = (), uid: int | None = None
    ) -> str:
        """Return the symbol of a function; that of a kernel is the same in each process."""
        if name in self._plan.kernels:
            abi_tags, uid = (), None  # which count what this process has compiled
        mangled: str = self._original_mangler(
            self._context, name, argtypes, abi_tags=abi_tags, uid=uid
        )
        return mangled


@dataclass(frozen=True, slots=True)
class ResultPaths:
    """Files of a kernel's result."""

    module: Path
    description: Path


def result_paths(folder: Path, front_key: str) -> ResultPaths:
    """Return the files of the result with a key."""
    return ResultPaths(folder / f"{front_key}.bc", folder / f"{front_key}.kernel")


def read_entries(folder: Path, front_key: str) -> list[Entry]:
    """Return the entries of a kernel that was compiled."""
    path = result_paths(folder, front_key).description
    entries: list[Entry] = serialize.loads(path.read_bytes())[0]
    return entries


def memory_management() -> str:
    """Return numba's functions that count references, in LLVM's language."""
    module, _ = nrtdynmod.create_nrt_module(cpu_target.target_context)
    return str(module)


def write(path: Path, content: bytes) -> None:
    """Write a file that is there as a whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    mask = os.umask(0)
    os.umask(mask)
    Path(temporary).chmod(0o666 & ~mask)  # a temporary file is for its owner alone
    Path(temporary).rename(path)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _parse(module: Any) -> Any:
    return llvm.parse_assembly(str(module))


def _link_own(module: Any, libraries: list[Any], of_kernels: set[Any]) -> None:
    """Link a kernel's functions and numba's own functions that they need, but no other kernel."""
    have: set[str] = set()
    seen: set[Any] = of_kernels - set(libraries)
    waiting = list(libraries)
    while waiting:
        one = waiting.pop(0)
        if one in seen:
            continue
        seen.add(one)
        waiting.extend(one._linking_libraries)
        if not isinstance(one, _Library):
            continue  # memory management, which every module gets
        part = one._final_module.clone()
        for value in [*part.functions, *part.global_variables]:
            if value.is_declaration or value.linkage != llvm.Linkage.external:
                continue
            if value.name in have:
                value.linkage = "linkonce_odr"
            have.add(value.name)
        module.link_in(part)


class _EntryBuilder:
    """The entry of one signature while it is written."""

    def __init__(self, context: Any, name: str, number: int, result: Any) -> None:
        self._context = context
        self._name = name
        self._result = result
        readable = re.sub(r"\W", "_", name)
        self._symbol = f"facetd_{readable}_{_digest(name)}_{number}"
        self._module = context._internal_codegen._create_empty_module(self._symbol)
        kind = ir.FunctionType(_I32, [_SLOTS, _SLOTS])
        self._function = ir.Function(self._module, kind, self._symbol)
        self._builder = ir.IRBuilder(self._function.append_basic_block())
        self._num_taken = self._num_put = 0

    def build(self) -> Entry:
        """Add the entry to the library of its kernel."""
        builder, fndesc = self._builder, self._result.fndesc
        values = [self._take(kind) for kind in fndesc.argtypes]
        native = self._context.declare_function(self._module, fndesc)
        status, value = self._context.call_conv.call_function(
            builder, native, fndesc.restype, fndesc.argtypes, values
        )
        with cgutils.if_unlikely(builder, status.is_error):
            builder.ret(_I32(1))
        self._put(fndesc.restype, value)
        builder.ret(_I32(0))
        library = self._result.library
        library._final_module.link_in(_parse(self._module))
        arguments = "".join(self._argument_code(kind) for kind in fndesc.argtypes)
        return Entry(self._symbol, arguments, self._result_code(fndesc.restype))

    # --- arguments

    def _next(self) -> Any:
        at = self._builder.gep(self._function.args[0], [_I64(self._num_taken)])
        self._num_taken += 1
        return self._builder.load(at)

    def _take(self, kind: Any) -> Any:
        """Return the value of an argument."""
        builder = self._builder
        if isinstance(kind, types.Array):
            return self._take_array(kind)
        if isinstance(kind, types.BaseTuple):
            return self._context.make_tuple(builder, kind, [self._take(one) for one in kind])
        if isinstance(kind, types.Boolean):
            return builder.icmp_unsigned("!=", self._next(), _I64(0))
        if isinstance(kind, types.Integer):
            word = self._next()
            return word if kind.bitwidth == 64 else builder.trunc(word, ir.IntType(kind.bitwidth))
        if kind == types.float64:
            return builder.bitcast(self._next(), ir.DoubleType())
        raise CannotEnter(f"{self._name}: an argument of type {kind}")

    def _take_array(self, kind: Any) -> Any:
        builder = self._builder
        array = self._context.make_array(kind)(self._context, builder)
        item_type = self._context.get_data_type(kind.dtype)
        item_bytes = _I64(self._context.get_abi_sizeof(item_type))
        array.data = builder.inttoptr(self._next(), array.data.type)
        lengths = [self._next() for _ in range(kind.ndim)]
        strides = [item_bytes]
        for length in lengths[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        count = lengths[0]
        for length in lengths[1:]:
            count = builder.mul(count, length)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        array.nitems = count
        array.itemsize = item_bytes
        array.shape = cgutils.pack_array(builder, lengths)
        array.strides = cgutils.pack_array(builder, strides)
        return array._getvalue()

    def _argument_code(self, kind: Any) -> str:
        if isinstance(kind, types.Array):
            return ("w" if kind.mutable else "r") + self._array_code(kind)
        if isinstance(kind, types.BaseTuple):
            return "(" + "".join(self._argument_code(one) for one in kind) + ")"
        if isinstance(kind, types.Boolean):
            return "?"
        return "i" if isinstance(kind, types.Integer) else "d"

    def _array_code(self, kind: Any) -> str:
        if kind.layout != "C" or kind.dtype not in _ARRAY_CODES or kind.ndim > 2:
            raise CannotEnter(f"{self._name}: an array of type {kind}")
        return f"{_ARRAY_CODES[kind.dtype]}{kind.ndim}"

    # --- results

    def _give(self, word: Any) -> None:
        at = self._builder.gep(self._function.args[1], [_I64(self._num_put)])
        self._num_put += 1
        self._builder.store(word, at)

    def _put(self, kind: Any, value: Any) -> None:
        """Write a result."""
        builder = self._builder
        if isinstance(kind, types.NoneType):
            return
        if isinstance(kind, types.Array):
            array = self._context.make_array(kind)(self._context, builder, value)
            self._give(builder.ptrtoint(array.meminfo, _I64))
            self._give(builder.ptrtoint(array.data, _I64))
            for length in cgutils.unpack_tuple(builder, array.shape, kind.ndim):
                self._give(length)
        elif isinstance(kind, types.BaseTuple):
            for i, one in enumerate(kind):
                self._put(one, builder.extract_value(value, i))
        elif isinstance(kind, types.Boolean):
            self._give(builder.zext(value, _I64))
        elif isinstance(kind, types.Integer):
            if kind.bitwidth < 64:
                value = (builder.sext if kind.signed else builder.zext)(value, _I64)
            self._give(value)
        elif kind == types.float64:
            self._give(builder.bitcast(value, _I64))
        else:
            raise CannotEnter(f"{self._name}: a result of type {kind}")

    def _result_code(self, kind: Any) -> str:
        if isinstance(kind, types.NoneType):
            return "n"
        if isinstance(kind, types.Array):
            return "a" + self._array_code(kind)
        if isinstance(kind, types.BaseTuple):
            return "(" + "".join(self._result_code(one) for one in kind) + ")"
        if isinstance(kind, types.Boolean):
            return "?"
        if isinstance(kind, types.Integer):
            return "q" if kind.signed else "Q"
        return "d"
