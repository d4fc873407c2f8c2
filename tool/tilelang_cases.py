"""Small sizes for TileLang's example programs, for tilelang_suite.py: flags by name, and for some programs their flags, or
what runs in place of their __main__. Such a text sees the program's names, and smaller, similar and PyTorch's attention."""

import functools
import inspect

# Flags that programs offer, with values that keep a run short.
SIZES = {
    "--batch": 1, "--heads": 4, "--h": 4, "--n_ctx": 256, "--seq_len": 256, "--q_seqlen": 256, "--k_seqlen": 256,
    "--seq_q": 256, "--seq_kv": 256, "--groups": 2, "--m": 256, "--n": 256, "--k": 256, "--M": 256, "--N": 256, "--K": 256,
    "--kv_seqlen": 1024, "--max_cache_seqlen": 1024, "--kv_ctx": 1024, "--B": 1, "--S": 256, "--H": 2, "--D": 64,
}

CONVOLUTION = "--n 2 --c 32 --h 16 --w 16 --f 64"
MLA = "--batch 1 --heads 64 --kv_ctx 4096 --dim 512 --pe_dim 64"

# Flags of one program.
FLAGS = {
    "deepseek_nsa/benchmark/benchmark_nsa_fwd.py": "--batch 1 --seq_len 64 --heads 1 --head_query 16 --dim 32 --selected_blocks 1 "
        "--block_size 32 --iterations 1 --warmup 1 --validate --impl tilelang",
    "attention_sink/example_gqa_sink_bwd_bhsd.py": "--batch 1 --h 64 --n_ctx 128 --d_head 64 --groups 8 --window_size 128",
    "attention_sink/example_mha_sink_bwd_bhsd.py": "--batch 1 --h 64 --n_ctx 128 --d_head 64",
    "attention_sink/example_gqa_sink_bwd_varlen.py": "--batch 2 --heads 4 --groups 2 --q_seqlen 256 --k_seqlen 256 --dim 64 --is_causal",
    "attention_sink/example_gqa_sink_fwd_varlen.py": "--batch 2 --heads 4 --groups 2 --q_seqlen 256 --k_seqlen 256 --dim 64 --is_causal",
    "blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_indice.py":
        "--batch 1 --heads 16 --heads_kv 2 --max_cache_seqlen 1024 --dim 64 --dim_v 64",
    "blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_mask.py":
        "--batch 1 --heads 16 --heads_kv 2 --max_cache_seqlen 1024 --dim 64 --dim_v 64",
    "convolution/example_convolution.py": CONVOLUTION,
    "convolution/example_convolution_autotune.py": CONVOLUTION,
    "deepseek_mla/amd/benchmark_mla_decode_amd_tilelang.py": MLA,
    "deepseek_mla/example_mla_decode.py": MLA,
    "deepseek_mla/example_mla_decode_paged.py": "--batch 2 --h_q 64 --cache_seqlen 256 --d 192 --dv 128",
    "deepseek_mla/example_mla_decode_persistent.py": MLA,
    "deepseek_v4/sparse_attn_fwd_sm90.py": "--batch 1 --h 16 --n_ctx 64 --n_kv 256 --d_head 64 --topk 64",
    "flash_decoding/example_gqa_decode.py": "--batch 1 --heads 32 --groups 8 --kv_seqlen 1024 --dim 64",
    "grouped_gemm/example_grouped_gemm_bwd.py": "--batch_sizes 64,128 --K 256 --M 256",
    "grouped_gemm/example_grouped_gemm_fwd.py": "--batch_sizes 64,128 --K 256 --M 256",
    "grouped_gemm/example_grouped_gemm_fwd_ptr.py": "--batch_sizes 64,128 --K 256 --N 256",
    "topk/example_topk.py": "",
}

# The references of gdn/ and kda/ are Triton programs, whose interpreter has no arithmetic of bfloat16.
GDN = ("do_bench = lambda *args, **kwargs: 0.0\n"
       "run_test = smaller(run_test, S=128, H=2, input_dtype='float32', output_dtype='float32', do_dtype='float32')\nmain()")
KDA = "torch.empty, torch.empty_like = torch.zeros, torch.zeros_like\ncompare_tensors = similar_named\n" + GDN

