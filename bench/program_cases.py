"""program_cases.py - what bench/programs.py times: whole programs, as users of each library write them.

A case is a name whose words say all of it, so that a process can make it by itself. Zellige and MLX run the same program: mlx-lm's
own Qwen3, and networks of mlx.nn that are compiled with their optimiser's state. PyTorch runs the model of transformers with a static
cache, and the same networks of torch.nn, with and without torch.compile. Weights are random.
"""

import ctypes
import functools
import os
import random

import program_unet

TOKENS = 16  # that one run decodes
VOCABULARY = 151936  # of Qwen3
GPT_VOCABULARY = {"cpu": 8192, "cuda": 50304}
QWEN = {"0.6B": dict(width=1024, layers=28, inner=3072, heads=16), "8B": dict(width=4096, layers=36, inner=12288, heads=32)}
KV_HEADS, HEAD, THETA = 8, 128, 1e6
RATE = 3e-4


def names(device, seed):
    """Name: bar of the speed."""
    if device == "cpu":
        found = {"train gpt 4x256 heads 4 tokens 4x256 float32": 1.4, "train resnet50 images 4x64 float32": 1.0,
                 "train unet 64 latents 1x16 float32": 1.0, "decode qwen3 0.6B bfloat16 after 256": 1.0,
                 "prefill qwen3 0.6B bfloat16 of 256": 1.0}
    else:
        found = {"train gpt 12x768 heads 12 tokens 16x1024 bfloat16": 1.0, "train gpt 24x2048 heads 16 tokens 4x2048 bfloat16": 1.0,
                 "train resnet50 images 64x224 bfloat16": 0.95, "train unet 320 latents 4x64 bfloat16": 0.95}
        for size in QWEN:
            found[f"decode qwen3 {size} bfloat16 after 2048"] = 1.0
            found[f"prefill qwen3 {size} bfloat16 of 2048"] = 1.0
            found[f"decode qwen3 {size} 4-bit after 2048"] = 0  # which PyTorch has not
        for context in (64, 4096, 16384):
            found[f"decode qwen3 0.6B bfloat16 after {context}"] = 1.0
    draw = random.Random(seed)
    for _ in range(2 if device != "cpu" else 1):
        heads = draw.choice((4, 6, 8, 12) if device != "cpu" else (2, 3, 5))
        shape = (draw.randint(6, 16), 64 * heads, heads, draw.randint(2, 8), 64 * draw.randint(8, 24)) if device != "cpu" else \
            (draw.randint(2, 5), 64 * heads, heads, draw.randint(2, 4), 32 * draw.randint(3, 9))
        layers, width, heads, batch, length = shape
        dtype = "float32" if device == "cpu" else "bfloat16"
        found[f"train gpt {layers}x{width} heads {heads} tokens {batch}x{length} {dtype}"] = 1.0
    return found


def split(name):
    """The maker of a program, with its words and numbers."""
    words = name.split()
    if words[:2] == ["train", "gpt"]:
        layers, width = map(int, words[2].split("x"))
        batch, length = map(int, words[6].split("x"))
        return "gpt", dict(layers=layers, width=width, heads=int(words[4]), batch=batch, length=length, dtype=words[7])
    if words[:2] == ["train", "resnet50"]:
        batch, side = map(int, words[3].split("x"))
        return "resnet50", dict(batch=batch, side=side, dtype=words[4])
    if words[:2] == ["train", "unet"]:
        batch, side = map(int, words[4].split("x"))
        return "unet", dict(width=int(words[2]), batch=batch, side=side, dtype=words[5])
    return words[0], dict(size=words[2], kind=words[3], context=int(words[5]))


def tokens_of(name):
    """How many tokens, images or latents a run goes through, and their name."""
    program, how = split(name)
    if program == "gpt":
        return how["batch"] * how["length"], "tokens"
    if program == "resnet50":
        return how["batch"], "images"
    if program == "unet":
        return how["batch"], "latents"
    return (TOKENS, "tokens") if program == "decode" else (how["context"], "tokens")


def prompt_of(length):
    return [i * 7919 % 150000 for i in range(length)]


def add_gpt_layers(block, nn, width):
    """The layers of a block, which mlx.nn and torch.nn name alike."""
    block.norm_1, block.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
    block.qkv, block.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
    block.up, block.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)


STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))  # of ResNet-50: blocks, inner channels, stride of the first


# Memory of the host -----------------------------------------------------------------------------------------------


def resident(row):
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(row))


