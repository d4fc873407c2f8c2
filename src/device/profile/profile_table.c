// profile_table.c - prints a profile as a table: kernels by the time that they took, and the rest of the
// time.

#include "device/profile/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 48, ROWS_MOST = 40 };

// All runs of one kernel, or of one step, on one unit.
struct row {
    char *name;
    const struct device *device;
    int unit;
    zl_dtype dtype;
    int64_t calls;
    double ns, read, written, flops;
};

struct rows {
    struct map map; // struct row_key -> index in `row` + 1
    int count, cap;
    struct row *row;
    bool failed;
};

// Rows ------------------------------------------------------------------------------------------------------

// Appends the name of a kernel, with the ops that it runs for.
static void name_span(struct text *out, const struct profile *p, const struct profile_span *s) {
    if (s->r->kind == PROFILE_OPS) {
        profile_add_ops(out, s->r);
        return;
    }
    text_add(out, "%s", s->r->name);
    if (s->step < 0)
        return;
    text_add(out, " [");
    profile_add_ops(out, p->span[s->step].r);
    text_add(out, "]");
}

static double ns_of(const struct profile *p, const struct profile_span *s) {
    if (s->r->kind != PROFILE_LAUNCH)
        return (double)(s->r->end - s->r->begin);
    double ns = 0;
    for (int i = 0; i < s->count; i++)
        ns += (double)(p->time[s->first + i]->end - p->time[s->first + i]->begin);
    return ns;
}

// The key of a row, built without composing its name: the name's address, the ops, and where it ran.
struct row_key {
    const void *name, *device;
    uint32_t unit, dtype, calls, ops;
    uintptr_t op[64];
};

static size_t set_key(struct row_key *k, const struct profile *p, const struct profile_span *s) {
    const struct profile_record *step = s->r->kind == PROFILE_OPS ? s->r
                                        : s->step >= 0            ? p->span[s->step].r
                                                                  : NULL;
    *k = (struct row_key){.name = s->r->name, .device = s->r->device, .unit = s->r->unit};
    k->dtype = (step ? step : s->r)->dtype;
    k->calls = step ? step->calls : 0;
    k->ops = step ? MIN_OF(step->words, (uint32_t)COUNT(k->op)) : 0;
    for (uint32_t i = 0; i < k->ops; i++)
        k->op[i] = profile_words(step)[i];
    return offsetof(struct row_key, op) + sizeof k->op[0] * k->ops;
}

// Returns the row of a name, and makes it if there is none. Kernels of one name for different layouts share a
// row. Takes over the name. Returns NULL if memory runs out.
static struct row *row_named(struct rows *rows, char *name, const struct row_key *k) {
    for (int i = 0; i < rows->count; i++) {
        struct row *r = &rows->row[i];
        if (r->device == k->device && r->unit == (int)k->unit && r->dtype == (zl_dtype)k->dtype &&
            !strcmp(r->name, name)) {
            memory_free(name);
            return r;
        }
    }
    if (!memory_grow(&rows->row, &rows->cap, rows->count + 1, sizeof *rows->row)) {
        memory_free(name);
        return NULL;
    }
    struct row *r = &rows->row[rows->count++];
    *r = (struct row){.name = name, .device = k->device, .unit = (int)k->unit, .dtype = (zl_dtype)k->dtype};
    return r;
}

static struct row *find_row(struct rows *rows, const struct profile *p, const struct profile_span *s) {
    struct row_key key;
    struct text name = {0};
    size_t bytes = set_key(&key, p, s);
    intptr_t at = (intptr_t)map_get(&rows->map, &key, bytes);
    if (at)
        return &rows->row[at - 1];
    name_span(&name, p, s);
    char *text = text_take(&name);
    struct row *row = text ? row_named(rows, text, &key) : NULL;
    if (row && map_set(&rows->map, &key, bytes, (void *)(row - rows->row + 1)))
        return row;
    rows->failed = true;
    return NULL;
}

