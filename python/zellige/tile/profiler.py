"""Timing and checking of kernels: do_bench, and profilers that make the inputs of a kernel themselves."""

import enum
import sys
import time

from . import engine
from .arrays import new_array
from .errors import TileError
from .expr import Expr
from .kernel import evaluate


class TensorSupplyType(enum.Enum):
    Integer, Uniform, Normal, Randn, Zero, One, Auto = range(1, 8)


def quantile(times, q):
    at = q * (len(times) - 1)
    low = int(at)
    high = min(low + 1, len(times) - 1)
    return times[low] + (times[high] - times[low]) * (at - low)


def timer_of(fn):
    """A function that calls fn and tells the milliseconds: by events of CUDA where torch uses it, as it does not wait for the GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        def timed():
            start = time.perf_counter()
            fn()
            return (time.perf_counter() - start) * 1e3
        return timed
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed_by_events():
        start.record()
        fn()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)
    return timed_by_events


def do_bench(fn, warmup=25, rep=100, _n_warmup=0, _n_repeat=0, quantiles=None, return_mode="mean", **hints):
    """Milliseconds of a call: the mean of calls that together take about rep milliseconds, or quantiles of them. Where the call runs
    kernels of a chip that is modelled, they are those of the model, of the kernels alone."""
    ms = modelled_time(fn)
    if ms is not None:
        return modelled(ms, quantiles, return_mode)
    return bench(timer_of(fn), warmup, rep, _n_warmup, _n_repeat, quantiles, return_mode)


def bench(timed, warmup, rep, n_warmup, n_repeat, quantiles, return_mode):
    """The same of a function that tells its time itself. The first call is left out: what is made once is made in it."""
    timed()
    estimate = max(timed(), 1e-3)
    for _ in range(n_warmup or min(int(warmup / estimate), 1000)):
        timed()
    return spread(sorted(timed() for _ in range(n_repeat or max(1, min(int(rep / estimate), 10000)))), quantiles, return_mode)


class Modelled(float):
    """Milliseconds by a model of the chip, not by a clock, which their text says."""

    def __repr__(self):
        return f"{float.__repr__(self)} (modelled)"

    __str__ = __repr__


def modelled(ms, quantiles, return_mode):
    """What spread() gives of times that are all the same."""
    found = spread([ms], quantiles, return_mode)
    return [Modelled(one) for one in found] if isinstance(found, list) else Modelled(found)


def modelled_time(fn):
    """Milliseconds that a model gives the kernels which a call of fn runs; None: it runs none of such a target."""
    before, engine.watched = engine.watched, []
    try:
        fn()
        return sum(engine.watched) * 1e3 if engine.watched else None
    finally:
        engine.watched = before


def spread(times, quantiles, return_mode):
    """What a caller wants to know of sorted times."""
    if quantiles:
        found = [quantile(times, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    return {"mean": sum(times) / len(times), "min": times[0], "max": times[-1], "median": quantile(times, 0.5)}[return_mode]


def mean_of(kind):
    """TileLang's Normal is around -1, unlike its Randn: sums of such products do not cancel, which comparisons in 16 bits rely on."""
    return -1.0 if kind == TensorSupplyType.Normal else 0.0


def supply(param, shape, kind):
    """An input for a parameter, in torch if that is there."""
    try:
        import torch
    except ImportError:
        return numpy_supply(param, shape, kind)
    wanted = getattr(torch, param.dtype)
    if kind == TensorSupplyType.Zero:
        return torch.zeros(shape, dtype=wanted)
    if kind == TensorSupplyType.One:
        return torch.ones(shape, dtype=wanted)
    if param.dtype == "bool":
        return torch.randint(0, 2, shape, dtype=wanted)
    if param.dtype.startswith("float8"):
        return torch.randint(-128, 128, shape, dtype=torch.int8).to(wanted)
    if not param.dtype.is_float or kind == TensorSupplyType.Integer:
        low, high = (0, 3) if param.dtype.is_unsigned else (-2, 3)
        return torch.randint(low, high, shape, dtype=torch.int64 if param.dtype.is_unsigned else wanted).to(wanted)
    if kind in (TensorSupplyType.Normal, TensorSupplyType.Randn):
        return (torch.randn(shape) + mean_of(kind)).to(wanted)
    return torch.empty(shape).uniform_(-1.0, 1.0).to(wanted)


def numpy_supply(param, shape, kind):
    import numpy
    random = numpy.random.default_rng()
    made = new_array("numpy", shape, param.dtype)
    if kind in (TensorSupplyType.Zero, TensorSupplyType.One):
        made[...] = kind == TensorSupplyType.One
    elif not param.dtype.is_float or kind == TensorSupplyType.Integer:
        low, high = (0, 2) if param.dtype == "bool" else (0, 3) if param.dtype.is_unsigned else (-2, 3)
        made[...] = random.integers(low, high, shape)
    elif kind in (TensorSupplyType.Normal, TensorSupplyType.Randn):
        made[...] = random.standard_normal(shape) + mean_of(kind)
    else:
        made[...] = random.uniform(-1, 1, shape)
    return made


