// hlo_donate.c - which arguments of a program give their memory to a result. Each run decides anew: the program only says which may.

#include "device/hlo/hlo.h"

bool hlo_may_donate(const struct hlo_argument *a, zl_array x) {
    uint32_t held = (uint32_t)atomic_load_explicit(&x->count, memory_order_acquire);
    return !a->is_shown && held == (uint32_t)a->uses && x->storage && !array_borrows(x) &&
           storage_is_unique(x->storage);
}

static zl_array array_of(const struct hlo_argument *a, struct call *const *call) {
    return call[a->call]->in[a->input];
}

static bool is_taken(const struct hlo_program *p, int result) {
    for (int i = 0; i < p->arguments; i++)
        if (p->argument[i].result == result)
            return true;
    return false;
}

// The first result of the argument's form that takes over no other; -1: there is none.
static int find_result(const struct hlo_program *p, const struct hlo_argument *a) {
    for (int i = 0; i < p->results; i++)
        if (buffer_form_is_equal(p->result[i].form, a->form) && !is_taken(p, i))
            return i;
    return -1;
}

void hlo_pair(struct hlo_program *p, struct call *const *call, const struct hlo_program *before) {
    for (int i = 0; i < p->arguments; i++)
        p->argument[i].result = -1;
    for (int i = 0; i < p->arguments; i++) {
        struct hlo_argument *a = &p->argument[i];
        bool could = before && i < before->arguments && before->argument[i].result >= 0;
        if (could || hlo_may_donate(a, array_of(a, call)))
            a->result = find_result(p, a);
    }
}

bool hlo_could_donate(const struct hlo_program *p, struct call *const *call) {
    for (int i = 0; i < p->arguments; i++) {
        const struct hlo_argument *a = &p->argument[i];
        if (a->result < 0 && hlo_may_donate(a, array_of(a, call)) && find_result(p, a) >= 0)
            return true;
    }
    return false;
}
