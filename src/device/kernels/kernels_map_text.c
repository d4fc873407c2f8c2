// kernels_map_text.c - the text of a kernel of elements.

#include "device/kernels/kernels_map.h"

#include <string.h>

static bool is_pack(int form) { // where a thread takes several elements
    return form == FORM_FLAT || form == FORM_ROWS;
}

// Quotients of bfloat16 are right in the quick way.
static bool is_sure(const struct map_recipe *r) {
    bool sure = true;
    for (int k = 0; k < r->f.rows; k++)
        sure &= r->f.row[k].op != FUSE_QUOTIENT || r->f.row[k].dtype == ZL_BFLOAT16;
    return sure;
}

// Of other rows a quick function says where it is wrong: then all of a pack is computed once more.
static bool has_rare(const struct map_recipe *r) {
    return r->width > 1 && !is_sure(r);
}

static const char *input_type(const struct map_recipe *r, int at) {
    return kernel_memory_type(fuse_input_dtype(&r->f, at));
}

static const char *output_type(const struct map_recipe *r, int at) {
    return kernel_memory_type(fuse_output_dtype(&r->f, at));
}

int map_strided_inputs(const struct map_recipe *r) {
    int count = 0;
    for (int k = 0; k < r->f.inputs; k++)
        count += form_is_strided(fuse_form(&r->f, k));
    return count;
}

static void add_parameters(struct text *out, const struct map_recipe *r) {
    for (int k = 0; k < r->f.outputs; k++)
        text_add(out, "GLOBAL %s *y%d, ", output_type(r, k), k);
    for (int k = 0; k < r->f.inputs; k++)
        if (fuse_form(&r->f, k) == FORM_VALUE)
            text_add(out, "%s v%d, ", input_type(r, k), k);
        else
            text_add(out, "GLOBAL const %s *x%d, i64 o%d, ", input_type(r, k), k, k);
    text_add(out, map_strided_inputs(r) ? "idx n, i64 from, AXES s, i32 axes" : "idx n");
}

// name(results, operands), each the address of a variable: of a pack, if pack is its number, the j-th.
static void add_call(struct text *out, const struct map_recipe *r, const char *name, int pack) {
    const char *of = pack < 0 ? "" : pack == 0 ? ".e[j]" : "_1.e[j]";
    text_add(out, "%s(", name);
    for (int k = 0; k < r->f.outputs; k++)
        text_add(out, "%s(%s *)&b%d%s", k ? ", " : "",
                 fuse_output_dtype(&r->f, k) == ZL_COMPLEX64 ? "f32" : output_type(r, k), k, of);
    text_add(out, strcmp(name, "quick") ? "" : ", &rare");
    for (int k = 0; k < r->f.inputs; k++)
        text_add(out, ", (const %s *)&a%d%s",
                 fuse_input_dtype(&r->f, k) == ZL_COMPLEX64 ? "f32" : input_type(r, k), k,
                 is_pack(fuse_form(&r->f, k)) ? of : "");
    text_add(out, ");");
}

// All elements of a pack.
static void add_elements(struct text *out, const struct map_recipe *r, int pack) {
    const char *indent = has_rare(r) ? "                " : "        ";
    if (has_rare(r)) {
        text_add(out,
                 "        {\n            u8 odd = 0;\n            for (i32 j = 0; j < %d; j++) { u8 rare; ",
                 r->width);
        add_call(out, r, "quick", pack);
        text_add(out, " odd |= rare; }\n            if (odd)\n");
    }
    text_add(out, "%sfor (i32 j = 0; j < %d; j++)\n%s    ", indent, r->width, indent);
    add_call(out, r, "element", pack);
    text_add(out, has_rare(r) ? "\n        }\n" : "\n");
}

static void add_single(struct text *out, const struct map_recipe *r, const char *indent) {
    int strided = 0;
    for (int k = 0; k < r->f.outputs; k++)
        text_add(out, "%s%s b%d;\n", indent, output_type(r, k), k);
    for (int k = 0; k < r->f.inputs; k++)
        if (fuse_form(&r->f, k) == FORM_FLAT)
            text_add(out, "%s%s a%d = x%d[i];\n", indent, input_type(r, k), k, k);
        else if (fuse_form(&r->f, k) == FORM_STRIDED)
            text_add(out, "%s%s a%d = x%d[p%d];\n", indent, input_type(r, k), k, k, strided++);
    text_add(out, "%s", indent);
    add_call(out, r, "element", -1);
    text_add(out, "\n");
    for (int k = 0; k < r->f.outputs; k++)
        text_add(out, "%sy%d[i] = b%d;\n", indent, k, k);
}

// A pack is read whole, and results are written when all are computed.
static void add_pack(struct text *out, const struct map_recipe *r) {
    int strided = 0;
    text_add(out, "    if (i + %d <= n) {\n", r->width);
    for (int k = 0; k < r->f.outputs; k++)
        text_add(out, "        py%d b%d;\n", k, k);
    for (int k = 0; k < r->f.inputs; k++)
        if (fuse_form(&r->f, k) == FORM_FLAT)
            text_add(out, "        px%d a%d = *(GLOBAL const px%d *)(x%d + i);\n", k, k, k, k);
        else if (fuse_form(&r->f, k) == FORM_ROWS)
            text_add(out, "        px%d a%d = *(GLOBAL const px%d *)(x%d + p%d);\n", k, k, k, k, strided++);
        else if (fuse_form(&r->f, k) == FORM_SAME)
            text_add(out, "        %s a%d = x%d[p%d];\n", input_type(r, k), k, k, strided++);
    add_elements(out, r, 0);
    for (int k = 0; k < r->f.outputs; k++)
        text_add(out, "        *(GLOBAL py%d *)(y%d + i) = b%d;\n", k, k, k);
    text_add(out, "        %s;\n    }\n", r->packs > 1 ? "continue" : "return");
}

