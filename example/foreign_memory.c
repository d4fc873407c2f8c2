// foreign_memory.c - the program's own memory as an array: no copy, and a call when the library is done with
// it.

#include <stdio.h>
#include <stdlib.h>
#include <zellige.h>

static void give_back(void *memory) {
    printf("the library is done with the memory\n");
    free(memory);
}

int main(void) {
    enum { ROWS = 3, COLUMNS = 4 };
    float *memory = malloc(sizeof(float) * ROWS * COLUMNS);
    if (!memory)
        return 1;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        memory[i] = (float)i;

    ZL_SCOPE {
        zl_foreign_options options = {.release = give_back, .context = memory};
        zl_array a = zl_from_foreign(memory, ZL_SHAPE(ROWS, COLUMNS), ZL_FLOAT32, &options);
        zl_array columns = zl_sum_axis(a, 0, false);
        printf("data is where it was: %s\n", zl_data_f32(a) == memory ? "yes" : "no");
        char *text = zl_print(columns);
        printf("sums of columns %s\n", text);
        zl_free(text);
    }
    if (zl_error())
        printf("error: %s\n", zl_error());
    return zl_error() != NULL;
}
