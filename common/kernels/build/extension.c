/* The extension module of kernels, as Python calls them.

   Each kernel is a builtin function. Its `self` is its number in the table (`table.c`, which the
   build writes). The table has the argument types of each of its signatures, as letters:

       i  an integer        d  a double        ?  a boolean
       r  w  an array that is read, or written; then its element type and number of dimensions
       (  )  a tuple of the types between

   A call takes the first signature that fits the type, dimensions and layout of every array. It
   writes the arguments into slots, releases the GIL, and calls the kernel:

       number ─▶ a slot                   array ─▶ its address, its length in each dimension
       tuple  ─▶ its members              (the caller keeps arrays and tuples alive meanwhile)

   Results come back the same way. An array that a kernel made has its owner before its address: the
   object in which numba counts references (`nrt.h`). The numpy array made of it holds one of them.

   Limited API of Python 3.11 and API of numpy 2.0: one file serves all later versions. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdint.h>
#include <string.h>

#include "core/runtime/nrt.h"
#include "lazy_verification.h"
#include "table.h"

enum fit { FITS, MISFITS, RAISES };

static int active_level = -1;

/* The element types of arrays. Where C has two types of one size, numpy has two type numbers. */
static int is_of_type(int number, char letter)
{
    switch (letter) {
    case '?': return number == NPY_BOOL;
    case 'b': return number == NPY_INT8;
    case 'B': return number == NPY_UINT8;
    case 'h': return number == NPY_INT16;
    case 'H': return number == NPY_UINT16;
    case 'i': return number == NPY_INT32 || (sizeof(long) == 4 && number == NPY_LONG);
    case 'I': return number == NPY_UINT32 || (sizeof(long) == 4 && number == NPY_ULONG);
    case 'q': return number == NPY_INT64 || number == NPY_LONGLONG;
    case 'Q': return number == NPY_UINT64 || number == NPY_ULONGLONG;
    case 'd': return number == NPY_FLOAT64;
    default: return 0;
    }
}

static int number_of_type(char letter)
{
    switch (letter) {
    case '?': return NPY_BOOL;
    case 'b': return NPY_INT8;
    case 'B': return NPY_UINT8;
    case 'h': return NPY_INT16;
    case 'H': return NPY_UINT16;
    case 'i': return NPY_INT32;
    case 'I': return NPY_UINT32;
    case 'q': return NPY_INT64;
    case 'Q': return NPY_UINT64;
    default: return NPY_FLOAT64;
    }
}

/* --- arguments: each function moves `code` and `slot` past what it has read and written */

static enum fit take(PyObject *object, const char **code, union slot **slot);

static enum fit take_array(PyObject *object, const char **code, union slot **slot)
{
    const char access = (*code)[0], letter = (*code)[1];
    const int dimensions = (*code)[2] - '0';
    *code += 3;
    if (!PyArray_CheckExact(object))
        return MISFITS;
    PyArrayObject *array = (PyArrayObject *)object;
    const int wanted =
        NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | (access == 'w' ? NPY_ARRAY_WRITEABLE : 0);
    if (PyArray_NDIM(array) != dimensions || !PyArray_CHKFLAGS(array, wanted) ||
        !is_of_type(PyArray_TYPE(array), letter) || !PyArray_ISNOTSWAPPED(array))
        return MISFITS;
    (*slot)++->address = PyArray_DATA(array);
    for (int i = 0; i < dimensions; i++)
        (*slot)++->integer = PyArray_DIM(array, i);
    return FITS;
}

static enum fit take_tuple(PyObject *object, const char **code, union slot **slot)
{
    ++*code;
    if (!PyTuple_Check(object))
        return MISFITS;
    const Py_ssize_t length = PyTuple_Size(object);
    Py_ssize_t i = 0;
    for (; **code != ')'; i++) {
        if (i == length)
            return MISFITS;
        const enum fit fit = take(PyTuple_GetItem(object, i), code, slot);
        if (fit != FITS)
            return fit;
    }
    ++*code;
    return i == length ? FITS : MISFITS;
}

static enum fit take(PyObject *object, const char **code, union slot **slot)
{
    switch (**code) {
    case 'r':
    case 'w':
        return take_array(object, code, slot);
    case '(':
        return take_tuple(object, code, slot);
    case 'i':
        ++*code;
        (*slot)->natural = PyLong_AsUnsignedLongLongMask(object);
        return (*slot)++->integer == -1 && PyErr_Occurred() ? RAISES : FITS;
    case 'd':
        ++*code;
        (*slot)->real = PyFloat_AsDouble(object);
        return (*slot)++->real == -1.0 && PyErr_Occurred() ? RAISES : FITS;
    default: /* '?' */
        ++*code;
        (*slot)->integer = PyObject_IsTrue(object);
        return (*slot)++->integer < 0 ? RAISES : FITS;
    }
}

