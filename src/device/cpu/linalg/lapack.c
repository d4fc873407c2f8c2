// lapack.c - opens the system's LAPACK library at run time.

#include "device/cpu/gemm/product.h"
#include "device/cpu/linalg/linalg.h"

#include <dlfcn.h>
#include <pthread.h>

static void *library;
static blas_threads *threads;

static void open_library(void) {
    const char *asked = setting_text(SETTING_LAPACK);
    static const char *const usual[] = {"libopenblas.so.0",  "liblapack.so.3", "libflexiblas.so.3",
                                        "libmkl_rt.so.2", "libmkl_rt.so",   NULL};
    library = library_open(*asked ? (const char *const[]){asked, NULL} : usual);
    if (library)
        threads = cpu_blas_threads(library);
    if (threads)
        threads(1);
}

blas_threads *cpu_lapack_threads(void) {
    return threads;
}

void *cpu_lapack(const char *symbol) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    void *function = library ? dlsym(library, symbol) : NULL;
    if (!library && *setting_text(SETTING_LAPACK))
        return error_set(ZL_ERROR_LIBRARY, "ZL_LAPACK=%s could not be opened", setting_text(SETTING_LAPACK));
    if (!function)
        error_set(ZL_ERROR_LIBRARY,
                  "no LAPACK with %s was found: install the Debian package libopenblas0-pthread or "
                  "liblapack3, or name "
                  "a library in ZL_LAPACK",
                  symbol);
    return function;
}
