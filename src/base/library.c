// library.c - opens libraries of the system at run time.

#include "base/base.h"

#include <dlfcn.h>

void *library_open(const char *const *names) {
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
        log_line(ZL_LOG_DEBUG, "%s", dlerror());
    }
    return NULL;
}

bool library_is_loaded(const char *const *names) {
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_NOLOAD);
        if (library)
            return dlclose(library), true;
    }
    return false;
}

bool library_bind(void *library, const struct library_symbol *symbols, int count, const char **missing) {
    for (int i = 0; i < count; i++) {
        *symbols[i].address = dlsym(library, symbols[i].name);
        if (*symbols[i].address)
            continue;
        if (missing)
            *missing = symbols[i].name;
        return false;
    }
    return true;
}
