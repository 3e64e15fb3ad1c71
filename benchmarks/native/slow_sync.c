/* For LD_PRELOAD: each sync of a file takes SLOW_SYNC_MS more, as on the volume of a cloud or on a plain SSD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void rest(void) {
    const char *told = getenv("SLOW_SYNC_MS");
    long ms = told ? atol(told) : 0;
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    if (ms > 0) nanosleep(&t, 0);
}

int fsync(int fd) {
    static int (*next)(int);
    if (!next) next = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    rest();
    return next(fd);
}

int fdatasync(int fd) {
    static int (*next)(int);
    if (!next) next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    rest();
    return next(fd);
}
