"""The least memory of a plain control group in which a command holds. Needs root."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

_ROOT = Path("/sys/fs/cgroup")
_MIB = 1 << 20


def holds(command: Sequence[str], memory_bytes: int, timeout_s: float = 600) -> bool:
    """True if a command ends with exit code 0 within so much memory, without swap."""
    unified = (_ROOT / "cgroup.controllers").exists()
    group = (_ROOT if unified else _ROOT / "memory") / f"oracle-{uuid4().hex[:8]}"
    group.mkdir()
    try:
        if unified:
            (group / "memory.max").write_text(str(memory_bytes))
            _write(group / "memory.swap.max", "0")
        else:
            (group / "memory.limit_in_bytes").write_text(str(memory_bytes))
            _write(group / "memory.memsw.limit_in_bytes", str(memory_bytes))
        done = subprocess.run(
            command,
            preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
            stdout=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        group.rmdir()


def least(command: Sequence[str], high_bytes: int, resolution: float = 0.05) -> int | None:
    """The least memory in bytes in which a command holds twice, to a share; None if it does not
    hold in `high_bytes`."""
    if not holds(command, high_bytes):
        return None
    low, high = 8 * _MIB, high_bytes
    while high > low * (1 + resolution):
        middle = int(math.sqrt(low * high))
        if holds(command, middle) and holds(command, middle):
            high = middle
        else:
            low = middle
    return high


def _write(path: Path, text: str) -> None:
    """Write to a kernel file that not every machine has."""
    if path.exists():
        path.write_text(text)
