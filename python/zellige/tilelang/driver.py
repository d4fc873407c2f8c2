"""tilelang.carver.arch.driver: what programs ask about the machine to choose sizes."""

import os


def get_num_sms(device_id=0):
    """Blocks that run at once: here, threads of the pool."""
    return os.cpu_count() or 1


def get_cuda_device_properties(device_id=0):
    import torch
    return torch.cuda.get_device_properties(device_id)


def get_device_name(device_id=0):
    return "CPU"


def get_shared_memory_per_block(device_id=0, format="bytes"):
    return 1 << 17


get_max_dynamic_shared_size_bytes = get_persisting_l2_cache_max_size = get_shared_memory_per_block
