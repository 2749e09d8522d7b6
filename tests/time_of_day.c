/* The time of day of a process: that of the machine and the microseconds in a file, which others may change.
   Monotonic clocks, timers and waits are left alone. tests/clocks.py compiles and preloads it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_us;

__attribute__((constructor)) static void map_offset(void) {
    int file = open(getenv("TIME_OF_DAY"), O_RDONLY | O_CLOEXEC);
    offset_us = mmap(NULL, sizeof *offset_us, PROT_READ, MAP_SHARED, file, 0);
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && offset_us) {
        int64_t moment_us = now->tv_sec * INT64_C(1000000) + now->tv_nsec / 1000 + *offset_us;
        now->tv_sec = moment_us / 1000000;
        now->tv_nsec = moment_us % 1000000 * 1000 + now->tv_nsec % 1000;
    }
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec moment;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &moment);
    now->tv_sec = moment.tv_sec;
    now->tv_usec = moment.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    if (now) *now = moment.tv_sec;
    return moment.tv_sec;
}
