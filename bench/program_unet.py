"""program_unet.py - the UNet of Stable Diffusion 2.1 with random weights, written once for mlx.nn and torch.nn.

A kit (Mlx, Torch) has what the two libraries do not name alike: images are (B, H, W, C) in MLX, and (B, C, H, W) in the memory format
channels_last in PyTorch. Widths follow from that of the first level, which is 320 in Stable Diffusion.
"""

import math

LATENT = 4                     # channels of an image
WORDS, TEXT = 77, 1024         # tokens of a text, and their width
LEVELS = (1, 2, 4, 4)          # widths, of the first one; all but the last level have transformers
LAYERS, GROUPS, HEAD = 2, 32, 64
TIMES = 1000                   # steps of noise


class Mlx:
    channels = -1  # the axis

    def __init__(self, mx, nn):
        class Module(nn.Module):
            def __call__(self, *inputs):
                return self.forward(*inputs)

        self.mx, self.nn, self.Module, self.list, self.pointwise = mx, nn, Module, list, nn.Linear

    def norm(self, channels):
        return self.nn.GroupNorm(GROUPS, channels, pytorch_compatible=True)

    def vector(self, numbers):
        return self.mx.array(numbers)

    def cast(self, x, like):
        return x.astype(like.dtype)

    def gelu(self, x):
        return self.nn.gelu(x)

    def concatenate(self, parts, axis):
        return self.mx.concatenate(parts, axis)

    def halves(self, x):
        return self.mx.split(x, 2, -1)

    def tokens(self, x):
        return x.reshape(x.shape[0], -1, x.shape[-1])

    def image(self, tokens, like):
        return tokens.reshape(like.shape)

    def everywhere(self, x):
        """What is added to every pixel."""
        return x[:, None, None]

    def twice(self, x):
        b, h, w, c = x.shape
        return self.mx.broadcast_to(x[:, :, None, :, None], (b, h, 2, w, 2, c)).reshape(b, 2 * h, 2 * w, c)

    def attention(self, q, k, v):
        b, length, width = q.shape
        q, k, v = (y.reshape(b, y.shape[1], -1, HEAD).transpose(0, 2, 1, 3) for y in (q, k, v))
        y = self.mx.fast.scaled_dot_product_attention(q, k, v, scale=HEAD**-0.5)
        return y.transpose(0, 2, 1, 3).reshape(b, length, width)


