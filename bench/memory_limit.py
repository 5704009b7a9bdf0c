"""Commands of Vectrial in a control group that bounds their memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from vectrial.model.placement import Limits
from vectrial.servers.limits import group_name, make_groups
from vectrial.servers.supervisor import remove

LIMIT_BYTES = 2 << 30
_VECTRIAL = str(Path(sys.executable).parent / "vectrial")


def limited(arguments: Sequence[str], out: Path) -> tuple[float, float]:
    """Seconds and own GiB of a command in a control group of `LIMIT_BYTES`."""
    groups = make_groups(Limits(memory_bytes=LIMIT_BYTES), group_name())
    stat = next(path for group in groups if (path := group / "memory.stat").exists())

    def join() -> None:
        for group in groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    began, own_bytes = time.perf_counter(), 0
    try:
        with (
            out.open("wb") as stream,
            subprocess.Popen([_VECTRIAL, *arguments], stdout=stream, preexec_fn=join) as process,
        ):
            while process.poll() is None:
                own_bytes = max(own_bytes, anonymous_bytes(stat))
                time.sleep(0.2)
        took_s = time.perf_counter() - began
    finally:
        remove(groups)
    if process.returncode:
        raise SystemExit(f"vectrial {' '.join(arguments)} ended with {process.returncode}")
    return took_s, own_bytes / 2**30


def anonymous_bytes(stat: Path) -> int:
    """Of a group, of either version of control groups."""
    values = dict(line.split() for line in stat.read_text().splitlines())
    return int(values.get("anon") or values["total_rss"])
