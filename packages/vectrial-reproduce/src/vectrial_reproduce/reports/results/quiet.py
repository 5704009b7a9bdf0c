"""Is the machine quiet enough to measure on, and if not, what keeps it busy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from vectrial.analysis.interference import OTHER_CORES_SHARE, STEAL_SHARE
from vectrial.telemetry.machine import machine_now
from vectrial.util import formatting

#: Seconds of one observation, and seconds between two messages about busy processes.
LOOK_S, SAY_S = 5.0, 60.0
#: Most processes that are named, and the least share of a core of a process that is.
_NAMED, _LEAST_CORES = 3, 0.02


@dataclass(frozen=True)
class BusyProcess:
    """A process that used processors. cores: average number of processors."""

    pid: int
    name: str
    cores: float

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}): {self.cores:.2f}"


@dataclass(frozen=True)
class Activity:
    """Activity of the machine for a while. cores: busy processors on average, of `processors`; None
    if the platform does not report it. steal_share: share taken by other guests of the host.
    processes: busiest first."""

    cores: float | None
    processors: int
    steal_share: float = 0.0
    processes: Sequence[BusyProcess] = ()

    @property
    def is_quiet(self) -> bool:
        """True if a phase measured at the same time would not be marked as disturbed."""
        busy = self.cores is not None and self.cores > OTHER_CORES_SHARE * self.processors
        return not busy and self.steal_share <= STEAL_SHARE

    def __str__(self) -> str:
        said = []
        if self.cores is not None and self.cores > OTHER_CORES_SHARE * self.processors:
            named = [str(one) for one in self.processes if one.cores >= _LEAST_CORES][:_NAMED]
            who = f" ({'; '.join(named)})" if named else ""
            said.append(f"{self.cores:.1f} of {self.processors} processors are busy{who}")
        if self.steal_share > STEAL_SHARE:
            said.append(f"other guests of the host take {self.steal_share:.0%} of the processors")
        return ", and ".join(said) or "quiet"


def measure_activity(seconds: float = LOOK_S) -> Activity:
    """Activity of the machine over this many seconds, without this process."""
    before, machine, began = _cpu_s_by_process(), machine_now(), time.monotonic()
    time.sleep(seconds)
    after, later, span_s = _cpu_s_by_process(), machine_now(), time.monotonic() - began
    processors = os.cpu_count() or 1
    own = os.getpid()
    grown = {
        who: used - before.get(who, 0.0) for who, used in after.items() if used > before.get(who, 0)
    }
    ours = sum(used for (pid, _), used in grown.items() if pid == own)
    processes = [
        BusyProcess(pid, name, used / span_s) for (pid, name), used in grown.items() if pid != own
    ]
    busy = _increase(machine.busy_s, later.busy_s)
    return Activity(
        None if busy is None else max(0.0, busy - ours) / span_s,
        processors,
        (_increase(machine.steal_s, later.steal_s) or 0.0) / span_s / processors,
        sorted(processes, key=lambda one: -one.cores),
    )


def wait(report: Callable[[str], None], observe: Callable[[], Activity] = measure_activity) -> None:
    """Return when the machine is quiet. report: called with a line on what keeps it busy, at once
    and then once a minute.

    observe: function that observes the machine for a while.
    """
    said_at: float | None = None
    began = time.monotonic()
    while not (now := observe()).is_quiet:
        at = time.monotonic()
        if said_at is None or at - said_at >= SAY_S:
            waited = formatting.seconds(at - began)
            report(f"waiting for a quiet machine, for {waited} so far: {now}")
            said_at = at


def _increase(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _cpu_s_by_process() -> dict[tuple[int, str], float]:
    """Processor seconds by process. Processes that end meanwhile are left out."""
    found = {}
    for process in psutil.process_iter(["pid", "name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None:
            found[process.info["pid"], process.info["name"]] = times.user + times.system
    return found
