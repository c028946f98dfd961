/* A preloaded library that lets one system call on files below a folder, or one allocation of memory, fail, chosen by its
 * number.
 *
 * `fail_calls` begins to count from 0 and says which call fails, and whether later writing calls fail as well; `end_calls`
 * ends it and returns how many there were; `call_name` tells what a number was. Calls of other files pass. Buffered
 * streams of C are seen at their own functions, since what libc writes for them passes no symbol.
 *
 * `fail_allocation` counts allocations of all threads from 0 and says which one fails; `end_allocations` ends it and returns
 * how many there were. With PYTHONMALLOC=malloc they are those of Python's objects, too.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_CALLS 65536
#define MOST_FILES 4096

static char folder[4096];
static size_t folder_length;
static atomic_int active, count, failing = -1, onwards, code;
static const char *names[MOST_CALLS];
static atomic_char ours[MOST_FILES];
static FILE *streams[64];

void fail_calls(const char *below, int number, int error, int also_later) {
    strncpy(folder, below, sizeof folder - 1);
    folder_length = strlen(folder);
    count = 0;
    failing = number;
    code = error;
    onwards = also_later;
    active = 1;
}

int end_calls(void) {
    active = 0;
    return count;
}

const char *call_name(int number) { return number < MOST_CALLS ? names[number] : "?"; }

static atomic_int allocating, allocations, failing_allocation = -1;

void fail_allocation(int number) {
    allocations = 0;
    failing_allocation = number;
    allocating = 1;
}

int end_allocations(void) {
    allocating = 0;
    return allocations;
}

static int has_memory(void) {
    if (!allocating || atomic_fetch_add(&allocations, 1) != failing_allocation) return 1;
    errno = ENOMEM;
    return 0;
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) { return has_memory() ? __libc_malloc(size) : NULL; }
void *calloc(size_t number, size_t size) { return has_memory() ? __libc_calloc(number, size) : NULL; }
void *realloc(void *old, size_t size) { return has_memory() ? __libc_realloc(old, size) : NULL; }
void *memalign(size_t at, size_t size) { return has_memory() ? __libc_memalign(at, size) : NULL; }
void *aligned_alloc(size_t at, size_t size) { return memalign(at, size); }

int posix_memalign(void **found, size_t at, size_t size) {
    if (!has_memory()) return ENOMEM;
    *found = __libc_memalign(at, size);
    return *found ? 0 : ENOMEM;
}

static int below(const char *path) {
    return active && path && !strncmp(path, folder, folder_length);
}

static int is_ours(int file) { return active && file >= 0 && file < MOST_FILES && ours[file]; }

static int below_at(int place, const char *path) {
    return below(path) || (path && path[0] != '/' && is_ours(place));
}

static int fails(const char *name, int writes) {
    int number = atomic_fetch_add(&count, 1);
    if (number < MOST_CALLS) names[number] = name;
    if (failing < 0 || number < failing || (number > failing && !(onwards && writes))) return 0;
    errno = code;
    return 1;
}

static int opened(int file, int is_below) {
    if (file >= 0 && file < MOST_FILES) ours[file] = is_below;
    return file;
}

#define REAL(name) \
    static typeof(&name) real; \
    if (!real) real = (typeof(&name))dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        int mine = below(path); \
        if (mine && fails(#name, flags & O_CREAT)) return -1; \
        return opened(real(path, flags, mode), mine); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int place, const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        int mine = below_at(place, path); \
        if (mine && fails(#name, flags & O_CREAT)) return -1; \
        return opened(real(place, path, flags, mode), mine); \
    }
OPENAT(openat)
OPENAT(openat64)

#define ON_FILE(kind, name, writes, more, ...) \
    kind name(int file more) { \
        REAL(name); \
        if (is_ours(file) && fails(#name, writes)) return -1; \
        return real(file __VA_ARGS__); \
    }
#define AND ,
ON_FILE(ssize_t, write, 1, AND const void *from AND size_t size, AND from AND size)
ON_FILE(ssize_t, pwrite, 1, AND const void *from AND size_t size AND off_t at, AND from AND size AND at)
ON_FILE(ssize_t, pwrite64, 1, AND const void *from AND size_t size AND off64_t at, AND from AND size AND at)
ON_FILE(ssize_t, writev, 1, AND const struct iovec *parts AND int number, AND parts AND number)
ON_FILE(ssize_t, read, 0, AND void *to AND size_t size, AND to AND size)
ON_FILE(int, fsync, 1, , )
ON_FILE(int, fdatasync, 1, , )
ON_FILE(int, flock, 0, AND int act, AND act)
ON_FILE(int, ftruncate, 1, AND off_t size, AND size)
ON_FILE(int, ftruncate64, 1, AND off64_t size, AND size)
ON_FILE(int, fstat, 0, AND struct stat *facts, AND facts)
ON_FILE(int, fstat64, 0, AND struct stat64 *facts, AND facts)

int close(int file) {
    REAL(close);
    int mine = is_ours(file);
    if (file >= 0 && file < MOST_FILES) ours[file] = 0;
    int result = real(file); /* closed in any case, as Linux does */
    return mine && fails("close", 0) ? -1 : result;
}

