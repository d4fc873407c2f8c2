"""The layers of mlx.nn, which are Python over mlx.core: each runs forward on zellige.core."""

import inspect
import unittest

import zellige.mlx

try:
    zellige.mlx.install()
    import mlx.core as mx
    import mlx.nn as nn
except ImportError as reason:
    raise unittest.SkipTest(f"mlx.nn is not installed: {reason}")

# Constructor arguments, and the shapes of inputs; of activations an array of any shape.
LAYERS = {
    "AvgPool1d": ((2,), [(2, 8, 3)]), "AvgPool2d": ((2,), [(2, 8, 8, 3)]), "AvgPool3d": ((2,), [(1, 4, 4, 4, 2)]),
    "MaxPool1d": ((2,), [(2, 8, 3)]), "MaxPool2d": ((2,), [(2, 8, 8, 3)]), "MaxPool3d": ((2,), [(1, 4, 4, 4, 2)]),
    "BatchNorm": ((4,), [(3, 4)]), "GroupNorm": ((2, 4), [(2, 5, 4)]), "InstanceNorm": ((4,), [(2, 5, 4)]),
    "LayerNorm": ((4,), [(3, 4)]), "RMSNorm": ((4,), [(3, 4)]), "Bilinear": ((3, 4, 2), [(5, 3), (5, 4)]),
    "Conv1d": ((3, 4, 3), [(2, 8, 3)]), "Conv2d": ((3, 4, 3), [(2, 8, 8, 3)]), "Conv3d": ((2, 3, 2), [(1, 4, 4, 4, 2)]),
    "ConvTranspose1d": ((3, 4, 3), [(2, 8, 3)]), "ConvTranspose2d": ((3, 4, 3), [(2, 8, 8, 3)]),
    "ConvTranspose3d": ((2, 3, 2), [(1, 4, 4, 4, 2)]),
    "Dropout": ((0.5,), [(3, 4)]), "Dropout2d": ((0.5,), [(2, 4, 4, 3)]), "Dropout3d": ((0.5,), [(2, 3, 3, 3, 2)]),
    "GRU": ((3, 4), [(2, 5, 3)]), "LSTM": ((3, 4), [(2, 5, 3)]), "RNN": ((3, 4), [(2, 5, 3)]),
    "Linear": ((3, 4), [(2, 3)]), "MultiHeadAttention": ((8, 2), [(2, 3, 8), (2, 3, 8), (2, 3, 8)]),
    "RoPE": ((4,), [(2, 5, 4)]), "SinusoidalPositionalEncoding": ((8,), [(5,)]), "PReLU": ((), [(3, 4)]),
    "Transformer": ((8, 2, 1, 1), [(2, 3, 8), (2, 4, 8), None, None, None]),
    "TransformerEncoder": ((1, 8, 2), [(2, 3, 8), None]), "TransformerEncoderLayer": ((8, 2), [(2, 3, 8), None]),
    "TransformerDecoder": ((1, 8, 2), [(2, 3, 8), (2, 4, 8), None, None]),
    "TransformerDecoderLayer": ((8, 2), [(2, 3, 8), (2, 4, 8), None, None]),
    "Upsample": ((2,), [(2, 4, 4, 3)]), "GLU": ((), [(3, 4)]),
    "AllToShardedLinear": ((4, 4), [(2, 4)]), "ShardedToAllLinear": ((4, 4), [(2, 4)]),
    "QuantizedLinear": ((64, 32), [(2, 64)]), "QuantizedAllToShardedLinear": ((64, 32), [(2, 64)]),
    "QuantizedShardedToAllLinear": ((64, 32), [(2, 64)]),
}
OTHERS = {"Module", "Sequential", "ALiBi", "Embedding", "QuantizedEmbedding", "FullyShardedModule", "QQLinear"}
NEEDS = {"Conv": "conv1d", "Quantized": "quantize"} # what a layer whose name begins so is made of


def layers():
    return sorted(name for name, kind in vars(nn).items() if inspect.isclass(kind) and issubclass(kind, nn.Module))


def missing_op(name):
    return next((op for start, op in NEEDS.items() if name.startswith(start) and not hasattr(mx, op)), None)


class Layers(unittest.TestCase):
    def test_every_layer_forward(self):
        for name in layers():
            if name in OTHERS or missing_op(name):
                continue
            arguments, shapes = LAYERS.get(name, ((), [(3, 4)]))
            with self.subTest(name):
                inputs = [mx.random.normal(shape) if shape else None for shape in shapes]
                result = getattr(nn, name)(*arguments)(*inputs)
                mx.eval(result)
                first = result[0] if isinstance(result, (tuple, list)) else result
                self.assertFalse(mx.isnan(first).any().item())

    def test_embeddings_and_sequences(self):
        tokens = mx.array([[0, 3, 1]])
        self.assertEqual(nn.Embedding(5, 4)(tokens).shape, (1, 3, 4))
        self.assertEqual(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))(mx.ones((5, 3))).shape, (5, 2))
        self.assertEqual(nn.ALiBi.create_alibi_matrix(4, 5, 2).shape[-2:], (4, 5))

    def test_a_small_network_learns(self):
        import mlx.optimizers as optim
        mx.random.seed(0)
        x = mx.random.normal((64, 2))
        y = (x[:, 0] * x[:, 1] > 0).astype(mx.int32)
        model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
        step = nn.value_and_grad(model, lambda m, a, b: nn.losses.cross_entropy(m(a), b, reduction="mean"))
        optimizer = optim.Adam(learning_rate=0.02)
        losses = []
        for _ in range(150):
            loss, grads = step(model, x, y)
            optimizer.update(model, grads)
            mx.eval(model.parameters(), optimizer.state, loss)
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.25 * losses[0])


if __name__ == "__main__":
    unittest.main()
