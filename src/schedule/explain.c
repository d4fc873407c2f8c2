// explain.c - zl_explain: describes in words what an evaluation would do.

#include "schedule/schedule.h"

struct explanation {
    struct text body;
    int calls, kernels, views, elsewhere;
    double bytes, operations;
    zl_array a;
};

// Costs -----------------------------------------------------------------------------------------------------

static bool is_made_in(zl_array x, const struct segment *s, int begin, int end) {
    for (int i = begin; i < end; i++)
        if (x->call == s->call[i])
            return true;
    return false;
}

static bool was_read(zl_array x, const struct segment *s, int begin, int index, int input) {
    for (int i = begin; i <= index; i++)
        for (int k = 0; k < (i < index ? s->call[i]->inputs : input); k++)
            if (s->call[i]->in[k] == x)
                return true;
    return false;
}

// Returns the bytes that calls [begin, end) read of arrays that others compute, each array counted once.
static double bytes_read(const struct segment *s, int begin, int end) {
    double bytes = 0;
    for (int i = begin; i < end; i++)
        for (int k = 0; k < s->call[i]->inputs; k++) {
            zl_array x = s->call[i]->in[k];
            if (!is_made_in(x, s, begin, end) && !was_read(x, s, begin, i, k) && !array_is(x, ARRAY_INLINE))
                bytes += (double)zl_nbytes(x);
        }
    return bytes;
}

static bool is_read_later(const struct segment *s, int index, int end) {
    for (int i = end; i < s->calls; i++)
        for (int k = 0; k < s->call[i]->inputs; k++)
            if (s->call[i]->in[k]->call == s->call[index])
                return true;
    return s->needed[index];
}

// Returns the bytes that calls [begin, end) write. Results that only these calls read get no memory and do
// not count.
static double bytes_written(const struct segment *s, int begin, int end) {
    double bytes = 0;
    for (int i = begin; i < end; i++)
        for (int k = 0; k < s->call[i]->outputs && is_read_later(s, i, end); k++)
            bytes += (double)zl_nbytes(call_output(s->call[i], k));
    return bytes;
}

// Words -----------------------------------------------------------------------------------------------------

static void add_amount(struct text *out, double amount, const char *unit) {
    static const char *const prefix[] = {"", "k", "M", "G", "T"};
    int at = 0;
    for (; amount >= 1000 && at < (int)COUNT(prefix) - 1; at++)
        amount /= 1000;
    text_add(out, at ? "%.3g %s%s" : "%g %s%s", amount, prefix[at], unit);
}

static void add_kind(struct text *out, zl_array a) {
    text_add(out, "%s (", zl_dtype_name((zl_dtype)a->dtype));
    for (int i = 0; i < a->ndim; i++)
        text_add(out, i ? ", %lld" : "%lld", (long long)a->dim[i]);
    text_add(out, a->ndim == 1 ? ",): " : "): ");
}

static void add_kernel(struct explanation *e, const struct segment *s, int begin, int end, const char *why) {
    struct text *out = &e->body;
    zl_array y = call_first(s->call[end - 1]);
    double read = bytes_read(s, begin, end), written = bytes_written(s, begin, end), operations = 0;
    text_add(out, "  %d. ", ++e->kernels);
    for (int i = begin; i < end; i++) {
        operations += op_flops(s->call[i]);
        text_add(out, "%s%s", i > begin ? " + " : "", s->call[i]->op->name);
    }
    text_add(out, " of ");
    add_kind(out, y);
    text_add(out, "reads ");
    add_amount(out, read, "B");
    text_add(out, ", writes ");
    add_amount(out, written, "B");
    text_add(out, ", ");
    add_amount(out, operations, "flop");
    text_add(out, "\n");
    if (why)
        text_add(out, "     %s: %s\n", end - begin > 1 ? "no more is fused" : "not fused", why);
    e->bytes += read + written;
    e->operations += operations;
}

static void add_view(struct explanation *e, const struct call *c) {
    e->views++;
    text_add(&e->body, "     %s is a view: nothing to do\n", c->op->name);
}

static void add_segment(struct explanation *e, const struct tape *t, int begin, const struct plan_segment *p,
                        const uint8_t *needed) {
    struct segment s = {.calls = p->end - p->begin, .call = t->call + begin + p->begin, .needed = needed};
    zl_stream stream = tape_stream(t, begin + p->begin);
    bool is_elsewhere = p->device != stream->device;
    e->elsewhere += is_elsewhere ? s.calls : 0;
    text_add(&e->body, "on %s %d%s%s%s\n", p->device->name, p->unit, is_elsewhere ? ", because " : "",
             is_elsewhere ? stream->device->name : "", is_elsewhere ? " cannot run it" : "");
    for (int i = 0; i < s.calls;) {
        struct text why = {0};
        if (s.call[i]->op->kind == OP_VIEW) {
            add_view(e, s.call[i++]);
            continue;
        }
        int count = p->device->fuses ? p->device->fuses(p->unit, p->program, &s, i, &why) : 1;
        e->body.failed |= why.failed;
        add_kernel(e, &s, i, i + count, why.len ? why.data : NULL);
        text_free(&why);
        i += count;
    }
}

static void look(const struct tape *tape, int begin, const struct plan *plan, void *data) {
    struct explanation *e = data;
    for (int i = 0; i < plan->segments; i++) {
        const struct plan_segment *p = &plan->segment[i];
        uint8_t *needed = memory_zero((size_t)(p->end - p->begin));
        e->body.failed |= !needed;
        for (int k = p->begin; needed && k < p->end; k++)
            needed[k - p->begin] = tape->needed[begin + k] || (int)tape->last[begin + k] >= begin + p->end;
        if (needed)
            add_segment(e, tape, begin, p, needed);
        e->calls += p->end - p->begin;
        memory_free(needed);
    }
}

static void add_summary(struct text *out, const struct explanation *e) {
    add_kind(out, e->a);
    if (!e->calls) {
        text_add(out, "there, nothing to do\n");
        return;
    }
    text_add(out, "%d calls, %d views, %d kernels, ", e->calls, e->views, e->kernels);
    add_amount(out, e->bytes, "B");
    text_add(out, " moved, ");
    add_amount(out, e->operations, "flop");
    if (e->elsewhere)
        text_add(out, "; %d calls run on another device than their stream's", e->elsewhere);
    text_add(out, "\n");
}

char *zl_explain(zl_array a) {
    struct explanation e = {.a = a};
    struct text out = {0};
    if (!a)
        return zl_error() ? NULL : error_set(ZL_ERROR_VALUE, "zl_explain: the array is NULL");
    bool ok = eval_look(a, look, &e) && !e.body.failed;
    if (ok) {
        add_summary(&out, &e);
        text_bytes(&out, e.body.data, e.body.len);
    }
    text_free(&e.body);
    if (ok)
        return text_take(&out);
    text_free(&out);
    return NULL;
}
