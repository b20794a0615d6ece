"""Threads that wait for the GPU sleep: CUDA's default spins where a process has fewer contexts than the machine has cores."""

from __future__ import annotations

import ctypes
from typing import Final

_BLOCKING_SYNC: Final = 0x04
"""CU_CTX_SCHED_BLOCKING_SYNC."""


def wait_asleep(device: int = 0) -> bool:
    """Let every wait of this process for a GPU sleep until the driver wakes it, which takes some tens of microseconds.

    It holds for the device's primary context, the one that torch uses, best before anything has used the device.

    Args:
        device: Index among the devices that this process sees.

    Returns:
        Whether the driver took it; False where there is none.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    handle = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), device):
        return False
    return int(driver.cuDevicePrimaryCtxSetFlags_v2(handle, _BLOCKING_SYNC)) == 0
