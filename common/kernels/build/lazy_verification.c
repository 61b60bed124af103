/* Mapped files whose blocks are verified when they are first touched.

       mapping   | verified | not accessible | verified | not accessible …
       a thread touches a block ─▶ SIGSEGV ─▶ this thread reads the block from the file, compares
       its checksum, makes it accessible, and repeats what it was doing

   A verified block costs nothing more. A damaged one is never seen: the code that was about to read
   it cannot be told, so the handler sets the file aside and ends the process; the next process finds
   the file missing. The same holds for a block that cannot be read.

   Before the pieces of a block are read, the kernel is advised of the whole block, and where blocks
   are touched in order, of the next ones too. Without that advice it takes the pieces for the start
   of a long sequential read, and reads six times as much around a block that is touched alone.

   The handler calls only what signal handlers may call (posix_fadvise is not on their list, but is
   nothing but a system call), takes no lock, and may run in several threads for one block. The
   checksum is XXH64 with seed 0, as the writer's library computes it. */

#define _GNU_SOURCE
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lazy_verification.h"

#define FILES_MAX 256
#define AHEAD_BLOCKS 8    /* blocks that the kernel is advised of where they are touched in order */
#define PIECE_BYTES 32768 /* bytes read at once, on the stack of the thread that touched the block */

struct file {
    char *start;
    size_t size;        /* of the mapping */
    size_t first;       /* the first byte that a checksum covers */
    size_t end;         /* the byte after the last one */
    size_t block_bytes; /* a multiple of a page's */
    size_t num_blocks;
    int descriptor, exit_status;
    const char *path, *path_aside, *message;
    const uint64_t *checksums;
    atomic_uchar *is_verified;
    char memory[];
};

/* A handler reads the bounds of all mappings, also of one being forgotten: `forget` frees no slot. */
static struct {
    _Atomic(char *) start; /* NULL: the slot is free */
    atomic_size_t size;
    struct file *file;
} slots[FILES_MAX];
static struct sigaction former;
static int has_handler;

/* --- XXH64 */

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }
static uint64_t step(uint64_t lane, uint64_t word) { return rotate(lane + word * P2, 31) * P1; }

static uint64_t word_at(const unsigned char *bytes, size_t size)
{
    uint64_t word = 0; /* little-endian, like the segments' arrays */
    memcpy(&word, bytes, size);
    return word;
}

static uint64_t finish(uint64_t lanes[4], uint64_t length, const unsigned char *rest, size_t size)
{
    uint64_t sum = P5;
    if (length >= 32) {
        sum = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) +
              rotate(lanes[3], 18);
        for (int i = 0; i < 4; i++)
            sum = (sum ^ step(0, lanes[i])) * P1 + P4;
    }
    sum += length;
    for (; size >= 8; size -= 8, rest += 8)
        sum = rotate(sum ^ step(0, word_at(rest, 8)), 27) * P1 + P4;
    if (size >= 4) {
        sum = rotate(sum ^ word_at(rest, 4) * P1, 23) * P2 + P3;
        size -= 4, rest += 4;
    }
    for (; size; size--, rest++)
        sum = rotate(sum ^ *rest * P5, 11) * P1;
    sum = (sum ^ sum >> 33) * P2;
    sum = (sum ^ sum >> 29) * P3;
    return sum ^ sum >> 32;
}

/* --- blocks */

static int is_sound(const struct file *file, size_t block)
{
    unsigned char piece[PIECE_BYTES];
    size_t position = block ? block * file->block_bytes : file->first;
    size_t end = (block + 1) * file->block_bytes;
    if (end > file->end)
        end = file->end;
    const uint64_t length = end - position;
    uint64_t lanes[4] = {P1 + P2, P2, 0, -P1};
    size_t rest = 0, done = 0;
    while (position < end) {
        const size_t wanted = end - position < PIECE_BYTES ? end - position : PIECE_BYTES;
        for (size_t filled = 0; filled < wanted;) {
            const ssize_t count = pread(file->descriptor, piece + filled, wanted - filled,
                                        (off_t)(position + filled));
            if (count < 0 && errno == EINTR)
                continue;
            if (count <= 0)
                return 0;
            filled += (size_t)count;
        }
        for (done = 0; done + 32 <= wanted; done += 32)
            for (int i = 0; i < 4; i++)
                lanes[i] = step(lanes[i], word_at(piece + done + 8 * i, 8));
        rest = wanted - done; /* of the last piece: the others are multiples of 32 bytes */
        position += wanted;
    }
    return finish(lanes, length, piece + done, rest) == file->checksums[block];
}

static void give_up(const struct file *file)
{
    if (write(STDERR_FILENO, file->message, strlen(file->message)) < 0 ||
        rename(file->path, file->path_aside) < 0) {
        /* The process ends in any case; the next one verifies each block that it touches. */
    }
    _exit(file->exit_status);
}

static int open_up(const struct file *file, size_t from, size_t to)
{
    return mprotect(file->start + from, to - from, PROT_READ | PROT_WRITE);
}

/* Let the kernel start to read blocks from the disk. */
static void ask_for(const struct file *file, size_t block, size_t count)
{
    const off_t start = (off_t)(block * file->block_bytes);
    posix_fadvise(file->descriptor, start, (off_t)(count * file->block_bytes), POSIX_FADV_WILLNEED);
}

