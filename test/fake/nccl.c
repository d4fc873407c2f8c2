// nccl.c - a libnccl.so.2 for tests: ranks are processes of one machine, which exchange data by files.
//
// Nothing blocks: a call returns that it is in progress, and ncclCommGetAsyncError that it is done once
// everything it needs from other ranks is there. It is as strict as allowed: it rejects a call while another
// one is in progress, and communicators that block.
//
// FAKE_NCCL=FOLDER: the folder of the files. FAKE_NCCL_FAIL=NAME:N: the N-th call of that function fails with
// code 3; FAKE_NCCL_LATE=NAME:N: it is accepted, and fails later with code 6, as if a connection were lost.
// FAKE_NCCL_VERSION: another release than 2.28.9.

#include "fake.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SYSTEM_ERROR = 2, INTERNAL = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE = 6, IN_PROGRESS = 7 };
enum { NAMES = 32, ASKED = 64, PATH = 320, ITEMS = 10, SUM = 0, MAX = 2, MIN = 3 };

struct id {
    char bytes[128];
};
struct config { // the beginning of ncclConfig_t
    size_t bytes;
    unsigned magic, version;
    int blocking;
};

enum kind { INIT, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SEND, RECV };
struct asked {
    enum kind kind;
    char *out;
    size_t bytes, own; // of the result; of each rank's part
    int type, op, peer;
    unsigned long number;
    bool fails;
};

struct comm {
    char folder[PATH / 2];
    int rank, size;
    unsigned long number, *sent, *got; // collectives so far; messages sent and received, by rank
    struct asked asked[ASKED];
    int waits, failed;
};

static const size_t item[ITEMS] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static int depth;            // of nested groups
static struct comm *grouped; // communicators of the open group

// Faults ----------------------------------------------------------------------------------------------------

static int calls_of(const char *name) {
    static struct {
        const char *name;
        int calls;
    } known[NAMES];
    int at = 0;
    while (known[at].name && strcmp(known[at].name, name) != 0)
        at++;
    known[at].name = name;
    return ++known[at].calls;
}

static bool is_told(const char *variable, const char *name, int call) {
    const char *text = getenv(variable);
    size_t len = strlen(name);
    return text && !strncmp(text, name, len) && text[len] == ':' && atoi(text + len + 1) == call;
}

#define BEGIN(name)                                         \
    int this_call = calls_of(name);                         \
    if (is_told("FAKE_NCCL_FAIL", name, this_call))         \
        return INTERNAL;                                    \
    bool late = is_told("FAKE_NCCL_LATE", name, this_call); \
    (void)late

// Files -----------------------------------------------------------------------------------------------------

static void name_file(const struct comm *c, char *out, const char *what, unsigned long number, int a, int b) {
    snprintf(out, PATH, "%s/%s.%lu.%d.%d", c->folder, what, number, a, b);
}

static int put(const char *path, const void *data, size_t bytes) {
    char beside[PATH + 8];
    snprintf(beside, sizeof beside, "%s.new", path);
    FILE *f = fopen(beside, "wb");
    bool ok = f && (!bytes || fwrite(data, bytes, 1, f) == 1);
    return f && fclose(f) == 0 && ok && !rename(beside, path) ? 0 : SYSTEM_ERROR;
}

static bool get(const char *path, void *data, size_t bytes) {
    FILE *f = fopen(path, "rb");
    bool ok = f && (!bytes || fread(data, bytes, 1, f) == 1);
    if (f)
        fclose(f);
    return ok;
}

// Numbers ---------------------------------------------------------------------------------------------------

static float half_to_float(uint16_t h, bool brain) {
    union {
        uint32_t bits;
        float value;
    } u = {brain ? (uint32_t)h << 16 : ((uint32_t)(h & 0x8000) << 16)};
    if (brain)
        return u.value;
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    float f = exponent ? (float)(1024 + mantissa) : (float)mantissa;
    for (int e = exponent ? exponent : 1; e < 25; e++)
        f /= 2;
    for (int e = 25; e < exponent; e++)
        f *= 2;
    return h & 0x8000 ? -f : f;
}

// Converts a number to f16, or if `brain` to bf16. The tests only have numbers that the type holds exactly.
static uint16_t float_to_half(float f, bool brain) {
    if (brain) {
        union {
            float value;
            uint32_t bits;
        } u = {f};
        return (uint16_t)(u.bits >> 16);
    }
    for (unsigned h = 0; h < 0x7c00; h++)
        if (half_to_float((uint16_t)h, false) == (f < 0 ? -f : f))
            return (uint16_t)(h | (f < 0 ? 0x8000 : 0));
    return 0x7e00;
}

