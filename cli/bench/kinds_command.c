// kinds_command.c - `zellige bench kinds PLUGIN`: what a PJRT plugin, such as libtpu.so, calls the devices that it finds. A
// command of its own because a plugin takes the chip for its process, and may end it: detection asks another process.

#include "bench.h"

#include <dlfcn.h>
#include <string.h>

#include "cli.h"

// Functions of a plugin by their place in its table, which only grows at its end. Each takes a struct that begins with its
// own size, and returns an error or NULL; one that is larger than the plugin knows is welcome if the rest is zero.
enum {
    ERROR_MESSAGE = 1,
    PLUGIN_INITIALIZE = 3,
    CLIENT_CREATE = 10,
    CLIENT_ADDRESSABLE_DEVICES = 16,
    DESCRIPTION_KIND = 26,
    DEVICE_GET_DESCRIPTION = 29,
};

struct table {
    size_t bytes;
    void *extension;
    struct {
        size_t bytes;
        void *extension;
        int major, minor;
    } version;
    void *(*function[])(void *arguments);
};

union arguments {
    struct {
        size_t bytes;
        void *extension, *subject; // what it is about: a client, a device, a description, an error
        const void *out;
        size_t out_count;
    };
    struct {
        size_t same_bytes;
        void *same_extension, *options[6], *client;
    } create;
    char room[512];
};

// False after a message: it has no such function, or that failed.
static bool ask(const struct invocation *call, const struct table *table, int which, union arguments *a) {
    size_t end = offsetof(struct table, function) + sizeof(void *) * (size_t)(which + 1);
    a->bytes = sizeof *a;
    if (table->bytes < end || !table->function[which])
        return cli_fail(call, "the plugin's version %d.%d has no function %d", table->version.major,
                        table->version.minor, which) == CLI_OK;
    void *error = table->function[which](a);
    if (!error)
        return true;
    union arguments message = {.bytes = sizeof message, .subject = error};
    table->function[ERROR_MESSAGE](&message);
    return cli_fail(call, "the plugin says: %.*s", (int)message.out_count, (const char *)message.out) ==
           CLI_OK;
}

static bool print_kind(const struct invocation *call, const struct table *table, void *device) {
    union arguments description = {.subject = device}, kind = {0};
    if (!ask(call, table, DEVICE_GET_DESCRIPTION, &description))
        return false;
    kind.subject = (void *)description.out;
    if (!ask(call, table, DESCRIPTION_KIND, &kind))
        return false;
    printf("%.*s\n", (int)kind.out_count, (const char *)kind.out);
    return true;
}

static bool print_kinds(const struct invocation *call, const struct table *table) {
    union arguments initialize = {0}, create = {0}, devices = {0};
    if (!ask(call, table, PLUGIN_INITIALIZE, &initialize) || !ask(call, table, CLIENT_CREATE, &create))
        return false;
    devices.subject = create.create.client;
    bool done = ask(call, table, CLIENT_ADDRESSABLE_DEVICES, &devices);
    void *const *device = devices.out;
    for (size_t i = 0; done && i < devices.out_count; i++)
        done = print_kind(call, table, device[i]);
    return done;
}

static int run(const struct invocation *call) {
    if (call->operand_count == 0)
        return cli_usage(call, "needs a plugin: a file such as libtpu.so");
    void *library = dlopen(call->operands[0], RTLD_NOW | RTLD_LOCAL);
    const struct table *(*get)(void) = NULL;
    if (library)
        *(void **)&get = dlsym(library, "GetPjrtApi");
    if (!get)
        return cli_fail(call, "%s", dlerror());
    const struct table *table = get();
    if (!table)
        return cli_fail(call, "%s has no table of functions", call->operands[0]);
    return print_kinds(call, table) ? CLI_OK : CLI_FAILED;
}

const struct command cli_bench_kinds = {
    .name = "bench kinds",
    .operands = "PLUGIN",
    .words = "*.so",
    .summary = "What a PJRT plugin calls its devices, one in a line",
    .details =
        "It takes the chip while it looks. `bench devices` asks the plugin that TPU_LIBRARY_PATH names.",
    .operands_most = 1,
    .run = run,
};
