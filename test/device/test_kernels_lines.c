// test_kernels_lines.c - tile kernels of rows, made from recipes: interpreted, compiled for the host, and
// rendered for all targets.

#include "test.h"

#include "tile_trial.h"

#include "device/kernels/kernels_lines.h"
#include "kernel/kernel.h"
#include "render/render.h"

#include <math.h>
#include <string.h>

extern const struct kernel_driver kernel_driver_c;

enum {
    LINES = 11,
    APART = 16
}; // APART: elements between the end of a row of x and the next row

struct plan {
    int16_t width, packs, threads, groups; // as in struct line_recipe
    int64_t line;
};

// (x - its sum times a number per row) / the sum of its squares, times a weight; and that sum.
static struct line_recipe recipe_of(const struct plan *p) {
    enum { X = FUSE_INPUT, WEIGHT, SCALE };
    struct line_recipe r = {.name = "lines",
                            .reductions = 2,
                            .reduction = {0, 4},
                            .width = p->width,
                            .packs = p->packs,
                            .threads = p->threads,
                            .groups = p->groups,
                            .full = p->line == (int64_t)p->packs * p->groups * p->threads * p->width,
                            .f = {.rows = 7, .inputs = 3, .outputs = 2}};
    const uint8_t f32 = ZL_FLOAT32;
    const struct fuse_op rows[] = {
        {ROW_REDUCE, 1, f32, f32, TILE_ADD, {X}},          {ROW_LINES, 2, f32, f32, TILE_MUL, {0, SCALE}},
        {ROW_ELEMENTS, 2, f32, f32, TILE_SUB, {X, 1}},     {ROW_ELEMENTS, 2, f32, f32, TILE_MUL, {2, 2}},
        {ROW_REDUCE, 1, f32, f32, TILE_ADD, {3}},          {ROW_ELEMENTS, 2, f32, f32, TILE_DIV, {2, 4}},
        {ROW_ELEMENTS, 2, f32, f32, TILE_MUL, {5, WEIGHT}}};
    memcpy(r.f.row, rows, sizeof rows);
    fuse_set_input(&r.f, 0, LINE_FLAT, ZL_FLOAT32);
    fuse_set_input(&r.f, 1, LINE_FLAT, ZL_FLOAT32);
    fuse_set_input(&r.f, 2, LINE_SAME, ZL_FLOAT32);
    r.f.operand[3] = 6 << 1;
    r.f.operand[4] = 4 << 1 | 1;
    return r;
}

struct numbers {
    float *x, *weight, *y;
    float scale[LINES], squares[LINES];
};

static bool are_right(const struct numbers *n, int64_t line) {
    for (int i = 0; i < LINES; i++) {
        const float *x = n->x + i * (line + APART);
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < line; j++)
            sum += (double)x[j];
        for (int64_t j = 0; j < line; j++)
            squares += pow((double)x[j] - sum * (double)n->scale[i], 2);
        if (!(fabs((double)n->squares[i] - squares) < 1e-4 * squares))
            return false;
        for (int64_t j = 0; j < line; j++) {
            double right = ((double)x[j] - sum * (double)n->scale[i]) / squares * (double)n->weight[j];
            if (!(fabs((double)n->y[i * line + j] - right) < 1e-5 + 1e-4 * fabs(right)))
                return false;
        }
    }
    return true;
}

static void run(const struct plan *p, bool compiles) {
    struct line_recipe r = recipe_of(p);
    struct tile_kernel *kernel =
        line_build(&(struct line_maker){&r, render_target(compiles ? "c_tiles" : "cuda_tiles")});
    int64_t size[] = {LINES, p->line / p->width, 1, LINES * (p->line + APART) - APART + p->width, p->line,
                      LINES};
    // One axis: offset of the first row and distance between rows, in packs.
    int32_t axes[4][KERNEL_AXES] = {{LINES}, {(int32_t)(p->line + APART) / p->width}, {0}, {1}},
            inputs[2][3] = {{1}};
    struct numbers n = {memory_zero(sizeof(float) * (size_t)size[3]),
                        memory_zero(sizeof(float) * (size_t)p->line),
                        memory_zero(sizeof(float) * (size_t)(LINES * p->line)),
                        {0},
                        {0}};
    REQUIRE(kernel && n.x && n.weight && n.y);
    for (int64_t i = 0; i < size[3]; i++)
        n.x[i] = (float)(i * 7 % 13) / 13;
    for (int64_t i = 0; i < p->line; i++)
        n.weight[i] = (float)(i % 5 + 1);
    for (int i = 0; i < LINES; i++)
        n.scale[i] = (float)i / (float)p->line;
    void *address[] = {n.x, n.weight, n.scale, axes, inputs, n.y, n.squares};
    struct text source = {0};
    CHECK(tile_verify(kernel));
    CHECK(tile_renders(kernel));
    struct tile_kernel *copy = kernel_copy(kernel);
    void *made = copy && compiles ? kernel_driver_c.compile(copy, &source) : NULL;
    CHECK(made ? kernel_driver_c.run(made, address, size) : tile_interpret(kernel, address, size));
    n.x += p->width; // where the first row begins
    CHECK(!compiles || made);
    if (!CHECK(are_right(&n, p->line)))
        test_note("lines of %d, %d packs of %d, %d threads of %d groups", (int)p->line, p->packs, p->width,
                  p->threads, p->groups);
    n.x -= p->width;
    if (made)
        kernel_driver_c.free(made);
    text_free(&source);
    memory_free(n.x);
    memory_free(n.weight);
    memory_free(n.y);
    tile_free(copy);
    tile_free(kernel);
}

TEST(lines_are_held_cut_and_shared) {
    static const struct plan plans[] = {{4, 1, 32, 1, 128},   {4, 2, 32, 1, 200},   {1, 4, 64, 1, 201},
                                        {4, 1, 256, 2, 2048}, {4, 1, 256, 2, 1500}, {4, 0, 256, 1, 3000},
                                        {1, 0, 256, 1, 777}};
    for (size_t i = 0; i < COUNT(plans); i++) {
        run(&plans[i], false);
        if (!test_quick() || i % 3 == 1)
            run(&plans[i], true);
    }
}
