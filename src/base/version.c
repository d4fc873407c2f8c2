// version.c - the version of the library that is running.

#include "base/base.h"

#define TEXT_OF(value) #value
#define TEXT(value)    TEXT_OF(value)

const char *zl_version(void) {
    return TEXT(ZL_VERSION_MAJOR) "." TEXT(ZL_VERSION_MINOR) "." TEXT(ZL_VERSION_PATCH);
}
