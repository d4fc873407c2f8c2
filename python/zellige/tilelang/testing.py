"""tilelang.testing: marks that say which GPU a test needs, and small helpers."""

import random
import sys

from zellige.tile.profiler import assert_close as torch_assert_close  # noqa: F401


def unmarked(*args, **kwargs):
    """A decorator that changes nothing, with or without arguments."""
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    return lambda function: function


requires_cuda = requires_package = requires_rocm = requires_metal = requires_llvm = unmarked
requires_cuda_compute_version = requires_cuda_compute_version_ge = requires_cuda_compute_version_gt = unmarked
requires_cuda_compute_version_le = requires_cuda_compute_version_lt = requires_cuda_compute_version_eq = unmarked
requires_cdna = requires_cuda_or_cdna = requires_gfx950 = unmarked
process_func = regression = unmarked


def set_random_seed(seed=42):
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def main():
    import inspect

    import pytest
    sys.exit(pytest.main([inspect.getsourcefile(sys._getframe(1)), *sys.argv[1:]]))
