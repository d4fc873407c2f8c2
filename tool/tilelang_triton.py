"""Functions of Triton's libdevice as its interpreter can run them; for tilelang_references.py."""

import triton
import triton.language as tl


@triton.jit
def fast_expf(x):
    return tl.exp(x)


@triton.jit
def exp2(x):
    return tl.exp2(x)


@triton.jit
def fast_logf(x):
    return tl.log(x)


@triton.jit
def fast_log2f(x):
    return tl.log2(x)