static enum fit take_all(PyObject *const *args, Py_ssize_t count, const char *code,
                         union slot *slot)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!*code)
            return MISFITS;
        const enum fit fit = take(args[i], &code, &slot);
        if (fit != FITS)
            return fit;
    }
    return *code ? MISFITS : FITS;
}

/* --- results */

static void release(PyObject *capsule)
{
    NRT_MemInfo_release(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *give_array(char letter, int dimensions, const union slot *slot)
{
    NRT_MemInfo *owner = slot[0].address;
    npy_intp lengths[2];
    for (int i = 0; i < dimensions; i++)
        lengths[i] = slot[2 + i].integer;
    if (owner == NULL) {
        PyErr_SetString(PyExc_SystemError, "a kernel returned one of its arguments");
        return NULL;
    }
    PyObject *array = PyArray_New(&PyArray_Type, dimensions, lengths, number_of_type(letter), NULL,
                                  slot[1].address, 0, NPY_ARRAY_CARRAY, NULL);
    if (array == NULL) {
        NRT_MemInfo_release(owner);
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(owner, NULL, release);
    if (capsule == NULL)
        NRT_MemInfo_release(owner);
    if (capsule == NULL || PyArray_SetBaseObject((PyArrayObject *)array, capsule) < 0) {
        Py_DecRef(array);
        return NULL;
    }
    return array;
}

static PyObject *give(const char **code, const union slot **slot);

static PyObject *give_tuple(const char **code, const union slot **slot)
{
    const char *end = ++*code;
    Py_ssize_t length = 0;
    for (int depth = 0; depth || *end != ')'; end++) {
        if (depth == 0)
            length++;
        depth += (*end == '(') - (*end == ')');
        if (*end == 'a')
            end += 2;
    }
    PyObject *tuple = PyTuple_New(length);
    for (Py_ssize_t i = 0; tuple != NULL && i < length; i++) {
        PyObject *member = give(code, slot);
        if (member == NULL || PyTuple_SetItem(tuple, i, member) < 0) {
            Py_DecRef(tuple);
            return NULL;
        }
    }
    ++*code;
    return tuple;
}

static PyObject *give(const char **code, const union slot **slot)
{
    const char kind = *(*code);
    if (kind == '(')
        return give_tuple(code, slot);
    ++*code;
    if (kind == 'a') {
        const char letter = *(*code)++;
        const int dimensions = *(*code)++ - '0';
        const union slot *first = *slot;
        *slot += 2 + dimensions;
        return give_array(letter, dimensions, first);
    }
    if (kind == 'n') {
        Py_IncRef(Py_None);
        return Py_None;
    }
    const union slot *one = (*slot)++;
    switch (kind) {
    case 'q': return PyLong_FromLongLong(one->integer);
    case 'Q': return PyLong_FromUnsignedLongLong(one->natural);
    case 'd': return PyFloat_FromDouble(one->real);
    default: return PyBool_FromLong((long)one->integer); /* '?' */
    }
}

/* --- calls */

static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const struct kernel *kernel = &kernels[PyLong_AsSsize_t(self)];
    union slot in[SLOTS_MAX], out[SLOTS_MAX];
    for (int i = 0; i < kernel->num_signatures; i++) {
        const struct signature *signature = &kernel->signatures[i];
        const enum fit fit = take_all(args, count, signature->arguments, in);
        if (fit == RAISES)
            return NULL;
        if (fit == MISFITS)
            continue;
        const entry run = signature->entries[active_level];
        PyThreadState *state = PyEval_SaveThread();
        const int32_t status = run(in, out);
        PyEval_RestoreThread(state);
        if (status != 0) {
            if (!IS_CHECKED)
                return PyErr_NoMemory(); /* all that can fail in a kernel */
            PyErr_Format(PyExc_IndexError,
                         "%s.%s: an index past an array's end, or a broken contract",
                         kernel->module, kernel->name);
            return NULL;
        }
        const char *code = signature->results;
        const union slot *slot = out;
        return give(&code, &slot);
    }
    PyErr_Format(PyExc_TypeError, "%s.%s: the arguments fit none of its signatures",
                 kernel->module, kernel->name);
    return NULL;
}

/* --- the module */

#if defined(__x86_64__)
struct feature { int leaf, reg; unsigned bit; };
#define HAS_ALL(features) has_all(features, sizeof features / sizeof features[0])

/* Asks the processor itself: without a compiler's runtime library (zig), __builtin_cpu_supports is
   empty. */
static int has_all(const struct feature *features, int count)
{
    for (int i = 0; i < count; i++) {
        unsigned regs[4];
        if (!__get_cpuid_count((unsigned)features[i].leaf, 0, &regs[0], &regs[1], &regs[2], &regs[3]))
            return 0;
        if (!(regs[features[i].reg] & features[i].bit))
            return 0;
    }
    return 1;
}

/* Whether the operating system saves these registers (bits of XCR0) for each thread. */
static int keeps_registers(unsigned wanted)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & wanted) == wanted;
}
#endif

