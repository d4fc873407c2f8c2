// pjrt.c - a PJRT plugin without a compiler of its own: it evaluates small programs (pjrt_text.c), fails on
// request, and counts the objects that callers have not given back.
//
// FAKE_PJRT is a list of its properties, separated by commas:
//   major=N minor=N   its version, 0.81 otherwise
//   short=N           its table ends after N functions; without=N: function N is missing in it
//   grown             it is newer than its callers: its structures of arguments have more members than theirs
//   fail=N            the N-th call fails; code=N: with that code, 13 otherwise
//   busy              another process has the chip; the message is that of libtpu
//   mute              its errors have no message
//   null              GetPjrtApi returns nothing
//   late              events are not done until something waits for them
//   units=N           number of devices, 2 otherwise; memory=N: bytes of each
//   kind=TEXT         name of the kind of these devices
//   profiler          it has a profiler: the k-th execution takes k microseconds
//   profiler=streams  that shows two kernels per execution, of half of the time each
//   profiler=lost     that lacks one execution
// Tests find fake_fail and the like (fake.h) by dlsym.

#include "device/pjrt/pjrt_abi.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pjrt_text.h"

enum { UNITS_MOST = 8, INVALID = 3, EXHAUSTED = 8, UNIMPLEMENTED = 12, INTERNAL = 13 };

// What it is told -------------------------------------------------------------------------------------------

// Returns the text after a word of FAKE_PJRT; NULL if it does not have the word.
static const char *setting(const char *word) {
    const char *list = getenv("FAKE_PJRT");
    size_t size = strlen(word);
    for (; list && *list; list += strcspn(list, ","), list += *list == ',')
        if (!strncmp(list, word, size) && (strchr(",=", list[size])))
            return list + size + (list[size] == '=');
    return NULL;
}

static int64_t number(const char *word, int64_t otherwise) {
    const char *text = setting(word);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char function[64]; // "": any function
    int64_t after;     // number of calls until one fails; 0: none fails
    int code;
} failing;
static int64_t calls, bytes_used, bytes_most = INT64_MAX;
static char misuse[200]; // the first misuse

void fake_fail(const char *function, int after, int code);
void fake_heal(void);
int64_t fake_calls(void);
int64_t fake_alive(const char *kind);
void fake_memory(size_t bytes);
void fake_meet(int compiles); // makes this many compilations wait for each other; they fail if the others do
                              // not begin
const char *fake_disorder(void);

// Other fakes in the process have functions of the same names, so this file calls functions of its own.
static void fail(const char *function, int after, int code) {
    pthread_mutex_lock(&lock);
    snprintf(failing.function, sizeof failing.function, "%s", function);
    failing.after = after;
    failing.code = code;
    pthread_mutex_unlock(&lock);
}

void fake_fail(const char *function, int after, int code) {
    fail(function, after, code);
}

void fake_heal(void) {
    fail("", 0, 0);
}

int64_t fake_calls(void) {
    return calls;
}

static int expected, arrived;
static pthread_cond_t meeting = PTHREAD_COND_INITIALIZER;

void fake_meet(int compiles) {
    pthread_mutex_lock(&lock);
    expected = compiles;
    arrived = 0;
    pthread_mutex_unlock(&lock);
}

static bool meet(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&lock);
    int late = 0;
    if (++arrived >= expected)
        pthread_cond_broadcast(&meeting);
    while (arrived < expected && !late)
        late = pthread_cond_timedwait(&meeting, &lock, &until);
    pthread_mutex_unlock(&lock);
    return !late;
}

void fake_memory(size_t bytes) {
    bytes_most = (int64_t)bytes;
}

const char *fake_disorder(void) {
    return misuse[0] ? misuse : NULL;
}

// Things ----------------------------------------------------------------------------------------------------

// An object that callers hold. Destroyed ones are kept, so that their use is detected.
struct thing {
    const char *kind; // "client", "error", "event", "buffer", "program", "compiled", "topology"
    bool is_gone;
    int code;           // of an error, or the result of an event: 0 if it succeeded
    bool is_late;       // of an event: nothing has waited for it yet
    char message[200];  // of an error
    struct tensor type; // of a buffer
    uint8_t *element;   // of a buffer
    int64_t bytes;
    bool is_poisoned; // of a buffer: its execution failed
    char *text;       // of a program
    struct thing *next;
};

static struct thing *things;

