/* Preloaded into a process, moves its system clock by as many seconds as the file STEPPED_CLOCK says, while it runs:
   what a step by NTP, PTP or GPS looks like to it. The steady clock is left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static long step_s(void) {
    static volatile long *shared;
    if (!shared) {
        const char *file = getenv("STEPPED_CLOCK");
        int descriptor = file ? open(file, O_RDONLY) : -1;
        void *place = descriptor < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, descriptor, 0);
        if (place == MAP_FAILED) abort();
        shared = place;
    }
    return *shared;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += step_s();
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

/* The kernel, which does not know of the step, is given the times until which the process waits in its own: else a wait
   would end at once, and whoever repeats it would take a whole core. A time before 2001 is one of the steady clock. */
static struct timespec in_the_kernels_time(const struct timespec *until) {
    struct timespec moved = *until;
    if (until->tv_sec > 1000000000L) moved.tv_sec -= step_s();
    return moved;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec moved = in_the_kernels_time(until);
    return real(condition, mutex, &moved);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    static int (*real)(pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    struct timespec moved = in_the_kernels_time(until);
    return real(mutex, &moved);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec moved = in_the_kernels_time(until);
    return real(semaphore, &moved);
}