static int supports(int level)
{
#if defined(__x86_64__)
    enum { EBX = 1, ECX = 2, EXTENDED = (int)0x80000001 };
    static const struct feature v2[] = {{1, ECX, bit_SSE4_2}, {1, ECX, bit_POPCNT}};
    static const struct feature v3[] = {
        {1, ECX, bit_OSXSAVE}, {1, ECX, bit_FMA},  {1, ECX, bit_MOVBE},       {1, ECX, bit_F16C},
        {7, EBX, bit_AVX2},    {7, EBX, bit_BMI},  {7, EBX, bit_BMI2}, {EXTENDED, ECX, bit_LZCNT},
    };
    static const struct feature v4[] = {{7, EBX, bit_AVX512F},  {7, EBX, bit_AVX512BW},
                                        {7, EBX, bit_AVX512CD}, {7, EBX, bit_AVX512DQ},
                                        {7, EBX, bit_AVX512VL}};
    const int is_v2 = HAS_ALL(v2), is_v3 = is_v2 && HAS_ALL(v3) && keeps_registers(0x6);
    if (strcmp(levels[level], "x86-64-v2") == 0)
        return is_v2;
    if (strcmp(levels[level], "x86-64-v3") == 0)
        return is_v3;
    if (strcmp(levels[level], "x86-64-v4") == 0)
        return is_v3 && HAS_ALL(v4) && keeps_registers(0xE6);
#endif
    return levels[level][0] == '\0'; /* for all processors of this architecture */
}

static PyObject *get_level(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    if (active_level >= 0)
        return PyUnicode_FromString(levels[active_level][0] ? levels[active_level] : "generic");
    Py_IncRef(Py_None);
    return Py_None;
}

static PyObject *load(PyObject *self, PyObject *args)
{
    static PyMethodDef definitions[NUM_KERNELS];
    (void)self, (void)args;
    import_array();
    if (active_level < 0) {
        PyErr_SetString(PyExc_ImportError, "the compiled kernels need a newer processor");
        return NULL;
    }
    PyObject *found = PyDict_New();
    for (Py_ssize_t i = 0; found != NULL && i < NUM_KERNELS; i++) {
        const struct kernel *kernel = &kernels[i];
        definitions[i] = (PyMethodDef){kernel->name, (PyCFunction)(void (*)(void))call,
                                       METH_FASTCALL, kernel->documentation};
        PyObject *number = PyLong_FromSsize_t(i);
        PyObject *module = PyUnicode_FromString(kernel->module);
        PyObject *name = PyUnicode_FromFormat("%s.%s", kernel->module, kernel->name);
        PyObject *function = PyCFunction_NewEx(&definitions[i], number, module);
        const int status = number && module && name && function
                               ? PyDict_SetItem(found, name, function)
                               : -1;
        Py_XDECREF(number);
        Py_XDECREF(module);
        Py_XDECREF(name);
        Py_XDECREF(function);
        if (status < 0) {
            Py_DecRef(found);
            return NULL;
        }
    }
    return found;
}

static PyMethodDef methods[] = {
    {"load", load, METH_NOARGS, "Return the kernels by \"module.function\"."},
    {"level", get_level, METH_NOARGS,
     "Return the level of processors whose kernels run here, None if there is none."},
    {"watch", lazy_verification_watch, METH_VARARGS, "Verify a mapping's blocks when first touched."},
    {"verify", lazy_verification_verify, METH_VARARGS, "Verify some of its blocks now."},
    {"forget", lazy_verification_forget, METH_VARARGS, "Forget a mapping that is gone."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "kernels", "The compiled kernels.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC INITIALIZER(void)
{
    NRT_MemSys_init();
    for (int level = 0; level < NUM_LEVELS; level++)
        if (supports(level))
            active_level = level; /* the last is the highest */
    return sources[0] ? PyModule_Create(&definition) : NULL;
}
