// emit.c - emits statements again: as they are, with other expressions, or with replacements of some of them.

#include "pass/pass.h"

static bool opens(const struct tile_stmt *s) {
    return s->kind == TILE_MAP || s->kind == TILE_THREAD || s->kind == TILE_FOR || s->kind == TILE_IF ||
           s->kind == TILE_WHILE || s->kind == TILE_GRID;
}

static bool has_failed(void) {
    return !tile_current() || tile_current()->failed;
}

void pass_emit(const struct tile_stmt *body, pass_emitter *emit, void *data) {
    for (const struct tile_stmt *s = body; s && !has_failed(); s = s->next) {
        if (emit(data, s))
            continue;
        if (!opens(s)) {
            tile_append(*s);
            continue;
        }
        tile_open(*s);
        pass_emit(s->body, emit, data);
        if (s->other) {
            tile_else();
            pass_emit(s->other, emit, data);
        }
        tile_close();
    }
}

bool pass_emit_kernel(struct tile_kernel *kernel, pass_emitter *emit, void *data) {
    tile_resume(kernel);
    pass_emit(tile_take_body(), emit, data);
    tile_suspend();
    return !kernel->failed;
}

struct replacing {
    pass_replacement *of;
    void *data;
};

static void replace(expr *place, void *data) {
    const struct replacing *r = data;
    expr e = r->of(r->data, *place);
    if (e)
        *place = e;
    else
        tile_current()->failed = true;
}

struct tile_stmt *pass_emit_as(const struct tile_stmt *s, pass_replacement *of, void *data) {
    struct tile_stmt *next = opens(s) ? tile_open(*s) : tile_append(*s);
    if (next) // its body is still empty
        pass_each_expr(next, replace, &(struct replacing){of, data});
    return next;
}

void pass_emit_bodies(const struct tile_stmt *s, void (*block)(void *data, const struct tile_stmt *body),
                      void *data) {
    if (!opens(s))
        return;
    block(data, s->body);
    if (s->other) {
        tile_else();
        block(data, s->other);
    }
    tile_close();
}
