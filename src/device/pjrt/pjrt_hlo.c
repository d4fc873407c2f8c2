// pjrt_hlo.c - prints a compiled module as text. Reads those parts of HloModuleProto, the form in which
// plugins return it, that matter to a reader. Unknown fields are skipped, so that newer compilers do no harm.

#include "device/pjrt/pjrt.h"

#include <stdlib.h>
#include <string.h>

static void add_bytes(struct text *out, struct pjrt_proto p) {
    text_bytes(out, (const char *)p.at, (int)MIN_OF(p.end - p.at, 1 << 28));
}

// Appends the numbers of a field, which may be packed into one field or come one by one.
static void add_numbers(struct text *out, const struct pjrt_field *f) {
    struct pjrt_proto p = f->part;
    if (f->kind == PJRT_PROTO_NUMBER)
        text_add(out, "%s%lld", out->len && out->data[out->len - 1] != '[' ? "," : "", (long long)f->value);
    while (f->kind == PJRT_PROTO_BYTES && p.at < p.end)
        text_add(out, "%s%lld", out->len && out->data[out->len - 1] != '[' ? "," : "",
                 (long long)pjrt_proto_number(&p));
}

// Shapes ----------------------------------------------------------------------------------------------------

static const char *type_name(uint64_t type) {
    static const char *const names[] = {
        "?",   "pred",  "s8",     "s16", "s32",  "s64",   "u8",   "u16",    "u32",      "u64", "f16", "f32",
        "f64", "tuple", "opaque", "c64", "bf16", "token", "c128", "f8e5m2", "f8e4m3fn", "s4",  "u4"};
    return type < COUNT(names) ? names[type] : "?";
}

// Appends the order of the axes in memory, and tiles, as in {1,0:T(8,128)(2,1)}; memory space 1 is on the
// chip.
static void add_layout(struct text *out, struct pjrt_proto p) {
    struct pjrt_field f;
    struct text order = {0}, tiles = {0};
    uint64_t space = 0;
    while (pjrt_proto_next(&p, &f)) {
        if (f.number == 1)
            add_numbers(&order, &f);
        if (f.number == 8)
            space = f.value;
        struct pjrt_proto tile = f.part;
        if (f.number == 6) {
            struct pjrt_field g;
            struct text sizes = {0};
            while (pjrt_proto_next(&tile, &g))
                if (g.number == 1)
                    add_numbers(&sizes, &g);
            text_add(&tiles, "(%s)", sizes.len ? sizes.data : "");
            text_free(&sizes);
        }
    }
    text_add(out, "{%s%s%s", order.len ? order.data : "", tiles.len ? ":T" : "", tiles.len ? tiles.data : "");
    text_add(out, space ? "S(%llu)}" : "}", (unsigned long long)space);
    text_free(&order);
    text_free(&tiles);
}

static void add_shape(struct text *out, struct pjrt_proto p, int depth) {
    struct pjrt_field f;
    struct text dims = {0}, layout = {0}, parts = {0};
    uint64_t type = 0;
    while (pjrt_proto_next(&p, &f)) {
        if (f.number == 2)
            type = f.value;
        else if (f.number == 3)
            add_numbers(&dims, &f);
        else if (f.number == 5 && f.kind == PJRT_PROTO_BYTES)
            add_layout(&layout, f.part);
        else if (f.number == 4 && f.kind == PJRT_PROTO_BYTES && depth < 8) {
            text_add(&parts, parts.len ? ", " : "");
            add_shape(&parts, f.part, depth + 1);
        }
    }
    if (type == 13)
        text_add(out, "(%s)", parts.len ? parts.data : "");
    else
        text_add(out, "%s[%s]%s", type_name(type), dims.len ? dims.data : "", layout.len ? layout.data : "");
    text_free(&dims);
    text_free(&layout);
    text_free(&parts);
}

// Instructions ----------------------------------------------------------------------------------------------

// Names of instructions and computations by their ids.
struct hlo_reader {
    struct map names;
    struct text out;
    double cycles;
};

struct name {
    int64_t id;
    struct pjrt_proto text;
};

// Reads the name (field 1) and the id of an instruction (field 35) or a computation (field 5).
static struct name read_name(struct pjrt_proto p, int id_field) {
    struct name out = {0};
    struct pjrt_field f;
    while (pjrt_proto_next(&p, &f)) {
        if (f.number == 1 && f.kind == PJRT_PROTO_BYTES)
            out.text = f.part;
        if (f.number == id_field && f.kind == PJRT_PROTO_NUMBER)
            out.id = (int64_t)f.value;
    }
    return out;
}

static void keep_name(struct hlo_reader *r, struct name n) {
    if (map_get(&r->names, &n.id, sizeof n.id))
        return;
    char *text = memory_zero((size_t)(n.text.end - n.text.at) + 1);
    if (text && n.text.at)
        memcpy(text, n.text.at, (size_t)(n.text.end - n.text.at));
    if (!text || !map_set(&r->names, &n.id, sizeof n.id, text)) {
        memory_free(text);
        r->out.failed = true;
    }
}

static void add_names(struct hlo_reader *r, struct text *out, const struct pjrt_field *f) {
    struct pjrt_proto p = f->part;
    bool is_packed = f->kind == PJRT_PROTO_BYTES;
    for (bool more = true; more && (!is_packed || p.at < p.end); more = is_packed) {
        int64_t id = (int64_t)(is_packed ? pjrt_proto_number(&p) : f->value);
        const char *name = map_get(&r->names, &id, sizeof id);
        text_add(out, "%s%%%s", out->len ? ", " : "", name ? name : "?");
    }
}

