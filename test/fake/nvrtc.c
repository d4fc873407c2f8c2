// nvrtc.c - a libnvrtc.so.13 for tests: passes texts on to the driver of cuda.c, which compiles them for the
// host.

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct program {
    char *text;
};

static const char error[] = "kernel.cu(1): error: told to fail";

int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return 0;
}

int nvrtcCreateProgram(struct program **out, const char *source, const char *name, int headers,
                       const char *const *header, const char *const *include) {
    (void)name, (void)headers, (void)header, (void)include;
    *out = malloc(sizeof **out);
    (*out)->text = strdup(source);
    return 0;
}

// Returns whether compilation fails: FAKE_NVRTC_FAILS is a text that no source may contain.
static int fails(const struct program *p) {
    const char *part = getenv("FAKE_NVRTC_FAILS");
    return part && *part && strstr(p->text, part);
}

int nvrtcCompileProgram(struct program *p, int options, const char *const *option) {
    (void)options, (void)option;
    return fails(p) ? 6 : 0;
}

int nvrtcGetCUBINSize(struct program *p, size_t *bytes) {
    *bytes = strlen(p->text) + 1;
    return 0;
}

int nvrtcGetCUBIN(struct program *p, char *out) {
    strcpy(out, p->text);
    return 0;
}

int nvrtcGetProgramLogSize(struct program *p, size_t *bytes) {
    *bytes = fails(p) ? sizeof error : 1;
    return 0;
}

int nvrtcGetProgramLog(struct program *p, char *out) {
    strcpy(out, fails(p) ? error : "");
    return 0;
}

int nvrtcDestroyProgram(struct program **p) {
    free((*p)->text);
    free(*p);
    *p = NULL;
    return 0;
}