int64_t fake_alive(const char *kind) {
    int64_t count = 0;
    pthread_mutex_lock(&lock);
    for (struct thing *t = things; t; t = t->next)
        count += !t->is_gone && (!*kind || !strcmp(kind, t->kind));
    pthread_mutex_unlock(&lock);
    return count;
}

__attribute__((format(printf, 1, 2))) static void note_misuse(const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (!misuse[0])
        vsnprintf(misuse, sizeof misuse, format, list);
    va_end(list);
}

static struct thing *make(const char *kind) {
    struct thing *t = calloc(1, sizeof *t);
    t->kind = kind;
    pthread_mutex_lock(&lock);
    t->next = things;
    things = t;
    pthread_mutex_unlock(&lock);
    return t;
}

static struct thing *check(const void *handle, const char *kind, const char *function) {
    struct thing *t = (struct thing *)handle;
    if (!t)
        note_misuse("%s of nothing", function);
    else if (strcmp(t->kind, kind))
        note_misuse("%s of a thing that is no %s but a %s", function, kind, t->kind);
    else if (t->is_gone)
        note_misuse("%s of a %s that is gone", function, kind);
    return t;
}

static void end(struct thing *t) {
    pthread_mutex_lock(&lock);
    t->is_gone = true;
    bytes_used -= t->bytes;
    pthread_mutex_unlock(&lock);
    free(t->element);
    free(t->text);
    t->element = NULL;
    t->text = NULL;
}

// Frees everything at exit, for tools that count leaks.
__attribute__((destructor)) static void free_all(void) {
    for (struct thing *t = things, *next; t; t = next) {
        next = t->next;
        free(t->element);
        free(t->text);
        free(t);
    }
}

__attribute__((format(printf, 2, 3))) static struct pjrt_error *error(int code, const char *format, ...) {
    static const char *const names[] = {[INVALID] = "INVALID_ARGUMENT",
                                        [EXHAUSTED] = "RESOURCE_EXHAUSTED",
                                        [UNIMPLEMENTED] = "UNIMPLEMENTED",
                                        [INTERNAL] = "INTERNAL"};
    struct thing *t = make("error");
    t->code = code;
    int used = snprintf(t->message, sizeof t->message, "%s: ", names[code]);
    va_list list;
    va_start(list, format);
    vsnprintf(t->message + used, sizeof t->message - (size_t)used, format, list);
    va_end(list);
    return (struct pjrt_error *)(void *)t;
}

static struct pjrt_event *event(int code) {
    struct thing *t = make("event");
    t->code = code;
    t->is_late = setting("late");
    return (struct pjrt_event *)(void *)t;
}

static struct thing *buffer(const struct tensor *type) {
    struct thing *t = make("buffer");
    t->type = *type;
    bool is_word = strstr(type->type, "32"), is_half = strstr(type->type, "16");
    t->bytes = tensor_size(type) * (strstr(type->type, "64") ? 8 : is_word ? 4 : is_half ? 2 : 1);
    pthread_mutex_lock(&lock);
    bytes_used += t->bytes;
    pthread_mutex_unlock(&lock);
    t->element = calloc((size_t)t->bytes + 1, 1);
    return t;
}

// Counts a call, and returns an error if it is to fail.
static struct pjrt_error *refuse(const char *function, size_t size, size_t least) {
    pthread_mutex_lock(&lock);
    calls++;
    bool fails = failing.after > 0 && (!failing.function[0] || !strcmp(failing.function, function)) &&
                 --failing.after == 0;
    int code = failing.code;
    pthread_mutex_unlock(&lock);
    if (fails)
        return error(code, "%s was told to fail", function);
    if (setting("grown"))
        least += 2 * sizeof(void *);
    return size < least ? error(INVALID, "%s: struct of %zu bytes, %zu are needed", function, size, least)
                        : NULL;
}

// Does the same for a structure that another one points to.
static struct pjrt_error *refuse_part(const char *name, size_t size, size_t least) {
    least += setting("grown") ? 2 * sizeof(void *) : 0;
    return size < least ? error(INVALID, "%s of %zu bytes, %zu are needed", name, size, least) : NULL;
}

// Functions -------------------------------------------------------------------------------------------------

