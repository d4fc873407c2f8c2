// slow_eval.c - a library to preload: zl_eval takes SLOW_PERCENT longer. Tests plant it to see whether
// `zellige bench check` notices. Built by test/scripts/bench_check.sh.

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool zl_eval(void *array);
bool zl_eval(void *array) {
    static bool (*real)(void *array);
    static double part;
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "zl_eval");
        part = atof(getenv("SLOW_PERCENT")) / 100;
    }
    double start = now();
    bool done = real(array);
    for (double end = now() + part * (now() - start); now() < end;)
        ;
    return done;
}
