"""Zellige: one array and kernel stack for every accelerator. Arrays are in zellige.core, which has mlx.core's API."""