/* Verify a block and make it accessible; returns only if it is sound. */
static void verify_block(struct file *file, size_t block)
{
    if (atomic_load(&file->is_verified[block]))
        return;
    const int is_in_order = block > 0 && atomic_load(&file->is_verified[block - 1]);
    ask_for(file, block, is_in_order ? AHEAD_BLOCKS : 1);
    if (!is_sound(file, block))
        give_up(file);
    const size_t from = block * file->block_bytes;
    const size_t to = block + 1 < file->num_blocks ? from + file->block_bytes : file->size;
    if (open_up(file, from, to) == 0) {
        atomic_store(&file->is_verified[block], 1);
        return;
    }
    /* The process has too many mappings: verified blocks split this one. Verify all, to join it. */
    for (size_t other = 0; other < file->num_blocks; other++)
        if (!atomic_load(&file->is_verified[other]) && !is_sound(file, other))
            give_up(file);
    if (open_up(file, 0, file->size) < 0)
        _exit(file->exit_status); /* no memory for page tables */
    for (size_t other = 0; other < file->num_blocks; other++)
        atomic_store(&file->is_verified[other], 1);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const int error = errno;
    const char *address = info->si_addr;
    (void)context;
    for (int i = 0; i < FILES_MAX; i++) {
        const char *start = atomic_load(&slots[i].start);
        if (start == NULL || address < start || address >= start + atomic_load(&slots[i].size))
            continue;
        struct file *file = slots[i].file;
        size_t block = (size_t)(address - file->start) / file->block_bytes;
        if (block >= file->num_blocks)
            block = file->num_blocks - 1; /* it extends to the mapping's end */
        verify_block(file, block);
        errno = error;
        return;
    }
    sigaction(number, &former, NULL); /* not ours: the instruction repeats, for the former handler */
    errno = error;
}

/* Ignore former mappings of these addresses. Python unmaps with the GIL released and calls `forget`
   only then; another thread may have mapped a file there meanwhile. The slots stay taken. */
static void supersede(const char *start, size_t size)
{
    for (int i = 0; i < FILES_MAX; i++) {
        const char *other = atomic_load(&slots[i].start);
        if (other != NULL && other < start + size && start < other + atomic_load(&slots[i].size))
            atomic_store(&slots[i].size, 0);
    }
}

/* --- what Python calls */

PyObject *lazy_verification_watch(PyObject *self, PyObject *args)
{
    Py_buffer mapping, checksums;
    Py_ssize_t first, end, block_bytes;
    int descriptor, exit_status;
    const char *texts[3];
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*nnniyyyi", &mapping, &checksums, &first, &end, &block_bytes,
                          &descriptor, &texts[0], &texts[1], &texts[2], &exit_status))
        return NULL;
    const size_t num_blocks = (size_t)checksums.len / sizeof(uint64_t);
    size_t lengths = 0;
    for (int i = 0; i < 3; i++)
        lengths += strlen(texts[i]) + 1;
    long handle = 0;
    while (handle < FILES_MAX && atomic_load(&slots[handle].start) != NULL)
        handle++;
    struct file *file = NULL;
    if (handle < FILES_MAX)
        file = calloc(1, sizeof *file + num_blocks * (sizeof(uint64_t) + 1) + lengths);
    if (file != NULL) {
        uint64_t *sums = (uint64_t *)file->memory;
        memcpy(sums, checksums.buf, num_blocks * sizeof *sums);
        file->start = mapping.buf;
        file->size = (size_t)mapping.len;
        file->first = (size_t)first;
        file->end = (size_t)end;
        file->block_bytes = (size_t)block_bytes;
        file->num_blocks = num_blocks;
        file->descriptor = descriptor;
        file->exit_status = exit_status;
        file->checksums = sums;
        file->is_verified = (atomic_uchar *)(sums + num_blocks);
        char *text = (char *)(file->is_verified + num_blocks);
        const char **kept[] = {&file->path, &file->path_aside, &file->message};
        for (int i = 0; i < 3; i++) {
            *kept[i] = strcpy(text, texts[i]);
            text += strlen(text) + 1;
        }
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_RESTART};
        supersede(file->start, file->size);
        if ((has_handler || sigaction(SIGSEGV, &action, &former) == 0) &&
            mprotect(file->start, file->size, PROT_NONE) == 0) {
            has_handler = 1;
            slots[handle].file = file;
            atomic_store(&slots[handle].size, file->size);
            atomic_store(&slots[handle].start, file->start);
        } else {
            free(file);
            file = NULL;
        }
    }
    PyBuffer_Release(&mapping);
    PyBuffer_Release(&checksums);
    return PyLong_FromLong(file == NULL ? -1 : handle);
}

PyObject *lazy_verification_verify(PyObject *self, PyObject *args)
{
    Py_ssize_t handle, first, count;
    (void)self;
    if (!PyArg_ParseTuple(args, "nnn", &handle, &first, &count))
        return NULL;
    struct file *file = slots[handle].file;
    Py_BEGIN_ALLOW_THREADS
    for (size_t block = (size_t)first; block < file->num_blocks && count > 0; block++, count--)
        verify_block(file, block);
    Py_END_ALLOW_THREADS
    Py_IncRef(Py_None);
    return Py_None;
}

PyObject *lazy_verification_forget(PyObject *self, PyObject *args)
{
    Py_ssize_t handle;
    (void)self;
    if (!PyArg_ParseTuple(args, "n", &handle))
        return NULL;
    struct file *file = slots[handle].file;
    atomic_store(&slots[handle].start, NULL);
    close(file->descriptor);
    free(file);
    Py_IncRef(Py_None);
    return Py_None;
}
