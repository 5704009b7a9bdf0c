"""The rest of the machine while a phase was measured.

Neighbours take processors from a virtual machine (steal), other processes keep them busy, a quota
stops them (throttling), and heat slows them down (frequency). Each becomes a metric of the phase,
so that interference can be told from the store. Values that the platform does not report are left
out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vectrial.model.phase import Phase
from vectrial.telemetry.phases import cpu_between, growth
from vectrial.util.cgroups import membership, read

#: Processor time is told in steps of 10 ms, samples are a second apart: of less there is no share.
_LEAST_S = 0.2


@dataclass(frozen=True)
class MachineCounters:
    """Counters since boot, in seconds. busy_s, steal_s: all processors together. stalled_s: time in
    which a process that could run had to wait for a processor. memory_stalled_s: time in which a
    process waited for memory, such as a dropped page. throttled_s: time in which this process's
    control group had used up its quota. mhz: mean frequency of the processors now."""

    busy_s: float | None = None
    steal_s: float | None = None
    stalled_s: float | None = None
    throttled_s: float | None = None
    mhz: float | None = None
    memory_stalled_s: float | None = None


def machine_now(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> MachineCounters:
    """The counters now, from some file reads."""
    busy = steal = None
    fields = (read(proc / "stat") or "").partition("\n")[0].split()
    if fields[:1] == ["cpu"] and len(fields) >= 9:
        # user nice system idle iowait irq softirq steal, see proc(5); guests are within user.
        user, nice, system, _, _, irq, softirq, stolen = (int(f) for f in fields[1:9])
        ticks = os.sysconf("SC_CLK_TCK")
        busy, steal = (user + nice + system + irq + softirq) / ticks, stolen / ticks
    return MachineCounters(
        busy,
        steal,
        _stalled_s(proc, "cpu"),
        _throttled_s(proc, sys),
        _mhz(sys),
        _stalled_s(proc, "memory"),
    )


def _stalled_s(proc: Path, resource: str) -> float | None:
    """Pressure stall information: microseconds in which some task waited."""
    for line in (read(proc / "pressure" / resource) or "").splitlines():
        kind, *parts = line.split()
        total = dict(part.split("=", 1) for part in parts if "=" in part).get("total")
        if kind == "some" and total is not None:
            return int(total) / 1e6
    return None


def _throttled_s(proc: Path, sys: Path) -> float | None:
    """Throttled time of our control group: version 2 in microseconds, version 1 in nanoseconds."""
    groups = membership(proc / "self")
    for controller, tree, key, unit in (
        ("", "fs/cgroup", "throttled_usec", 1e6),
        ("cpu", "fs/cgroup/cpu", "throttled_time", 1e9),
    ):
        if (group := groups.get(controller)) is None:
            continue
        folder = sys / tree
        stat = read(folder / group.strip("/") / "cpu.stat") or read(folder / "cpu.stat") or ""
        fields = dict(part.split(" ", 1) for part in stat.splitlines() if " " in part)
        if key in fields:
            return int(fields[key]) / unit
    return None


def _mhz(sys: Path) -> float | None:
    paths = sorted((sys / "devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    frequencies = [int(khz) for path in paths if (khz := read(path)) and khz.isdigit()]
    return sum(frequencies) / len(frequencies) / 1e3 if frequencies else None


def add_machine_metrics(
    phases: Sequence[Phase],
    machine: Sequence[Mapping[str, Any]],
    samples: Sequence[Mapping[str, Any]],
    started_ns: int,
    processors: int | None = None,
) -> None:
    """Add the machine's other activity to the metrics of every phase that is long enough.

    Args:
        machine: rows of `Sampler.machine_rows`. samples: samples of the measured processes from
            `Sampler.rows`: their own usage is not other activity.
        started_ns: the trial's start. processors: number of processors of the machine.
    """
    count = processors or os.cpu_count() or 1
    for ordinal, phase in enumerate(phases):
        at_s = (phase.started_ns - started_ns) / 1e9
        inside = [row for row in machine if row["phase"] == ordinal]
        if not inside or (span_s := inside[-1]["at_s"] - at_s) < _LEAST_S:
            continue
        last = inside[-1]
        grown = {
            name: growth(machine, name, at_s, last)
            for name in ("busy_s", "steal_s", "stalled_s", "memory_stalled_s", "throttled_s")
        }
        if grown["busy_s"] is not None:
            own = _own_cpu_s(samples, ordinal, at_s)
            phase.metrics["other_cores"] = max(0.0, grown["busy_s"] - own) / span_s
        if grown["steal_s"] is not None:
            phase.metrics["steal_share"] = grown["steal_s"] / span_s / count
        if grown["stalled_s"] is not None:
            phase.metrics["stalled_share"] = min(1.0, grown["stalled_s"] / span_s)
        if grown["memory_stalled_s"] is not None:
            phase.metrics["memory_stalled_share"] = min(1.0, grown["memory_stalled_s"] / span_s)
        if grown["throttled_s"] is not None:
            phase.metrics["throttled_share"] = grown["throttled_s"] / span_s
        speeds = [row["mhz"] for row in inside if row["mhz"] is not None]
        if speeds:
            phase.metrics["cpu_mhz"] = sum(speeds) / len(speeds)


def _own_cpu_s(samples: Sequence[Mapping[str, Any]], ordinal: int, at_s: float) -> float:
    """Processor seconds of the client and the server in a phase."""
    total = 0.0
    for name in dict.fromkeys(row["process"] for row in samples):
        rows = [row for row in samples if row["process"] == name]
        inside = [row for row in rows if row["phase"] == ordinal]
        if inside:
            total += cpu_between(rows, at_s, inside[-1]) or 0.0
    return total
