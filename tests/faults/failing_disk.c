/* A disk that fails: stands between a program and the C library (LD_PRELOAD).

   Counts the calls that change what is below one folder, over all processes that share the control
   block, and lets one of them fail (a device error), or all from one on that need room (a full
   disk). LMDB and Python both come through here. The control block is a file that the test maps
   too; see failing_disk.py, which has the same layout. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

struct control {
    int64_t num_calls;    /* that changed something below the folder since it was armed */
    int64_t num_failures; /* that were answered with an error, or cut short */
    int64_t fail_at;      /* ordinal of the first call that fails, from 1; 0: none */
    int64_t error;        /* errno of a failing call */
    int64_t is_full;      /* whether every later call that needs room fails too */
    int64_t is_late;      /* whether a write that fails was done: the device has what it refused */
    char folder[4096];
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
    const char *path = getenv("FAILING_DISK");
    if (path == NULL) return;
    int file = (int)open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) control = mapped;
}

static int is_ours(const char *path) {
    if (control == NULL || path == NULL) return 0;
    size_t length = strlen(control->folder);
    if (length == 0 || strncmp(path, control->folder, length) != 0) return 0;
    if (path[length] != '/' && path[length] != 0) return 0; /* the log beside it: data.log */
    const char *name = strrchr(path, '/');
    return name == NULL || strcmp(name, "/lock.mdb") != 0; /* memory that LMDB shares, no storage */
}

static int is_our_file(int file) {
    char link[64], path[PATH_MAX];
    if (control == NULL || control->folder[0] == 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

/* Whether this call fails. */
static int fails(int needs_room) {
    int64_t fail_at = __atomic_load_n(&control->fail_at, __ATOMIC_SEQ_CST);
    if (control->is_full && !needs_room) return 0;
    int64_t ordinal = __atomic_add_fetch(&control->num_calls, 1, __ATOMIC_SEQ_CST);
    if (fail_at == 0 || ordinal < fail_at || (ordinal > fail_at && !control->is_full)) return 0;
    __atomic_add_fetch(&control->num_failures, 1, __ATOMIC_SEQ_CST);
    errno = (int)control->error;
    return 1;
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

/* Bytes of a write that lie in blocks which the file has already. */
static size_t bytes_inside(int file, off_t offset, size_t size) {
    struct stat status;
    if (fstat(file, &status) != 0 || offset >= status.st_size) return 0;
    size_t inside = (size_t)(status.st_size - offset);
    return inside < size ? inside : size;
}

static ssize_t write_at(int file, const void *data, size_t size, off_t offset, int is_positioned) {
    static ssize_t (*real_write)(int, const void *, size_t);
    static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
    if (real_write == NULL) real_write = next("write");
    if (real_pwrite == NULL) real_pwrite = next("pwrite");
    if (is_our_file(file) && size > 0) {
        off_t start = is_positioned ? offset : lseek(file, 0, SEEK_CUR);
        size_t inside = bytes_inside(file, start, size);
        if (fails(inside < size)) {
            if (control->is_late) {
                if (is_positioned) real_pwrite(file, data, size, offset);
                else real_write(file, data, size);
                errno = (int)control->error;
                return -1;
            }
            if (!control->is_full || inside == 0) return -1;
            size = inside; /* short, as far as there are blocks */
        }
    }
    return is_positioned ? real_pwrite(file, data, size, offset) : real_write(file, data, size);
}

ssize_t write(int file, const void *data, size_t size) { return write_at(file, data, size, 0, 0); }

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    return write_at(file, data, size, offset, 1);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    return write_at(file, data, size, offset, 1);
}

/* A vector is written as one piece, so that it may end short anywhere. */
static ssize_t write_vector(int file, const struct iovec *parts, int count, off_t offset,
                            int is_positioned) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    char *data = malloc(size ? size : 1), *end = data;
    if (data == NULL) abort();
    for (int i = 0; i < count; i++) end = mempcpy(end, parts[i].iov_base, parts[i].iov_len);
    ssize_t written = write_at(file, data, size, offset, is_positioned);
    int error = errno;
    free(data);
    errno = error;
    return written;
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!is_our_file(file)) {
        if (real == NULL) real = next("writev");
        return real(file, parts, count);
    }
    return write_vector(file, parts, count, 0, 0);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t);
    if (!is_our_file(file)) {
        if (real == NULL) real = next("pwritev");
        return real(file, parts, count, offset);
    }
    return write_vector(file, parts, count, offset, 1);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t offset) {
    return pwritev(file, parts, count, offset);
}

