// structs.c - fields of an array of nested C structs as strided arrays, without copying.

#include <stdio.h>
#include <zellige.h>

struct body {
    double mass;
    int32_t id;
};

struct particle {
    float position[3];
    struct body body;
    bool fixed;
};

int main(void) {
    struct particle p[4] = {
        {{0, 0, 0}, {1.0, 7}, true},
        {{1, 0, 0}, {2.0, 8}, false},
        {{0, 2, 0}, {3.0, 9}, false},
        {{0, 0, 3}, {4.0, 10}, false},
    };
    ZL_SCOPE {
        zl_array records = zl_from_records(p, ZL_SHAPE(4), sizeof p[0], NULL);
        zl_array position = zl_field(records, offsetof(struct particle, position), ZL_FLOAT32, ZL_SHAPE(3));
        zl_array mass = zl_field(records, offsetof(struct particle, body.mass), ZL_FLOAT64, ZL_SCALAR);
        zl_array id = zl_field(records, offsetof(struct particle, body.id), ZL_INT32, ZL_SCALAR);

        zl_array weighted = zl_multiply(position, zl_expand_dims(mass, ZL_AXES(1)));
        zl_array centre = zl_divide(zl_sum_axis(weighted, 0, false), zl_sum(mass));
        char *text = zl_print(centre), *ids = zl_print(id);
        printf("centre of mass %s\nids %s, every %lld elements\n", text, ids,
               (long long)zl_strides_of(id).dim[0]);
        zl_free(text);
        zl_free(ids);
    }
    if (zl_error())
        printf("error: %s\n", zl_error());
    return zl_error() != NULL;
}
