// cudnn.c - a libcudnn.so.9 for tests, if FAKE_CUDNN is set: it has a plan for every graph, and computes
// nothing. It counts the plans that are executed, and rejects memory that is not aligned to 16 bytes, as
// tensors are declared to be.

#include "fake.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_INITIALIZED = 1001, BAD_PARAMETER = 2000, ALLOCATION_FAILED = 4000 };
enum { RESULTS = 202, ENGINE = 300, WORKSPACE = 402, POINTERS = 1001, NOTES = 1303, MOST = 32 };

struct object {
    int64_t count;
    void *pointer[MOST]; // of a variant pack
};

static int64_t runs;

int64_t fake_dnn_runs(void);
int64_t fake_dnn_runs(void) {
    return runs;
}

size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) {
    return 91000;
}

int cudnnCreate(void **out);
int cudnnCreate(void **out) {
    static int handle;
    *out = &handle;
    return getenv("FAKE_CUDNN") ? 0 : NOT_INITIALIZED;
}

int cudnnSetStream(void *handle, struct stream *stream);
int cudnnSetStream(void *handle, struct stream *stream) {
    (void)handle;
    (void)stream;
    return 0;
}

int cudnnBackendCreateDescriptor(int kind, struct object **out);
int cudnnBackendCreateDescriptor(int kind, struct object **out) {
    (void)kind;
    return (*out = calloc(1, sizeof **out)) ? 0 : ALLOCATION_FAILED;
}

int cudnnBackendDestroyDescriptor(struct object *o);
int cudnnBackendDestroyDescriptor(struct object *o) {
    free(o);
    return 0;
}

int cudnnBackendFinalize(struct object *o);
int cudnnBackendFinalize(struct object *o) {
    return o ? 0 : BAD_PARAMETER;
}

int cudnnBackendSetAttribute(struct object *o, int name, int type, int64_t count, const void *value);
int cudnnBackendSetAttribute(struct object *o, int name, int type, int64_t count, const void *value) {
    (void)type;
    if (!o || !value)
        return BAD_PARAMETER;
    if (name != POINTERS)
        return 0;
    if (count > MOST)
        return BAD_PARAMETER;
    memcpy(o->pointer, value, sizeof *o->pointer * (size_t)count);
    o->count = count;
    return 0;
}

int cudnnBackendGetAttribute(struct object *o, int name, int type, int64_t room, int64_t *count, void *out);
int cudnnBackendGetAttribute(struct object *o, int name, int type, int64_t room, int64_t *count, void *out) {
    (void)type;
    if (!o || !room)
        return BAD_PARAMETER;
    *count = name != NOTES; // one configuration, of one engine, which has no notes
    if (name == WORKSPACE)
        *(int64_t *)out = 0;
    return name == RESULTS || name == ENGINE || name == WORKSPACE || name == NOTES ? 0 : BAD_PARAMETER;
}

// Numbers are in host memory, where they need no alignment.
int cudnnBackendExecute(void *handle, struct object *plan, struct object *pack);
int cudnnBackendExecute(void *handle, struct object *plan, struct object *pack) {
    if (!handle || !plan || !pack->count)
        return BAD_PARAMETER;
    for (int64_t i = 0; i < pack->count; i++) {
        const void *memory = pack->pointer[i];
        if (!memory || (fake_show(memory) != memory && (uintptr_t)memory % 16))
            return BAD_PARAMETER;
    }
    runs++;
    return 0;
}