#define ON_FILE(name, declaration, arguments)              \
    int name declaration {                                 \
        static int(*real) declaration;                     \
        if (real == NULL) real = next(#name);              \
        if (is_our_file(file) && fails(0)) return -1;      \
        return real arguments;                             \
    }
ON_FILE(fsync, (int file), (file))
ON_FILE(fdatasync, (int file), (file))
ON_FILE(ftruncate, (int file, off_t size), (file, size))
ON_FILE(ftruncate64, (int file, off64_t size), (file, size))

static int exists(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

#define ON_NAME(name, makes, declaration, arguments)                                           \
    int name declaration {                                                                     \
        static int(*real) declaration;                                                         \
        if (real == NULL) real = next(#name);                                                  \
        if (is_ours(target) && !(makes && exists(target)) && fails(makes)) return -1;          \
        return real arguments;                                                                 \
    }
ON_NAME(rename, 0, (const char *source, const char *target), (source, target))
ON_NAME(renameat, 0, (int from, const char *source, int to, const char *target),
        (from, source, to, target))
ON_NAME(renameat2, 0,
        (int from, const char *source, int to, const char *target, unsigned int flags),
        (from, source, to, target, flags))
ON_NAME(link, 1, (const char *source, const char *target), (source, target))
ON_NAME(linkat, 1, (int from, const char *source, int to, const char *target, int flags),
        (from, source, to, target, flags))
ON_NAME(mkdir, 1, (const char *target, mode_t mode), (target, mode))
ON_NAME(mkdirat, 1, (int at, const char *target, mode_t mode), (at, target, mode))

/* Opening changes something if it makes a file. */
static int open_fails(const char *path, int flags) {
    return (flags & O_CREAT) && is_ours(path) && !exists(path) && fails(1);
}

static mode_t mode_of(int flags, va_list arguments) {
    return (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(arguments, mode_t) : 0;
}

#define OPEN(name)                                                     \
    int name(const char *path, int flags, ...) {                       \
        static int (*real)(const char *, int, ...);                    \
        va_list arguments;                                             \
        va_start(arguments, flags);                                    \
        mode_t mode = mode_of(flags, arguments);                       \
        va_end(arguments);                                             \
        if (real == NULL) real = next(#name);                          \
        return open_fails(path, flags) ? -1 : real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                                      \
    int name(int at, const char *path, int flags, ...) {                   \
        static int (*real)(int, const char *, int, ...);                   \
        va_list arguments;                                                 \
        va_start(arguments, flags);                                        \
        mode_t mode = mode_of(flags, arguments);                           \
        va_end(arguments);                                                 \
        if (real == NULL) real = next(#name);                              \
        return open_fails(path, flags) ? -1 : real(at, path, flags, mode); \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

/* While the disk is full, whoever asks is told so. */
static void tell_full(const char *path, unsigned long *free, unsigned long *available) {
    if (is_ours(path) && control->is_full && control->num_failures > 0) *free = *available = 0;
}

int statvfs(const char *path, struct statvfs *status) {
    static int (*real)(const char *, struct statvfs *);
    if (real == NULL) real = next("statvfs");
    int result = real(path, status);
    if (result == 0) tell_full(path, &status->f_bfree, &status->f_bavail);
    return result;
}

int statvfs64(const char *path, struct statvfs64 *status) {
    static int (*real)(const char *, struct statvfs64 *);
    if (real == NULL) real = next("statvfs64");
    int result = real(path, status);
    if (result == 0) tell_full(path, &status->f_bfree, &status->f_bavail);
    return result;
}