# What runs in place of a program's __main__: calls of its functions with small sizes, and a comparison where it makes none.
CALLS = {
    "analyze/example_gemm_analyze.py":
        "Analyzer.analysis = keeping(Analyzer.analysis)\nmain()\nequal(Analyzer.analysis.result.total_flops, 2 * M * N * K)",
    "analyze/example_conv_analyze.py":
        "Analyzer.analysis = keeping(Analyzer.analysis)\nmain()\nOH = (H + 2 * P - D * (K - 1) - 1) // S + 1\n"
        "OW = (W + 2 * P - D * (K - 1) - 1) // S + 1\nequal(Analyzer.analysis.result.total_flops, 2 * N * OH * OW * F * K * K * C, 0.1)",
    "amd/example_amd_flash_attn_bwd.py":
        "for tuned in (fast_flashattn, flashattn_bwd):\n    tuned.configs = tuned.configs[:1]\nmain(1, 4, 256, 64, False, 2)",
    **{f"linear_attention/example_linear_attn_{way}.py":
       "l2norm_fwd = lambda x: (torch.nn.functional.normalize(x.detach(), dim=-1), None)\n"
       "fused_chunk_linear_attn = lambda q, k, v, **options: ref_program(q, k, v)\nmain(B=1, S=256, H=2, D=64)"
       for way in ("fwd", "bwd")},
    "blocksparse_attention/example_tilelang_sparse_gqa_decode_paged.py":
        "SparseFlashAttn.forward = keeping(SparseFlashAttn.forward)\nref_program_torch_paged = keeping(ref_program_torch_paged)\n"
        "for ratio in (0.0, 0.5):\n"
        "    main(argparse.Namespace(batch=1, heads=16, heads_kv=2, max_cache_seqlen=1024, dim=64, dim_v=64, sparse_ratio=ratio,\n"
        "                            block_N=64, page_block_size=256, num_pages=16))\n"
        "    similar(SparseFlashAttn.forward.result, ref_program_torch_paged.result)",
    "cast/example_group_per_split_token_cast_to_fp8.py": "main(M=256, N=256, BG=2, blk_m=8, batch_sizes=[64, 192])",
    "cast/example_per_token_cast_to_fp8.py": "main(M=128, N=256, blk_m=8)",
    "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py":
        "assert_tl_gemm_correctness(128, 256, 256, 128, T.float8_e4m3fn, T.bfloat16, T.float32)",
    "deepseek_mhc/example_mhc_bwd.py":  # its main also multiplies matrices of 8192 rows, to warm a GPU up
        "M = (torch.rand(512, n_stream, n_stream) * 4).requires_grad_()\n"
        "R, P = sinkhorn_forward(M, iters)\n"
        "weight = torch.randn_like(R)\n"
        "(R * weight).sum().backward()\n"
        "similar(sinkhorn_bwd_implicit_cg(R.detach(), weight, tilesize=32, threads=128), M.grad)",
    "deepseek_mhc/example_mhc_post.py": "test(n=64, h=1280)",
    "deepseek_v32/fp8_lighting_indexer.py":
        "validate_tensor_match = below(validate_tensor_match, 1e-3)\ntest_fp8_lighting_indexer(S=1024, SKV=2048, H=8, D=64)",
    "deepseek_v32/sparse_mla_fwd.py": "test_sparse_mla_fwd(S=64, SKV=128, H=64, topk=64)",
    "deepseek_v32/sparse_mla_bwd.py": "test_sparse_mla_bwd(S=64, SKV=128, H=64, topk=64)",
    "deepseek_v4/act_quant.py": "test_fp8_act_quant()\ntest_fp4_act_quant()\ntest_round_trip_error()",
    "dsa_hisa/block_sparse_mqa_fp8.py": "test_fp8_block_sparse_mqa(64, 16, 128, 128, 2, 1)",
    "dsa_hisa/clean_and_maintain_logits.py": "test_clean_and_maintain_logits(512, 512, 4)",
    "dsa_hisa/fp8_block_mean_pooling.py": "test_fp8_block_mean_pooling(2048, 128, 128, 4)",
    "dsa_hisa/pool_mqa_fp8.py": "test_pool_mqa_fp8(512, 16, 128, 16, 32, 2)",
    "dsa_sparse_finetune/indexer_bwd.py":
        "get_err_ratio = below(get_err_ratio, 0.05)\ntest_kernel(S=1100, H=16, D=64, topk=64)",
    "dsa_sparse_finetune/sparse_mla_bwd.py": "test_sparse_mla_bwd(S=128, H=64, topk=64)",
    "dsa_sparse_finetune/sparse_mla_fwd.py": "test_sparse_mla_fwd(S=256, H=64, topk=64)",
    "dsa_sparse_finetune/sparse_mla_topk_reducesum.py":
        "get_err_ratio = below(get_err_ratio, 0.02)\ntest_kernel(S=1100, H=16, D=128, tail_D=64, topk=64)",
    "dynamic_shape/example_dynamic.py": "main(256, 256, 256)",
    "flash_attention/example_gqa_fwd_varlen.py": "main(batch=2, heads=8, q_seqlen=256, k_seqlen=256, dim=64, groups=4)",
    "flash_attention/example_mha_fwd_varlen.py": "main(batch=2, heads=2, seq_len=256, dim=64, causal=True)",
    "flash_decoding/example_gqa_decode_varlen_logits.py":
        "test_varlen_decode_main(argparse.Namespace(batch_size=2, q_heads=16, kv_heads=4, k_seqlen=512, head_size=64, block_size=128,\n"
        "                                           dtype=T.float16, test_sink=True, test_varlen=True, num_split=1))",
    "flash_decoding/example_mha_inference.py": "main(BATCH=1, H=2, Q_CTX=128, KV_CTX=512, D_HEAD=64)",
    "fusedmoe/example_fusedmoe_tilelang.py": "main(d_hidden=256, d_expert=256, n_routed_experts=4, n_experts_per_token=2, seq_len=128)",
    **{f"gdn/{name}.py": GDN for name in ("example_chunk_delta_h", "example_chunk_o", "example_chunk_o_bwd", "example_cumsum")},
    "gdn/example_chunk_delta_bwd.py":
        "kinds = [True, True, True, *[torch.float32] * 5]\n"
        "chunk_gated_delta_rule_bwd_dhu = lambda Q, *rest: torch_chunk_gated_delta_rule_bwd_dhu(Q.clone(), *rest, *kinds)\n" + GDN,
    "gdn/example_chunk_scaled_dot_kkt.py": "chunk_scaled_dot_kkt_fwd = gated_key_products\n" + GDN,
    "gdn/example_wy_fast.py": "recompute_w_u_fwd = gated_products\n" + GDN,
    "gdn/example_wy_fast_bwd_split.py":
        "import test_utils\ntest_utils.assert_similar = similar\nbwd_prepare_wy_repr = gated_product_gradients\n" + GDN,
    "gemm/example_gemm_autotune_early_stop.py":
        "import torch\nM, N, K = 256, 256, 256\nrun_api_mode()\nrun_decorator_mode()\n"
        "a, b = (torch.randn(256, 256, dtype=torch.float16) for _ in range(2))\n"
        "similar(matmul_early_stop(M, N, K)(a, b), a @ b.T, 1e-4)",
    "gemm/example_gemm_autotune_pass_configs.py":
        "import torch\nmain(256, 256, 256)\nmain_decorator(256, 256, 256)\n"
        "a, b = (torch.randn(256, 256, dtype=torch.float16) for _ in range(2))\n"
        "similar(matmul_decorator(256, 256, 256)(a, b), a @ b.T, 1e-4)",
    "gemm_fp8/example_tilelang_gemm_fp8.py": "test_gemm_fp8(256, 256, 256, determine_fp8_type())\ntest_gemm_fp8(256, 256, 256, determine_fp8_type('e5m2'))",
    "gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py":
        "test_gemm_fp8(256, 256, 512, determine_fp8_type())\ntest_gemm_fp8(256, 256, 512, determine_fp8_type('e5m2'))",
    "gemm_int4/example_tilelang_gemm_int4.py": "check_int4_gemm_correctness(M=256, N=256, K=256)",
    **{f"kda/{name}.py": KDA for name in ("chunk_bwd_dqkwg", "chunk_bwd_dv", "chunk_bwd_gla_dA", "chunk_bwd_intra", "chunk_delta_bwd",
                                         "chunk_delta_h_fwd", "chunk_inter_solve_fused", "chunk_o", "wy_fast", "wy_fast_bwd")},
    "kda/chunk_intra_token_parallel.py":
        "kept, tuned = [], tilelang_chunk_kda_fwd_intra_token_parallel\ntuned.configs = tuned.configs[:1]\n"
        "chunk_kda_fwd_intra_token_parallel = keeping(chunk_kda_fwd_intra_token_parallel)\n"
        "tilelang_chunk_kda_fwd_intra_token_parallel = lambda *sizes: kept.append(keeping(tuned(*sizes).__call__)) or kept[0]\n"
        + KDA.replace("S=128, H=2", "S=64, H=1") + "\nfor got, expected in zip(kept[0].result, chunk_kda_fwd_intra_token_parallel.result):\n    similar(got, expected)",
    "deepseek_mla/experimental/example_mla_decode_kv_fp8.py":
        "kernel = flashattn(1, 64, 1, 256, 128, 64, 64, 64)\n"
        "q, q_pe, k_pe = (torch.randn(s, dtype=torch.float16) for s in ((1, 64, 128), (1, 64, 64), (1, 256, 1, 64)))\n"
        "kv = torch.randn(1, 256, 1, 128).to(torch.float8_e4m3fn)\n"
        "similar(kernel(q, q_pe, kv, k_pe), ref_program(q, q_pe, kv.half(), k_pe))",
    "deepseek_v32/inference/kernel.py":
        "torch.set_default_dtype(torch.bfloat16)\n"
        "def quantised(rows, columns):\n"
        "    x = torch.randn(rows, columns, dtype=torch.bfloat16)\n"
        "    y, s = act_quant(x)\n"
        "    back = y.float() * s.repeat_interleave(128, 1)\n"
        "    similar(back, x, 1e-3)\n"
        "    return y, s, back\n"
        "a, a_s, wide_a = quantised(64, 256)\n"
        "b = torch.randn(256, 256).to(torch.float8_e4m3fn)\n"
        "b_s = torch.rand(2, 2, dtype=torch.float32) + 0.5\n"
        "wide_b = b.float() * b_s.repeat_interleave(128, 0).repeat_interleave(128, 1)\n"
        "similar(fp8_gemm(a, a_s, b, b_s), wide_a @ wide_b.T)\n"
        "q, k = (torch.randn(s, dtype=torch.float32).to(torch.float8_e4m3fn) for s in ((1, 4, 32, 128), (1, 512, 128)))\n"
        "q_s, k_s = torch.rand(1, 4, 32, dtype=torch.float32), torch.rand(1, 512, dtype=torch.float32)\n"
        "logits = torch.einsum('bmhd,bnd->bmhn', q.float(), k.float()).relu() * q_s[..., None]\n"
        "similar(fp8_index(q, q_s, k, k_s), logits.sum(2) * k_s[:, None])",
    "linear_attention/example_mamba_chunk_scan.py":
        "sizes = dict(batch=1, seqlen=512, chunk_size=256, ngroups=1, nheads=4, headdim=64, dstate=128)\n"
        "kernel = chunk_scan_fwd.compile(**sizes, block_M=64, block_N=64, block_K=64, block_Dstate=128, num_stages=2, threads=128)\n"
        "kernel.get_profiler(tilelang.TensorSupplyType.Normal).assert_allclose(exact(ref_program), rtol=0.01, atol=0.01)",
    "linear_attention/example_mamba_chunk_state.py":
        "sizes = dict(batch=1, seqlen=512, chunk_size=256, ngroups=1, nheads=4, headdim=64, dstate=128)\n"
        "kernel = chunk_state_fwd.compile(**sizes, block_M=64, block_N=128, block_K=64, num_stages=4, threads=128)\n"
        "kernel.get_profiler(tilelang.TensorSupplyType.Normal).assert_allclose(exact(ref_program), rtol=0.01, atol=0.01)",
    "linear_attention/example_retention_fwd.py":
        "q, k, v = (torch.randn(1, 256, 2, 64, dtype=torch.float16) for _ in range(3))\n"
        "got = postprocess(chunk_retention_fwd_kernel(1, 256, 2, 64, 64)(q, k, v))\n"
        "decay = torch.log2(1 - torch.exp2(-5.0 - torch.arange(2)))\n"
        "gap = torch.arange(256)[:, None] - torch.arange(256)\n"
        "weights = torch.where(gap >= 0, torch.exp2(gap * decay[:, None, None]), 0)\n"
        "scores = torch.einsum('bqhd,bkhd->bhqk', q.float(), k.float()) * 64 ** -0.5 * weights\n"
        "similar(got.view_as(v), torch.einsum('bhqk,bkhd->bqhd', scores, v.float()))",
    "norm/rms_norm.py": "test_rms_norm(M=256, N=512)",
}


