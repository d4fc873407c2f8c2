// devices.c - `zellige devices`: prints the devices of this machine, and why others are not available.

#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zellige.h"
#include "zellige_tile.h"

static bool is_cpu(const zl_device_info *info) {
    return info->available && info->is_host && strcmp(info->device, "cpu") != 0;
}

bool cli_is_cpu(const char *device) {
    zl_device_info info;
    for (int i = 0; zl_device(i, &info); i++)
        if (!strcmp(info.device, device) && info.available)
            return is_cpu(&info); // the first unit, which is the default one
    return false;
}

void cli_remark_cpu(const char *device, const char *indent) {
    if (cli_is_cpu(device))
        printf("%s%sremark: this %s device is the machine's CPU: expect its speed, not that of a GPU%s\n",
               indent, cli_dim(), device, cli_plain());
}

// Returns whether ops run on this unit by default: that which ZL_DEVICE names, otherwise the first GPU,
// otherwise the CPU. The device is not opened unless ZL_DEVICE is set, since that may reserve it.
static bool is_default(const zl_device_info *info) {
    const char *name = getenv("ZL_DEVICE");
    int unit = 0;
    if (name && *name) {
        zl_stream s = zl_default_stream();
        if (!s)
            zl_clear_error(); // there is no default device
        return s && !strcmp(zl_stream_device(s, &unit), info->device) && unit == info->unit;
    }
    zl_device_info other;
    for (int i = 0; zl_device(i, &other); i++)
        if (other.is_gpu)
            return !strcmp(other.device, info->device) && other.unit == info->unit;
    return !strcmp(info->device, "cpu");
}

// What a unit runs itself -----------------------------------------------------------------------------------

static const char *name_of(const zl_device_info *info, char *out, size_t bytes) {
    snprintf(out, bytes, "%s:%d", info->device, info->unit);
    return out;
}

// Opens a device, which may then report more about itself.
static void query_details(int index, zl_device_info *info) {
    char name[64];
    zl_op_support s;
    if (!zl_device_support(name_of(info, name, sizeof name), 0, &s))
        zl_clear_error();
    zl_device(index, info);
}

static void json_dtypes(const char *key, uint32_t dtypes) {
    cli_json_open(key, '[');
    for (int t = 0; t < ZL_DTYPE_COUNT; t++)
        if (dtypes >> t & 1)
            cli_json_text(NULL, zl_dtype_name((zl_dtype)t));
    cli_json_close();
}

static void json_support(const zl_device_info *info) {
    char name[64];
    zl_op_support s;
    name_of(info, name, sizeof name);
    cli_json_open("support", '[');
    for (int i = 0; zl_device_support(name, i, &s); i++) {
        if (!s.native && !s.elsewhere)
            continue;
        cli_json_open(NULL, '{');
        cli_json_text("op", s.op);
        json_dtypes("native", s.native);
        json_dtypes("cpu", s.elsewhere);
        if (s.reason)
            cli_json_text("reason", s.reason);
        cli_json_close();
    }
    cli_json_close();
}

// Prints a line for each op that the CPU has to run for some dtype; the others are counted.
static void print_support(const zl_device_info *info) {
    char name[64];
    zl_op_support s;
    int whole = 0, ops = 0;
    name_of(info, name, sizeof name);
    for (int i = 0; zl_device_support(name, i, &s); i++) {
        ops += s.native || s.elsewhere;
        whole += s.native && !s.elsewhere;
        if (!s.elsewhere)
            continue;
        printf("            %-20s on the CPU%s", s.op, s.native ? " of" : "");
        for (int t = 0; t < ZL_DTYPE_COUNT && s.native; t++)
            if (s.elsewhere >> t & 1)
                printf(" %s", zl_dtype_name((zl_dtype)t));
        printf(": %s%s%s\n", cli_dim(), s.reason, cli_plain());
    }
    if (zl_error()) {
        printf("            %snot known: %s%s\n", cli_dim(), zl_error(), cli_plain());
        zl_clear_error();
    } else {
        printf("            %d of %d ops are native in all their dtypes\n", whole, ops);
    }
}

// The list --------------------------------------------------------------------------------------------------

// Writes the chips that run tile kernels, but not arrays.
static void json_targets(void) {
    const char *name, *runs_on;
    for (int i = 0; (name = zl_kernel_target(i)); i++) {
        if (!(runs_on = zl_kernel_runs_on(name)))
            continue;
        cli_json_open(NULL, '{');
        cli_json_text("device", name);
        cli_json_bool("available", false);
        cli_json_text("reason", "tile kernels only");
        cli_json_text("kernels", runs_on);
        cli_json_close();
    }
}

static void print_targets(void) {
    const char *name, *runs_on;
    for (int i = 0; (name = zl_kernel_target(i)); i++)
        if ((runs_on = zl_kernel_runs_on(name)))
            printf("%-8s -  tile kernels only, on the %s\n", name, runs_on);
}

static void print_json(bool wants_support) {
    zl_device_info info;
    cli_json_open(NULL, '[');
    for (int i = 0; zl_device(i, &info); i++) {
        cli_json_open(NULL, '{');
        cli_json_text("device", info.device);
        cli_json_int("unit", info.unit);
        cli_json_bool("available", info.available);
        if (info.available) {
            cli_json_text("model", info.model);
            cli_json_text("detail", info.detail);
            cli_json_int("cores", info.cores);
            cli_json_int("memory", (int64_t)info.memory);
            cli_json_bool("is_cpu", info.is_host);
            cli_json_bool("is_default", is_default(&info));
            if (wants_support)
                json_support(&info);
        } else {
            cli_json_text("reason", info.reason);
        }
        cli_json_close();
    }
    json_targets();
    cli_json_close();
}

static void print_available(const zl_device_info *info) {
    char size[32] = "";
    if (info->memory)
        snprintf(size, sizeof size, ", %.1f GiB", (double)info->memory / (1 << 30));
    char cores[32] = "";
    if (info->cores)
        snprintf(cores, sizeof cores, ", %d core%s", info->cores, info->cores == 1 ? "" : "s");
    printf("%s%s%-8s %d%s  %s%s%s%s\n", cli_bold(), cli_green(), info->device, info->unit, cli_plain(),
           info->model ? info->model : "", cores, size, is_default(info) ? ", the default" : "");
    if (info->detail && info->detail[0])
        printf("            %s%s%s\n", cli_dim(), info->detail, cli_plain());
    if (is_cpu(info))
        cli_remark_cpu(info->device, "            ");
}

static int run(const struct invocation *call) {
    bool wants_support = cli_option(call, "support");
    if (call->json) {
        print_json(wants_support);
        return CLI_OK;
    }
    zl_device_info info;
    for (int i = 0; zl_device(i, &info); i++) {
        if (info.available && wants_support)
            query_details(i, &info);
        if (info.available)
            print_available(&info);
        if (info.available && wants_support)
            print_support(&info);
        else if (!info.available)
            printf("%s%-8s -  not here: %s%s\n", cli_dim(), info.device, info.reason ? info.reason : "",
                   cli_plain());
    }
    print_targets();
    return CLI_OK;
}

const struct command cli_devices = {
    .name = "devices",
    .summary = "What this machine can compute on, and why the rest is not there",
    .details =
        "Programs run on the device that is marked as the default: the one that ZL_DEVICE names, else "
        "the first\n"
        "GPU, else the CPU. With --support each device is opened and asked, by a small call of every op "
        "and dtype,\n"
        "what it runs itself and what the CPU runs in its place.",
    .options =
        (const struct option[]){{"support", .help = "which ops and dtypes each device runs itself"}, {0}},
    .run = run,
};
