"""What only tunes a GPU: accepted, and without effect on what a kernel computes."""

IGNORED = set("""annotate_layout annotate_l2_hit_ratio annotate_min_blocks_per_sm annotate_restrict_buffers annotate_ws_schedule
annotate_compile_flags annotate_pass_configs annotate_producer_reg_dealloc annotate_consumer_reg_alloc set_max_nreg no_set_max_nreg
inc_max_nreg dec_max_nreg disable_warp_group_reg_alloc wait_wgmma fence_proxy_async warpgroup_arrive warpgroup_wait
warpgroup_commit_batch reads writes pdl_trigger pdl_sync block_attr func_attr import_source
warpgroup_fence_operand""".split())

GPU_ONLY = {
    "thread level code": """tvm_thread_allreduce tvm_warp_shuffle shfl_sync
        shfl_xor shfl_down shfl_up warp_reduce_sum warp_reduce_max warp_reduce_min comm_reducer any_sync all_sync launch_thread
        get_lane_idx get_warp_idx ptx_cp_async ptx_commit_group ptx_wait_group""",
    "barriers and copies of one GPU generation": """alloc_barrier alloc_cluster_barrier mbarrier_wait_parity mbarrier_arrive
        mbarrier_arrive_expect_tx barrier_arrive barrier_wait tma_copy tma_gather4 tma_scatter4 ws ClusterKernel cluster_sync
        cp_async_barrier_noinc WSSync WSID WSPipeline WSScope WSRole WSSchedule ws_op block_rank_in_cluster""",
    "matrix instructions of one GPU generation": """alloc_tmem tcgen05_gemm tcgen05_gemm_blockscaled wgmma_gemm gemm_sp
        tcgen05_mma_arrive tcgen05_sf_warp_transpose tcgen05_cp_warpx4 mma_gemm_blockscaled alloc_descriptor""",
    "foreign code": "call_extern call_pure_extern call_intrin CUDASourceCodeKernel",
}


class GemmWarpPolicy:
    Square, FullRow, FullCol = 0, 1, 2

    @staticmethod
    def from_warp_partition(*args):
        return 0


class Layout:
    """A layout that the user writes down: read and not used."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self


class Nothing:
    """A hint: called, entered or given to `with`, it does nothing."""

    def __call__(self, *args, **kwargs):
        return None


class attr:
    def __init__(self, *args):
        pass

    def __enter__(self):
        return None

    def __exit__(self, *error):
        return False


def find(name):
    if name in ("attr", "block_attr"):
        return attr
    return Nothing() if name in IGNORED else None


def missing(name):
    return next((f"{kind}, which tile programs have not" for kind, names in GPU_ONLY.items() if name in names.split()), None)
