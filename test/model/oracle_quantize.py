#!/usr/bin/env python3
"""oracle_quantize.py BUILD - `zellige quantize` writes the tensors and the configuration of mlx-lm's own conversion, bit by bit.

Needs mlx and mlx-lm from PyPI. Random checkpoints in the names of the hub, in several dtypes, are quantised by both.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.convert import mixed_quant_predicate_builder
from mlx_lm.utils import load_model, quantize_model

SIZES = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=9, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
             vocab_size=40, max_position_embeddings=256, rms_norm_eps=1e-6, rope_theta=10000.0, hidden_act="silu",
             attention_bias=False, eos_token_id=[38, 39])
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, decoder_sparse_step=1, mlp_only_layers=[2],
               norm_topk_prob=True)
# Hybrids: every third layer attends.
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=32, linear_value_head_dim=32, linear_conv_kernel_dim=4,
             full_attention_interval=3)
ROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_section=[4, 2, 2]))
SHARED = dict(EXPERTS, mlp_only_layers=[], shared_expert_intermediate_size=64)
# model_type, dtype, fields besides, and the options of both.
CASES = [
    ("qwen3", "bfloat16", dict(tie_word_embeddings=True), dict(bits=4)),
    ("llama", "float16", dict(mlp_bias=False, tie_word_embeddings=False), dict(bits=3, group=32)),
    ("llama", "float32", dict(mlp_bias=False, tie_word_embeddings=False), dict(bits=8, group=128)),
    ("qwen3_moe", "bfloat16", dict(tie_word_embeddings=False, **EXPERTS), dict(bits=4)),
    ("qwen3_moe", "bfloat16", dict(tie_word_embeddings=False, **EXPERTS), dict(mode="mxfp4")),
    ("qwen3", "bfloat16", dict(tie_word_embeddings=False), dict(mode="mxfp8")),
    ("qwen3", "bfloat16", dict(tie_word_embeddings=True), dict(mode="nvfp4")),
    ("qwen3", "bfloat16", dict(tie_word_embeddings=False), dict(mixed="mixed_3_6", group=64)),
    ("qwen3", "float16", dict(tie_word_embeddings=False), dict(mixed="mixed_2_6", group=32)),
    ("qwen3_next", "bfloat16", dict(tie_word_embeddings=False, partial_rotary_factor=0.5, **SHARED, **DELTA), dict(bits=4)),
    ("qwen3_5", "bfloat16", dict(tie_word_embeddings=True, **DELTA, **ROPE), dict(bits=4, group=32)),
    ("qwen3_5_moe", "bfloat16", dict(tie_word_embeddings=False, **SHARED, **DELTA, **ROPE), dict(bits=4)),
]


def delta_shapes(config, layer):
    """The tensors of a layer of linear attention."""
    h, heads = config["hidden_size"], config["linear_num_value_heads"]
    keys, values = config["linear_num_key_heads"] * config["linear_key_head_dim"], heads * config["linear_value_head_dim"]
    fused = dict(in_proj_qkvz=2 * keys + 2 * values, in_proj_ba=2 * heads)
    parted = dict(in_proj_qkv=2 * keys + values, in_proj_z=values, in_proj_b=heads, in_proj_a=heads)
    out = {f"{n}.weight": (rows, h) for n, rows in (fused if config["model_type"] == "qwen3_next" else parted).items()}
    out |= {"conv1d.weight": (2 * keys + values, 1, config["linear_conv_kernel_dim"]), "A_log": (heads,), "dt_bias": (heads,),
            "norm.weight": (config["linear_value_head_dim"],), "out_proj.weight": (h, values)}
    return {f"{layer}.linear_attn.{n}": shape for n, shape in out.items()}


def mlp_shapes(config, layer, i):
    """The tensors of dense and sparse MLPs; experts are stacked in the newest family."""
    h, sparse = config["hidden_size"], "num_experts" in config and i not in config["mlp_only_layers"]
    stacked = sparse and config["model_type"] == "qwen3_5_moe"
    ffn = config["moe_intermediate_size"] if sparse else config["intermediate_size"]
    mlps = {f"mlp.experts.{e}": ffn for e in range(config["num_experts"])} if sparse and not stacked else {} if sparse else {"mlp": ffn}
    out = {"mlp.gate.weight": (config["num_experts"], h)} if sparse else {}
    if stacked:
        out |= {"mlp.experts.gate_up_proj": (config["num_experts"], 2 * ffn, h), "mlp.experts.down_proj": (config["num_experts"], h, ffn)}
    if sparse and "shared_expert_intermediate_size" in config:
        mlps["mlp.shared_expert"] = config["shared_expert_intermediate_size"]
        out["mlp.shared_expert_gate.weight"] = (1, h)
    for mlp, rows in mlps.items():
        out |= {f"{mlp}.{n}_proj.weight": s for n, s in dict(gate=(rows, h), up=(rows, h), down=(h, rows)).items()}
    return {f"{layer}.{n}": shape for n, shape in out.items()}


def shapes_of(config):
    """The tensors of a checkpoint of the hub."""
    h, q, kv = config["hidden_size"], config["num_attention_heads"] * config["head_dim"], config["num_key_value_heads"] * config["head_dim"]
    hybrid, text = "linear_num_key_heads" in config, "model.language_model" if config["model_type"].startswith("qwen3_5") else "model"
    out = {f"{text}.embed_tokens.weight": (config["vocab_size"], h), f"{text}.norm.weight": (h,)}
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = (config["vocab_size"], h)
    for i in range(config["num_hidden_layers"]):
        layer = f"{text}.layers.{i}"
        out |= {f"{layer}.{n}.weight": (h,) for n in ("input_layernorm", "post_attention_layernorm")}
        out |= mlp_shapes(config, layer, i)
        if hybrid and (i + 1) % config["full_attention_interval"]:
            out |= delta_shapes(config, layer)
            continue
        rows = dict(q=(2 * q if hybrid else q, h), k=(kv, h), v=(kv, h), o=(h, q))  # a hybrid's q has its gate
        out |= {f"{layer}.self_attn.{n}_proj.weight": s for n, s in rows.items()}
        if config["model_type"].startswith("qwen3"):
            out |= {f"{layer}.self_attn.{n}_norm.weight": (config["head_dim"],) for n in "qk"}
    return out


def file_of(config):
    """config.json: newer families have the text model's inside."""
    if not config["model_type"].startswith("qwen3_5"):
        return config
    outer = {k: config[k] for k in ("model_type", "torch_dtype", "tie_word_embeddings")}
    inner = {k: v for k, v in config.items() if k not in ("torch_dtype", "rope_theta")}
    return {**outer, "text_config": {**inner, "model_type": config["model_type"] + "_text"}}


