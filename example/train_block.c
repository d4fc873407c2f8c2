// train_block.c - one block of a language model, Gated DeltaNet and SwiGLU, learns to say again what it read
// 8 words before.

#include <stdio.h>
#include <zellige_nn.h>

enum { BATCH = 16, TIME = 24, BACK = 8, WORDS = 10, WIDTH = 32, STEPS = 100 };

static zl_array loss(zl_nn nn, int count, const zl_array *in, void *mixer) {
    zl_array x = zl_nn_embedding(nn, "words", in[0], WORDS, WIDTH);
    x = zl_add(x, zl_nn_mixer(nn, "mixer", zl_nn_rms_norm(nn, "mixer_norm", x), mixer));
    x = zl_add(x, zl_nn_swiglu(nn, "mlp", zl_nn_rms_norm(nn, "mlp_norm", x), 2 * WIDTH));
    return zl_nn_cross_entropy(zl_nn_logits(nn, "words", zl_nn_rms_norm(nn, "norm", x), WORDS), in[count - 1],
                               NULL);
}

int main(void) {
    zl_nn nn = zl_nn_new(1);
    zl_nn_mixer_options mixer = {.rule = "gated_delta", .heads = 2, .conv = BACK + 1};
    const zl_train_options options = {
        .optimizer = "muon", .rate = 0.02, .schedule = "cosine", .steps = STEPS, .clip = 1};
    zl_trainer trainer = zl_trainer_new(nn, loss, &mixer, &options);
    zl_train_report report = {0};
    for (int step = 1; trainer && step <= STEPS; step++)
        ZL_SCOPE {
            zl_array text = zl_random_randint(zl_scalar_int(0), zl_scalar_int(WORDS),
                                              ZL_SHAPE(BATCH, TIME + BACK), ZL_INT32, zl_random_key(step));
            zl_array now = zl_slice(text, ZL_SHAPE(0, BACK), ZL_SHAPE(BATCH, TIME + BACK), ZL_SHAPE(1, 1));
            zl_array before = zl_slice(text, ZL_SHAPE(0, 0), ZL_SHAPE(BATCH, TIME), ZL_SHAPE(1, 1));
            if (!zl_trainer_step(trainer, 2, (zl_array[]){now, before}, &report))
                break;
            if (step % 25 == 0)
                printf("step %3d  loss %.3f  rate %.4f\n", step, report.loss, report.rate);
        }
    const char *error = zl_nn_error(nn);
    printf(error ? "error: %s\n" : "done\n", error);
    zl_trainer_free(trainer);
    zl_nn_free(nn);
    return error != NULL || report.loss > 1;
}
