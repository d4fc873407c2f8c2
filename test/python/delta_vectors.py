#!/usr/bin/env python3
"""Makes delta_vectors.npz: outputs, states and gradients of small cases by the reference recurrences of flash-linear-attention.

They are files `naive.py` of the package fla-core (0.6.0), which need torch and einops only:

    pip download --no-deps fla-core==0.6.0 && unzip fla_core-0.6.0-py3-none-any.whl -d fla
    python test/python/delta_vectors.py fla

Each array is named rule/what: inputs as fast.delta_rule takes them; o and state; y_o and y_state, their cotangents; d and the name of an
input, its gradient."""

import importlib.util
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

B, T, H, N, K, V, UPDATES = 1, 12, 2, 4, 6, 5, 2


def load(root, path):
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), pathlib.Path(root) / "fla/ops" / path / "naive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions(root):
    """Of each rule a function of its inputs, heads of q and k already those of v, that gives o and the state."""
    fla = {name: load(root, path) for name, path in {
        "linear": "linear_attn", "delta": "delta_rule", "gated": "gated_delta_rule", "kda": "kda", "gdn2": "gdn2", "comba": "comba",
        "product": "gated_delta_product", "dplr": "generalized_delta_rule/dplr", "simple": "simple_gla", "gla": "gla",
        "momentum": "momentum_delta_rule", "precond": "precond_gated_delta_rule", "precond_kda": "precond_kda"}.items()}
    turn = lambda x: x.transpose(1, 2)  # noqa: E731
    back = lambda pair: (turn(pair[0]), pair[1])  # noqa: E731
    s = K ** -0.5
    return {
        "linear": lambda x: fla["linear"].naive_recurrent_linear_attn(x["q"], x["k"], x["v"], s, x["h"], True),
        "simple_gla": lambda x: fla["simple"].naive_recurrent_simple_gla(x["q"], x["k"], x["v"], x["g"], s, x["h"], True),
        "gla": lambda x: fla["gla"].naive_recurrent_gla(x["q"], x["k"], x["v"], x["g"], x["h"], True),
        "delta": lambda x: back(fla["delta"].delta_rule_recurrence(*(turn(x[n]) for n in ("q", "k", "v", "beta")), x["h"])),
        "gated_delta": lambda x: fla["gated"].naive_recurrent_gated_delta_rule(
            x["q"], x["k"], x["v"], x["beta"], x["g"], s, x["h"], True),
        "kda": lambda x: fla["kda"].naive_recurrent_kda(x["q"], x["k"], x["v"], x["g"], x["beta"], s, x["h"], True),
        "gdn2": lambda x: fla["gdn2"].naive_recurrent_gdn2(x["q"], x["k"], x["v"], x["g"], x["a"], x["b"], s, x["h"], True),
        # The recurrence there decays before it erases, as no kernel does; chunks do not.
        "comba": lambda x: fla["comba"].naive_chunk_comba(x["q"], x["k"], x["v"], x["a"], x["g"], x["beta"], 4, s, x["h"], True),
        "dplr": lambda x: back(fla["dplr"].dplr_recurrence(*(turn(x[n]) for n in ("q", "k", "v", "a", "b", "g")), x["h"])),
        "gated_delta_product": lambda x: fla["product"].naive_recurrent_gated_delta_product(
            x["q"], x["k"], x["v"], x["g"], x["beta"], s, None, x["h"], True, UPDATES),
        "precond_gated_delta": lambda x: fla["precond"].naive_recurrent_precond_gated_delta_rule(
            x["q"], x["k"], x["v"], x["a"], x["g"], x["b"], x["beta"], s, x["h"], None, True, log_atk_scale=-0.2),
        "momentum_delta": lambda x: momentum(fla["momentum"].recurrent_momentum_delta_rule_ref, x, s),
    }


def momentum(reference, x, s):
    """Both states as one, S above M."""
    first, second = x["h"].split(K, 2)
    o, states = reference(x["q"], x["k"], x["v"], x["g"], x["b"][..., 0], x["a"], x["beta"], x["b"][..., 1], s, first, second, True)
    return o, torch.cat([states[0], states[1]], 2)


def inputs(rule):
    random = torch.Generator().manual_seed(11)
    normal = lambda *shape: torch.randn(*shape, generator=random)  # noqa: E731
    length = lambda *shape: F.normalize(normal(*shape), dim=-1)  # noqa: E731
    long = T * UPDATES if rule == "gated_delta_product" else T
    x = {"q": length(B, T, H, K), "k": length(B, long, H, K), "v": normal(B, long, N, V), "h": normal(B, N, K, V) / 2}
    if rule == "momentum_delta":
        x["h"] = normal(B, N, 2 * K, V) / 2
        x["a"] = length(B, T, H, K)
        x["b"] = torch.stack([F.logsigmoid(normal(B, T, N)), torch.rand(B, T, N, generator=random)], -1)
    if rule in ("gla", "kda", "gdn2", "dplr"):
        x["g"] = F.logsigmoid(normal(B, T, N, K))
    elif rule not in ("linear", "delta"):
        x["g"] = F.logsigmoid(normal(B, T, N))
    if rule not in ("linear", "simple_gla", "gla", "gdn2", "dplr"):
        x["beta"] = torch.rand(B, long, N, generator=random)
    if rule == "gdn2":
        x["a"], x["b"] = torch.rand(B, T, N, K, generator=random), torch.rand(B, T, N, V, generator=random)
    if rule == "comba":
        x["a"] = length(B, T, H, K)
    if rule == "dplr":
        x["a"] = length(B, T, H, K)
        x["b"] = -x["a"] * torch.rand(B, T, H, K, generator=random)
    if rule == "precond_gated_delta":
        x["a"], x["b"] = F.logsigmoid(normal(B, T, H)), torch.rand(B, T, H, generator=random)
    return x


def main(root):
    out = {}
    for rule, function in functions(root).items():
        x = {name: a.requires_grad_() for name, a in inputs(rule).items()}
        own = {"v", "h", "g", "beta"} | ({"a", "b"} if rule in ("gdn2", "precond_gated_delta") else set())
        own |= {"b"} if rule == "momentum_delta" else set()
        own |= {"q", "k"} if rule == "precond_gated_delta" else set()
        o, state = function({name: a if name in own else a.repeat_interleave(N // H, 2) for name, a in x.items()})[:2]
        random = torch.Generator().manual_seed(7)
        y_o, y_state = (torch.randn(a.shape, generator=random) for a in (o, state))
        ((o * y_o).sum() + (state * y_state).sum()).backward()
        kept = {"o": o, "state": state, "y_o": y_o, "y_state": y_state, **x, **{"d" + name: a.grad for name, a in x.items()}}
        for name, a in kept.items():
            out[f"{rule}/{name.replace('h', 'initial_state') if name in ('h', 'dh') else name}"] = a.detach().numpy().astype("float32")
    np.savez_compressed(pathlib.Path(__file__).with_name("delta_vectors.npz"), **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
