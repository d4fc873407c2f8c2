// compile_mode.c - how far this process compiles functions and fuses calls, set by ZL_COMPILE or by the
// program.

#include "base/base.h"

#include <string.h>

static const char *const mode_names[] = {"disabled", "no_simplify", "no_fuse", "enabled"};
static atomic_int mode = -1; // -1: the mode of ZL_COMPILE, not read yet

static int mode_from_setting(void) {
    for (int i = 0; i < (int)COUNT(mode_names); i++)
        if (!strcmp(setting_text(SETTING_COMPILE), mode_names[i]))
            return i;
    setting_refuse(SETTING_COMPILE, "disabled, no_simplify, no_fuse or enabled");
    return ZL_COMPILE_ENABLED;
}

zl_compile_mode zl_get_compile_mode(void) {
    int now = atomic_load_explicit(&mode, memory_order_relaxed);
    if (now < 0)
        atomic_store_explicit(&mode, now = mode_from_setting(), memory_order_relaxed);
    return (zl_compile_mode)now;
}

bool zl_set_compile_mode(zl_compile_mode which) {
    if ((unsigned)which >= COUNT(mode_names))
        return error_false(ZL_ERROR_VALUE, "zl_set_compile_mode: mode %d: a mode is 0 to %d", (int)which,
                           (int)COUNT(mode_names) - 1);
    atomic_store_explicit(&mode, (int)which, memory_order_relaxed);
    return true;
}
