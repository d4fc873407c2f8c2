#!/usr/bin/env python3
"""cpu.py [OPTION...] - the matrix side of the CPU beside PyTorch, JAX, NumPy, BLIS and MLX, on two threads each.

How they are timed is in peers.py, what is timed in cpu_cases.py. How near products come to the peak of their instruction is what
build/bench/gemm says. `make bench-cpu` makes an environment for it; with --check the exit status says whether the bars hold.
"""

import math
import sys

import peers
from cpu_cases import LIBRARIES, names, sizes_of

COMPARED = ("zellige", "torch", "jax", "numpy", "blis", "mlx", "mlx+openblas")
RIVALS = {
    "matmul": COMPARED, "attention": ("zellige", "torch", "jax", "mlx+openblas"), "conv": ("zellige", "torch", "jax"),
    "epoch": ("zellige", "torch", "jax", "mlx+openblas"),
}
MLX_MOST = 1 << 30  # multiplications that MLX's own BLAS, without the system's, is not asked to exceed


def libraries_for(name):
    """Those that can compute it in reasonable time."""
    word, dtype, *rest = name.split()
    wanted = RIVALS.get(word, ("zellige", "torch", "jax", "numpy", "mlx"))
    if word != "matmul":
        return wanted
    if dtype != "float32":
        return tuple(x for x in wanted if not x.startswith("mlx"))
    return tuple(x for x in wanted if x != "mlx" or math.prod(sizes_of(rest[0])) <= MLX_MOST)


class AgainstTorch(peers.Case):
    """Its bar is about PyTorch, whatever the others reach."""

    def rival(self):
        return "torch" if "torch" in self.best else super().rival()


def main():
    parser = peers.parser_of(__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the sizes that are drawn")
    options = parser.parse_args()
    kinds = {"attention": AgainstTorch, "conv": AgainstTorch}
    cases = [kinds.get(name.split()[0], peers.Case)(name, bar, libraries_for(name)) for name, bar in names(options.seed).items()]
    return peers.main(options, cases, LIBRARIES, COMPARED, ("mlx+openblas",))


if __name__ == "__main__":
    sys.exit(main())
