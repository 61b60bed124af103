"""Entries: what Python calls of a kernel, and one object file of all kernels with their entries.

numba makes functions of machine values. An entry is the C function in front of one or several of
them (a kernel has one for each of its signatures):

    PyObject *entry(PyObject *self, PyObject *const *args, Py_ssize_t nargs)

    for each signature: do type, dimensions and layout of every array argument fit? else the next
    numbers ─▶ machine values; arrays ─▶ numba's structure, without an owner: the caller has them
    tuples ─▶ their members, each as if it were an argument (the caller has the tuple)
    let go of the interpreter, call, take it again
    machine values ─▶ numbers; arrays ─▶ numpy arrays that own their memory; several ─▶ a tuple

That is what numba's own wrappers do, less what costs there: a lookup of signatures by type codes,
and an owner with its own reference count for each array at each call. 60 ns a call instead of 300.

What a kernel needs at run time stands in `_SUPPORT`: memory for arrays that it makes. The layout of
its header is numba's, whose machine code counts references in it.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils
from numba.core import types as _numba_types
from numba.core.registry import cpu_target

from common.kernels.image import DESCRIPTOR_PREFIX

types: Final[Any] = _numba_types  # its stubs lack most of what its types have
_POINTER: Final = cgutils.voidptr_t
_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_DOUBLE: Final = ir.DoubleType()
_VOID: Final = ir.VoidType()

_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400

_DTYPE_NUMBERS: Final = {
    types.boolean: (0, 0),
    types.int8: (1, 1),
    types.uint8: (2, 2),
    types.int16: (3, 3),
    types.uint16: (4, 4),
    types.int32: (5, 5),
    types.uint32: (6, 6),
    types.int64: (7, 9),  # long, and long long
    types.uint64: (8, 10),
    types.float64: (12, 12),
}
"""numpy's numbers of each type: there are two where C has two of the same size."""