class HostMemory:
    """The most that the process held during a run, less what it held before it made anything."""

    def __init__(self):
        self.before = resident("VmRSS")

    def most(self, run):
        ctypes.CDLL(None).malloc_trim(0)  # what the programs before freed, which the C library may hold
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        run()
        return resident("VmHWM") - self.before


# Zellige and MLX --------------------------------------------------------------------------------------------------


class Arrays:
    def __init__(self, device, install):
        if install:
            import zellige.mlx
            zellige.mlx.install()
        import mlx.core as mx
        import mlx.nn as nn
        import mlx.optimizers
        self.mx, self.nn, self.optimizers, self.device = mx, nn, mlx.optimizers, device
        self.version = mx.__version__
        mx.set_default_device(mx.cpu if device == "cpu" else mx.gpu)
        self.host = HostMemory()

    def memory(self, run):
        if self.device == "cpu":
            return self.host.most(run)
        self.mx.reset_peak_memory()
        run()
        return self.mx.get_peak_memory()

    def case(self, name):
        self.mx.clear_cache()  # what the program before left
        program, how = split(name)
        return getattr(self, program)(**how), None

    def step(self, model, loss, inputs, dtype):
        """Runs a compiled step of training with AdamW."""
        mx = self.mx
        model.set_dtype(getattr(mx, dtype))
        optimizer = self.optimizers.AdamW(RATE)
        state = [model.state, optimizer.state]
        mx.eval(state, inputs)
        gradients = self.nn.value_and_grad(model, loss)

        @functools.partial(mx.compile, inputs=state, outputs=state)
        def step(*inputs):
            value, gradient = gradients(*inputs)
            optimizer.update(model, gradient)
            return value

        def run():
            value = step(*inputs)
            mx.eval(value, state)

        return run

    def gpt(self, layers, width, heads, batch, length, dtype):
        mx, nn, words = self.mx, self.nn, GPT_VOCABULARY[self.device]

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                add_gpt_layers(self, nn, width)

            def __call__(self, x):
                q, k, v = (y.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for y in mx.split(self.qkv(self.norm_1(x)), 3, -1))
                a = mx.fast.scaled_dot_product_attention(q, k, v, scale=(width // heads)**-0.5, mask="causal")
                x = x + self.out(a.transpose(0, 2, 1, 3).reshape(batch, length, width))
                return x + self.down(nn.gelu(self.up(self.norm_2(x))))

        class Gpt(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
                self.blocks, self.norm = [Block() for _ in range(layers)], nn.LayerNorm(width)

            def __call__(self, ids):
                x = self.tokens(ids) + self.places(mx.arange(length))
                for block in self.blocks:
                    x = block(x)
                return self.tokens.as_linear(self.norm(x))

        model = Gpt()
        ids = [mx.random.randint(0, words, (batch, length)) for _ in range(2)]
        return self.step(model, lambda x, y: nn.losses.cross_entropy(model(x).astype(mx.float32), y, reduction="mean"), ids, dtype)

    def resnet50(self, batch, side, dtype):
        mx, nn = self.mx, self.nn

        class Block(nn.Module):
            def __init__(self, inputs, inner, stride):
                super().__init__()
                self.conv_1, self.norm_1 = nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm(inner)
                self.conv_2, self.norm_2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm(inner)
                self.conv_3, self.norm_3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm(4 * inner)
                if inputs != 4 * inner:
                    self.short = nn.Sequential(nn.Conv2d(inputs, 4 * inner, 1, stride, bias=False), nn.BatchNorm(4 * inner))

            def __call__(self, x):
                y = nn.relu(self.norm_1(self.conv_1(x)))
                y = nn.relu(self.norm_2(self.conv_2(y)))
                return nn.relu(self.norm_3(self.conv_3(y)) + (self.short(x) if "short" in self else x))

        class ResNet(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.norm, self.pool = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm(64), nn.MaxPool2d(3, 2, 1)
                self.blocks, inputs = [], 64
                for count, inner, stride in STAGES:
                    for i in range(count):
                        self.blocks.append(Block(inputs, inner, 1 if i else stride))
                        inputs = 4 * inner
                self.head = nn.Linear(inputs, 1000)

            def __call__(self, x):
                x = self.pool(nn.relu(self.norm(self.conv(x))))
                for block in self.blocks:
                    x = block(x)
                return self.head(x.mean((1, 2)))

        model = ResNet()
        images = mx.random.normal((batch, side, side, 3)).astype(getattr(mx, dtype))
        labels = mx.random.randint(0, 1000, (batch,))
        return self.step(model, lambda x, y: nn.losses.cross_entropy(model(x).astype(mx.float32), y, reduction="mean"),
                         [images, labels], dtype)

    def unet(self, width, batch, side, dtype):
        mx, nn = self.mx, self.nn
        model = program_unet.unet(program_unet.Mlx(mx, nn), width)
        x, noise = (mx.random.normal((batch, side, side, program_unet.LATENT)).astype(getattr(mx, dtype)) for _ in range(2))
        text = mx.random.normal((batch, program_unet.WORDS, program_unet.TEXT)).astype(getattr(mx, dtype))
        times = mx.random.randint(0, program_unet.TIMES, (batch,))
        return self.step(model, lambda x, times, text, noise: nn.losses.mse_loss(
            model(x, times, text).astype(mx.float32), noise.astype(mx.float32)), [x, times, text, noise], dtype)

    def qwen(self, size, kind):
        from mlx_lm.models.qwen3 import Model, ModelArgs
        q = QWEN[size]
        model = Model(ModelArgs("qwen3", q["width"], q["layers"], q["inner"], q["heads"], 1e-6, VOCABULARY, KV_HEADS, 40960, HEAD,
                                size == "0.6B", THETA))
        model.set_dtype(self.mx.bfloat16)
        if kind == "4-bit":
            self.nn.quantize(model, group_size=64, bits=4)
        self.mx.eval(model.parameters())
        return model

    def prefill(self, size, kind, context):
        from mlx_lm.models.cache import make_prompt_cache
        mx, model = self.mx, self.qwen(size, kind)
        ids = mx.array([prompt_of(context)])

        def run():
            mx.eval(model(ids, cache=make_prompt_cache(model))[:, -1])

        return run

    def decode(self, size, kind, context):
        from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache
        mx, model = self.mx, self.qwen(size, kind)
        cache = make_prompt_cache(model)
        mx.eval(model(mx.array([prompt_of(context)]), cache=cache)[:, -1])
        mx.clear_cache()  # as mlx-lm does after a prompt

        def step(token):
            return mx.argmax(model(token[None, None], cache=cache)[0, -1])

        def run():
            token = step(mx.array(1))
            mx.async_eval(token)
            for i in range(TOKENS):
                following = step(token) if i + 1 < TOKENS else None
                if following is not None:
                    mx.async_eval(following)
                token.item()
                token = following
            trim_prompt_cache(cache, TOKENS)

        return run


# PyTorch ----------------------------------------------------------------------------------------------------------


class Torch:
    def __init__(self, device, compiled):
        import torch
        self.torch, self.device, self.compiled, self.version = torch, device, compiled, torch.__version__
        if device == "cpu":
            torch.set_num_threads(int(os.environ["ZL_THREADS"]))
        self.host = HostMemory()

    def memory(self, run):
        if self.device == "cpu":
            return self.host.most(run)
        self.torch.cuda.reset_peak_memory_stats()
        run()
        return self.torch.cuda.max_memory_allocated()

    def case(self, name):
        program, how = split(name)
        return getattr(self, program)(**how), None

    def wait(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def step(self, model, loss, inputs, dtype):
        torch = self.torch
        model.to(self.device, getattr(torch, dtype))
        optimizer = torch.optim.AdamW(model.parameters(), RATE, fused=True)
        loss = torch.compile(loss) if self.compiled else loss

        def run():
            optimizer.zero_grad(set_to_none=True)
            loss(*inputs).backward()
            optimizer.step()
            self.wait()

        return run

    def gpt(self, layers, width, heads, batch, length, dtype):
        torch, nn, F = self.torch, self.torch.nn, self.torch.nn.functional
        words = GPT_VOCABULARY[self.device]

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                add_gpt_layers(self, nn, width)

            def forward(self, x):
                q, k, v = (y.view(batch, length, heads, -1).transpose(1, 2) for y in self.qkv(self.norm_1(x)).chunk(3, -1))
                a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(a.transpose(1, 2).reshape(batch, length, width))
                return x + self.down(F.gelu(self.up(self.norm_2(x))))

        class Gpt(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
                self.blocks, self.norm = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)
                nn.init.normal_(self.tokens.weight, std=0.02)

            def forward(self, ids):
                x = self.tokens(ids) + self.places(torch.arange(length, device=ids.device))
                for block in self.blocks:
                    x = block(x)
                return self.norm(x) @ self.tokens.weight.t()

        model = Gpt()
        ids = [torch.randint(0, words, (batch, length), device=self.device) for _ in range(2)]
        return self.step(model, lambda x, y: F.cross_entropy(model(x).float().flatten(0, 1), y.flatten()), ids, dtype)

    def resnet50(self, batch, side, dtype):
        torch, nn, F = self.torch, self.torch.nn, self.torch.nn.functional

        class Block(nn.Module):
            def __init__(self, inputs, inner, stride):
                super().__init__()
                self.conv_1, self.norm_1 = nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner)
                self.conv_2, self.norm_2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
                self.conv_3, self.norm_3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner)
                self.short = nn.Identity() if inputs == 4 * inner else \
                    nn.Sequential(nn.Conv2d(inputs, 4 * inner, 1, stride, bias=False), nn.BatchNorm2d(4 * inner))

            def forward(self, x):
                y = F.relu(self.norm_1(self.conv_1(x)))
                y = F.relu(self.norm_2(self.conv_2(y)))
                return F.relu(self.norm_3(self.conv_3(y)) + self.short(x))

        blocks, inputs = [], 64
        for count, inner, stride in STAGES:
            for i in range(count):
                blocks.append(Block(inputs, inner, 1 if i else stride))
                inputs = 4 * inner
        model = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
                              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)).to(memory_format=torch.channels_last)
        images = torch.randn(batch, 3, side, side, device=self.device, dtype=getattr(torch, dtype)).to(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (batch,), device=self.device)
        return self.step(model, lambda x, y: F.cross_entropy(model(x).float(), y), [images, labels], dtype)

    def unet(self, width, batch, side, dtype):
        torch, F = self.torch, self.torch.nn.functional
        with torch.device(self.device):
            model = program_unet.unet(program_unet.Torch(torch), width).to(memory_format=torch.channels_last)
            x, noise = (torch.randn(batch, program_unet.LATENT, side, side, dtype=getattr(torch, dtype))
                        .to(memory_format=torch.channels_last) for _ in range(2))
            text = torch.randn(batch, program_unet.WORDS, program_unet.TEXT, dtype=getattr(torch, dtype))
            times = torch.randint(0, program_unet.TIMES, (batch,))
        return self.step(model, lambda x, times, text, noise: F.mse_loss(model(x, times, text).float(), noise.float()),
                         [x, times, text, noise], dtype)

    def qwen(self, size, kind, room):
        if kind == "4-bit":
            raise NotImplementedError("no 4-bit weights without another package")
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import Qwen3Config, Qwen3ForCausalLM, StaticCache
        torch, q = self.torch, QWEN[size]
        config = Qwen3Config(vocab_size=VOCABULARY, hidden_size=q["width"], intermediate_size=q["inner"], num_hidden_layers=q["layers"],
                             num_attention_heads=q["heads"], num_key_value_heads=KV_HEADS, head_dim=HEAD, max_position_embeddings=40960,
                             rope_theta=THETA, tie_word_embeddings=size == "0.6B", attn_implementation="sdpa")
        with torch.device(self.device):
            model = Qwen3ForCausalLM(config).to(torch.bfloat16).eval()
        cache = StaticCache(config=config, max_cache_len=room)
        return (torch.compile(model, mode="reduce-overhead" if self.device != "cpu" else None) if self.compiled else model), model, cache

    def prefill(self, size, kind, context):
        torch = self.torch
        _, model, cache = self.qwen(size, kind, context)
        ids = torch.tensor([prompt_of(context)], device=self.device)

        @torch.no_grad()
        def run():
            model(ids, past_key_values=cache, logits_to_keep=1)
            self.rewind(cache, 0)
            self.wait()

        return run

    def decode(self, size, kind, context):
        torch = self.torch
        model, eager, cache = self.qwen(size, kind, context + TOKENS)
        with torch.no_grad():
            eager(torch.tensor([prompt_of(context)], device=self.device), past_key_values=cache, logits_to_keep=1)

        @torch.no_grad()
        def run():
            token = torch.ones((1, 1), dtype=torch.int64, device=self.device)
            for _ in range(TOKENS):
                logits = model(token, past_key_values=cache).logits
                token = logits[:, -1].argmax(-1, keepdim=True).clone()
                token.item()
            self.rewind(cache, context)

        return run

    @staticmethod
    def rewind(cache, length):
        """The next run's tokens overwrite those of this one."""
        for layer in cache.layers:
            layer.cumulative_length.fill_(length)


def libraries(device):
    return {"zellige": lambda: Arrays(device, True), "mlx": lambda: Arrays(device, False), "torch": lambda: Torch(device, False),
            "torch.compile": lambda: Torch(device, True)}
