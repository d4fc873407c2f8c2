// train_model.c - the small language model of `zellige train lm` and `recall`.

#include "train.h"

#include <stdarg.h>
#include <stdio.h>

bool train_read_model(const struct invocation *call, struct train_model *m) {
    int64_t layers = m->layers, width = m->width, heads = m->mixer.heads, key = 0, value = 0, conv = 0,
            ffn = -1;
    const char *mixer = cli_option(call, "mixer");
    m->mixer.rule = mixer ? mixer : "gated_delta";
    if (!zl_nn_is_mixer(m->mixer.rule)) {
        cli_usage(call, "no mixer '%s': there are %s", m->mixer.rule, zl_nn_mixers);
        return false;
    }
    enum { MOST = 1 << 16 };
    if (!cli_integer(call, "layers", 1, 1000, &layers) || !cli_integer(call, "width", 1, MOST, &width) ||
        !cli_integer(call, "heads", 1, MOST, &heads) || !cli_integer(call, "key-dim", 1, MOST, &key) ||
        !cli_integer(call, "value-dim", 1, MOST, &value) || !cli_integer(call, "conv", -1, 64, &conv) ||
        !cli_integer(call, "ffn", 0, MOST, &ffn))
        return false;
    if (!key && width % heads) {
        cli_usage(call, "--width %lld is no multiple of --heads %lld: give --key-dim", (long long)width,
                  (long long)heads);
        return false;
    }
    m->layers = (int)layers, m->width = (int)width, m->ffn = ffn < 0 ? 3 * (int)width : (int)ffn;
    m->mixer.heads = (int)heads, m->mixer.key_dim = (int)key, m->mixer.value_dim = (int)value;
    m->mixer.conv = (int)conv;
    return true;
}

void train_describe(struct train_run *run, const struct train_task *task, const struct train_model *m,
                    const char *format, ...) {
    va_list args;
    va_start(args, format);
    int at = vsnprintf(run->about, sizeof run->about, format, args);
    va_end(args);
    if (at < 0 || (size_t)at >= sizeof run->about)
        return;
    snprintf(run->about + at, sizeof run->about - (size_t)at,
             " --mixer %s --layers %d --width %d --heads %d --key-dim %d --value-dim %d --conv %d --ffn %d "
             "--batch %lld "
             "--accumulate %d",
             m->mixer.rule, m->layers, m->width, m->mixer.heads, m->mixer.key_dim, m->mixer.value_dim,
             m->mixer.conv, m->ffn, (long long)task->sequences, task->options.accumulate);
}

// Heads and hidden units are divided along tensor; the first factor of a decay of low rank and the norm of
// all heads are not.
const zl_nn_shard train_shards[] = {
    {"*.mixer.o.weight", .fsdp = 0, .tensor = 1},
    {"*.mixer.decay_in.weight", .fsdp = 0, .tensor = -1},
    {"*.mixer.norm.weight", .fsdp = -1, .tensor = -1},
    {"*.mixer.*.conv.weight", .fsdp = 0, .tensor = 1},
    {"*.mixer.*", .fsdp = 0, .tensor = 0},
    {"*.mlp.down.weight", .fsdp = 0, .tensor = 1},
    {"*.mlp.*", .fsdp = 0, .tensor = 0},
    {"*", .fsdp = 0, .tensor = -1},
};
const int train_shard_rows = sizeof train_shards / sizeof *train_shards;

zl_array train_logits(zl_nn nn, const struct train_model *m, zl_array ids) {
    zl_array x = zl_nn_embedding(nn, "embedding", ids, m->vocabulary, m->width);
    for (int i = 0; i < m->layers; i++) {
        zl_nn layer = zl_nn_at(nn, "layer.%d", i);
        x = zl_add(x, zl_nn_mixer(layer, "mixer", zl_nn_rms_norm(layer, "mixer_norm", x), &m->mixer));
        if (m->ffn)
            x = zl_add(x, zl_nn_swiglu(layer, "mlp", zl_nn_rms_norm(layer, "mlp_norm", x), m->ffn));
    }
    return zl_nn_logits(nn, "embedding", zl_nn_rms_norm(nn, "norm", x), m->vocabulary);
}
