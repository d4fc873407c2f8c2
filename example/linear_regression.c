// linear_regression.c - one step of gradient descent: record, differentiate, assign.

#include <stdio.h>
#include <zellige.h>

int main(void) {
    const float x_data[] = {1, 2, 3, 4, 5, 6, 7, 8}, y_data[] = {5, 11, 17, 23};
    zl_array x = zl_from_f32(x_data, ZL_SHAPE(4, 2));
    zl_array y = zl_from_f32(y_data, ZL_SHAPE(4, 1));
    zl_array w = zl_retain(zl_from_f32((float[]){0, 0}, ZL_SHAPE(2, 1)));

    ZL_SCOPE {
        zl_array loss = zl_mean(zl_square(zl_subtract(zl_matmul(x, w), y)));
        zl_array dw;
        zl_grad(loss, 1, &w, &dw);
        zl_assign(&w, zl_subtract(w, zl_multiply(zl_scalar(0.01), dw)));
        printf("loss %g  w %g %g\n", zl_item(loss), zl_data_f32(w)[0], zl_data_f32(w)[1]);
    }
    zl_release(w);
    if (zl_error())
        printf("error: %s\n", zl_error());
    return zl_error() != NULL;
}