// Opens a function of the table. There are three kinds: those that may fail; those that do their work even if
// they fail, since what they destroy is gone; and those of errors, which cannot fail.
#define FUNCTION(name)                                                         \
    static struct pjrt_error *run_##name(struct pjrt_##name *a);               \
    static struct pjrt_error *do_##name(struct pjrt_##name *a) {               \
        struct pjrt_error *refused = refuse(#name, a->struct_size, sizeof *a); \
        return refused ? refused : run_##name(a);                              \
    }                                                                          \
    static struct pjrt_error *run_##name(struct pjrt_##name *a)
#define FUNCTION_OF_ENDS(name)                                   \
    static void run_##name(struct pjrt_##name *a);               \
    static struct pjrt_error *do_##name(struct pjrt_##name *a) { \
        run_##name(a);                                           \
        return refuse(#name, a->struct_size, sizeof *a);         \
    }                                                            \
    static void run_##name(struct pjrt_##name *a)
#define FUNCTION_OF_ERRORS(name) static struct pjrt_error *do_##name(struct pjrt_##name *a)
#define GOOD                     ((struct pjrt_error *)NULL)

FUNCTION_OF_ERRORS(Error_Destroy) {
    end(check(a->error, "error", "Error_Destroy"));
    return GOOD;
}

FUNCTION_OF_ERRORS(Error_Message) {
    const struct thing *t = check(a->error, "error", "Error_Message");
    a->message = setting("mute") ? NULL : t->message;
    a->message_size = setting("mute") ? 0 : strlen(t->message);
    return GOOD;
}

FUNCTION_OF_ERRORS(Error_GetCode) {
    a->code = check(a->error, "error", "Error_GetCode")->code;
    return GOOD;
}

FUNCTION(Plugin_Initialize) {
    (void)a;
    return GOOD;
}

FUNCTION(Plugin_Attributes) {
    a->attributes = NULL;
    a->count = 0;
    return GOOD;
}

FUNCTION_OF_ENDS(Event_Destroy) {
    end(check(a->event, "event", "Event_Destroy"));
}

FUNCTION(Event_IsReady) {
    a->is_ready = !check(a->event, "event", "Event_IsReady")->is_late;
    return GOOD;
}

FUNCTION(Event_Await) {
    struct thing *t = check(a->event, "event", "Event_Await");
    t->is_late = false;
    return t->code ? error(t->code, "what the event was of failed") : GOOD;
}

// A device is only an address.
static char unit_of[UNITS_MOST];
static struct pjrt_device *devices[UNITS_MOST];

static size_t unit_count(void) {
    size_t count = (size_t)number("units", 2);
    for (size_t i = 0; i < UNITS_MOST; i++)
        devices[i] = (struct pjrt_device *)(void *)&unit_of[i];
    return count;
}

FUNCTION(Client_Create) {
    if (setting("busy"))
        return error(INTERNAL,
                     "The TPU is already in use by process with pid 4711. Not attempting to load libtpu.so "
                     "in this process.");
    a->client = (struct pjrt_client *)(void *)make("client");
    bytes_most = number("memory", INT64_MAX);
    return GOOD;
}

FUNCTION_OF_ENDS(Client_Destroy) {
    end(check(a->client, "client", "Client_Destroy"));
}

FUNCTION(Client_PlatformName) {
    a->name = "fake";
    a->name_size = 4;
    return GOOD;
}

FUNCTION(Client_PlatformVersion) {
    a->version = "fake plugin of the tests\nbuilt now";
    a->version_size = strlen(a->version);
    return GOOD;
}

FUNCTION(Client_AddressableDevices) {
    a->count = unit_count();
    a->devices = devices;
    return GOOD;
}

FUNCTION(Device_GetDescription) {
    a->description = (struct pjrt_description *)(void *)a->device;
    return GOOD;
}

FUNCTION(DeviceDescription_Kind) {
    static char kind[64];
    const char *text = setting("kind");
    snprintf(kind, sizeof kind, "%.*s", (int)(text ? strcspn(text, ",") : 9), text ? text : "fake chip");
    a->kind = kind;
    a->kind_size = strlen(kind);
    return GOOD;
}

FUNCTION(Device_MemoryStats) {
    a->in_use = bytes_used;
    a->limit.value = bytes_most;
    a->limit.is_set = bytes_most < INT64_MAX;
    return GOOD;
}

// Programs --------------------------------------------------------------------------------------------------

