"""The machine's memory in large pieces before each load.

The pages of a process lie where free memory happens to be. Scattered ones cost a search more: on a
virtual machine, where the processor looks every address up twice, the same index is up to 10 %
slower after a machine has run for hours, and 5 % slower if it was loaded before another one.
"""

from __future__ import annotations

from pathlib import Path

_ASK = Path("/proc/sys/vm/compact_memory")


def compact_memory() -> bool:
    """Have the kernel join free memory into large pieces; a moment's work. False where it cannot,
    or this process may not ask for it (only root may)."""
    try:
        _ASK.write_text("1")
    except OSError:
        return False
    return True
