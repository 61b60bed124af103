/* A wall clock that is set forward and back: stands between a program and the C library
   (LD_PRELOAD).

   Adds to the wall clock the seconds that a file has, which the test maps too; see wall_clock.py.
   All other clocks, and waits for them, are the system's. A point of the wall clock until which a
   program waits is turned back into the system's. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t *step;

__attribute__((constructor)) static void map_step(void) {
    const char *path = getenv("WALL_CLOCK");
    if (path == NULL) return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) step = mapped;
}

static int64_t seconds(void) { return step == NULL ? 0 : __atomic_load_n(step, __ATOMIC_SEQ_CST); }

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static int read_clock(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = next("clock_gettime");
    return real(clock, at);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int result = read_clock(clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += seconds();
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (real == NULL) real = next("gettimeofday");
    int result = real(at, zone);
    if (result == 0) at->tv_sec += seconds();
    return result;
}

time_t time(time_t *at) {
    struct timespec now;
    read_clock(CLOCK_REALTIME_COARSE, &now);
    now.tv_sec += seconds();
    if (at != NULL) *at = now.tv_sec;
    return now.tv_sec;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (real == NULL) real = next("sem_timedwait");
    struct timespec at = *until;
    at.tv_sec -= seconds();
    return real(semaphore, &at);
}