class Profiler:
    """Runs a kernel on inputs of its own."""

    def __init__(self, kernel, kind):
        self.kernel, self.kind = kernel, kind
        self.params, self.result_idx = kernel.params, kernel.out_idx
        self.adapter = self.func = kernel

    def _get_params(self, with_output=False):
        return [p for i, p in enumerate(self.params) if with_output or i not in self.result_idx]

    def _get_inputs(self, with_output=False, dynamic_symbolic_constraints=None):
        symbols = dynamic_symbolic_constraints or {}
        return [self.supply(p, symbols) for p in self._get_params(with_output)]

    def supply(self, param, symbols):
        if param.is_scalar:
            return 1
        for size in param.shape:
            if isinstance(size, Expr) and not symbols:
                raise TileError(f"'{param.name}' has the size {size}, which is known only at a call: "
                                "give it by dynamic_symbolic_constraints")
        made = supply(param, tuple(evaluate(s, symbols) for s in param.shape), self.kind)
        return made.to(self.kernel.device) if self.kernel.device != "cpu" and hasattr(made, "to") else made

    def __call__(self, *args, **kwargs):
        return self.kernel(*args, **kwargs)

    def run_once(self, func=None):
        return (func or self.kernel)(*self._get_inputs())

    def do_bench(self, func=None, warmup=25, rep=100, n_warmup=0, n_repeat=0, input_tensors=None, quantiles=None,
                 return_mode="mean", dynamic_symbolic_constraints=None, **hints):
        inputs = input_tensors if input_tensors is not None else self._get_inputs(False, dynamic_symbolic_constraints)
        if func is None and engine.is_modelled(self.kernel.target):
            return modelled(self.kernel.timer(*inputs)(), quantiles, return_mode)
        has_clock = func is None and self.kernel.device != "cpu"
        timed = self.kernel.timer(*inputs) if has_clock else timer_of(lambda: (func or self.kernel)(*inputs))
        return bench(timed, warmup, rep, n_warmup, n_repeat, quantiles, return_mode)

    def report(self, input_tensors=None, dynamic_symbolic_constraints=None):
        """What the engines of a modelled chip do in a run: Kernel.report on inputs of the profiler's own."""
        inputs = input_tensors if input_tensors is not None else self._get_inputs(False, dynamic_symbolic_constraints)
        return self.kernel.report(*inputs)

    def results(self, reference_program, input_tensors):
        inputs = self._get_inputs() if input_tensors is None else input_tensors
        return listed(self.kernel(*inputs)), listed(reference_program(*inputs))

    def assert_allclose(self, reference_program, input_tensors=None, atol=1e-2, rtol=1e-2, max_mismatched_ratio=0.01):
        ours, theirs = self.results(reference_program, input_tensors)
        if len(ours) != len(theirs):
            raise AssertionError(f"the kernel gives {len(ours)} arrays and the reference {len(theirs)}")
        for a, b in zip(ours, theirs):
            if a is not None and b is not None:
                assert_close(a, b, rtol, atol, max_mismatched_ratio)

    def manual_assert_close(self, reference_program, input_tensors=None, manual_check_prog=None):
        manual_check_prog(*self.results(reference_program, input_tensors))

    def assert_consistent(self, repeat=10):
        inputs = self._get_inputs()
        first = listed(self.kernel(*inputs))
        for _ in range(repeat):
            for a, b in zip(first, listed(self.kernel(*inputs))):
                assert_close(a, b, 0, 0, 0)


def listed(value):
    return [] if value is None else list(value) if isinstance(value, (tuple, list)) else [value]


def as_doubles(array):
    import numpy
    if "torch" in sys.modules and hasattr(array, "data_ptr"):
        return array.detach().cpu().double().numpy()
    return numpy.asarray(array).astype("float64")


def assert_close(actual, expected, rtol=1e-2, atol=1e-3, max_mismatched_ratio=0.001, **hints):
    """All but a share of the elements agree."""
    import numpy
    a, b = as_doubles(actual), as_doubles(expected)
    if a.shape != b.shape:
        raise AssertionError(f"shapes differ: {a.shape} and {b.shape}")
    wrong = ~numpy.isclose(a, b, rtol, atol, equal_nan=True)
    count = int(wrong.sum())
    if count > max_mismatched_ratio * a.size:
        at = tuple(int(i) for i in numpy.argwhere(wrong)[0])
        raise AssertionError(f"{count} of {a.size} elements differ by more than {atol} + {rtol} * |expected|; "
                             f"the first at {at}: {a[at]} and {b[at]}")
