"""autotune: the fastest of many configurations of a jit function."""

import contextlib
import functools
import inspect
import os
import threading

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


def within(seconds, function):
    """What function gives, if it does so in time; else it is left to itself."""
    given = []

    def run():
        try:
            given.append((function(), None))
        except Exception as error:
            given.append((None, error))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not given:
        raise TimeoutError(f"it took more than {seconds} s")
    value, error = given[0]
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
        from concurrent.futures import ThreadPoolExecutor, TimeoutError as FutureTimeout
        made = []
        pool = ThreadPoolExecutor(os.cpu_count())
        running = [(row, pool.submit(self.make, row["config"])) for row in rows]
        for row, future in running:
            try:
                made.append((row, future.result(timeout)))
            except FutureTimeout:
                row["error"] = f"it took more than {timeout} s to compile"
            except Exception as error:
                row["error"] = str(error) or type(error).__name__
        pool.shutdown(wait=False, cancel_futures=True)
        return made

    def fastest(self, made, warmup, rep, timeout, rows):
        best, seen = None, {}
        for row, kernel in made:
            source = kernel.get_kernel_source()
            if source in seen:  # they differ by hints that this target does not use
                row.update(seen[source])
                continue
            try:
                seen[source] = {"latency": self.time(kernel, warmup, rep, timeout)}
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

    def time(self, kernel, warmup, rep, timeout):
        inputs = self.inputs(kernel)
        reference = self.profile.get("ref_prog")
        if reference and not self.profile.get("skip_check"):
            limits = {k: self.profile[k] for k in ("atol", "rtol", "max_mismatched_ratio")}
            kernel.get_profiler().assert_allclose(reference, inputs, **limits)
        warmup, rep = self.profile.get("warmup", warmup), self.profile.get("rep", rep)
        return within(timeout, lambda: do_bench(lambda: kernel(*inputs), warmup, rep))


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
