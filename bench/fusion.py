#!/usr/bin/env python3
"""fusion.py [OPTION...] - fused expressions and a training step beside PyTorch, JAX and MLX, on two threads each.

How they are timed is in peers.py, what is timed in fusion_cases.py. `make bench-fusion` makes an environment for it; with --check
the exit status says whether the bars hold.
"""


import peers
import usage

COMPARED = ("zellige", "torch", "torch.compile", "jax", "mlx")


class Update(peers.Case):
    """ratio is what was reached of the limit: copying the same bytes."""

    limit = "copy"

    def __init__(self, name, bar, libraries, bytes_moved):
        super().__init__(name, bar, libraries)
        self.bytes = bytes_moved

    def ratio(self):
        return self.bytes / self.best["zellige"] / self.copy_rate() if {"zellige", "copy"} <= set(self.best) else 0

    def is_low(self):
        return "copy" in self.best and self.ratio() < self.bar

    def copy_rate(self):
        from fusion_cases import ADAMW_SIZE, Copy
        return Copy.TIMES * 2 * 4 * ADAMW_SIZE / self.best["copy"]

    def note(self):
        if self.ratio():
            return f"{self.bytes / self.best['zellige'] * 1e-9:.1f} GB/s of {self.copy_rate() * 1e-9:.1f} GB/s that a copy moves"


def all_cases(f):
    usual = ("zellige", "torch", "torch.compile", "jax")
    return [Update("adamw", 0.8, ("copy",) + usual, 7 * 4 * f.ADAMW_SIZE)] + \
        [peers.Case(name, 1.0, usual) for name in f.names()] + [peers.Case("mlp step", 0.8, usual + ("mlx",))]


def main():
    options = peers.parser_of(__doc__).parse_args()
    import fusion_cases as f
    return peers.main(options, all_cases(f), f.LIBRARIES, COMPARED)


if __name__ == "__main__":
    usage.run(main)