static struct pjrt_error *compile(const struct pjrt_program *p, const char *options, size_t bytes,
                                  const char *kind, struct thing **out) {
    struct tensor type[2][FAKE_ARGUMENTS];
    int count[2];
    if (!options || !bytes)
        abort(); // as XLA does
    struct pjrt_error *small = refuse_part("program", p->struct_size, sizeof *p);
    if (small)
        return small;
    if (p->format_size != 4 || memcmp(p->format, "mlir", 4))
        return error(INVALID, "format %.*s", (int)p->format_size, p->format);
    char *text = strndup(p->code, p->code_size);
    bool good = text_signature(text, type[0], &count[0], type[1], &count[1]);
    const char *unknown = good ? text_run(text, NULL, NULL) : "no @main";
    if (!unknown) {
        *out = make(kind);
        (*out)->text = text;
        return GOOD;
    }
    struct pjrt_error *refused = error(UNIMPLEMENTED, "%s", unknown);
    free(text);
    return refused;
}

FUNCTION(Client_Compile) {
    if (!meet())
        return error(INTERNAL, "the others that were to compile did not come");
    return compile(a->program, a->options, a->options_size, "program",
                   (struct thing **)(void *)&a->executable);
}

FUNCTION_OF_ENDS(LoadedExecutable_Destroy) {
    end(check(a->executable, "program", "LoadedExecutable_Destroy"));
}

// The profiler ----------------------------------------------------------------------------------------------

enum { TRACED_MOST = 64, NUMBER = 0, BYTES = 2 };
static struct {
    bool is_on;
    int unit[TRACED_MOST], count;
    uint8_t space[16 << 10]; // what collect gave
} trace;

static void trace_execution(const struct pjrt_device *unit) {
    pthread_mutex_lock(&lock);
    if (trace.is_on && trace.count < TRACED_MOST)
        trace.unit[trace.count++] = (int)((const char *)(const void *)unit - unit_of);
    pthread_mutex_unlock(&lock);
}

// Returns whether FAKE_PJRT has profiler=WORD.
static bool has_profiler(const char *word) {
    const char *text = setting("profiler");
    return text && !strncmp(text, word, strlen(word));
}

// A protobuf message that is being written.
struct message {
    uint8_t byte[4 << 10];
    size_t size;
};

static void put_varint(struct message *m, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        m->byte[m->size++] = (uint8_t)(value | 0x80);
    m->byte[m->size++] = (uint8_t)value;
}

static void put_number(struct message *m, int field, uint64_t value) {
    put_varint(m, (uint64_t)(field << 3 | NUMBER));
    put_varint(m, value);
}

static void put_bytes(struct message *m, int field, const void *data, size_t size) {
    put_varint(m, (uint64_t)(field << 3 | BYTES));
    put_varint(m, size);
    memcpy(m->byte + m->size, data, size);
    m->size += size;
}

// Appends a line of an XPlane with `parts` events per execution, 5 us after each other.
static void put_line(struct message *plane, const char *name, int unit, int parts) {
    struct message line = {0};
    uint64_t executions = 0;
    put_bytes(&line, 2, name, strlen(name));
    put_number(&line, 3, 1000000); // ns
    for (int i = has_profiler("lost"); i < trace.count; i++)
        for (int k = 0; trace.unit[i] == unit && k < parts; k++) {
            struct message event = {0};
            uint64_t each = 1000000 * ++executions / (uint64_t)parts; // ps
            executions -= k < parts - 1;
            put_number(&event, 1, 7);
            put_number(&event, 2, 5000000 * executions + (uint64_t)k * each);
            put_number(&event, 3, each);
            put_bytes(&line, 4, event.byte, event.size);
        }
    put_bytes(plane, 3, line.byte, line.size);
}

static size_t make_space(void) {
    struct message space = {0};
    bool streams = has_profiler("streams");
    for (int unit = 0; unit < UNITS_MOST; unit++) {
        struct message plane = {0};
        char name[32];
        snprintf(name, sizeof name, unit ? "/device:%s:%d" : "/device:%s:0", streams ? "GPU" : "TPU", unit);
        put_number(&plane, 1, (uint64_t)unit);
        put_bytes(&plane, 2, name, strlen(name));
        put_line(&plane, "Steps", unit, 1);
        put_line(&plane, streams ? "Stream #13(Compute)" : "XLA Modules", unit, streams ? 2 : 1);
        put_bytes(&space, 1, plane.byte, plane.size);
    }
    memcpy(trace.space, space.byte, space.size);
    return space.size;
}

