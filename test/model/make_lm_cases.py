#!/usr/bin/env python3
"""make_lm_cases.py FOLDER [CASE...] - writes the tiny checkpoints of test_lm.c with what transformers and mlx-lm compute of them.

Needs torch, transformers, safetensors, numpy, mlx and mlx-lm from PyPI. Weights are random, at scales where a wrong norm, rotation or
gate changes the logits by as much as they differ among themselves. Each case is a folder: config.json, model.safetensors,
expected.npz (ids, logits, the input of each layer, greedy ids, loss, gradients of all parameters).
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, attn_implementation="eager", bos_token_id=0, eos_token_id=[38, 39])
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
PARTIAL = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
SECTIONS = {**PARTIAL, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1], "mrope_interleaved": True}
DELTA = dict(linear_conv_kernel_dim=4, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12,
             head_dim=16, full_attention_interval=2)
EXPERTS = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, decoder_sparse_step=1)
FEW_EXPERTS = {**EXPERTS, "num_experts": 4, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 12}

CASES = {
    "llama": ("Llama", dict(rope_parameters=LLAMA3)),
    "llama_linear": ("Llama", dict(rope_parameters=LINEAR, tie_word_embeddings=True)),
    "llama_bias": ("Llama", dict(rope_parameters=PLAIN, attention_bias=True, mlp_bias=True)),
    "qwen2": ("Qwen2", dict(rope_parameters=YARN, tie_word_embeddings=True)),
    "qwen2_window": ("Qwen2", dict(rope_parameters=PLAIN, use_sliding_window=True, sliding_window=6, max_window_layers=1)),
    "qwen2_moe": ("Qwen2Moe", dict(rope_parameters=PLAIN, shared_expert_intermediate_size=12, norm_topk_prob=False, **EXPERTS)),
    "qwen3": ("Qwen3", dict(rope_parameters=PLAIN, head_dim=12)),
    "qwen3_moe": ("Qwen3Moe", dict(rope_parameters=PLAIN, head_dim=12, norm_topk_prob=True, mlp_only_layers=[1], **EXPERTS)),
    "qwen3_5": ("Qwen3_5", dict(rope_parameters=SECTIONS, **DELTA)),
    "qwen3_next": ("Qwen3Next", dict(rope_parameters=PARTIAL, norm_topk_prob=True, mlp_only_layers=[1], **DELTA, **FEW_EXPERTS)),
    "qwen3_5_moe": ("Qwen3_5Moe", dict(rope_parameters=SECTIONS, **DELTA, **FEW_EXPERTS)),
}
# What sees is beside the text model, whose configuration is nested and whose matrix of logits is tied by the outer one.
NESTED = {"qwen3_5": True, "qwen3_5_moe": False}
VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, out_hidden_size=16, patch_size=2, num_position_embeddings=4,
              temporal_patch_size=1, in_channels=1, spatial_merge_size=1)


def hub_dialect(config):
    """Flat rope fields and torch_dtype, as files of the hub have them; half of the cases stay in the dialect of transformers 5."""
    rope = config.pop("rope_parameters", None)
    if rope:
        config["rope_theta"] = rope.pop("rope_theta")
        if "partial_rotary_factor" in rope:
            config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
        config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    if "linear_num_key_heads" in config:
        config.pop("layer_types")
        config["full_attention_interval"] = DELTA["full_attention_interval"]
    config["torch_dtype"] = config.pop("dtype", "float32")
    return config


def randomise(model, centred):
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            draw = torch.randn(parameter.shape, generator=generator)
            if "linear_attn" in name and name.endswith("A_log"):
                parameter.copy_(torch.log(torch.rand(parameter.shape, generator=generator) * 4 + 0.05))
            elif "conv1d" in name or name.endswith("dt_bias"):
                parameter.copy_(0.5 * draw)
            elif "norm" in name and centred and "linear_attn" not in name:
                parameter.copy_(0.3 * draw)
            elif "norm" in name:
                parameter.copy_(1 + 0.3 * draw)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * draw)
            elif "embed" in name:
                parameter.copy_(draw)
            else:
                parameter.copy_(draw * parameter.shape[-1] ** -0.5)


def per_expert(state):
    """The names of the hub: transformers 5 keeps the experts of a layer in two stacks."""
    new = {}
    for name, tensor in state.items():
        if name.endswith("mlp.experts.gate_up_proj"):
            for e, both in enumerate(tensor):
                gate, up = both.chunk(2)
                base = name.removesuffix("gate_up_proj")
                new[f"{base}{e}.gate_proj.weight"], new[f"{base}{e}.up_proj.weight"] = gate, up
        elif name.endswith("mlp.experts.down_proj"):
            for e, down in enumerate(tensor):
                new[f"{name.removesuffix('down_proj')}{e}.down_proj.weight"] = down
        else:
            new[name] = tensor
    return {name: tensor.detach().clone().contiguous() for name, tensor in new.items()}


def as_it_is(state):
    return {name: tensor.detach().clone().contiguous() for name, tensor in state.items()}


def expected(model, tied, layout):
    ids = torch.randint(0, SIZES["vocab_size"], (2, 19), generator=torch.Generator().manual_seed(3))
    out = model(ids, output_hidden_states=True, use_cache=False)
    loss = torch.nn.functional.cross_entropy(out.logits[:, :-1].reshape(-1, out.logits.shape[-1]), ids[:, 1:].reshape(-1))
    loss.backward()
    greedy = ids[:1]
    with torch.no_grad():
        for _ in range(12):
            greedy = torch.cat([greedy, model(greedy, use_cache=False).logits[:, -1:].argmax(-1)], 1)
    arrays = {"ids": ids.numpy().astype(np.int32), "logits": out.logits.detach().numpy(), "loss": loss.detach().numpy(),
              "greedy": greedy.numpy().astype(np.int32)}
    layers = model.config.get_text_config().num_hidden_layers  # the last hidden state that is given has gone through the norm: it is left out
    for i in range(layers):
        arrays[f"hidden.{i}"] = out.hidden_states[i].detach().numpy()
    gradients = layout({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    arrays.update({f"gradient.{name}": g.numpy() for name, g in gradients.items() if not (tied and name.startswith("lm_head"))})
    return arrays


def write_case(folder, name, kind, more):
    tied = NESTED.get(name, more.get("tie_word_embeddings", False))
    Config = getattr(transformers, f"{kind}Config")
    if name in NESTED:
        config = Config(text_config={**SIZES, **more, "tie_word_embeddings": tied}, vision_config=VISION, tie_word_embeddings=tied,
                        image_token_id=51, video_token_id=52, vision_start_token_id=53, vision_end_token_id=54,
                        attn_implementation="eager")
        model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    else:
        model = getattr(transformers, f"{kind}ForCausalLM")(Config(**{**SIZES, **more}))
    model.eval().float()
    randomise(model, centred="linear_value_head_dim" in more)
    layout = as_it_is if name in NESTED else per_expert  # the files of Qwen3.5 have stacks
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    if list(CASES).index(name) % 2:
        config = hub_dialect(config)
    if "num_local_experts" in config and list(CASES).index(name) % 2:
        config["num_experts"] = config.pop("num_local_experts")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    state = layout({k: v for k, v in model.state_dict().items() if not (tied and k.startswith("lm_head"))})
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    np.savez(folder / "expected.npz", **expected(model, tied, layout))
    (folder / "generation_config.json").unlink(missing_ok=True)


def write_quantized(folder):
    """A model of mlx-lm, quantised by mlx.nn, one matrix with other bits than the rest."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten
    from mlx_lm.models import qwen3
    config = dict(model_type="qwen3", hidden_size=64, num_hidden_layers=2, intermediate_size=64, num_attention_heads=2,
                  num_key_value_heads=1, head_dim=32, rms_norm_eps=1e-6, vocab_size=40, max_position_embeddings=256,
                  rope_theta=10000.0, tie_word_embeddings=True)
    mx.random.seed(5)
    model = qwen3.Model(qwen3.ModelArgs(**config))
    model.load_weights([(k, 1 + 0.3 * mx.random.normal(v.shape) if "norm" in k else mx.random.normal(v.shape) * v.shape[-1] ** -0.5)
                        for k, v in tree_flatten(model.parameters())])
    special = "model.layers.1.mlp.down_proj"
    nn.quantize(model, 32, 4, class_predicate=lambda path, m: {"group_size": 64, "bits": 6} if path == special
                else hasattr(m, "to_quantized"))
    config["quantization"] = {"group_size": 32, "bits": 4, "mode": "affine", special: {"group_size": 64, "bits": 6}}
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())), metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    ids = mx.random.randint(0, 40, (2, 19))
    greedy = ids[:1]
    for _ in range(12):
        greedy = mx.concatenate([greedy, mx.argmax(model(greedy)[:, -1:], -1).astype(mx.int32)], 1)
    np.savez(folder / "expected.npz", ids=np.array(ids, np.int32), logits=np.array(model(ids)),
                        greedy=np.array(greedy, np.int32))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    root, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
    for name, (kind, more) in CASES.items():
        if not wanted or name in wanted:
            write_case(root / name, name, kind, more)
    if not wanted or "qwen3_quantized" in wanted:
        write_quantized(root / "qwen3_quantized")


if __name__ == "__main__":
    main()
