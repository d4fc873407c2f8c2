// devices.c - `zellige devices`: what this machine has, and why the rest is not there.

#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "zellige.h"

static bool is_cpu(const zl_device_info *info) {
    return info->available && info->is_host && strcmp(info->device, "cpu") != 0;
}

bool cli_is_cpu(const char *device) {
    zl_device_info info;
    for (int i = 0; zl_device(i, &info); i++)
        if (!strcmp(info.device, device) && info.available)
            return is_cpu(&info); // the first unit, which is the default
    return false;
}

void cli_remark_cpu(const char *device, const char *indent) {
    if (cli_is_cpu(device))
        printf("%s%sremark: this %s device is the machine's CPU: expect its speed, not that of a GPU%s\n",
               indent, cli_dim(), device, cli_plain());
}

// Whether ops run there unless a program says otherwise.
static bool is_default(const zl_device_info *info) {
    int unit = 0;
    zl_stream s = zl_default_stream();
    if (!s)
        zl_clear_error(); // of ZL_DEVICE: none is the default
    return s && !strcmp(zl_stream_device(s, &unit), info->device) && unit == info->unit;
}

static void print_json(void) {
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
        } else {
            cli_json_text("reason", info.reason);
        }
        cli_json_close();
    }
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
    if (call->json) {
        print_json();
        return CLI_OK;
    }
    zl_device_info info;
    for (int i = 0; zl_device(i, &info); i++) {
        if (info.available)
            print_available(&info);
        else
            printf("%s%-8s -  not here: %s%s\n", cli_dim(), info.device, info.reason ? info.reason : "",
                   cli_plain());
    }
    return CLI_OK;
}

const struct command cli_devices = {
    .name = "devices",
    .summary = "What this machine can compute on, and why the rest is not there",
    .details = "Programs run on the device that is marked as the default: the one that ZL_DEVICE names, else "
               "the first\n"
               "GPU, else the CPU.",
    .run = run,
};
