// pipeline.c - the passes, in order.

#include "pass/pass.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    pass_function *run;
} pipeline[] = {
    {"words", pass_words},         // im2col and reductions of sizes as maps
    {"bytes", pass_bytes},         // numbers of 8 and 4 bits as bytes
    {"forward", pass_forward},     // products read parameters where they lie
    {"merge", pass_merge},         // loops of products as one
    {"flat", pass_flat},           // tiles of one axis in rows across lanes
    {"strips", pass_strips},       // tiles that lanes have no room for, in strips
    {"stages", pass_stages},       // copies that run ahead in pipelined loops
    {"threads", pass_threads},     // blocks as groups of threads
    {"tiles", pass_tiles},         // copies, reductions and the like as loops
    {"split", pass_split},         // code of threads as maps, where a block is one thread
    {"fuse", pass_fuse},           // maps over the same points as one
    {"carry", pass_carry},         // inputs are read where they lie
    {"lines", pass_lines},         // maps and the reductions of what they store, line by line
    {"loops", pass_loops},         // what no command does as maps
    {"halves", pass_halves},       // numbers of 64 bits as two of 32
    {"complex", pass_complex},     // complex numbers as pairs of floats
    {"widen", pass_widen},         // 16-bit floats in f32
    {"divide", pass_divide},       // divisions of positive integers without guards
    {"lower", pass_lower},         // rows as simpler ones
    {"truth", pass_truth},         // arithmetic of truth values
    {"convert", pass_convert},     // conversions step by step
    {"lanes", pass_lanes},         // tile statements as commands
    {"simplify", pass_simplify},   // folds what is known
    {"vectorise", pass_vectorise}, // maps over rows as vector loops
};

const char *pass_name(int at) {
    return at >= 0 && at < (int)COUNT(pipeline) ? pipeline[at].name : NULL;
}

bool pass_is_dumped(const char *stage) {
    const char *list = setting_text(SETTING_DUMP);
    size_t len = strlen(stage);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if ((!strncmp(at, stage, len) && (!at[len] || at[len] == ',')) || !strcmp(at, "all"))
            return true;
    }
    return false;
}

void pass_dump(const char *stage, const char *text) {
    if (text && pass_is_dumped(stage))
        fprintf(stderr, "// %s\n%s\n", stage, text);
}

void pass_dump_kernel(const struct tile_kernel *kernel, const char *stage) {
    char *text = pass_is_dumped(stage) ? tile_print(kernel) : NULL;
    pass_dump(stage, text);
    memory_free(text);
}

static bool is_sound(const struct tile_kernel *kernel) {
#ifndef NDEBUG
    return tile_verify(kernel);
#else
    (void)kernel;
    return true;
#endif
}

// Every op that is left has to be the target's own.
static bool check_node(const struct target *target, expr e) {
    return target_spells(target, e) ||
           error_false(ZL_ERROR_COMPILE, "target %s has no %s of %s", target->name, tile_op_name(e->op),
                       tile_type_name(e->arg[e->args - 1]->type));
}

static bool is_spelled(const struct tile_kernel *kernel, const struct target *target) {
    bool good = true;
    for (const struct tile_stmt *s = kernel->body; s && good; s = s->next) {
        expr *node;
        int count = pass_nodes(kernel, s->body, &node);
        good = count >= 0;
        for (int i = 0; i < count && good; i++)
            good = check_node(target, node[i]);
        memory_free(node);
    }
    return good;
}

// A statement that could not be made leaves no error of its own where a pass asked for what it never declared.
static bool fail(const struct tile_kernel *kernel, const char *pass) {
    return zl_error() ? false
                      : error_false(ZL_ERROR_COMPILE,
                                    "pass %s: kernel %s cannot be compiled; this is a defect of Zellige",
                                    pass, kernel->name);
}

bool pass_run(struct tile_kernel *kernel, const struct target *target, const char *last) {
    bool is_done = true;
    pass_dump_kernel(kernel, "tile");
    for (size_t i = 0; i < COUNT(pipeline); i++) {
        if (!pipeline[i].run(kernel, target) || !is_sound(kernel))
            return fail(kernel, pipeline[i].name);
        pass_dump_kernel(kernel, pipeline[i].name);
        is_done = i + 1 == COUNT(pipeline);
        if (last && !strcmp(last, pipeline[i].name))
            break;
    }
    return !is_done || is_spelled(kernel, target);
}
