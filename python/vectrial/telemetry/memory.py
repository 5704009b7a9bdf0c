"""Keeps our own memory out of the store's."""

from __future__ import annotations

import ctypes
import gc
import mmap
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def forget_pages(vectors: NDArray[np.float32]) -> None:
    """Drop the resident pages of a memory-mapped array, so that the dataset does not count as the
    store's memory; they are read again when needed."""
    base: Any = vectors
    while base is not None:
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)
            return
        base = getattr(base, "_mmap", None) or getattr(base, "base", None)


def give_back_free_memory() -> None:
    """Return freed memory to the system: memory that an allocator holds back is not the store's
    data."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return  # not glibc: freed memory stays counted, which the figure's meaning allows
