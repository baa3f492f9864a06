"""What a process does with memory that it has freed."""

import ctypes
import os

# Of mallopt, in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT, _LARGE = 64 * 2**20, 32 * 2**20
# With these a user has chosen.
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Let this process keep up to 64 MiB of freed memory for what comes next; return whether it does.

    Every step of a training frees what the next one needs, and every model what the next one takes. By default glibc
    gives it back to the system each time, which clears it anew, page by page. What is larger than 32 MiB still goes
    back at once. It is for a process that is ours alone. Nothing is changed where a variable of the environment
    says how memory is kept, or without glibc.
    """
    if any(os.environ.get(name) for name in _VARIABLES):
        return False
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    # In this order: either ends that glibc adapts the other, whose default is far too small.
    return bool(set_option(_MMAP_THRESHOLD, _LARGE)) and bool(set_option(_TRIM_THRESHOLD, _KEPT))