#define COMBINE(T)                                                                           \
    do {                                                                                     \
        const T x = *(const T *)a, y = *(const T *)b;                                        \
        *(T *)a = (T)(op == SUM ? (T)(x + y) : op == MAX ? (x > y ? x : y) : x < y ? x : y); \
    } while (0)

static void combine_one(void *a, const void *b, int type, int op) {
    switch (type) {
    case 0: COMBINE(int8_t); break;
    case 1: COMBINE(uint8_t); break;
    case 2: COMBINE(int32_t); break;
    case 3: COMBINE(uint32_t); break;
    case 4: COMBINE(int64_t); break;
    case 5: COMBINE(uint64_t); break;
    case 7: COMBINE(float); break;
    case 8: COMBINE(double); break;
    default: {
        float x[2] = {half_to_float(*(uint16_t *)a, type == 9),
                      half_to_float(*(const uint16_t *)b, type == 9)};
        x[0] = op == SUM ? x[0] + x[1] : op == MAX ? (x[0] > x[1] ? x[0] : x[1]) : x[0] < x[1] ? x[0] : x[1];
        *(uint16_t *)a = float_to_half(x[0], type == 9);
    }
    }
}

static void combine(char *to, const char *with, size_t bytes, int type, int op) {
    for (size_t at = 0; at < bytes; at += item[type])
        combine_one(to + at, with + at, type, op);
}

// Progress --------------------------------------------------------------------------------------------------

// Returns the data of all ranks, in order; NULL if some are not there yet.
static char *gather(const struct comm *c, const struct asked *a) {
    char *all = malloc(a->own * (size_t)c->size + 1), path[PATH];
    for (int k = 0; k < c->size; k++) {
        name_file(c, path, a->kind == INIT ? "init" : "all", a->number, k, 0);
        if ((a->kind != BROADCAST || k == a->peer) && !get(path, all + a->own * (size_t)k, a->own)) {
            free(all);
            return NULL;
        }
    }
    return all;
}

static bool do_collective(struct comm *c, const struct asked *a) {
    char *all = gather(c, a), path[PATH];
    size_t from = a->kind == REDUCE_SCATTER ? a->bytes * (size_t)c->rank : 0;
    if (!all)
        return false;
    if (a->kind == ALL_REDUCE || a->kind == REDUCE_SCATTER)
        for (int k = 1; k < c->size; k++)
            combine(all + from, all + a->own * (size_t)k + from, a->bytes, a->type, a->op);
    if (a->kind != INIT)
        memcpy(a->out, all + (a->kind == BROADCAST ? a->own * (size_t)a->peer : from), a->bytes);
    free(all);
    if (a->number > 2) { // all ranks have completed the one before the last
        name_file(c, path, "all", a->number - 2, c->rank, 0);
        unlink(path);
    }
    return true;
}

static bool do_one(struct comm *c, const struct asked *a) {
    char path[PATH];
    if (a->kind != RECV)
        return a->kind == SEND || do_collective(c, a);
    name_file(c, path, "one", a->number, a->peer, c->rank);
    if (!get(path, a->out, a->bytes))
        return false;
    unlink(path);
    return true;
}

int ncclCommGetAsyncError(struct comm *c, int *code) {
    BEGIN("ncclCommGetAsyncError");
    while (c->waits && !c->failed) {
        if (c->asked[0].fails)
            c->failed = REMOTE;
        else if (!do_one(c, &c->asked[0]))
            break;
        memmove(c->asked, c->asked + 1, sizeof c->asked[0] * (size_t)--c->waits);
    }
    *code = c->failed ? c->failed : c->waits ? IN_PROGRESS : 0;
    return 0;
}

// Calls -----------------------------------------------------------------------------------------------------

// Enqueues a call; the rank's own data are written at once.
static int ask(struct comm *c, struct asked a, const void *in, void *stream) {
    char path[PATH];
    if ((c->waits && !depth) || c->waits == ASKED || a.type < 0 || a.type >= ITEMS || c->failed)
        return INVALID_USAGE;
    if (stream && cuStreamSynchronize(stream))
        return 1;
    if (a.kind == SEND)
        name_file(c, path, "one", ++c->sent[a.peer], c->rank, a.peer);
    else if (a.kind == RECV)
        a.number = ++c->got[a.peer];
    else
        name_file(c, path, a.kind == INIT ? "init" : "all", a.number = a.kind == INIT ? 0 : ++c->number,
                  c->rank, 0);
    int failed = a.kind == RECV ? 0 : put(path, in, a.own);
    c->asked[c->waits++] = a;
    grouped = c;
    return failed ? failed : depth ? 0 : IN_PROGRESS;
}

