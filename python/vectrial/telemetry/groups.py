"""Usage of the control group of a server that is in a container or has limits.

A group counts the usage of all its processes, including those that began and ended between two
samples. Groups that a process shares with us are not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vectrial.util.cgroups import ROOT, is_unified, membership, read


@dataclass(frozen=True)
class GroupUsage:
    """Usage of a control group. cpu_s: user and system time. peak_bytes: peak memory, with the page
    cache. None: unknown."""

    cpu_s: float | None = None
    peak_bytes: int | None = None


class ControlGroups:
    """The control groups of a process, except those that it shares with this one."""

    def __init__(self, pid: int, root: Path = ROOT) -> None:
        theirs, ours = membership(Path(f"/proc/{pid}")), membership()
        own = {name: path for name, path in theirs.items() if ours.get(name) != path}
        self._unified = self._cpu = self._memory = None
        if is_unified(root):
            self._unified = _existing_group(root, own.get(""))
        else:
            self._cpu = _existing_group(root / "cpuacct", own.get("cpuacct"))
            self._memory = _existing_group(root / "memory", own.get("memory"))

    def usage(self) -> GroupUsage:
        """Usage until now; None for a group that has vanished, as when a container ends."""
        if self._unified is not None:
            fields = dict(
                line.split(" ", 1) for line in (read(self._unified / "cpu.stat") or "").splitlines()
            )
            cpu_us = fields.get("usage_usec")
            peak = read(self._unified / "memory.peak")
            return GroupUsage(int(cpu_us) / 1e6 if cpu_us else None, int(peak) if peak else None)
        cpu_ns = self._cpu and read(self._cpu / "cpuacct.usage")
        used = self._memory and read(self._memory / "memory.max_usage_in_bytes")
        return GroupUsage(int(cpu_ns) / 1e9 if cpu_ns else None, int(used) if used else None)


def _existing_group(root: Path, group: str | None) -> Path | None:
    if group is None or ".." in group.split("/"):  # outside of what this container shows
        return None
    folder = root / group.strip("/")
    return folder if folder.is_dir() else None
