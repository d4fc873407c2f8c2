// registry.c - ops by name: what OP and OP_LIST gathered.

#include <string.h>

#include "op/op.h"

extern const struct op_entry __start_zl_op_entries[], __stop_zl_op_entries[]; // made by the linker

const struct op *op_at(int index) {
    for (const struct op_entry *e = __start_zl_op_entries; e < __stop_zl_op_entries; e++)
        for (int64_t i = 0; i < e->count; i++)
            if (e->op[i].name && index-- == 0)
                return &e->op[i];
    return NULL;
}

const struct op *op_find(const char *name, size_t bytes) {
    for (const struct op_entry *e = __start_zl_op_entries; e < __stop_zl_op_entries; e++)
        for (int64_t i = 0; i < e->count; i++) {
            const char *other = e->op[i].name;
            if (other && strlen(other) == bytes && !memcmp(other, name, bytes))
                return &e->op[i];
        }
    return NULL;
}
