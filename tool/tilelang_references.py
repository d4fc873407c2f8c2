"""What TileLang's example programs compare with. Where torch has no GPU, Triton programs run in Triton's interpreter,
attention of flash_attn is PyTorch's, and modules of flash-linear-attention are imported without their package."""

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
import types


def prepare(has_gpu):
    if importlib.util.find_spec("flash_attn") is None:
        sys.modules["flash_attn"] = types.ModuleType("flash_attn")
        vars(sys.modules["flash_attn"]).update(__spec__=importlib.machinery.ModuleSpec("flash_attn", None),  # which others look for
                                               flash_attn_varlen_func=varlen_attention,
                                               flash_attn_with_kvcache=cached_attention)
    if has_gpu:
        return
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["FLA_USE_FAST_OPS"] = "1"  # the functions of libdevice that interpret_triton replaces
    try:
        interpret_triton()
    except ImportError:
        return
    open_packages("fla", "fla.ops", "fla.modules")


def interpret_triton():
    """Each Triton program takes its first configuration, and asks a driver that knows no device."""
    from triton.language.extra import libdevice
    from triton.runtime import autotuner, driver, interpreter

    import tilelang_triton
    vars(libdevice).update({name: getattr(tilelang_triton, name) for name in ("fast_expf", "exp2", "fast_logf", "fast_log2f")})
    interpreter.InterpreterBuilder.get_bf16 = lambda self, value: self.create_fp_trunc(self.get_fp32(value), bfloat16())
    begin = autotuner.Autotuner.__init__
    autotuner.Autotuner.__init__ = lambda self, function, names, configs, *args, **kwargs: \
        begin(self, function, names, configs[:1], *args, **kwargs)
    sizes = {"max_shared_mem": 1 << 17, "multiprocessor_count": 2}
    driver.set_active(types.SimpleNamespace(
        get_current_target=lambda: types.SimpleNamespace(backend="cuda", arch=90, warp_size=32), get_current_device=lambda: 0,
        utils=types.SimpleNamespace(get_device_properties=lambda index: sizes), get_current_stream=lambda index=0: 0))


def bfloat16():
    import triton.language as tl
    return tl.bfloat16


def open_packages(*names):
    """Lets modules inside of a package be imported without all that the package itself imports."""
    for name in names:
        parent, _, child = name.rpartition(".")
        found = importlib.machinery.PathFinder.find_spec(name, sys.modules[parent].__path__ if parent else None)
        if found is None:
            return
        sys.modules[name] = module = types.ModuleType(name)
        module.__path__, module.__file__ = list(found.submodule_search_locations), found.origin
        if not parent:
            module.__version__ = importlib.metadata.version("flash-linear-attention")
        if parent:
            setattr(sys.modules[parent], child, module)


# Attention --------------------------------------------------------------------------------------------------------------


def one_attention(q, k, v, causal):
    """Of one sequence, (tokens, heads, size)."""
    import torch
    q, k, v = (x.float().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    allowed = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device)
    allowed = allowed.tril(k.shape[1] - q.shape[1]) if causal else allowed
    scores = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(~allowed, float("-inf"))
    return (scores.softmax(-1).nan_to_num(0) @ v).transpose(0, 1)


def varlen_attention(q, k, v, begin_q, begin_k, longest_q, longest_k, dropout=0.0, causal=False, **options):
    """Of packed sequences."""
    import torch
    part = lambda x, begin, i: x[begin[i]:begin[i + 1]]  # noqa: E731
    return torch.cat([one_attention(part(q, begin_q, i), part(k, begin_k, i), part(v, begin_k, i), causal)
                      for i in range(len(begin_q) - 1)]).to(q.dtype)


def cached_attention(q, keys, values, cache_seqlens=None, block_table=None, causal=False, **options):
    """Of queries (batch, tokens, heads, size) with caches, in pages where there is a table of them."""
    import torch
    results = []
    for i, length in enumerate(cache_seqlens.tolist()):
        k, v = (x[block_table[i].long()].flatten(0, 1) if block_table is not None else x[i] for x in (keys, values))
        results.append(one_attention(q[i], k[:length], v[:length], causal))
    return torch.stack(results).to(q.dtype)


# The gated delta rule ---------------------------------------------------------------------------------------------------


def in_chunks(x, size):
    """(batch, tokens, heads, ...) as (batch, heads, chunks, tokens of a chunk, ...) of float."""
    return x.float().unflatten(1, (-1, size)).movedim(3, 1)


def gated_products(k, v, beta, g, A, *options):
    """W = A (beta exp(g) k) and U = A (beta v), chunk by chunk."""
    size = A.shape[-1]
    a, w, u = (in_chunks(x, size) for x in (A, k * (beta * g.exp())[..., None], v * beta[..., None]))
    return tuple((a @ x).movedim(1, 3).flatten(1, 2).to(k.dtype) for x in (w, u))


def gated_key_products(k, beta, g, chunk_size=64, output_dtype=None, **options):
    """beta k k^T exp(g - g) below the diagonal, chunk by chunk."""
    import torch
    keys, gates, scale = (in_chunks(x, chunk_size) for x in (k, g, beta))
    gap = gates[..., :, None] - gates[..., None, :]
    products = (keys * scale[..., None]) @ keys.transpose(-1, -2) * torch.where(gap <= 0, gap, float("-inf")).exp()
    return products.tril(-1).movedim(1, 3).flatten(1, 2).to(output_dtype)


def gated_product_gradients(k, v, g, beta, A, dw, du, cu_seqlens=None):
    """Gradients of the same for k, v, beta and g, also through A, the inverse of 1 + beta k k^T exp(g - g)."""
    import torch
    size = A.shape[-1]
    leaves = [x.detach().float().requires_grad_() for x in (k, v, beta, g, A)]
    k, v, beta, g, a = leaves
    w, u = gated_products(k, v, beta, g, a)
    first = torch.autograd.grad((w * dw).sum() + (u * du).sum(), leaves)
    inverse, change = in_chunks(a.detach(), size), in_chunks(first[4], size).tril(-1)
    change = -(inverse.transpose(-1, -2) @ change @ inverse.transpose(-1, -2)).tril(-1)
    keys, gates, scale = (in_chunks(x, size) for x in (k, g, beta))
    gap = gates[..., :, None] - gates[..., None, :]
    decay = torch.where(gap <= 0, gap, float("-inf")).exp()
    products = (keys * scale[..., None]) @ keys.transpose(-1, -2) * decay
    second = torch.autograd.grad((products * change).sum(), leaves[:4], allow_unused=True)
    return tuple(x if y is None else x + y for x, y in zip(first, second))