# Why programs fail, where their message does not say it.
UNFINISHED = "it did not end within its limit of time, with 14 programs beside it; nothing is known of its results at its own sizes"
OTHER_REFERENCE = "it fails at its own sizes, with flash-linear-attention 0.2.2 as the reference; with its case, on `c`, it passes"
TILE_IN_PARTS = ("its tiles are more than the 227 KiB of shared memory that a block can have: one that is read from a row in its middle "
                 "is not held in registers")
UNWRITTEN = "it reads elements of a tile that it has not written, which the emulator refuses: {}"
REASONS = {  # of a program, or of a program on one target
    "flash_decoding/example_gqa_decode_varlen_logits.py:tpu": UNWRITTEN.format("the maxima of blocks that a short sequence does not have"),
    "gdn/example_chunk_delta_h.py:tpu": UNWRITTEN.format("the state before the first chunk, where there is no initial one"),
    "autodd/tilelang_buggy.py": "it is meant to fail: an input of TileLang's tool that makes failing programs small",
    "autodd/tilelang_minimized_expected.py": "it is meant to fail: what that tool makes of the other",
    "deepseek_v4/act_quant.py": "the kernel multiplies by a reciprocal where the reference divides, and asks for the same bits: numbers "
                                "half way between two of float8 differ",
    "gdn/example_chunk_o_bwd.py": "the program catches the failures of its own comparisons: it never sets the gate of a chunk's end",
    "grouped_gemm/example_grouped_gemm_fwd_ptr.py": "it passes arrays of addresses",
    "amd/example_amd_flash_attn_bwd.py": UNFINISHED,
    "deepseek_v32/sparse_mla_bwd.py": TILE_IN_PARTS,
    "dsa_sparse_finetune/sparse_mla_bwd.py": TILE_IN_PARTS,
    "gdn/example_chunk_delta_bwd.py": "at the end it passes the arguments of its kernel to do_bench, which takes them for options",
    "gdn/example_chunk_delta_h.py": UNFINISHED,
    "gdn/example_chunk_o.py": UNFINISHED,
    "gdn/example_wy_fast.py": OTHER_REFERENCE,
    "gdn/example_wy_fast_bwd_split.py": OTHER_REFERENCE,
    "kda/chunk_bwd_dqkwg.py": UNFINISHED,
    "kda/chunk_o.py": UNFINISHED,
    "linear_attention/example_linear_attn_bwd.py": OTHER_REFERENCE,
    "linear_attention/example_linear_attn_fwd.py": OTHER_REFERENCE,
}


