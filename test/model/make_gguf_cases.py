#!/usr/bin/env python3
"""make_gguf_cases.py FOLDER - writes the GGUF files of test_lm_gguf.c from the checkpoints of test/model/lm.

Needs gguf, torch, transformers, safetensors and numpy from PyPI. Names of tensors and keys are those of the package gguf. What the
files of floats compute is in expected.npz of the checkpoints; mixed.gguf, which has a type for each of its matrices, has
mixed.npz beside it: what transformers computes in float64 of the numbers that gguf.quants.dequantize gives.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as T
from safetensors.numpy import load_file

CASES = pathlib.Path(__file__).parent / "lm"
FILES = {"llama": ("llama", gguf.MODEL_ARCH.LLAMA), "qwen2": ("qwen2", gguf.MODEL_ARCH.QWEN2),
         "qwen3": ("qwen3", gguf.MODEL_ARCH.QWEN3), "qwen2_moe": ("qwen2_moe", gguf.MODEL_ARCH.QWEN2MOE),
         "qwen3_moe": ("qwen3_moe", gguf.MODEL_ARCH.QWEN3MOE)}


def permute(w, heads):
    """The order of rows that llama.cpp's llama has: the two features of a rotation are neighbours."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def name_of(arch, layers, name):
    """By the tables of the package; that of qwen3moe lacks dense layers, which have the names of qwen3."""
    base, _, end = name.rpartition(".")
    found = next((n for a in (arch, gguf.MODEL_ARCH.QWEN3) if (n := gguf.get_tensor_name_map(a, layers).get_name(base))), None)
    if not found:
        sys.exit(f"{name}: gguf has no name for it")
    return f"{found}.{end}"


def stack_experts(state):
    out, stacks = {}, {}
    for name, w in state.items():
        if ".experts." in name:
            head, rest = name.split(".experts.")
            number, part = rest.split(".", 1)
            stacks.setdefault(f"{head}.experts.{part}", {})[int(number)] = w
        else:
            out[name] = w
    for name, parts in stacks.items():
        out[name] = np.stack([parts[i] for i in range(len(parts))])
    return out


def add_config(writer, config):
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or {"rope_theta": config["rope_theta"], **(config.get("rope_scaling") or {})}
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_eos_token_id(38)
    writer.add_eot_token_id(39)
    writer.add_bos_token_id(0)
    if rope.get("rope_type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    experts = config.get("num_experts") or config.get("num_local_experts")
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        if "shared_expert_intermediate_size" in config:
            writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    return rope, width


def llama3_factors(rope, width):
    """What the converter writes as rope_freqs.weight."""
    factors = []
    for i in range(width // 2):
        length = 2 * np.pi * rope["rope_theta"] ** (2 * i / width)
        low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
        high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
        if length < high:
            factors.append(1)
        elif length > low:
            factors.append(rope["factor"])
        else:
            smooth = (rope["original_max_position_embeddings"] / length - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, np.float32)


def write_floats(path, case, arch, dtype=np.float32, most=0):
    """most: tensors of a part; 0: all of them are in one file."""
    config = json.loads((CASES / case / "config.json").read_text())
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch], split_max_tensors=most)
    rope, width = add_config(writer, config)
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, width))
    for name, w in stack_experts(load_file(CASES / case / "model.safetensors")).items():
        if arch == gguf.MODEL_ARCH.LLAMA and name.rpartition(".")[0].endswith(("q_proj", "k_proj")):
            w = permute(w, config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"])
        if name.endswith("shared_expert_gate.weight"):
            w = w.reshape(-1)  # as the converter squeezes it
        matrix = w.ndim > 1 and "mlp.gate." not in name
        writer.add_tensor(name_of(arch, config["num_hidden_layers"], name), w.astype(dtype if matrix else np.float32))
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_blocks(draw, kind, rows, columns):
    """Blocks of kinds that the package cannot write: random codes, with scales that give numbers of about 1 / sqrt(columns)."""
    size, count = gguf.GGML_QUANT_SIZES[kind][1], columns // 256
    block = draw.integers(0, 256, (rows, count, size), dtype=np.uint8)
    scale = {T.Q4_K: 60, T.Q5_K: 120, T.Q6_K: 1300}[kind]
    d = (draw.uniform(0.5, 1, (rows, count, 1)) / scale / np.sqrt(columns) * (1 if kind == T.Q6_K else 0.25)).astype(np.float16)
    if kind == T.Q6_K:
        block[..., 208:210] = d.view(np.uint8).reshape(rows, count, 2)
    else:
        least = (d.astype(np.float32) * (7.5 if kind == T.Q4_K else 15.5)).astype(np.float16)
        block[..., 0:2] = d.view(np.uint8).reshape(rows, count, 2)
        block[..., 2:4] = least.view(np.uint8).reshape(rows, count, 2)
    return block.reshape(rows, -1)


def write_mixed(folder):
    kinds = {"q_proj": T.Q4_K, "k_proj": T.Q5_K, "v_proj": T.Q6_K, "o_proj": T.Q8_0, "gate_proj": T.Q4_0, "up_proj": T.Q4_1,
             "down_proj": T.Q5_0, "embed_tokens": T.Q6_K, "lm_head": T.Q5_1}
    config = transformers.LlamaConfig(
        vocab_size=40, hidden_size=256, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        head_dim=32, max_position_embeddings=256, rms_norm_eps=1e-5, attn_implementation="eager")
    model = transformers.LlamaForCausalLM(config).eval().double()
    draw = np.random.default_rng(11)
    writer = gguf.GGUFWriter(folder / "mixed.gguf", "llama")
    add_config(writer, {**config.to_dict(), "rope_theta": 10000.0, "rope_parameters": None, "rope_scaling": None})
    state = {}
    for name, old in model.state_dict().items():
        kind = next((k for part, k in kinds.items() if part in name), None)
        to = name_of(gguf.MODEL_ARCH.LLAMA, 1, name)
        if kind is None:
            w = (1 + 0.3 * draw.standard_normal(old.shape)).astype(np.float32)
            writer.add_tensor(to, w)
        else:
            rows, columns = old.shape
            if kind in (T.Q4_K, T.Q5_K, T.Q6_K):
                data = random_blocks(draw, kind, rows, columns)
            else:
                data = gguf.quants.quantize((draw.standard_normal(old.shape) * columns ** -0.5).astype(np.float32), kind)
            writer.add_tensor(to, data, raw_dtype=kind)
            w = gguf.quants.dequantize(data, kind)
            if name.rpartition(".")[0].endswith(("q_proj", "k_proj")):  # the file has permuted rows
                heads = 2 if "q_proj" in name else 1
                w = w.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
        state[name] = torch.from_numpy(w.astype(np.float64))
    finish(writer)
    model.load_state_dict(state)
    ids = draw.integers(0, 40, (2, 19)).astype(np.int32)
    with torch.no_grad():
        logits = model(torch.from_numpy(ids.astype(np.int64)), use_cache=False).logits.numpy()
    np.savez(folder / "mixed.npz", ids=ids, logits=logits.astype(np.float32))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (case, arch) in FILES.items():
        write_floats(folder / f"{name}.gguf", case, arch)
    write_floats(folder / "llama_f16.gguf", "llama", gguf.MODEL_ARCH.LLAMA, np.float16)
    write_floats(folder / "llama.gguf", "llama", gguf.MODEL_ARCH.LLAMA, most=12)
    write_mixed(folder)


if __name__ == "__main__":
    main()
