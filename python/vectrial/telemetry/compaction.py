"""The machine's memory in large pieces before each load.

The pages of a process lie where memory is free, and scattered pages slow a search down: on a
virtual machine, whose processor looks every address up twice, the same index was 10 % slower after
the machine had run for hours. The first load takes the small pieces: its index was 3 % slower than
the same index loaded afterwards.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_ASK = Path("/proc/sys/vm/compact_memory")
_PIECES = Path("/proc/buddyinfo")
#: Pieces of 2**order pages are small below this order: a page table of the processor maps 2 MiB.
_LARGE = 9
#: Most memory in small pieces that is held, in bytes and as a share of all memory.
_MOST_BYTES, _MOST_SHARE = 1 << 30, 0.05


def compacts_memory() -> bool:
    """True if this process may ask the kernel to compact memory: Linux lets root."""
    return os.access(_ASK, os.W_OK)


@contextmanager
def memory_in_large_pieces() -> Iterator[None]:
    """Have the kernel join free memory, which takes a moment, and occupy what stays in small
    pieces, so that all loads in the block find large pieces. Does nothing without permission."""
    if not compacts_memory():
        yield
        return
    _ASK.write_text("1")
    with _ballast(min(_small_piece_bytes(), _MOST_BYTES, _ballast_limit_bytes())):
        yield


def _ballast_limit_bytes() -> int:
    return int(_MOST_SHARE * psutil.virtual_memory().available)


def _small_piece_bytes() -> int:
    """Free memory in small pieces; 0 if the kernel does not report it."""
    try:
        lines = _PIECES.read_text().splitlines()
    except OSError:
        return 0
    pages = 0
    for line in lines:  # Node 0, zone Normal 30211 15537 …: pieces of each order
        counts = line.split()[4 : 4 + _LARGE]
        pages += sum(int(count) << order for order, count in enumerate(counts))
    return pages * mmap.PAGESIZE


@contextmanager
def _ballast(size: int) -> Iterator[None]:
    """Hold memory of this size in single pages, which take small pieces first."""
    if size < mmap.PAGESIZE:
        yield
        return
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1
        yield