// Counts a call of the profiler, and returns an error if it is to fail.
static struct pjrt_profiler_error *refuse_profiling(const char *function) {
    return (struct pjrt_profiler_error *)(void *)refuse(function, SIZE_MAX, 0);
}

static void profiler_error_destroy(struct pjrt_profiler_error_arguments *a) {
    end(check(a->error, "error", "error_destroy"));
}

static void profiler_error_message(struct pjrt_profiler_message *a) {
    const struct thing *t = check(a->error, "error", "error_message");
    a->message = t->message;
    a->message_size = strlen(t->message);
}

static struct pjrt_profiler_error *profiler_create(struct pjrt_profiler_create *a) {
    struct pjrt_profiler_error *refused = refuse_profiling("Profiler_Create");
    if (!refused && (a->options_size != 4 || memcmp(a->options, "\x18\x01\x28\x01", 4)))
        return (struct pjrt_profiler_error *)(void *)error(INVALID, "options that trace no device");
    if (!refused)
        a->profiler = (struct pjrt_profiler *)(void *)make("profiler");
    return refused;
}

static struct pjrt_profiler_error *profiler_destroy(struct pjrt_profiler_arguments *a) {
    trace.is_on = false;
    end(check(a->profiler, "profiler", "Profiler_Destroy"));
    return refuse_profiling("Profiler_Destroy");
}

static struct pjrt_profiler_error *profiler_start(struct pjrt_profiler_arguments *a) {
    struct pjrt_profiler_error *refused = refuse_profiling("Profiler_Start");
    check(a->profiler, "profiler", "Profiler_Start");
    trace.is_on = !refused;
    trace.count = 0;
    return refused;
}

static struct pjrt_profiler_error *profiler_stop(struct pjrt_profiler_arguments *a) {
    check(a->profiler, "profiler", "Profiler_Stop");
    trace.is_on = false;
    return refuse_profiling("Profiler_Stop");
}

// Gives its own buffer at once, and one zero more than the XSpace has, as libtpu does; with streams, the size
// first.
static struct pjrt_profiler_error *profiler_collect(struct pjrt_profiler_collect *a) {
    struct pjrt_profiler_error *refused = refuse_profiling("Profiler_CollectData");
    check(a->profiler, "profiler", "Profiler_CollectData");
    if (refused)
        return refused;
    bool is_own = !has_profiler("streams");
    a->buffer_size = make_space() + is_own;
    if (a->buffer)
        memcpy(a->buffer, trace.space, a->buffer_size);
    else if (is_own)
        a->buffer = trace.space;
    return NULL;
}

static const struct pjrt_profiler_api profiler_api = {.struct_size = sizeof profiler_api,
                                                      .error_destroy = profiler_error_destroy,
                                                      .error_message = profiler_error_message,
                                                      .create = profiler_create,
                                                      .destroy = profiler_destroy,
                                                      .start = profiler_start,
                                                      .stop = profiler_stop,
                                                      .collect = profiler_collect};
static struct pjrt_profiler_extension profiler = {.base = {sizeof profiler, PJRT_EXTENSION_PROFILER, NULL},
                                                  .api = &profiler_api};
// One of another kind before it.
static struct pjrt_extension other = {sizeof other, 5, &profiler.base};

static struct pjrt_error *run_program(struct thing *p, struct pjrt_LoadedExecutable_Execute *a, int code) {
    struct tensor type[2][FAKE_ARGUMENTS];
    int count[2];
    void *from[FAKE_ARGUMENTS], *to[FAKE_ARGUMENTS];
    struct thing *made[FAKE_ARGUMENTS];
    text_signature(p->text, type[0], &count[0], type[1], &count[1]);
    if (a->argument_count != (size_t)count[0])
        return error(INVALID, "%zu arguments of %d", a->argument_count, count[0]);
    bool is_poisoned = code;
    for (int i = 0; i < count[0]; i++) {
        struct thing *x = check(a->arguments[0][i], "buffer", "LoadedExecutable_Execute");
        if (x->type.axes != type[0][i].axes || strcmp(x->type.type, type[0][i].type))
            return error(INVALID, "argument %d has %d axes of %s", i, x->type.axes, x->type.type);
        is_poisoned |= x->is_poisoned;
        from[i] = x->element;
    }
    int64_t before = bytes_used;
    for (int i = 0; i < count[1]; i++) {
        made[i] = buffer(&type[1][i]);
        made[i]->is_poisoned = is_poisoned;
        to[i] = made[i]->element;
    }
    if (bytes_used > bytes_most) {
        int64_t wanted = bytes_used - before;
        for (int i = 0; i < count[1]; i++)
            end(made[i]);
        return error(EXHAUSTED, "%lld bytes more than the %lld that there are", (long long)wanted,
                     (long long)bytes_most);
    }
    if (!is_poisoned)
        text_run(p->text, from, to);
    trace_execution(a->device);
    for (int i = 0; i < count[1]; i++)
        a->outputs[0][i] = (struct pjrt_buffer *)(void *)made[i];
    if (a->done)
        a->done[0] = event(code);
    return GOOD;
}