// Returns the cycles that the compiler estimated in its remarks, or 0 if it has none.
static double cycles_of(struct pjrt_proto config) {
    static const char key[] = "\"estimated_cycles\":";
    size_t size = (size_t)(config.end - config.at);
    const char *at = size ? memmem(config.at, size, key, sizeof key - 1) : NULL;
    char digits[24] = "";
    if (at) {
        at += sizeof key - 1;
        at += at < (const char *)config.end && *at == '"';
        size = MIN_OF((size_t)((const char *)config.end - at), sizeof digits - 1);
        memcpy(digits, at, size);
    }
    return strtod(digits, NULL);
}

static void add_instruction(struct hlo_reader *r, struct pjrt_proto p, int64_t root) {
    struct pjrt_field f;
    struct pjrt_proto opcode = {0}, shape = {0}, target = {0}, config = {0};
    struct text operands = {0}, called = {0};
    struct name n = read_name(p, 35);
    while (pjrt_proto_next(&p, &f)) {
        if (f.number == 2)
            opcode = f.part;
        else if (f.number == 3)
            shape = f.part;
        else if (f.number == 28)
            target = f.part;
        else if (f.number == 36)
            add_names(r, &operands, &f);
        else if (f.number == 38)
            add_names(r, &called, &f);
        else if (f.number == 43)
            config = f.part;
    }
    text_add(&r->out, n.id == root ? "  ROOT %%" : "  %%");
    add_bytes(&r->out, n.text);
    text_add(&r->out, " = ");
    add_shape(&r->out, shape, 0);
    text_add(&r->out, " ");
    add_bytes(&r->out, opcode);
    text_add(&r->out, "(%s)", operands.len ? operands.data : "");
    if (called.len)
        text_add(&r->out, ", calls=%s", called.data);
    if (target.at) {
        text_add(&r->out, ", target=");
        add_bytes(&r->out, target);
    }
    double cycles = cycles_of(config);
    if (cycles > 0)
        text_add(&r->out, ", estimated_cycles=%.0f", cycles);
    r->cycles += cycles;
    text_add(&r->out, "\n");
    text_free(&operands);
    text_free(&called);
}

static void add_computation(struct hlo_reader *r, struct pjrt_proto p, int64_t entry) {
    struct name n = read_name(p, 5);
    struct pjrt_field f;
    int64_t root = -1;
    for (struct pjrt_proto q = p; pjrt_proto_next(&q, &f);)
        if (f.number == 6 && f.kind == PJRT_PROTO_NUMBER)
            root = (int64_t)f.value;
    text_add(&r->out, n.id == entry ? "\nENTRY %%" : "\n%%");
    add_bytes(&r->out, n.text);
    text_add(&r->out, " {\n");
    while (pjrt_proto_next(&p, &f))
        if (f.number == 2 && f.kind == PJRT_PROTO_BYTES)
            add_instruction(r, f.part, root);
    text_add(&r->out, "}\n");
}

// Reads the names of all computations and their instructions.
static void read_names(struct hlo_reader *r, struct pjrt_proto module) {
    struct pjrt_field f, g;
    while (pjrt_proto_next(&module, &f)) {
        if (f.number != 3 || f.kind != PJRT_PROTO_BYTES)
            continue;
        keep_name(r, read_name(f.part, 5));
        for (struct pjrt_proto p = f.part; pjrt_proto_next(&p, &g);)
            if (g.number == 2 && g.kind == PJRT_PROTO_BYTES)
                keep_name(r, read_name(g.part, 35));
    }
}

// Returns the HLO module in p. Plugins return the bare module, or a message whose first field is the module
// and that also has its options.
static struct pjrt_proto find_module(struct pjrt_proto p) {
    struct pjrt_field f, g;
    struct pjrt_proto q = p;
    if (!pjrt_proto_next(&q, &f) || f.number != 1 || f.kind != PJRT_PROTO_BYTES)
        return p;
    struct pjrt_proto inner = f.part;
    for (struct pjrt_proto all = f.part; pjrt_proto_next(&all, &g);)
        if (g.number == 3 && g.kind == PJRT_PROTO_BYTES)
            return inner;
    return p;
}

static void free_name(const void *key, size_t bytes, void *value, void *data) {
    (void)key, (void)bytes, (void)data;
    memory_free(value);
}

char *pjrt_hlo_text(const uint8_t *bytes, size_t size, double *cycles) {
    struct hlo_reader r = {0};
    struct pjrt_proto module = find_module((struct pjrt_proto){bytes, bytes + size});
    struct pjrt_field f;
    int64_t entry = -1;
    read_names(&r, module);
    for (struct pjrt_proto p = module; pjrt_proto_next(&p, &f);) {
        if (f.number == 1 && f.kind == PJRT_PROTO_BYTES) {
            text_add(&r.out, "HloModule ");
            add_bytes(&r.out, f.part);
            text_add(&r.out, "\n");
        }
        if (f.number == 6 && f.kind == PJRT_PROTO_NUMBER)
            entry = (int64_t)f.value;
    }
    for (struct pjrt_proto p = module; pjrt_proto_next(&p, &f);)
        if (f.number == 3 && f.kind == PJRT_PROTO_BYTES)
            add_computation(&r, f.part, entry);
    map_each(&r.names, free_name, NULL);
    map_free(&r.names);
    *cycles = r.cycles;
    text_add(&r.out, "%s", "");
    return text_take(&r.out);
}
