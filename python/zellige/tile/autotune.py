"""autotune: the fastest of many configurations of a jit function."""

import contextlib
import functools
import inspect
import os
import queue
import threading
import time

from . import tuned
from .errors import TileError
from .profiler import TensorSupplyType, do_bench, listed

captured = []  # inputs that set_autotune_inputs gives, innermost last


class set_autotune_inputs:
    """with set_autotune_inputs(a, b): kernels are timed on these arrays."""

    def __init__(self, *arrays):
        self.arrays = list(arrays[0]) if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)) else list(arrays)

    def __enter__(self):
        captured.append(self.arrays)

    def __exit__(self, *error):
        captured.pop()


def get_autotune_inputs():
    return captured[-1] if captured else None


class Result:
    """What tuning found. rows: of each configuration {"config": ..., "latency": milliseconds}, or "error" instead of it."""

    def __init__(self, kernel, latency, config, ref_latency, rows=()):
        self.kernel, self.latency, self.config, self.ref_latency = kernel, latency, config, ref_latency
        self.rows = list(rows)

    @property
    def libcode(self):
        return self.kernel.get_kernel_source()


def side_by_side(functions, most, seconds):
    """[(value, error)] of functions, of which so many run at once. One that takes more than seconds is left to itself, others
    take its place, and it keeps no one from ending the process."""
    answers, ends, found = queue.Queue(), {}, {}
    waiting = list(reversed(range(len(functions))))

    def run(at):
        try:
            answers.put((at, functions[at](), None))
        except Exception as error:
            answers.put((at, None, error))
    while len(found) < len(functions):
        while waiting and len(ends) < most:
            at = waiting.pop()
            ends[at] = time.monotonic() + seconds
            threading.Thread(target=run, args=(at,), daemon=True).start()
        try:
            at, value, error = answers.get(timeout=max(0, min(ends.values()) - time.monotonic()))
        except queue.Empty:
            at, value, error = min(ends, key=ends.get), None, TimeoutError(f"it took more than {seconds} s")
        if ends.pop(at, None) is not None:  # else it comes too late
            found[at] = value, error
    return [found[at] for at in range(len(functions))]


def within(seconds, function):
    """What function gives, if it does so in time."""
    (value, error), = side_by_side([function], 1, seconds)
    if error:
        raise error
    return value