int ncclGetVersion(int *version) {
    *version = getenv("FAKE_NCCL_VERSION") ? atoi(getenv("FAKE_NCCL_VERSION")) : 22809;
    return 0;
}

const char *ncclGetErrorString(int code) {
    return code == INTERNAL ? "internal error"
           : code == REMOTE ? "remote process exited or there was a network error"
                            : "error";
}

const char *ncclGetLastError(struct comm *c) {
    return c->failed ? "a connection was lost" : "";
}

int ncclGetUniqueId(struct id *out) {
    BEGIN("ncclGetUniqueId");
    snprintf(out->bytes, sizeof out->bytes, "%s/comm-XXXXXX", getenv("FAKE_NCCL"));
    return mkdtemp(out->bytes) ? 0 : SYSTEM_ERROR;
}

int ncclCommInitRankConfig(struct comm **out, int size, struct id id, int rank, struct config *config) {
    BEGIN("ncclCommInitRankConfig");
    if (config->magic != 0xcafebeef || config->version < 21400 || config->blocking)
        return INVALID_ARGUMENT;
    struct comm *c = *out = calloc(1, sizeof *c);
    c->rank = rank;
    c->size = size;
    c->sent = calloc((size_t)size, sizeof *c->sent);
    c->got = calloc((size_t)size, sizeof *c->got);
    snprintf(c->folder, sizeof c->folder, "%s", id.bytes);
    return ask(c, (struct asked){.kind = INIT, .own = 1, .fails = late}, "", NULL);
}

static int drop(struct comm *c) {
    free(c->sent);
    free(c->got);
    free(c);
    return 0;
}

int ncclCommDestroy(struct comm *c) {
    BEGIN("ncclCommDestroy");
    return drop(c);
}

// The file `aborted` in the folder FAKE_NCCL shows that this was called.
int ncclCommAbort(struct comm *c) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/aborted.%d", getenv("FAKE_NCCL"), c->rank);
    put(path, "", 0);
    return drop(c);
}

int ncclCommFinalize(struct comm *c) {
    BEGIN("ncclCommFinalize");
    return c->waits ? INVALID_USAGE : IN_PROGRESS;
}

int ncclGroupStart(void) {
    BEGIN("ncclGroupStart");
    depth++;
    return 0;
}

int ncclGroupEnd(void) {
    BEGIN("ncclGroupEnd");
    return --depth < 0 ? INVALID_USAGE : grouped && grouped->waits ? IN_PROGRESS : 0;
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, struct comm *c, void *stream) {
    BEGIN("ncclAllReduce");
    size_t bytes = count * item[type];
    return ask(c, (struct asked){ALL_REDUCE, fake_show(out), bytes, bytes, type, op, 0, 0, late},
               fake_show(in), stream);
}

int ncclAllGather(const void *in, void *out, size_t count, int type, struct comm *c, void *stream) {
    BEGIN("ncclAllGather");
    size_t bytes = count * item[type];
    return ask(
        c, (struct asked){ALL_GATHER, fake_show(out), bytes * (size_t)c->size, bytes, type, 0, 0, 0, late},
        fake_show(in), stream);
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, struct comm *c,
                      void *stream) {
    BEGIN("ncclReduceScatter");
    size_t bytes = count * item[type];
    return ask(
        c,
        (struct asked){REDUCE_SCATTER, fake_show(out), bytes, bytes * (size_t)c->size, type, op, 0, 0, late},
        fake_show(in), stream);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, struct comm *c, void *stream) {
    BEGIN("ncclBroadcast");
    size_t bytes = count * item[type];
    return ask(c, (struct asked){BROADCAST, fake_show(out), bytes, bytes, type, 0, root, 0, late},
               fake_show(in), stream);
}

int ncclSend(const void *in, size_t count, int type, int to, struct comm *c, void *stream) {
    BEGIN("ncclSend");
    size_t bytes = count * item[type];
    return ask(c, (struct asked){SEND, NULL, bytes, bytes, type, 0, to, 0, late}, fake_show(in), stream);
}

int ncclRecv(void *out, size_t count, int type, int from, struct comm *c, void *stream) {
    BEGIN("ncclRecv");
    size_t bytes = count * item[type];
    return ask(c, (struct asked){RECV, fake_show(out), bytes, bytes, type, 0, from, 0, late}, NULL, stream);
}
