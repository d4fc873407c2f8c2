// hlo_donate.c - decides which arguments of a program donate their memory to a result. The program only lists
// candidates; each run decides anew.

#include "device/hlo/hlo.h"

bool hlo_count_uses(struct hlo_program *p, const struct segment *s, const uint8_t *stored) {
    struct map index = {0};
    bool ok = true;
    for (int i = 0; i < p->sources && ok; i++) {
        zl_array x = hlo_source_array(&p->source[i], s->call);
        ok = map_set(&index, &x, sizeof x, &p->source[i]);
    }
    for (int i = 0; i < s->calls && ok; i++) {
        const struct call *c = s->call[i];
        for (int k = 0; k < c->inputs; k++) {
            struct hlo_source *from = map_get(&index, &c->in[k], sizeof c->in[k]);
            if (!from)
                continue;
            from->uses++;
            from->is_shown |= c->kept || (stored[i] && c->op->kind == OP_VIEW);
        }
    }
    map_free(&index);
    return ok;
}

bool hlo_is_bound(const struct hlo_program *p, struct call *const *call) {
    for (int i = 1; i < p->sources; i++)
        if (p->source[i].argument == p->source[i - 1].argument &&
            hlo_source_array(&p->source[i], call)->storage !=
                hlo_source_array(&p->source[i - 1], call)->storage)
            return false;
    return true;
}

// Donating --------------------------------------------------------------------------------------------------

static bool is_held(zl_array x, int times) {
    return (uint32_t)atomic_load_explicit(&x->count, memory_order_acquire) == (uint32_t)times;
}

// Returns the array that a view borrows its storage from; the view's call keeps it alive.
static zl_array lender(zl_array x) {
    return array_borrows(x) && x->call && !x->call->detached ? x->call->in[x->index] : NULL;
}

// Returns how many sources of an argument borrow from x, and so hold it.
static int count_borrowers(const struct hlo_source *s, int sources, struct call *const *call, zl_array x) {
    int count = 0;
    for (int i = 0; i < sources; i++)
        count += lender(hlo_source_array(&s[i], call)) == x;
    return count;
}

static bool is_source(const struct hlo_source *s, int sources, struct call *const *call, zl_array x) {
    for (int i = 0; i < sources; i++)
        if (hlo_source_array(&s[i], call) == x)
            return true;
    return false;
}

bool hlo_may_donate(const struct hlo_program *p, int i, struct call *const *call) {
    const struct hlo_source *s = &p->source[p->argument[i].first];
    int sources = p->argument[i].sources, holders = 0;
    for (int k = 0; k < sources; k++) {
        zl_array x = hlo_source_array(&s[k], call), from = lender(x);
        if (!x->storage && array_state(x) != ARRAY_READY) // not computed yet: it will have its own storage
            return sources == 1 && !s[k].is_shown && !array_borrows(x) && is_held(x, s[k].uses);
        if (s[k].is_shown || !x->storage ||
            !is_held(x, s[k].uses + count_borrowers(s, sources, call, x)) || (array_borrows(x) && !from))
            return false;
        if (!from)
            holders++;
        else if (is_source(s, sources, call, from))
            continue;
        else if (array_borrows(from) || !is_held(from, 1)) // held by that view alone
            return false;
        else
            holders++;
    }
    return storage_is_held(hlo_source_array(s, call)->storage, holders);
}

static bool is_taken(const struct hlo_program *p, int result) {
    for (int i = 0; i < p->arguments; i++)
        if (p->argument[i].result == result)
            return true;
    return false;
}

// Returns the first result of the same form as the argument whose memory no other argument provides, or -1.
static int find_result(const struct hlo_program *p, const struct hlo_argument *a) {
    for (int i = 0; i < p->results; i++)
        if (buffer_form_same_layout(p->result[i].form, a->form) && !is_taken(p, i))
            return i;
    return -1;
}

void hlo_pair(struct hlo_program *p, struct call *const *call, const struct hlo_program *before) {
    for (int i = 0; i < p->arguments; i++) {
        bool could = before && i < before->arguments && before->argument[i].result >= 0;
        if (could || hlo_may_donate(p, i, call))
            p->argument[i].result = find_result(p, &p->argument[i]);
    }
}

bool hlo_could_donate(const struct hlo_program *p, struct call *const *call) {
    for (int i = 0; i < p->arguments; i++)
        if (p->argument[i].result < 0 && find_result(p, &p->argument[i]) >= 0 && hlo_may_donate(p, i, call))
            return true;
    return false;
}
