"""tilelang.carver.arch.driver: what programs ask about the machine to choose sizes."""

import os

from . import torch_device


def get_cuda_device_properties(device_id=0):
    import torch
    return torch.cuda.get_device_properties(device_id)


def has_gpu():
    import torch
    return torch.cuda.is_available() and "cuda" not in torch_device.absent


def get_num_sms(device_id=0):
    """Blocks that run at once: processors of the GPU, or threads of the pool."""
    return get_cuda_device_properties(device_id).multi_processor_count if has_gpu() else os.cpu_count() or 1


def get_device_name(device_id=0):
    return get_cuda_device_properties(device_id).name if has_gpu() else "CPU"


def get_shared_memory_per_block(device_id=0, format="bytes"):
    return get_cuda_device_properties(device_id).shared_memory_per_block_optin if has_gpu() else 1 << 17


get_max_dynamic_shared_size_bytes = get_persisting_l2_cache_max_size = get_shared_memory_per_block