#define ON_PATH(kind, failure, name, writes, more, ...) \
    kind name(const char *path more) { \
        REAL(name); \
        if (below(path) && fails(#name, writes)) return failure; \
        return real(path __VA_ARGS__); \
    }
ON_PATH(int, -1, stat, 0, AND struct stat *facts, AND facts)
ON_PATH(int, -1, stat64, 0, AND struct stat64 *facts, AND facts)
ON_PATH(int, -1, lstat, 0, AND struct stat *facts, AND facts)
ON_PATH(int, -1, lstat64, 0, AND struct stat64 *facts, AND facts)
ON_PATH(int, -1, mkdir, 1, AND mode_t mode, AND mode)
ON_PATH(int, -1, rmdir, 0, , )
ON_PATH(int, -1, unlink, 0, , )
ON_PATH(int, -1, rename, 1, AND const char *to, AND to)
ON_PATH(DIR *, NULL, opendir, 0, , )

#define ON_PLACE(name, writes, more, ...) \
    int name(int place, const char *path more) { \
        REAL(name); \
        if (below_at(place, path) && fails(#name, writes)) return -1; \
        return real(place, path __VA_ARGS__); \
    }
ON_PLACE(mkdirat, 1, AND mode_t mode, AND mode)
ON_PLACE(unlinkat, 0, AND int flags, AND flags)
ON_PLACE(renameat, 1, AND int other AND const char *to, AND other AND to)
ON_PLACE(fstatat, 0, AND struct stat *facts AND int flags, AND facts AND flags)
ON_PLACE(fstatat64, 0, AND struct stat64 *facts AND int flags, AND facts AND flags)

static int place_of(FILE *stream) {
    for (int place = 0; place < 64; place++)
        if (streams[place] == stream) return place;
    return -1;
}

#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        REAL(name); \
        int mine = below(path); \
        if (mine && fails(#name, strchr(mode, 'r') == NULL)) return NULL; \
        FILE *stream = real(path, mode); \
        int place = mine && stream ? place_of(NULL) : -1; \
        if (place >= 0) streams[place] = stream; \
        return stream; \
    }
FOPEN(fopen)
FOPEN(fopen64)

size_t fwrite(const void *from, size_t size, size_t number, FILE *stream) {
    REAL(fwrite);
    if (active && place_of(stream) >= 0 && fails("fwrite", 1)) return 0;
    return real(from, size, number, stream);
}

int fclose(FILE *stream) {
    REAL(fclose);
    int place = stream ? place_of(stream) : -1;
    if (place >= 0) streams[place] = NULL;
    int result = real(stream);
    return place >= 0 && active && fails("fclose", 0) ? EOF : result;
}