// An execution may also fail after it was accepted: fake_fail("Execution", ...).
FUNCTION(LoadedExecutable_Execute) {
    struct pjrt_error *later = refuse("Execution", sizeof *a + 16, sizeof *a);
    struct thing *t = (struct thing *)(void *)later;
    int code = t ? t->code : 0;
    if (t)
        end(t);
    struct pjrt_error *small = refuse_part("options", a->options->struct_size, sizeof *a->options);
    if (small)
        return small;
    if (a->devices != 1)
        return error(INVALID, "%zu devices", a->devices);
    return run_program(check(a->executable, "program", "LoadedExecutable_Execute"), a, code);
}

// Buffers ---------------------------------------------------------------------------------------------------

FUNCTION(Client_BufferFromHostBuffer) {
    static const char *const types[] = {
        [PJRT_PRED] = "i1",   [PJRT_S8] = "i8",   [PJRT_S16] = "i16",  [PJRT_S32] = "i32",
        [PJRT_S64] = "i64",   [PJRT_U8] = "ui8",  [PJRT_U16] = "ui16", [PJRT_U32] = "ui32",
        [PJRT_U64] = "ui64",  [PJRT_F16] = "f16", [PJRT_F32] = "f32",  [PJRT_F64] = "f64",
        [PJRT_BF16] = "bf16", [PJRT_C64] = "c64"};
    struct tensor type = {.axes = (int)a->axes};
    if (a->axes > FAKE_AXES)
        return error(UNIMPLEMENTED, "%zu axes", a->axes);
    snprintf(type.type, sizeof type.type, "%s", types[a->type]);
    memcpy(type.dim, a->dims, sizeof *a->dims * a->axes);
    struct thing *b = buffer(&type);
    if (bytes_used > bytes_most) {
        struct pjrt_error *full = error(EXHAUSTED, "%lld bytes more than the %lld that there are",
                                        (long long)b->bytes, (long long)bytes_most);
        end(b);
        return full;
    }
    memcpy(b->element, a->data, (size_t)b->bytes);
    a->buffer = (struct pjrt_buffer *)(void *)b;
    a->done = event(0);
    return GOOD;
}

FUNCTION(Buffer_ToHostBuffer) {
    struct thing *b = check(a->buffer, "buffer", "Buffer_ToHostBuffer");
    if (!a->layout)
        note_misuse("Buffer_ToHostBuffer without the host's layout");
    struct pjrt_error *small =
        a->layout ? refuse_part("layout", a->layout->struct_size, sizeof *a->layout) : NULL;
    if (small)
        return small;
    if (a->bytes < (size_t)b->bytes)
        return error(INVALID, "room for %zu of %lld bytes", a->bytes, (long long)b->bytes);
    if (!b->is_poisoned)
        memcpy(a->to, b->element, (size_t)b->bytes);
    a->done = event(b->is_poisoned ? INTERNAL : 0);
    return GOOD;
}

FUNCTION_OF_ENDS(Buffer_Destroy) {
    end(check(a->buffer, "buffer", "Buffer_Destroy"));
}

// Compiling for chips that are not here ---------------------------------------------------------------------

FUNCTION(TopologyDescription_Create) {
    if (a->name_size < 3 || a->name[0] != 'v')
        return error(INVALID, "unknown topology %.*s", (int)a->name_size, a->name);
    a->topology = (struct pjrt_topology *)(void *)make("topology");
    return GOOD;
}

FUNCTION_OF_ENDS(TopologyDescription_Destroy) {
    end(check(a->topology, "topology", "TopologyDescription_Destroy"));
}

FUNCTION(TopologyDescription_GetDeviceDescriptions) {
    a->count = unit_count();
    a->descriptions = (struct pjrt_description *const *)(void *)devices;
    return GOOD;
}

