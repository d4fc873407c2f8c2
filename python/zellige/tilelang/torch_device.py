"""Devices for torch that are not there, or are not wanted: everything that is put on them stays on the CPU.

A torch function mode sees every call of torch's API and replaces devices of the kinds that are absent; functions of torch.cuda, and
of torch.tpu (torch_tpu.py), that ask about the device or wait for it get plain answers.
"""

import importlib.abc
import importlib.util
import sys
import time
import types

from zellige.tile import native


absent = set()  # "cuda", "tpu": kinds of devices whose tensors live on the CPU


def install(target=None):
    """Kernels are compiled for a target at once; tensors live on the CPU at once if torch is imported, else when it is."""
    if target is not None:
        target = native.our_name(target)
        native.TARGETS.update(dict.fromkeys(("auto", "cuda", "hip", "cpu", "c", "llvm", "tpu", "bm1690"), target))
    if "torch" in sys.modules:
        replace(sys.modules["torch"], target)
    else:
        sys.meta_path.insert(0, Waiting(target))


class Waiting(importlib.abc.MetaPathFinder):
    def __init__(self, target):
        self.target = target

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            replace(module, self.target)
        spec.loader.exec_module = exec_module
        return spec


def is_absent(value, torch):
    if isinstance(value, str):
        return value.split(":")[0] in absent
    return isinstance(value, torch.device) and value.type in absent


def replace(torch, target):
    """What install() does once torch is there."""
    if target in (None, "cuda", "hip") and torch.cuda.is_available():
        return
    if target is None:
        native.TARGETS.update(cuda="c", hip="c")  # kernels follow their arrays
    keep_on_cpu(torch, "cuda")
    torch.nn.Module.cuda = lambda self, device=None: self
    torch.cpu.get_rng_state = lambda device=None: torch.get_rng_state()
    torch.cpu.set_rng_state = lambda state, device=None: torch.set_rng_state(state)
    for name, value in answers(torch).items():
        setattr(torch.cuda, name, value)
    torch.cuda.profiler.start = torch.cuda.profiler.stop = always(None)
    torch.profiler.profile = on_cpu(torch.profiler.profile, torch.profiler.ProfilerActivity)


def keep_on_cpu(torch, kind):
    """Tensors that are put on a device of a kind live on the CPU from now on."""
    is_first = not absent
    absent.add(kind)
    if not is_first:
        return
    from torch.overrides import TorchFunctionMode

    class OnCPU(TorchFunctionMode):
        def __torch_function__(self, function, kinds, args=(), kwargs=None):
            kwargs = kwargs or {}
            if function is torch.Tensor.cuda and "cuda" in absent:
                return args[0]
            args = tuple("cpu" if is_absent(a, torch) else a for a in args)
            device = kwargs.get("device")
            if is_absent(device, torch) or isinstance(device, int) and "cuda" in absent:
                kwargs = {**kwargs, "device": "cpu"}
            return function(*args, **kwargs)

    OnCPU().__enter__()
    torch.set_default_device = ignore_absent(torch.set_default_device, torch)

    class Generator(torch.Generator):
        def __new__(cls, device="cpu"):
            return super().__new__(cls, "cpu" if is_absent(device, torch) else device)

    torch.Generator = Generator


def ignore_absent(function, torch):
    return lambda device: None if is_absent(device, torch) else function(device)


def on_cpu(profile, activity):
    """torch.profiler.profile of the host where a program asks for the device."""
    class OnCPU(profile):
        def __init__(self, *args, activities=None, **kwargs):
            kinds = None if activities is None else [activity.CPU if a == activity.CUDA else a for a in activities]
            super().__init__(*args, activities=kinds, **kwargs)
    return OnCPU


class Event:
    """An event of a device by the clock of the host."""

    def __init__(self, *args, **kwargs):
        self.at = None

    def record(self, stream=None):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    wait = query = synchronize

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


class Stream:
    cuda_stream = 0

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def synchronize(self):
        pass

    wait_stream = wait_event = record_event = lambda self, *args: None


class device(Stream):
    pass


def always(value):
    """A function of its own for each name: torch's compiler tells functions apart by identity."""
    return lambda *args, **kwargs: value


def answers(torch):
    properties = types.SimpleNamespace(name="CPU", multi_processor_count=torch.get_num_threads(), major=9, minor=0,
                                       total_memory=1 << 34, shared_memory_per_block=1 << 17, warp_size=32, L2_cache_size=1 << 25,
                                       shared_memory_per_multiprocessor=1 << 17, max_threads_per_multi_processor=2048)
    idle = ("synchronize", "empty_cache", "manual_seed", "manual_seed_all", "set_device", "init", "reset_peak_memory_stats")
    return {**{name: always(None) for name in idle},
            "is_available": always(True), "is_initialized": always(True), "current_device": always(0), "device_count": always(1),
            "get_device_name": always("CPU"), "get_device_capability": always((9, 0)), "get_device_properties": always(properties),
            "memory_allocated": always(0), "max_memory_allocated": always(0), "Event": Event, "Stream": Stream, "device": device,
            "stream": lambda stream: Stream(), "current_stream": lambda device=None: Stream(),
            "default_stream": lambda device=None: Stream(), "get_rng_state": lambda device=None: torch.get_rng_state(),
            "set_rng_state": lambda state, device=None: torch.set_rng_state(state)}
