"""Trains two small language models with mlx.nn and mlx.optimizers, and prints their losses as JSON.

A program for MLX: python -m zellige.mlx runs it on zellige.core, python alone on MLX. test_train.py compares the two.
"""

import json
import sys
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH = 17, 32, 4, 24, 8


class Encoder(nn.Module):
    """nn.TransformerEncoder with a causal mask."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.SinusoidalPositionalEncoding(WIDTH)
        self.encoder = nn.TransformerEncoder(2, WIDTH, HEADS, mlp_dims=64)
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def __call__(self, tokens):
        mask = nn.MultiHeadAttention.create_additive_causal_mask(tokens.shape[1])
        x = self.embedding(tokens) + self.position(mx.arange(tokens.shape[1]))
        return self.out(self.encoder(x, mask))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = [nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)]
        self.qkv, self.merge = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.rope = nn.RoPE(WIDTH // HEADS)

    def __call__(self, x):
        heads = [part.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3) for part in mx.split(self.qkv(self.norms[0](x)), 3, -1)]
        q, k, v = self.rope(heads[0]), self.rope(heads[1]), heads[2]
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5, mask="causal")
        x = x + self.merge(y.transpose(0, 2, 1, 3).reshape(x.shape))
        y = self.norms[1](x)
        return x + self.down(nn.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Rotary positions, fused attention, gated layers; the embedding gives the logits too."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = [Block(), Block()]
        self.norm = nn.RMSNorm(WIDTH)

    def __call__(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.embedding.as_linear(self.norm(x))


def batch(step):
    """Sequences in which each token follows from the one before it."""
    tokens = mx.arange(LENGTH + 1)[None] * (mx.arange(BATCH)[:, None] % 3 + 1) + mx.arange(BATCH)[:, None] * 5 + step
    return (tokens * tokens) % VOCABULARY


def losses(make, steps):
    mx.random.seed(3)
    model = make()
    mx.eval(model.parameters())
    optimizer = optim.AdamW(learning_rate=optim.cosine_decay(4e-3, 200), weight_decay=0.01)
    state = [model.state, optimizer.state]

    def loss(model, tokens):
        return nn.losses.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:], reduction="mean")

    @partial(mx.compile, inputs=state, outputs=state)
    def step(tokens):
        value, gradients = nn.value_and_grad(model, loss)(model, tokens)
        gradients, _ = optim.clip_grad_norm(gradients, 1.0)
        optimizer.update(model, gradients)
        return value

    seen = []
    for i in range(steps):
        value = step(batch(i))
        mx.eval(value, state)
        seen.append(value.item())
    return seen


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    steps = int(sys.argv[1])
    print(json.dumps({"core": mx.__name__, "encoder": losses(Encoder, steps), "decoder": losses(Decoder, steps)}))