FUNCTION(Compile) {
    check(a->topology, "topology", "Compile");
    return compile(a->program, a->options, a->options_size, "compiled",
                   (struct thing **)(void *)&a->executable);
}

FUNCTION_OF_ENDS(Executable_Destroy) {
    end(check(a->executable, "compiled", "Executable_Destroy"));
}

FUNCTION(Executable_GetCostAnalysis) {
    static const struct pjrt_named_value values[] = {
        {.name = "flops", .name_size = 5, .type = PJRT_VALUE_FLOAT, .real = 1000, .count = 1},
        {.name = "bytes accessed", .name_size = 14, .type = PJRT_VALUE_FLOAT, .real = 4000, .count = 1}};
    check(a->executable, "compiled", "Executable_GetCostAnalysis");
    a->properties = values;
    a->count = sizeof values / sizeof values[0];
    return GOOD;
}

FUNCTION(Executable_OptimizedProgram) {
    // HloModuleProto: its name, and a computation `main` of one instruction, f32[8], with metadata of the
    // compiler.
    static const char text[] = "\x0a\x04"
                               "fake\x1a\x44\x0a\x04"
                               "main\x12\x38\x0a\x06"
                               "fusion\x12\x06"
                               "fusion\x1a\x05\x10\x0b\x1a\x01\x08\x98\x02\x01\xda\x02\x1b"
                               "{\"estimated_cycles\":\"1234\"}\x28\x07\x30\x01\x30\x07";
    check(a->executable, "compiled", "Executable_OptimizedProgram");
    a->program->format = "hlo";
    a->program->format_size = 3;
    if (a->program->code)
        memcpy((char *)a->program->code, text, sizeof text - 1);
    a->program->code_size = sizeof text - 1;
    return GOOD;
}

FUNCTION(Executable_GetCompiledMemoryStats) {
    check(a->executable, "compiled", "Executable_GetCompiledMemoryStats");
    a->code = 4096;
    a->argument = 64;
    a->output = 32;
    return GOOD;
}

// The table -------------------------------------------------------------------------------------------------

#define HAS(name) .name = do_##name

static struct pjrt_api table = {HAS(Error_Destroy),
                                HAS(Error_Message),
                                HAS(Error_GetCode),
                                HAS(Plugin_Initialize),
                                HAS(Plugin_Attributes),
                                HAS(Event_Destroy),
                                HAS(Event_IsReady),
                                HAS(Event_Await),
                                HAS(Client_Create),
                                HAS(Client_Destroy),
                                HAS(Client_PlatformName),
                                HAS(Client_PlatformVersion),
                                HAS(Client_AddressableDevices),
                                HAS(Device_GetDescription),
                                HAS(DeviceDescription_Kind),
                                HAS(Device_MemoryStats),
                                HAS(Client_Compile),
                                HAS(LoadedExecutable_Destroy),
                                HAS(LoadedExecutable_Execute),
                                HAS(Client_BufferFromHostBuffer),
                                HAS(Buffer_ToHostBuffer),
                                HAS(Buffer_Destroy),
                                HAS(TopologyDescription_Create),
                                HAS(TopologyDescription_Destroy),
                                HAS(TopologyDescription_GetDeviceDescriptions),
                                HAS(Compile),
                                HAS(Executable_Destroy),
                                HAS(Executable_GetCostAnalysis),
                                HAS(Executable_OptimizedProgram),
                                HAS(Executable_GetCompiledMemoryStats)};

const struct pjrt_api *GetPjrtApi(void);
const struct pjrt_api *GetPjrtApi(void) {
    size_t head = offsetof(struct pjrt_api, Error_Destroy), most = (sizeof table - head) / sizeof(void *);
    size_t functions = (size_t)number("short", (int64_t)most), without = (size_t)number("without", -1);
    if (setting("null"))
        return NULL;
    table.struct_size = head + sizeof(void *) * functions;
    table.version = (struct pjrt_version){.struct_size = sizeof table.version,
                                          .major = (int)number("major", 0),
                                          .minor = (int)number("minor", 81)};
    if (without < most)
        memset((char *)&table + head + sizeof(void *) * without, 0, sizeof(void *));
    table.extensions = setting("profiler") ? &other : NULL;
    if (setting("fail"))
        fail("", (int)number("fail", 0), (int)number("code", INTERNAL));
    return &table;
}
