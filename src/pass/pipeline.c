// pipeline.c - the passes, in order.

#include "pass/pass.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    pass_function *run;
} pipeline[] = {
    {"expand", pass_expand},           // im2col and reductions of magnitudes become maps
    {"small_types", pass_small_types}, // 8- and 4-bit numbers become bytes
    {"views", pass_views},             // views that only use memory again become tiles
    {"forward", pass_forward},         // products read parameters in place
    {"merge", pass_merge},             // loops of products along k become one product
    {"flat", pass_flat},               // tiles of one axis are spread over the lanes
    {"strips", pass_strips},           // tiles larger than the lanes are processed in strips
    {"stages", pass_stages},           // copies of pipelined loops are issued ahead
    {"threads", pass_threads},         // blocks become code of threads
    {"tiles", pass_tiles},             // copies, reductions and the like become loops
    {"split", pass_split},             // code of threads becomes maps, where a block is one thread
    {"fuse", pass_fuse},               // maps over the same points are fused
    {"elide", pass_elide},             // tiles that only copy an input are left out
    {"map_reduce", pass_map_reduce},   // a map and the reduction of its rows become one loop
    {"loops", pass_loops},             // tile statements without a command become maps
    {"halves", pass_halves},           // 64-bit numbers become pairs of 32-bit numbers
    {"complex", pass_complex},         // complex numbers become pairs of floats
    {"widen", pass_widen},             // ops on 16-bit floats are computed in f32
    {"divide", pass_divide},           // divisions of non-negative integers lose their guards
    {"lower", pass_lower},             // ops become simpler ops, by their formulas
    {"booleans", pass_booleans},       // arithmetic on bool becomes and, or, xor, not
    {"convert", pass_convert},         // conversions become chains of those that the target has
    {"lanes", pass_lanes},             // tile statements become commands
    {"simplify", pass_simplify},       // constants are folded
    {"vectorise", pass_vectorise},     // maps over contiguous data become vector loops
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

// Returns whether the target can spell a node that is left after the passes, with an error if not.
static bool check_node(const struct target *target, expr e) {
    return target_spells(target, e) ||
           error_false(ZL_ERROR_COMPILE, "target %s has no %s of %s", target_called(target),
                       tile_op_name(e->op), tile_type_name(e->arg[e->args - 1]->type));
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

// Returns false, with an error. A pass that builds a statement from something undeclared fails without an
// error of its own.
static bool fail(const struct tile_kernel *kernel, const char *pass) {
    return zl_error() ? false
                      : error_false(ZL_ERROR_COMPILE,
                                    "pass %s: kernel %s cannot be compiled; this is a defect of Zellige",
                                    pass, kernel->name);
}

// Only chips without threads are given commands.
static bool takes_commands(const struct tile_kernel *kernel, const struct target *target) {
    const struct tile_stmt *command = target->lanes ? NULL : pass_find_kind(kernel->body, TILE_COMMAND);
    return !command ||
           error_false(ZL_ERROR_COMPILE, "kernel %s, line %d: target %s has no command %s", kernel->name,
                       command->place.line, target_called(target), command->message);
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
    return !is_done || (takes_commands(kernel, target) && is_spelled(kernel, target));
}
