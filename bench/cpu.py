#!/usr/bin/env python3
"""cpu.py [OPTION...] - the matrix side of the CPU beside PyTorch, JAX, NumPy, BLIS and MLX, on two threads each, or --threads N.

How they are timed is in peers.py, what is timed in cpu_cases.py. `make bench-cpu` makes an environment for it. With --check the
exit status says whether the bars hold. With --build FOLDER the programs of bench/ there run too, with --ggml FOLDER the kernels of
llama.cpp that were built there; all bars end as one table (cpu_bars.py). `--only programs` are these alone.
"""

import math

import cpu_bars
import peaks
import peers
from cpu_cases import LIBRARIES, names, sizes_of
import usage

COMPARED = ("zellige", "torch", "jax", "numpy", "blis", "mlx", "mlx+openblas")
RIVALS = {
    "matmul": COMPARED, "attention": ("zellige", "torch", "jax", "mlx+openblas"), "conv": ("zellige", "torch", "jax"),
    "linear": ("zellige", "torch", "jax"), "epoch": ("zellige", "torch", "jax", "mlx+openblas"),
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


class Attention(AgainstTorch):
    """Where PyTorch is so near the peak that no one can be as much faster as the bar asks, the note says so."""

    def most(self):
        """The ratio of one that did nothing but products and exp, at the peak; 0: not known."""
        _, dtype, shape, mask = self.name.split()
        batch, heads, _, queries, keys, size = sizes_of(shape)
        limit = peaks.attention_limit(dtype, batch, heads, queries, keys, size, mask == "causal")
        return self.best["torch"] / limit if limit and "torch" in self.best else 0

    def note(self):
        return f"limit {self.most():.2f}: products and exp alone, at the peak of their instructions" if self.most() else None


class OfReading(peers.Case):
    """A product of a vector, which reads a matrix once: the limit is the rate at which it can be summed."""

    limit, least = "reading", 0.85

    def __init__(self, name, bar, libraries):
        super().__init__(name, bar, (*libraries, self.limit))

    def share(self):
        return self.best[self.limit] / self.best["zellige"] if {self.limit, "zellige"} <= self.best.keys() else 0

    def is_low(self):
        return super().is_low() or 0 < self.share() < self.least

    def note(self):
        return f"{self.share():.2f} of the rate of reading, bar {self.least}"


def make_case(name, bar):
    kind = {"attention": Attention, "conv": AgainstTorch}.get(name.split()[0], peers.Case)
    if cpu_bars.work_of(name) == "products of a vector":
        kind = OfReading
    return kind(name, bar, libraries_for(name))


def main():
    parser = peers.parser_of(__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the sizes that are drawn")
    parser.add_argument("--also", metavar="CASE", action="append", default=[], help='another one, as "matmul float32 17x512x512"')
    parser.add_argument("--build", metavar="FOLDER", help="whose programs are measured too")
    parser.add_argument("--ggml", metavar="FOLDER", help="in which llama.cpp was built with BUILD_SHARED_LIBS")
    options = parser.parse_args()
    if options.serve:
        return peers.serve(LIBRARIES[options.serve])
    bars = cpu_bars.program_bars(options) if options.build and options.only in ("", "programs") else []
    cases = [make_case(name, bar) for name, bar in (names(options.seed) | dict.fromkeys(options.also, 1.0)).items()]
    bars += cpu_bars.case_bars(peers.run(options, cases, COMPARED, ("mlx+openblas",))[0])
    if options.json or options.markdown:
        return 0
    return not cpu_bars.print_bars(bars) and options.check


if __name__ == "__main__":
    usage.run(main)
