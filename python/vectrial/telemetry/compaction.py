"""The machine's memory in large pieces before each load.

The pages of a process lie where free memory happens to be. Scattered ones cost a search more: on a
virtual machine, where the processor looks every address up twice, the same index was 10 % slower
after the machine had run for hours, and 5 % slower if it was loaded before another one.
"""

from __future__ import annotations

import os
from pathlib import Path

_ASK = Path("/proc/sys/vm/compact_memory")


def compacts_memory() -> bool:
    """Whether this process may ask the kernel for it: Linux lets root."""
    return os.access(_ASK, os.W_OK)


def compact_memory() -> None:
    """Have the kernel join free memory into large pieces, a moment's work, where it can."""
    if compacts_memory():
        _ASK.write_text("1")
