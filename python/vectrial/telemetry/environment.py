"""The facts about machine and software that a figure depends on, as kept in environment.json.

Facts that the platform does not report are None. Nothing here identifies a person or a host.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import psutil

from vectrial.telemetry.compaction import compacts_memory
from vectrial.util.cgroups import ROOT, group_and_parents, is_unified, membership, read
from vectrial.util.distributions import name_and_version

_CPU = Path("/sys/devices/system/cpu")
_Number = TypeVar("_Number", int, float)


def environment_facts(repository: Path | None = None) -> dict[str, Any]:
    """All facts of the environment, ready for JSON.

    Args:
        repository: a folder of the checkout whose revision is reported; this package's by default.
    """
    return {
        "cpu": _cpu(),
        "memory": _memory(),
        "container": _container(),
        "os": _system(),
        "clock": _clock(),
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "compiler": platform.python_compiler(),
            "switch_interval_s": sys.getswitchinterval(),
        },
        "libraries": library_versions(),
        "git": git_facts(repository or Path(__file__).parent),
        "load_average": list(os.getloadavg()),
        "threads": {
            name: os.environ[name]
            for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
            if name in os.environ
        },
    }


@cache
def library_versions() -> Mapping[str, str]:
    """Every installed distribution and its version, by name."""
    found = dict(map(name_and_version, metadata.distributions()))
    return dict(sorted(((n, v) for n, v in found.items() if n), key=lambda item: item[0].lower()))


def git_facts(folder: Path) -> dict[str, Any]:
    """Revision of the checkout that contains `folder`, and whether it was changed since.

    `dirty` refers to tracked files. Both are None outside a checkout or without git.
    """
    unknown: dict[str, Any] = {"revision": None, "dirty": None}
    program = shutil.which("git")
    if program is None:
        return unknown

    def ask(*words: str) -> str | None:
        try:
            done = subprocess.run(
                [program, "-C", os.fspath(folder), *words],
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # A package inside someone else's checkout (a virtual environment in it) is not its revision.
    if not ask("ls-files", "--", os.fspath(folder)):
        return unknown
    revision, changed = ask("rev-parse", "HEAD"), ask("status", "--porcelain", "-uno")
    return {"revision": revision, "dirty": None if changed is None else bool(changed)}


def _cpu() -> dict[str, Any]:
    fields: dict[str, str] = {}
    for line in (read(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())  # the first processor speaks for all
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    times = psutil.cpu_times()
    total = sum(times)
    frequency = read(_CPU / "cpu0/cpufreq/scaling_max_freq")
    return {
        "model": fields.get("model name") or platform.processor() or None,
        "architecture": platform.machine(),
        "flags": sorted((fields.get("flags") or fields.get("Features") or "").split()),
        "logical": psutil.cpu_count(),
        "physical": psutil.cpu_count(logical=False),
        "affinity": affinity,
        "cache": fields.get("cache size"),
        "governor": read(_CPU / "cpu0/cpufreq/scaling_governor"),
        "max_khz": int(frequency) if frequency and frequency.isdigit() else None,
        "hypervisor": "hypervisor" in fields.get("flags", "").split(),
        # Time another guest had this machine's processors, since boot: > 0 on a crowded host.
        "steal_share": times.steal / total if hasattr(times, "steal") and total else None,
    }


def _memory() -> dict[str, Any]:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    huge = read(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
    return {
        "total_bytes": memory.total,
        "available_bytes": memory.available,
        "swap_total_bytes": swap.total,
        "swap_used_bytes": swap.used,
        # The setting in force is the one in brackets: "always [madvise] never".
        "transparent_hugepages": huge.partition("[")[2].partition("]")[0] if huge else None,
        # Before each load: see `vectrial.telemetry.compaction`.
        "compacted": compacts_memory(),
    }


def _system() -> dict[str, Any]:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        name = None
    return {
        "name": name or platform.system(),
        "system": platform.system(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
    }


def _clock() -> dict[str, Any]:
    """The clock: `resolution_ns` is the smallest step seen between two readings."""
    source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    info = time.get_clock_info("perf_counter")
    readings = [time.perf_counter_ns() for _ in range(1000)]
    steps = [b - a for a, b in pairwise(readings) if b > a]
    return {
        "source": read(source),
        "implementation": info.implementation,
        "monotonic": info.monotonic,
        "resolution_ns": min(steps, default=None),
    }


def _container() -> dict[str, Any]:
    """Limits that apply to this process: the strictest on the way to the root of its cgroups."""
    version, cpus, memory = _cgroup_limits()
    return {
        "cgroup": version,
        "cpu_limit": cpus,
        "memory_limit_bytes": memory,
        "container": Path("/.dockerenv").exists() or Path("/run/.containerenv").exists(),
    }


def _cgroup_limits(
    root: Path = ROOT, process: Path = Path("/proc/self")
) -> tuple[int | None, float | None, int | None]:
    groups = membership(process)
    if is_unified(root):
        folders = group_and_parents(root, groups.get(""))
        cpus = [_quota(*(read(one / "cpu.max") or "max").split()[:2]) for one in folders]
        return (
            2,
            _least_known(cpus),
            _least_known([_bytes(read(one / "memory.max")) for one in folders]),
        )
    if not groups:
        return None, None, None
    cpus = [
        _quota(read(folder / "cpu.cfs_quota_us"), read(folder / "cpu.cfs_period_us"))
        for folder in group_and_parents(root / "cpu", groups.get("cpu"))
    ]
    memory = [
        _bytes(read(folder / "memory.limit_in_bytes"))
        for folder in group_and_parents(root / "memory", groups.get("memory"))
    ]
    return 1, _least_known(cpus), _least_known(memory)


def _quota(quota: str | None = None, period: str | None = None) -> float | None:
    """Processors that a quota per period corresponds to; None without a limit."""
    if not quota or not quota.isdigit():  # "max", and -1 in version 1
        return None
    return int(quota) / int(period if period and period.isdigit() else 100_000)


def _bytes(limit: str | None) -> int | None:
    # Version 1 says "no limit" with the greatest multiple of a page in an int64.
    return int(limit) if limit and limit.isdigit() and int(limit) < 1 << 62 else None


def _least_known(values: list[_Number | None]) -> _Number | None:
    return min((value for value in values if value is not None), default=None)