def write_checkpoint(folder, config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(file_of(config)))
    dtype = getattr(mx, config["torch_dtype"])
    weights = {name: mx.random.normal(shape).astype(dtype) for name, shape in shapes_of(config).items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "pt"})


def by_mlx(folder, options):
    """What mlx_lm.convert does between loading and saving."""
    model, config = load_model(folder, lazy=True)
    dtype = getattr(mx, config["torch_dtype"])
    casts = getattr(model, "cast_predicate", lambda k: True)
    model.update(tree_map_with_path(lambda k, v: v.astype(dtype) if casts(k) and mx.issubdtype(v.dtype, mx.floating) else v, model.parameters()))
    mixed = options.get("mixed")
    rule = mixed_quant_predicate_builder(mixed, model, options["group"]) if mixed else None
    model, config = quantize_model(model, config, options.get("group"), options.get("bits"), mode=options.get("mode", "affine"),
                                   quant_predicate=rule)
    return dict(tree_flatten(model.parameters())), config["quantization"]


def by_zellige(program, folder, out, options):
    flags = {"bits": "--bits", "group": "--group-size", "mode": "--mode", "mixed": "--mixed"}
    words = [str(w) for name, value in options.items() for w in (flags[name], value)]
    subprocess.run([program, "quantize", "-q", "-m", folder, "-o", out, *words], check=True, timeout=60)
    return mx.load(str(out / "model.safetensors")), json.loads((out / "config.json").read_text())["quantization"]


def normal(quantization):
    """The ways of matrices; affine is what a way without a mode means."""
    return {k: {"mode": "affine", **v} if isinstance(v, dict) else v for k, v in quantization.items()}


def compare(name, mlx, ours):
    if set(mlx[0]) != set(ours[0]):
        return [f"{name}: tensors differ: {sorted(set(mlx[0]) ^ set(ours[0]))[:6]}"]
    wrong = [f"{name}: {key} differs" for key, a in mlx[0].items()
             if a.dtype != ours[0][key].dtype or a.shape != ours[0][key].shape or
             not mx.array_equal(a.view(mx.uint8), ours[0][key].view(mx.uint8))]
    return wrong + ([] if normal(mlx[1]) == normal(ours[1]) else [f"{name}: config.json has {ours[1]}, mlx-lm {mlx[1]}"])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program, wrong = pathlib.Path(sys.argv[1]) / "zellige", []
    mx.random.seed(4)
    with tempfile.TemporaryDirectory() as room:
        for i, (kind, dtype, more, options) in enumerate(CASES):
            source, out = pathlib.Path(room) / f"source{i}", pathlib.Path(room) / f"out{i}"
            write_checkpoint(source, {**SIZES, "model_type": kind, "torch_dtype": dtype, **more})
            wrong += compare(f"{kind} {dtype} {options}", by_mlx(source, options), by_zellige(program, source, out, options))
    for line in wrong[:20]:
        print(line)
    print(f"{len(CASES)} conversions, {len(wrong)} differences")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