# Offsets are those of PyObject, PyArrayObject and PyArray_Descr, parts of binary interfaces.
_SUPPORT: Final = """
@PyArray_Type = external global i8
@PyExc_SystemError = external global ptr
@no_owner = private constant [39 x i8] c"a kernel returned one of its arguments\\00"

declare ptr @malloc(i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare void @Py_IncRef(ptr)
declare i64 @PyType_GetFlags(ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @PyArray_SetBaseObject(ptr, ptr)

; Whether an object is an array of a type (one of two numbers), of so many dimensions, with flags.
define i1 @facetd_fits(ptr %object, i32 %number, i32 %other, i32 %dimensions, i32 %wanted) {
  %type.at = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, @PyArray_Type
  br i1 %is.array, label %array, label %no
array:
  %dimensions.at = getelementptr i8, ptr %object, i64 24
  %found.dimensions = load i32, ptr %dimensions.at
  %same.dimensions = icmp eq i32 %found.dimensions, %dimensions
  %flags.at = getelementptr i8, ptr %object, i64 64
  %flags = load i32, ptr %flags.at
  %has = and i32 %flags, %wanted
  %same.flags = icmp eq i32 %has, %wanted
  %descriptor.at = getelementptr i8, ptr %object, i64 56
  %descriptor = load ptr, ptr %descriptor.at
  %order.at = getelementptr i8, ptr %descriptor, i64 26
  %order = load i8, ptr %order.at
  %same.order = icmp ne i8 %order, 62
  %number.at = getelementptr i8, ptr %descriptor, i64 28
  %found = load i32, ptr %number.at
  %is.number = icmp eq i32 %found, %number
  %is.other = icmp eq i32 %found, %other
  %same.number = or i1 %is.number, %is.other
  %a = and i1 %same.dimensions, %same.flags
  %b = and i1 %same.order, %same.number
  %all = and i1 %a, %b
  ret i1 %all
no:
  ret i1 false
}

; Whether an object is a tuple (Py_TPFLAGS_TUPLE_SUBCLASS) of so many members.
define i1 @facetd_is_tuple(ptr %object, i64 %length) {
  %type.at = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %type.at
  %flags = call i64 @PyType_GetFlags(ptr %type)
  %bit = and i64 %flags, 67108864
  %is.tuple = icmp ne i64 %bit, 0
  br i1 %is.tuple, label %tuple, label %no
tuple:
  %length.at = getelementptr i8, ptr %object, i64 16
  %found = load i64, ptr %length.at
  %same.length = icmp eq i64 %found, %length
  ret i1 %same.length
no:
  ret i1 false
}

; Memory of an array: { references, destructor, its argument, data, size, allocator }, data.
define ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %wide = zext i32 %align to i64
  %with.header = add i64 %size, 48
  %total = add i64 %with.header, %wide
  %header = call ptr @malloc(i64 %total)
  %failed = icmp eq ptr %header, null
  br i1 %failed, label %no, label %yes
yes:
  call void @llvm.memset.p0.i64(ptr %header, i8 0, i64 48, i1 false)
  store i64 1, ptr %header
  %behind = getelementptr i8, ptr %header, i64 48
  %address = ptrtoint ptr %behind to i64
  %less = sub i64 %wide, 1
  %up = add i64 %address, %less
  %mask = xor i64 %less, -1
  %aligned = and i64 %up, %mask
  %data = inttoptr i64 %aligned to ptr
  %data.at = getelementptr i8, ptr %header, i64 24
  store ptr %data, ptr %data.at
  %size.at = getelementptr i8, ptr %header, i64 32
  store i64 %size, ptr %size.at
  ret ptr %header
no:
  ret ptr null
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define ptr @NRT_MemInfo_alloc(i64 %size) {
  %header = call ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 16)
  ret ptr %header
}

define ptr @NRT_Allocate(i64 %size) {
  %memory = call ptr @malloc(i64 %size)
  ret ptr %memory
}

define void @NRT_Free(ptr %memory) {
  call void @free(ptr %memory)
  ret void
}

; Memory that grows (numba's lists, which its sort uses): the data stand apart from the header.
define ptr @NRT_MemInfo_new_varsize_dtor(i64 %size, ptr %destructor) {
  %header = call ptr @NRT_MemInfo_alloc_aligned(i64 0, i32 16)
  %failed = icmp eq ptr %header, null
  br i1 %failed, label %no, label %fill
fill:
  %data = call ptr @malloc(i64 %size)
  %is.short = icmp eq ptr %data, null
  br i1 %is.short, label %drop, label %yes
yes:
  %free.at = getelementptr i8, ptr %header, i64 8
  store ptr @facetd_free_items, ptr %free.at
  %destructor.at = getelementptr i8, ptr %header, i64 16
  store ptr %destructor, ptr %destructor.at
  %data.at = getelementptr i8, ptr %header, i64 24
  store ptr %data, ptr %data.at
  %size.at = getelementptr i8, ptr %header, i64 32
  store i64 %size, ptr %size.at
  ret ptr %header
drop:
  call void @free(ptr %header)
  br label %no
no:
  ret ptr null
}

define ptr @NRT_MemInfo_varsize_realloc(ptr %header, i64 %size) {
  %data.at = getelementptr i8, ptr %header, i64 24
  %data = load ptr, ptr %data.at
  %moved = call ptr @realloc(ptr %data, i64 %size)
  %failed = icmp eq ptr %moved, null
  br i1 %failed, label %no, label %yes
yes:
  store ptr %moved, ptr %data.at
  %size.at = getelementptr i8, ptr %header, i64 32
  store i64 %size, ptr %size.at
  ret ptr %moved
no:
  ret ptr null
}

define void @facetd_free_items(ptr %data, i64 %size, ptr %destructor) {
  %has = icmp ne ptr %destructor, null
  br i1 %has, label %items, label %memory
items:
  call void %destructor(ptr %data)
  br label %memory
memory:
  call void @free(ptr %data)
  ret void
}

; What numba's code calls when the last reference has gone.
define void @NRT_MemInfo_call_dtor(ptr %header) {
  %destructor.at = getelementptr i8, ptr %header, i64 8
  %destructor = load ptr, ptr %destructor.at
  %has = icmp ne ptr %destructor, null
  br i1 %has, label %contents, label %memory
contents:
  %info.at = getelementptr i8, ptr %header, i64 16
  %info = load ptr, ptr %info.at
  %data.at = getelementptr i8, ptr %header, i64 24
  %data = load ptr, ptr %data.at
  %size.at = getelementptr i8, ptr %header, i64 32
  %size = load i64, ptr %size.at
  call void %destructor(ptr %data, i64 %size, ptr %info)
  br label %memory
memory:
  call void @free(ptr %header)
  ret void
}

define void @facetd_release(ptr %header) {
  %before = atomicrmw sub ptr %header, i64 1 acq_rel
  %is.last = icmp eq i64 %before, 1
  br i1 %is.last, label %last, label %done
last:
  call void @NRT_MemInfo_call_dtor(ptr %header)
  br label %done
done:
  ret void
}

define void @facetd_release_capsule(ptr %capsule) {
  %header = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  call void @facetd_release(ptr %header)
  ret void
}

; A numpy array that owns a reference to its memory.
define ptr @facetd_box(ptr %header, ptr %data, ptr %shape, i32 %dimensions, ptr %descriptor) {
  %is.owned = icmp ne ptr %header, null
  br i1 %is.owned, label %make, label %refuse
make:
  call void @Py_IncRef(ptr %descriptor)
  %array = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descriptor, i32 %dimensions,
      ptr %shape, ptr null, ptr %data, i32 1281, ptr null)
  %is.made = icmp ne ptr %array, null
  br i1 %is.made, label %own, label %failed
own:
  %capsule = call ptr @PyCapsule_New(ptr %header, ptr null, ptr @facetd_release_capsule)
  %status = call i32 @PyArray_SetBaseObject(ptr %array, ptr %capsule)
  ret ptr %array
failed:
  call void @facetd_release(ptr %header)
  ret ptr null
refuse:
  %error = load ptr, ptr @PyExc_SystemError
  call void @PyErr_SetString(ptr %error, ptr @no_owner)
  ret ptr null
}
"""