class AutoTuner:
    """Tries configurations of a function that gives kernels or programs."""

    def __init__(self, function, configs):
        self.function, self.configs = function, configs
        self.profile, self.compile_options = {}, {}

    @classmethod
    def from_kernel(cls, kernel, configs):
        return cls(kernel, configs)

    def set_compile_args(self, out_idx=None, target="auto", **options):
        self.compile_options = {"out_idx": out_idx, "target": target}
        return self

    def set_profile_args(self, warmup=25, rep=100, supply_type=TensorSupplyType.Auto, ref_prog=None, supply_prog=None,
                         rtol=1e-2, atol=1e-2, max_mismatched_ratio=0.01, skip_check=False, **options):
        self.profile = {"warmup": warmup, "rep": rep, "supply_type": supply_type, "ref_prog": ref_prog,
                        "supply_prog": supply_prog, "skip_check": skip_check, "rtol": rtol, "atol": atol,
                        "max_mismatched_ratio": max_mismatched_ratio}
        return self

    def make(self, config):
        from .jit import JITFunction, compile
        config = {k: v for k, v in config.items() if k not in ("pass_configs", "compile_flags")}  # of other compilers
        made = self.function.compile(**config) if isinstance(self.function, JITFunction) else self.function(**config)
        return made if hasattr(made, "get_profiler") else compile(made, **self.compile_options)

    def run(self, warmup=25, rep=100, timeout=30, **options):
        """The fastest configuration; those that do not compile or take more than timeout seconds are rows with their error."""
        rows = [{"config": config} for config in self.configs]
        made = self.compile_all(timeout, rows)
        best = tuned.load(made)
        if best is None:
            best = self.fastest(made, warmup, rep, timeout, rows)
            tuned.save(made, best)
        return best

    def compile_all(self, timeout, rows):
        """[(row, kernel)], compiled side by side."""
        found = side_by_side([functools.partial(self.make, row["config"]) for row in rows], os.cpu_count() or 1, timeout)
        made = []
        for row, (kernel, error) in zip(rows, found):
            if isinstance(error, TimeoutError):
                row["error"] = f"{error} to compile"
            elif error:
                row["error"] = str(error) or type(error).__name__
            else:
                made.append((row, kernel))
        return made

    def fastest(self, made, warmup, rep, timeout, rows):
        best, seen = None, {}
        for row, kernel in made:
            source = kernel.get_kernel_source()
            if source in seen:  # they differ by hints that this target does not use
                row.update(seen[source])
                continue
            try:
                seen[source] = {"latency": within(timeout, functools.partial(self.time, kernel, self.inputs(kernel), warmup, rep))}
            except Exception as error:
                seen[source] = {"error": str(error) or type(error).__name__}
            row.update(seen[source])
            if "error" in row:
                continue
            if best is None or row["latency"] < best.latency:
                best = Result(kernel, row["latency"], row["config"], None, rows)
        if best is None:
            raise TileError("autotune: no configuration runs\n" + "\n".join(f"{row['config']}: {row['error']}" for row in rows))
        reference = self.profile.get("ref_prog")
        if reference:
            best.ref_latency = do_bench(lambda: reference(*self.inputs(best.kernel)), warmup, rep)
        return best

    def inputs(self, kernel):
        given = get_autotune_inputs()
        if given is not None:
            return given
        profiler = kernel.get_profiler(self.profile.get("supply_type"))
        supply = self.profile.get("supply_prog")
        return listed(supply(profiler._get_params())) if supply else profiler._get_inputs()

    def time(self, kernel, inputs, warmup, rep):
        reference = self.profile.get("ref_prog")
        if reference and not self.profile.get("skip_check"):
            limits = {k: self.profile[k] for k in ("atol", "rtol", "max_mismatched_ratio")}
            kernel.get_profiler().assert_allclose(reference, inputs, **limits)
        warmup, rep = self.profile.get("warmup", warmup), self.profile.get("rep", rep)
        return kernel.get_profiler().do_bench(None, warmup, rep, input_tensors=inputs)


class AutoTuned:
    """A jit function that picks its own configuration where the call does not say it."""

    def __init__(self, function, configs, options):
        self.function, self.configs, self.options = function, configs, options
        self.found = {}
        functools.update_wrapper(self, getattr(function, "function", function))

    def best(self, args, kwargs):
        from .jit import key_of
        configs = self.configs(*args, **kwargs) if callable(self.configs) else self.configs
        names = set(configs[0]) if configs else set()
        signature = inspect.signature(self.function.function)
        bound = signature.bind_partial(*args, **{k: v for k, v in kwargs.items() if k in signature.parameters})
        if names & set(bound.arguments):
            return {}
        key = key_of(tuple(a for a in args if not hasattr(a, "shape")), kwargs)
        if key is None or key not in self.found:
            tuner = AutoTuner(lambda **config: self.function.compile(*args, **kwargs, **config), configs)
            tuner.set_profile_args(**self.options)
            arrays = [a for a in args if hasattr(a, "shape")]
            with set_autotune_inputs(*arrays) if arrays and not captured else contextlib.nullcontext():
                self.found[key] = tuner.run(**{k: v for k, v in self.options.items() if k in ("warmup", "rep", "timeout")})
        return self.found[key]

    def __call__(self, *args, **kwargs):
        best = self.best(args, kwargs)
        made = self.function(*args, **kwargs, **chosen(best))
        if best and hasattr(made, "update_tuner_result"):
            made.update_tuner_result(best.latency, best.config, best.ref_latency)
        return made

    def rows(self, *args, **kwargs):
        """What each configuration came to for such a call: see Result."""
        best = self.best(args, kwargs)
        return best.rows if best else []

    def compile(self, *args, **kwargs):
        best = self.best(args, kwargs)
        return self.function.compile(*args, **kwargs, **chosen(best))

    def __getattr__(self, name):
        return getattr(self.function, name)


def chosen(best):
    return {k: v for k, v in best.config.items() if k not in ("pass_configs", "compile_flags")} if best else {}


def autotune(function=None, *, configs=None, **options):
    """Over a jit function: calls that leave its tunable parameters out get the fastest of configs."""
    if function is None:
        return lambda f: autotune(f, configs=configs, **options)
    return AutoTuned(function, configs, options)
