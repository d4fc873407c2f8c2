// mlp.c - trains a small multi-layer perceptron to tell two spirals apart.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <zellige.h>

enum { POINTS = 512, HIDDEN = 64, STEPS = 800, LAYERS = 3, PARAMETERS = 2 * LAYERS };

// Two spirals, one turned by half a circle. (POINTS, 2) and (POINTS, 1)
static void make_spirals(float *x, float *y) {
    for (int i = 0; i < POINTS; i++) {
        double turn = (i / 2) / (POINTS / 2.0), angle = 6 * turn + (i % 2) * 3.14159265;
        x[2 * i] = (float)((0.1 + turn) * cos(angle));
        x[2 * i + 1] = (float)((0.1 + turn) * sin(angle));
        y[i] = (float)(i % 2);
    }
}

static zl_array random_matrix(int rows, int columns) {
    float *data = malloc(sizeof(float) * (size_t)(rows * columns));
    for (int i = 0; data && i < rows * columns; i++)
        data[i] = (float)((rand() / (double)RAND_MAX * 2 - 1) * sqrt(6.0 / (rows + columns)));
    zl_array w = zl_from_f32(data, ZL_SHAPE(rows, columns));
    free(data);
    return zl_retain(w);
}

// tanh(tanh(x w + b) w + b) w + b: one number for each point.
static zl_array forward(zl_array x, const zl_array *parameter) {
    for (int i = 0; i < LAYERS; i++) {
        x = zl_add(zl_matmul(x, parameter[2 * i]), parameter[2 * i + 1]);
        if (i < LAYERS - 1)
            x = zl_tanh(x);
    }
    return x;
}

// Mean of -log of the probability that the network gives to what is right.
static zl_array cross_entropy(zl_array logits, zl_array y) {
    return zl_mean(zl_subtract(zl_logaddexp(zl_scalar(0), logits), zl_multiply(y, logits)));
}

static double accuracy(zl_array logits, zl_array y) {
    zl_array hit = zl_equal(zl_greater(logits, zl_scalar(0)), zl_greater(y, zl_scalar(0.5)));
    return zl_item(zl_mean(zl_astype(hit, ZL_FLOAT32)));
}

int main(void) {
    static float x_data[2 * POINTS], y_data[POINTS];
    make_spirals(x_data, y_data);
    zl_array x = zl_retain(zl_from_f32(x_data, ZL_SHAPE(POINTS, 2)));
    zl_array y = zl_retain(zl_from_f32(y_data, ZL_SHAPE(POINTS, 1)));
    zl_array parameter[PARAMETERS], velocity[PARAMETERS];
    const int width[LAYERS + 1] = {2, HIDDEN, HIDDEN, 1};
    for (int i = 0; i < LAYERS; i++) {
        parameter[2 * i] = random_matrix(width[i], width[i + 1]);
        parameter[2 * i + 1] = zl_retain(zl_zeros(ZL_SHAPE(width[i + 1]), ZL_FLOAT32));
    }
    for (int i = 0; i < PARAMETERS; i++)
        velocity[i] = zl_retain(zl_zeros_like(parameter[i], ZL_DTYPE_COUNT));

    for (int step = 0; step <= STEPS && !zl_error(); step++)
        ZL_SCOPE {
            zl_array gradient[PARAMETERS], next[2 * PARAMETERS + 1];
            zl_array logits = forward(x, parameter);
            zl_array loss = cross_entropy(logits, y);
            zl_grad(loss, PARAMETERS, parameter, gradient);
            for (int i = 0; i < PARAMETERS; i++) {
                next[i] = zl_add(zl_multiply(zl_scalar(0.9), velocity[i]), gradient[i]);
                next[PARAMETERS + i] = zl_subtract(parameter[i], zl_multiply(zl_scalar(0.1), next[i]));
            }
            next[2 * PARAMETERS] = loss;
            if (!zl_eval_all(2 * PARAMETERS + 1, next))
                break;
            for (int i = 0; i < PARAMETERS; i++) {
                zl_assign(&velocity[i], next[i]);
                zl_assign(&parameter[i], next[PARAMETERS + i]);
            }
            if (step % 200 == 0)
                printf("step %3d  loss %.4f  accuracy %.1f %%\n", step, zl_item(loss),
                       100 * accuracy(forward(x, parameter), y));
        }

    for (int i = 0; i < PARAMETERS; i++) {
        zl_release(parameter[i]);
        zl_release(velocity[i]);
    }
    zl_release(x);
    zl_release(y);
    if (zl_error())
        printf("error: %s\n", zl_error());
    return zl_error() != NULL;
}
