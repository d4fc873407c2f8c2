// kernel_overrides.c - `zellige kernel overrides`: prints what devices run by other means than tile kernels,
// and why.

#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "zellige_tile.h"

enum { WIDTH = 100 }; // columns of a line of text

static void print_json(void) {
    zl_kernel_override o;
    cli_json_open(NULL, '[');
    for (int i = 0; zl_kernel_override_at(i, &o); i++) {
        cli_json_open(NULL, '{');
        cli_json_text("device", o.device);
        cli_json_text("name", o.name);
        cli_json_text("kind", o.kind);
        cli_json_text("ops", o.ops);
        cli_json_text("otherwise", o.otherwise);
        cli_json_int("lines", o.lines);
        cli_json_text("reason", o.reason);
        cli_json_text("measured", o.measured);
        cli_json_close();
    }
    cli_json_close();
}

// Prints a name and a text, which is wrapped.
static void print_text(const char *name, const char *text) {
    const int indent = 14;
    printf("  %s%-*s%s", cli_dim(), indent - 2, name, cli_plain());
    for (int column = indent; *text;) {
        int len = (int)strcspn(text, " ");
        if (column + len > WIDTH && column > indent) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        printf("%s%.*s", column > indent ? " " : "", len, text);
        column += len + 1;
        text += len + (text[len] == ' ');
    }
    putchar('\n');
}

static void print_override(const zl_kernel_override *o) {
    printf("%s%s %s%s  %s", cli_bold(), o->device, o->name, cli_plain(), o->kind);
    if (o->lines)
        printf(", %d lines", o->lines);
    putchar('\n');
    print_text("ops", o->ops);
    print_text("otherwise", o->otherwise);
    print_text("reason", o->reason);
    print_text("measured", o->measured);
}

static int run(const struct invocation *call) {
    zl_kernel_override o;
    if (call->json) {
        print_json();
        return CLI_OK;
    }
    for (int i = 0; zl_kernel_override_at(i, &o); i++)
        print_override(&o);
    return CLI_OK;
}

const struct command cli_kernel_overrides = {
    .name = "kernel overrides",
    .summary = "What devices run other than by tile kernels, and why",
    .details = "Kernels of ops are tile IR, one definition for all devices. An override is a library of a "
               "vendor, or a "
               "kernel in a device's own language, that serves some ops of one device better. It is never "
               "their only "
               "definition: `otherwise` says what runs them where it does not. Devices that are not here are "
               "listed too.",
    .run = run,
};