class CannotEnter(Exception):
    """A kernel has arguments or results that an entry has no way to pass."""


def compile_all(kernels: Mapping[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Make one object file of all kernels.

    Args:
        kernels: numba's dispatchers, compiled, by "module.function".

    Returns:
        The object file, and the symbol of each entry by the name of its kernel.

    Raises:
        CannotEnter: a kernel is of a kind that an entry cannot be made for, or this is a build of
            Python whose objects look otherwise.
        RuntimeError: LLVM refuses something.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise CannotEnter("objects of a free-threaded Python have another layout")
    codegen = cpu_target.target_context.codegen()
    module = codegen._create_empty_module("facetd_kernels")
    symbols = {}
    for number, (name, dispatcher) in enumerate(kernels.items()):
        symbols[name] = f"facetd_entry_{number}"
        _Entry(module, name, symbols[name], dispatcher).build()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
    )
    linked = llvm.parse_assembly(str(module))
    support = llvm.parse_assembly(_SUPPORT)
    support.triple, support.data_layout = linked.triple, linked.data_layout
    linked.link_in(support)
    linked.verify()
    # The kernels themselves have been through LLVM; this is for the entries.
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    cleaning = llvm.create_new_function_pass_manager()
    cleaning.add_sroa_pass()
    cleaning.add_instruction_combine_pass()
    cleaning.add_simplify_cfg_pass()
    for function in linked.functions:
        if not function.is_declaration:
            cleaning.run(function, builder)
    for dispatcher in kernels.values():
        for result in dispatcher.overloads.values():
            linked.link_in(result.library._get_module_for_linking(), preserve=True)
    # What no entry reaches goes: numba's wrappers, copies of what was inlined everywhere.
    for value in [*linked.functions, *linked.global_variables]:
        if not value.is_declaration and value.name not in symbols.values():
            value.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(linked, builder)
    return machine.emit_object(linked), symbols


class _Entry:
    """One entry while it is written."""

    def __init__(self, module: ir.Module, name: str, symbol: str, dispatcher: Any) -> None:
        self._module = module
        self._name = name
        self._dispatcher = dispatcher
        self._context = cpu_target.target_context
        kind = ir.FunctionType(_POINTER, [_POINTER, _POINTER.as_pointer(), _I64])
        self._function = ir.Function(module, kind, symbol)
        self._builder = ir.IRBuilder(self._function.append_basic_block("entry"))

    def build(self) -> None:
        builder = self._builder
        _, args, num_args = self._function.args
        results = list(self._dispatcher.overloads.values())
        count = len(results[0].fndesc.argtypes)
        misfit = self._function.append_basic_block("misfit")
        start = self._function.append_basic_block("start")
        builder.cbranch(builder.icmp_signed("==", num_args, _I64(count)), start, misfit)
        builder.position_at_end(start)
        objects = [builder.load(builder.gep(args, [_I64(i)])) for i in range(count)]
        for i, result in enumerate(results):
            is_last = i == len(results) - 1
            other = misfit if is_last else self._function.append_basic_block("other")
            self._try(result, objects, other)
            builder.position_at_end(other)
        builder.position_at_end(misfit)
        error = builder.load(self._foreign_variable("PyExc_TypeError"))
        text = f"{self._name}: the arguments fit none of its signatures"
        self._call("PyErr_SetString", _VOID, error, self._text(text))
        builder.ret(self._null())

    def _try(self, result: Any, objects: list[Any], other: ir.Block) -> None:
        """Call one signature, or go elsewhere if the arguments do not fit it."""
        builder = self._builder
        kinds = result.fndesc.argtypes
        for kind, item in zip(kinds, objects, strict=True):
            self._check(kind, item, other)
        values = [self._unbox(kind, one) for kind, one in zip(kinds, objects, strict=True)]
        is_free = self._dispatcher.targetoptions.get("nogil", False)
        state = self._call("PyEval_SaveThread", _POINTER) if is_free else None
        native = self._context.declare_function(self._module, result.fndesc)
        status, value = self._context.call_conv.call_function(
            builder, native, result.fndesc.restype, kinds, values
        )
        if is_free:
            self._call("PyEval_RestoreThread", _VOID, state)
        with cgutils.if_unlikely(builder, status.is_error):
            # Kernels raise nothing, so it is memory that they did not get.
            builder.ret(self._call("PyErr_NoMemory", _POINTER))
        builder.ret(self._box(result.fndesc.restype, value))

    # --- arguments

    def _check(self, kind: Any, item: Any, other: ir.Block) -> None:
        """Go elsewhere if an array, or a tuple of them, does not fit; numbers show it later."""
        if isinstance(kind, types.BaseTuple):
            length = _I64(len(kind))
            is_tuple = self._call("facetd_is_tuple", ir.IntType(1), item, length)
            self._go_on_if(is_tuple, other)
            for part, member in zip(kind, self._members(kind, item), strict=True):
                self._check(part, member, other)
        elif isinstance(kind, types.Array):
            self._go_on_if(self._fits(kind, item), other)

    def _go_on_if(self, condition: Any, other: ir.Block) -> None:
        fitting = self._function.append_basic_block("fitting")
        self._builder.cbranch(condition, fitting, other)
        self._builder.position_at_end(fitting)

    def _members(self, kind: Any, item: Any) -> list[Any]:
        """Return the objects in a tuple."""
        first = tuple.__basicsize__
        return [self._field(item, first + 8 * i, _POINTER) for i in range(len(kind))]

    def _fits(self, kind: Any, item: Any) -> Any:
        if kind.layout != "C" or kind.dtype not in _DTYPE_NUMBERS:
            raise CannotEnter(f"{self._name}: an argument of type {kind}")
        number, other = _DTYPE_NUMBERS[kind.dtype]
        flags = _C_CONTIGUOUS | _ALIGNED | (_WRITEABLE if kind.mutable else 0)
        numbers = (_I32(number), _I32(other), _I32(kind.ndim), _I32(flags))
        return self._call("facetd_fits", ir.IntType(1), item, *numbers)

    def _unbox(self, kind: Any, item: Any) -> Any:
        """Return the machine value of an object; the entry returns if there is none."""
        builder = self._builder
        if isinstance(kind, types.Array):
            return self._unbox_array(kind, item)
        if isinstance(kind, types.BaseTuple):
            members = zip(kind, self._members(kind, item), strict=True)
            values = [self._unbox(part, member) for part, member in members]
            return self._context.make_tuple(builder, kind, values)
        if isinstance(kind, types.Boolean):
            truth = self._call("PyObject_IsTrue", _I32, item)
            self._return_if(builder.icmp_signed("<", truth, _I32(0)))
            return builder.icmp_signed("!=", truth, _I32(0))
        if isinstance(kind, types.Integer):
            wide = self._call("PyLong_AsUnsignedLongLongMask", _I64, item)
            self._return_if_raised(builder.icmp_signed("==", wide, _I64(-1)))
            return wide if kind.bitwidth == 64 else builder.trunc(wide, ir.IntType(kind.bitwidth))
        if kind == types.float64:
            number = self._call("PyFloat_AsDouble", _DOUBLE, item)
            self._return_if_raised(builder.fcmp_ordered("==", number, _DOUBLE(-1.0)))
            return number
        raise CannotEnter(f"{self._name}: an argument of type {kind}")

    def _unbox_array(self, kind: Any, item: Any) -> Any:
        builder = self._builder
        array = self._context.make_array(kind)(self._context, builder)
        shape = self._field(item, 32, _I64.as_pointer())
        strides = self._field(item, 40, _I64.as_pointer())
        lengths = [builder.load(builder.gep(shape, [_I64(i)])) for i in range(kind.ndim)]
        steps = [builder.load(builder.gep(strides, [_I64(i)])) for i in range(kind.ndim)]
        count = lengths[0]
        for length in lengths[1:]:
            count = builder.mul(count, length)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        array.nitems = count
        array.itemsize = _I64(self._item_bytes(kind))
        array.data = builder.bitcast(self._field(item, 16, _POINTER), array.data.type)
        array.shape = cgutils.pack_array(builder, lengths)
        array.strides = cgutils.pack_array(builder, steps)
        return array._getvalue()

    def _item_bytes(self, kind: Any) -> int:
        return int(self._context.get_abi_sizeof(self._context.get_data_type(kind.dtype)))

    def _field(self, item: Any, offset: int, kind: ir.Type) -> Any:
        """Return what stands in an object so many bytes from its start."""
        at = self._builder.gep(item, [_I64(offset)])
        return self._builder.load(self._builder.bitcast(at, kind.as_pointer()))

    # --- results

    def _box(self, kind: Any, value: Any) -> Any:
        """Return the object of a machine value; the entry returns if there is none."""
        builder = self._builder
        if isinstance(kind, types.NoneType):
            none = builder.bitcast(self._foreign_variable("_Py_NoneStruct"), _POINTER)
            self._call("Py_IncRef", _VOID, none)
            return none
        if isinstance(kind, types.Array):
            return self._box_array(kind, value)
        if isinstance(kind, types.BaseTuple):
            row = self._call("PyTuple_New", _POINTER, _I64(len(kind)))
            self._return_if(self._is_null(row))
            for i, part in enumerate(kind):
                boxed = self._box(part, builder.extract_value(value, i))
                self._return_if(self._is_null(boxed))
                self._call("PyTuple_SetItem", _I32, row, _I64(i), boxed)
            return row
        if isinstance(kind, types.Boolean):
            return self._call("PyBool_FromLong", _POINTER, builder.zext(value, _I64))
        if isinstance(kind, types.Integer):
            if kind.bitwidth < 64:
                value = (builder.sext if kind.signed else builder.zext)(value, _I64)
            name = "PyLong_FromLongLong" if kind.signed else "PyLong_FromUnsignedLongLong"
            return self._call(name, _POINTER, value)
        if kind == types.float64:
            return self._call("PyFloat_FromDouble", _POINTER, value)
        raise CannotEnter(f"{self._name}: a result of type {kind}")

    def _box_array(self, kind: Any, value: Any) -> Any:
        if kind.layout != "C" or kind.dtype not in _DTYPE_NUMBERS:
            raise CannotEnter(f"{self._name}: a result of type {kind}")
        builder = self._builder
        array = self._context.make_array(kind)(self._context, builder, value)
        shape = cgutils.alloca_once_value(builder, array.shape)
        number = _DTYPE_NUMBERS[kind.dtype][0]
        return self._call(
            "facetd_box",
            _POINTER,
            builder.bitcast(array.meminfo, _POINTER),
            builder.bitcast(array.data, _POINTER),
            builder.bitcast(shape, _POINTER),
            _I32(kind.ndim),
            builder.bitcast(self._foreign_variable(f"{DESCRIPTOR_PREFIX}{number}"), _POINTER),
        )

    # --- building blocks

    def _call(self, name: str, result: ir.Type, *args: Any) -> Any:
        kind = ir.FunctionType(result, [arg.type for arg in args])
        return self._builder.call(cgutils.get_or_insert_function(self._module, kind, name), args)

    def _foreign_variable(self, name: str) -> Any:
        try:
            return self._module.get_global(name)
        except KeyError:
            return ir.GlobalVariable(self._module, _POINTER, name)

    def _text(self, text: str) -> Any:
        constant = self._context.insert_const_string(self._module, text)
        return self._builder.bitcast(constant, _POINTER)

    def _null(self) -> Any:
        return cgutils.get_null_value(_POINTER)

    def _is_null(self, item: Any) -> Any:
        return self._builder.icmp_unsigned("==", item, self._null())

    def _return_if(self, condition: Any) -> None:
        """Return NULL: an exception is set."""
        with cgutils.if_unlikely(self._builder, condition):
            self._builder.ret(self._null())

    def _return_if_raised(self, is_suspicious: Any) -> None:
        """Return NULL if a value that may mean an exception does."""
        with cgutils.if_unlikely(self._builder, is_suspicious):
            error = self._call("PyErr_Occurred", _POINTER)
            self._return_if(self._builder.icmp_unsigned("!=", error, self._null()))