# What the texts above may use -------------------------------------------------------------------------------------------


def smaller(function, **sizes):
    """function with other values for some of its arguments."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.arguments.update({k: v for k, v in sizes.items() if k in signature.parameters})
        return function(*bound.args, **bound.kwargs)
    return call


def similar(got, expected, eps=1e-4, *labels, **named_labels):
    """Fails where 1 - 2 <x, y> / (<x, x> + <y, y>) is above eps, or where not all numbers are finite."""
    import torch
    x, y = got.detach().double(), expected.detach().double()
    if x.shape != y.shape or not bool(torch.isfinite(x).all()):
        raise AssertionError(f"{tuple(x.shape)} with {int((~torch.isfinite(x)).sum())} numbers that are not finite, for {tuple(y.shape)}")
    total = float((x * x + y * y).sum())
    difference = 0.0 if total == 0 else 1 - 2 * float((x * y).sum()) / total
    if not difference <= eps:
        raise AssertionError(f"the results differ by {difference:.3g}, more than {eps:g}")
    similar.calls += 1


similar.calls = 0


def equal(got, expected, within=0.0):
    """Fails where two numbers differ by more than a share."""
    if abs(got - expected) > within * abs(expected):
        raise AssertionError(f"{got} is not {expected}")
    similar.calls += 1


def keeping(function):
    """function, which keeps its last result."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        call.result = function(*args, **kwargs)
        return call.result
    return call


def exact(reference):
    """A reference whose float16 on the CPU is too coarse, computed in double. Of Mamba's chunk scan with 4,096 tokens 1.1 % of the elements
    of the reference in float16 differ from it by more than the program allows, and 0.3 % of the kernel's."""
    return lambda *args: reference(*(a.double() if a.is_floating_point() else a for a in args)).to(args[0].dtype)


def similar_named(name, got, expected, *tolerances):
    similar(got, expected)


def below(measure, limit):
    """A function that measures a difference, and fails where it is above a limit."""
    def call(*args, **kwargs):
        difference = measure(*args, **kwargs)
        if not difference <= limit:
            raise AssertionError(f"the results differ by {difference:.3g}, more than {limit:g}")
        similar.calls += 1
        return difference
    return call