class Torch:
    channels = 1

    def __init__(self, torch):
        self.torch, self.nn, self.F = torch, torch.nn, torch.nn.functional
        self.Module, self.list = torch.nn.Module, torch.nn.ModuleList
        self.gelu, self.concatenate = self.F.gelu, torch.concatenate

    def norm(self, channels):
        return self.nn.GroupNorm(GROUPS, channels)

    def pointwise(self, inputs, outputs):
        return self.nn.Conv2d(inputs, outputs, 1)

    def vector(self, numbers):
        return self.torch.tensor(numbers)

    def cast(self, x, like):
        return x.to(like.dtype)

    def halves(self, x):
        return x.chunk(2, -1)

    def tokens(self, x):
        return x.flatten(2).transpose(1, 2)

    def image(self, tokens, like):
        return tokens.transpose(1, 2).unflatten(2, like.shape[2:])

    def everywhere(self, x):
        return x[:, :, None, None]

    def twice(self, x):
        return self.F.interpolate(x, scale_factor=2.0, mode="nearest")

    def attention(self, q, k, v):
        q, k, v = (y.unflatten(2, (-1, HEAD)).transpose(1, 2) for y in (q, k, v))
        return self.F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def unet(kit, width):
    """A module of (images, times, texts)."""
    nn, silu = kit.nn, kit.nn.SiLU()

    class Resnet(kit.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.norm_1, self.conv_1 = kit.norm(inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
            self.norm_2, self.conv_2 = kit.norm(outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
            self.time = nn.Linear(4 * width, outputs)
            self.short = kit.pointwise(inputs, outputs) if inputs != outputs else None

        def forward(self, x, time):
            y = self.conv_1(silu(self.norm_1(x))) + kit.everywhere(self.time(silu(time)))
            return self.conv_2(silu(self.norm_2(y))) + (x if self.short is None else self.short(x))

    class Attention(kit.Module):
        def __init__(self, channels, memory):
            super().__init__()
            self.query, self.out = nn.Linear(channels, channels, bias=False), nn.Linear(channels, channels)
            self.key, self.value = nn.Linear(memory, channels, bias=False), nn.Linear(memory, channels, bias=False)

        def forward(self, x, memory):
            return self.out(kit.attention(self.query(x), self.key(memory), self.value(memory)))

    class Transformer(kit.Module):
        def __init__(self, channels):
            super().__init__()
            self.norm, self.first, self.last = kit.norm(channels), nn.Linear(channels, channels), nn.Linear(channels, channels)
            self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(channels) for _ in range(3))
            self.own, self.cross = Attention(channels, channels), Attention(channels, TEXT)
            self.up, self.down = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

        def forward(self, x, text):
            y = self.first(kit.tokens(self.norm(x)))
            own = self.norm_1(y)
            y = y + self.own(own, own)
            y = y + self.cross(self.norm_2(y), text)
            value, gate = kit.halves(self.up(self.norm_3(y)))
            y = y + self.down(value * kit.gelu(gate))
            return x + kit.image(self.last(y), x)

    class Layer(kit.Module):
        def __init__(self, inputs, outputs, attends):
            super().__init__()
            self.resnet, self.transformer = Resnet(inputs, outputs), Transformer(outputs) if attends else None

        def forward(self, x, time, text):
            x = self.resnet(x, time)
            return x if self.transformer is None else self.transformer(x, text)

    class Unet(kit.Module):
        """Layers, and between levels convolutions. What each part of the way down gives is read once on the way up."""

        def __init__(self):
            super().__init__()
            self._frequencies = kit.vector([math.exp(-math.log(1e4) * i / (width // 2)) for i in range(width // 2)])
            self.time_1, self.time_2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, 4 * width)
            self.conv_in = nn.Conv2d(LATENT, width, 3, padding=1)
            down, up, skips, last = [], [], [width], len(LEVELS) - 1
            for level, channels in enumerate(width * n for n in LEVELS):
                for _ in range(LAYERS):
                    down.append(Layer(skips[-1], channels, level < last))
                    skips.append(channels)
                if level < last:
                    down.append(nn.Conv2d(channels, channels, 3, 2, 1))
                    skips.append(channels)
            self.middle_1, self.middle_2 = Layer(channels, channels, True), Resnet(channels, channels)
            inputs = channels
            for level, channels in reversed(list(enumerate(width * n for n in LEVELS))):
                for _ in range(LAYERS + 1):
                    up.append(Layer(inputs + skips.pop(), channels, level < last))
                    inputs = channels
                if level:
                    up.append(nn.Conv2d(channels, channels, 3, padding=1))
            self.down, self.up = kit.list(down), kit.list(up)
            self.norm, self.conv_out = kit.norm(width), nn.Conv2d(width, LATENT, 3, padding=1)

        def forward(self, x, times, text):
            angles = times[:, None] * self._frequencies
            time = self.time_2(silu(self.time_1(kit.cast(kit.concatenate([angles.cos(), angles.sin()], -1), x))))
            x = self.conv_in(x)
            skips = [x]
            for part in self.down:
                x = part(x, time, text) if isinstance(part, Layer) else part(x)
                skips.append(x)
            x = self.middle_2(self.middle_1(x, time, text), time)
            for part in self.up:
                x = part(kit.concatenate([x, skips.pop()], kit.channels), time, text) if isinstance(part, Layer) else part(kit.twice(x))
            return self.conv_out(silu(self.norm(x)))

    return Unet()
