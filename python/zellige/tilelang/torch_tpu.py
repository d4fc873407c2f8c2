"""torch_tpu, SophGo's devices for torch, where that package is not installed: torch.tpu, tpu:0 and Tensor.tpu() are there, and what is
put on such a device stays on the CPU."""

import importlib.abc
import importlib.machinery
import sys
import types

from . import torch_device


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last that is asked for torch_tpu, so that the package itself comes first."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, origin=__file__) if name == "torch_tpu" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        import torch
        module.tpu = device_module(torch)
        torch.utils.rename_privateuse1_backend("tpu")
        torch._register_device_module("tpu", module.tpu)
        torch.Tensor.tpu = torch.nn.Module.tpu = lambda self, *args, **kwargs: self
        torch.Tensor.is_tpu = False
        torch_device.keep_on_cpu(torch, "tpu")


def device_module(torch):
    """torch.tpu."""
    module = types.ModuleType("torch.tpu", "A device whose tensors are on the CPU.")
    numbers = dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"), 0)
    answers = {**torch_device.answers(torch), **{name: torch_device.always(value) for name, value in numbers.items()},
               "memory_stats": torch_device.always({}), "mem_get_info": torch_device.always((1 << 34, 1 << 34)),
               "_is_in_bad_fork": torch_device.always(False), "_lazy_init": torch_device.always(None),
               "get_amp_supported_dtype": torch_device.always([torch.float16, torch.bfloat16])}
    vars(module).update(answers)
    return module


def install():
    sys.meta_path.append(Finder())