static void add_row(struct rows *rows, const struct profile *p, const struct profile_span *s) {
    struct row *row = find_row(rows, p, s);
    if (!row)
        return;
    row->calls += !s->r->is_part;
    row->ns += ns_of(p, s);
    row->read += s->read;
    row->written += s->written;
    row->flops += s->flops;
}

static int compare_rows(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

static void free_rows(struct rows *rows) {
    for (int i = 0; i < rows->count; i++)
        memory_free(rows->row[i].name);
    memory_free(rows->row);
    map_free(&rows->map);
}

// Peaks -----------------------------------------------------------------------------------------------------

// Returns the peak per second that ZL_PROFILE_PEAKS gives for a device, or 0.
static double peak_of(const struct device *d, const char *what) {
    char key[64];
    int len = snprintf(key, sizeof key, "%s.%s=", d->name, what);
    for (const char *at = setting_text(SETTING_PROFILE_PEAKS); *at;) {
        if (!strncmp(at, key, (size_t)len))
            return MAX_OF(strtod(at + len, NULL), 0);
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return 0;
}

// Returns the larger of the shares of peak bandwidth and of peak arithmetic; negative if neither is known.
static double share_of_peak(const struct row *r) {
    double bytes = peak_of(r->device, "bytes"), flops = peak_of(r->device, zl_dtype_name(r->dtype)),
           s = r->ns * 1e-9;
    double of_bytes = bytes > 0 && s > 0 ? (r->read + r->written) / s / bytes : -1;
    double of_flops = flops > 0 && s > 0 ? r->flops / s / flops : -1;
    return MAX_OF(of_bytes, of_flops);
}

// Words -----------------------------------------------------------------------------------------------------

// Appends a name, padded to NAME_MOST characters; a longer one is cut off and ends in "...".
static void add_name(struct text *out, const char *name) {
    int len = (int)strlen(name);
    if (len <= NAME_MOST)
        text_add(out, "  %-*s", NAME_MOST, name);
    else
        text_add(out, "  %.*s...", NAME_MOST - 3, name);
}

static void add_share(struct text *out, double share) {
    if (share < 0)
        text_add(out, " %8s", "-");
    else
        text_add(out, " %6.1f %%", 100 * share);
}

static void add_rate(struct text *out, double amount, double ns) {
    if (amount > 0 && ns > 0)
        text_add(out, " %9.*f", amount / ns < 100 ? 2 : 0, amount / ns);
    else
        text_add(out, " %9s", "-");
}

static void add_line(struct text *out, const struct row *r, double all) {
    add_name(out, r->name);
    text_add(out, " %-5s %8lld %11.3f", tile_type_name(tile_type_of(r->dtype)), (long long)r->calls,
             r->ns * 1e-6);
    add_share(out, all > 0 ? r->ns / all : -1);
    text_add(out, " %11.2f", r->ns * 1e-3 / (double)r->calls);
    add_rate(out, r->read + r->written, r->ns);
    add_rate(out, r->flops, r->ns);
    add_share(out, share_of_peak(r));
    text_add(out, "\n");
}

static void add_bytes(struct text *out, double bytes) {
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    int at = 0;
    for (; bytes >= 1000 && at < (int)COUNT(unit) - 1; at++)
        bytes /= 1000;
    text_add(out, "%.*f %s", at && bytes < 100 ? 1 : 0, bytes, unit[at]);
}

// Time ------------------------------------------------------------------------------------------------------

struct interval {
    int64_t begin, end;
};

static int compare_intervals(const void *a, const void *b) {
    const struct interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

// Returns the intervals in which the unit of `like` ran kernels, in order. The caller frees them. NULL if
// memory is out or there are none.
static struct interval *intervals_of(const struct profile *p, const struct row *like, int *count) {
    int room = 0;
    struct interval *list = NULL;
    *count = 0;
    for (int i = 0; i < p->spans; i++) {
        const struct profile_span *s = &p->span[i];
        if (!profile_is_kernel(s) || s->r->device != like->device || s->r->unit != like->unit)
            continue;
        int times = MAX_OF(s->count, 1);
        if (!memory_grow(&list, &room, *count + times, sizeof *list))
            break;
        for (int k = 0; k < times; k++) {
            const struct profile_record *r = s->count ? p->time[s->first + k] : s->r;
            list[(*count)++] = (struct interval){r->begin, r->end};
        }
    }
    if (*count)
        qsort(list, (size_t)*count, sizeof *list, compare_intervals);
    return list;
}

static void add_busy(struct text *out, const struct profile *p, const struct row *like) {
    int count, gaps = 0;
    struct interval *list = intervals_of(p, like, &count);
    int64_t busy = 0, idle = 0, longest = 0, end = count ? list[0].begin : 0;
    for (int i = 0; i < count; i++) {
        int64_t gap = list[i].begin - end;
        gaps += gap > 0;
        idle += MAX_OF(gap, 0);
        longest = MAX_OF(longest, gap);
        busy += MAX_OF(list[i].end - MAX_OF(list[i].begin, end), 0);
        end = MAX_OF(end, list[i].end);
    }
    text_add(out, "  busy %.3f ms, %.1f %% of the profile; %d gap%s of %.3f ms in all, the longest %.3f ms\n",
             (double)busy * 1e-6, 100 * (double)busy / (double)MAX_OF(p->end - p->begin, 1), gaps,
             gaps == 1 ? "" : "s", (double)idle * 1e-6, (double)longest * 1e-6);
    memory_free(list);
}

// The number, the time and the bytes of all spans of a kind.
struct sum {
    int64_t count;
    double ns, read, written;
};

static struct sum sum_of(const struct profile *p, enum profile_kind kind, bool only_fallbacks) {
    struct sum sum = {0};
    for (int i = 0; i < p->spans; i++) {
        const struct profile_record *r = p->span[i].r;
        if (r->kind != kind || (only_fallbacks && !r->is_fallback))
            continue;
        sum.count += kind == PROFILE_OPS ? r->calls : 1;
        sum.ns += (double)(r->end - r->begin);
        sum.read += p->span[i].read;
        sum.written += p->span[i].written;
    }
    return sum;
}

static void add_sums(struct text *out, const struct profile *p) {
    struct sum eval = sum_of(p, PROFILE_EVAL, false), wait = sum_of(p, PROFILE_WAIT, false),
               compile = sum_of(p, PROFILE_COMPILE, false), copy = sum_of(p, PROFILE_COPY, false),
               fallback = sum_of(p, PROFILE_OPS, true);
    text_add(out, "host: %lld evaluation%s, %.3f ms, of which %.3f ms waiting for devices\n",
             (long long)eval.count, eval.count == 1 ? "" : "s", eval.ns * 1e-6, wait.ns * 1e-6);
    text_add(out, "compiles: %lld, %.3f ms\n", (long long)compile.count, compile.ns * 1e-6);
    text_add(out, "fallbacks: %lld call%s on the CPU that their device cannot run, %.3f ms\n",
             (long long)fallback.count, fallback.count == 1 ? "" : "s", fallback.ns * 1e-6);
    text_add(out, "copies: ");
    add_bytes(out, copy.read);
    text_add(out, " to devices, ");
    add_bytes(out, copy.written);
    text_add(out, " to the host, %.3f ms\n", copy.ns * 1e-6);
    for (int i = 0; i < (int)COUNT(p->said) && p->said[i]; i++)
        text_add(out, "%s\n", p->said[i]);
    if (p->dropped) {
        text_add(out, "%lld records did not fit into ", (long long)p->dropped);
        add_bytes(out, (double)p->most);
        text_add(out, ": what is above lacks them; ZL_PROFILE_MEMORY gives them more\n");
    }
}

// Chips that are emulated -----------------------------------------------------------------------------------

// Sums over all launches of a span's kernel, and returns their number; returns 0 if an earlier span is of the
// same kernel.
static int sum_model(const struct profile *p, int first, struct profile_model *sum) {
    const char *name = p->span[first].r->name;
    int calls = 0;
    *sum = (struct profile_model){0};
    for (int i = 0; i < p->spans; i++) {
        const struct profile_record *r = p->span[i].r;
        struct profile_model m;
        if (r->kind != PROFILE_MODELLED || strcmp(r->name, name) != 0)
            continue;
        if (i < first)
            return 0;
        memcpy(&m, profile_words(r), sizeof m);
        calls++;
        sum->us += m.us;
        sum->compute_us += m.compute_us;
        sum->copy_us += m.copy_us;
        sum->lanes += m.lanes * m.compute_us;
        sum->bank_conflicts += m.bank_conflicts;
        sum->scalars += m.scalars;
    }
    return calls;
}

static double share(double part, double all) {
    return all > 0 ? 100 * part / all : 0;
}

static void add_modelled(struct text *out, const struct profile *p) {
    bool has_title = false;
    for (int i = 0; i < p->spans; i++) {
        struct profile_model m;
        int calls = p->span[i].r->kind == PROFILE_MODELLED ? sum_model(p, i, &m) : 0;
        if (calls && !has_title)
            text_add(out, "bm1690, modelled\n  %-*s %8s %11s %9s %9s %9s %15s %14s\n", NAME_MOST, "kernel",
                     "calls", "total us", "compute", "copies", "lanes", "bank conflicts", "one at a time");
        has_title |= calls > 0;
        if (calls)
            text_add(out, "  %-*.*s %8d %11.3f %7.1f %% %7.1f %% %7.1f %% %15.0f %14.0f\n", NAME_MOST,
                     NAME_MOST, p->span[i].r->name, calls, m.us, share(m.compute_us, m.us),
                     share(m.copy_us, m.us), share(m.lanes, m.compute_us), m.bank_conflicts, m.scalars);
    }
}

// The table -------------------------------------------------------------------------------------------------

static bool is_of_unit(const struct row *r, const struct row *like) {
    return r->device == like->device && r->unit == like->unit;
}

static void add_unit(struct text *out, const struct profile *p, const struct rows *rows,
                     const struct row *first) {
    double all = 0, rest = 0;
    int lines = 0, more = 0;
    for (const struct row *r = rows->row; r < rows->row + rows->count; r++)
        all += is_of_unit(r, first) ? r->ns : 0;
    text_add(out, "%s %d\n  %-*s %-5s %8s %11s %8s %11s %9s %9s %8s\n", first->device->name, first->unit,
             NAME_MOST, "kernel", "dtype", "calls", "total ms", "share", "mean us", "GB/s", "GFLOP/s",
             "roofline");
    for (const struct row *r = rows->row; r < rows->row + rows->count; r++) {
        if (!is_of_unit(r, first))
            continue;
        if (lines < ROWS_MOST) {
            add_line(out, r, all);
            lines++;
        } else {
            more++;
            rest += r->ns;
        }
    }
    if (more)
        text_add(out, "  %d more, %.3f ms\n", more, rest * 1e-6);
    add_busy(out, p, first);
}

static bool was_seen(const struct rows *rows, const struct row *r) {
    for (const struct row *other = rows->row; other < r; other++)
        if (is_of_unit(other, r))
            return true;
    return false;
}

void profile_table(struct text *out, const struct profile *p) {
    struct rows rows = {.count = 0};
    for (int i = 0; i < p->spans && !rows.failed; i++)
        if (profile_is_kernel(&p->span[i]))
            add_row(&rows, p, &p->span[i]);
    if (rows.count)
        qsort(rows.row, (size_t)rows.count, sizeof *rows.row, compare_rows);
    text_add(out, "profile of %.3f ms\n", (double)(p->end - p->begin) * 1e-6);
    for (const struct row *r = rows.row; r && r < rows.row + rows.count; r++)
        if (!was_seen(&rows, r))
            add_unit(out, p, &rows, r);
    add_modelled(out, p);
    add_sums(out, p);
    out->failed |= rows.failed;
    free_rows(&rows);
}