// Of strided operands there are no parts of packs.
static void add_packs(struct text *out, const struct map_recipe *r) {
    add_pack(out, r);
    if (map_strided_inputs(r))
        return;
    text_add(out, "    for (; i < n; i++) {\n");
    add_single(out, r, "        ");
    text_add(out, "    }\n");
}

// Two packs, as far from each other as the threads of a group reach; near the end each by itself.
static void add_two_packs(struct text *out, const struct map_recipe *r) {
    text_add(out, "    idx step = THREADS * %d;\n    if (i + step + %d <= n) {\n", r->width, r->width);
    for (int k = 0; k < r->f.outputs; k++)
        text_add(out, "        py%d b%d, b%d_1;\n", k, k, k);
    for (int k = 0; k < r->f.inputs; k++)
        if (fuse_form(&r->f, k) == FORM_FLAT)
            text_add(out,
                     "        px%d a%d = *(GLOBAL const px%d *)(x%d + i), a%d_1 = *(GLOBAL const px%d *)(x%d "
                     "+ i + step);\n",
                     k, k, k, k, k, k, k);
    add_elements(out, r, 0);
    add_elements(out, r, 1);
    for (int k = 0; k < r->f.outputs; k++)
        text_add(
            out,
            "        *(GLOBAL py%d *)(y%d + i) = b%d;\n        *(GLOBAL py%d *)(y%d + i + step) = b%d_1;\n",
            k, k, k, k, k, k);
    text_add(out, "        return;\n    }\n    for (i32 k = 0; k < 2; k++, i += step) {\n");
    add_packs(out, r);
    text_add(out, "    }\n");
}

// Where the strided operands have their element of number i.
static void add_positions(struct text *out, const struct map_recipe *r, int strided) {
    for (int k = 0; k < r->f.outputs; k++)
        text_add(out, "    y%d += from;\n", k);
    text_add(out, "    uidx rest = (uidx)i;\n");
    for (int k = 0; k < strided; k++)
        text_add(out, "    idx p%d = 0;\n", k);
    text_add(out, "    for (i32 axis = axes - 1; axis >= 0; axis--) {\n"
                  "        uidx next = rest / (uidx)s.dim[axis];\n"
                  "        idx at = (idx)(rest - next * (uidx)s.dim[axis]);\n"
                  "        rest = next;\n");
    for (int k = 0; k < strided; k++)
        text_add(out, "        p%d += at * s.stride[%d][axis];\n", k, k);
    text_add(out, "    }\n");
}

static void add_kernel(struct text *out, const struct map_recipe *r) {
    int strided = map_strided_inputs(r);
    for (int k = 0; r->width > 1 && k < r->f.outputs; k++)
        text_add(out, "typedef PACK(%s, %d) py%d;\n", output_type(r, k), r->width, k);
    for (int k = 0; r->width > 1 && k < r->f.inputs; k++)
        if (is_pack(fuse_form(&r->f, k)))
            text_add(out, "typedef PACK(%s, %d) px%d;\n", input_type(r, k), r->width, k);
    if (strided)
        text_add(out, "struct zl_axes { idx dim[%d]; idx stride[%d][%d]; };\n", KERNEL_AXES, strided,
                 KERNEL_AXES);
    text_add(out, "\nKERNEL zl_kernel(");
    add_parameters(out, r);
    text_add(out, ") {\n    idx i = (GROUP * THREADS%s + THREAD) * %d;\n    if (i >= n)\n        return;\n",
             r->packs > 1 ? " * 2" : "", r->width);
    for (int k = 0; k < r->f.inputs; k++)
        if (fuse_form(&r->f, k) == FORM_VALUE)
            text_add(out, "    %s a%d = v%d;\n", input_type(r, k), k, k);
        else if (fuse_form(&r->f, k) == FORM_ONE)
            text_add(out, "    %s a%d = x%d[o%d];\n", input_type(r, k), k, k, k);
        else
            text_add(out, "    x%d += o%d;\n", k, k);
    if (strided)
        add_positions(out, r, strided);
    if (r->packs > 1)
        add_two_packs(out, r);
    else if (r->width > 1)
        add_packs(out, r);
    else
        add_single(out, r, "    ");
    text_add(out, "}\n");
}

bool kernel_write_map(struct text *out, const void *data) {
    const struct map_writer *w = data;
    kernel_begin(out, w->dialect, w->r->wide);
    if ((has_rare(w->r) && !kernel_element(out, fuse_build_map(&w->r->f, true), w->dialect, "quick")) ||
        !kernel_element(out, fuse_build_map(&w->r->f, is_sure(w->r)), w->dialect, "element"))
        return false;
    add_kernel(out, w->r);
    return true;
}
