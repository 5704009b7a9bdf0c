"""Usage of processes: processor time, memory, I/O and disk, sampled once a second.

A sample adds up a process and its descendants. Values that cannot be read, because the platform
does not report them or the process has ended, are None or left out, never guessed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from vectrial.telemetry.disk import allocated_bytes
from vectrial.telemetry.groups import ControlGroups
from vectrial.telemetry.links import traffic
from vectrial.telemetry.machine import machine_now

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True)
class Usage:
    """The usage of a process and its descendants; the counters never fall.

    cpu_s: user and system time, including descendants that have ended and were waited for.
    rss_bytes: resident memory; pages shared between the processes count once for each.
    peak_rss_bytes: the sum of each process's peak; at least the peak of their sum.
    read_bytes, write_bytes: from and to disks, including descendants that were waited for. A write
        counts when it makes a page of the page cache dirty, whether or not the page is still there
        to be written out.
    major_faults: page faults that had to wait for a disk, including descendants waited for.
    """

    cpu_s: float
    rss_bytes: int
    peak_rss_bytes: int | None
    threads: int
    read_bytes: int | None
    write_bytes: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None
    major_faults: int | None = None


class ProcessTree:
    """A process and its descendants, including those that have ended."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._alive: dict[psutil.Process, Usage] = {}
        self._ended: list[Usage] = []
        self._most: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        """Id of the process itself."""
        return self._root.pid

    def usage(self, find_children: bool = True) -> Usage | None:
        """The sum over the tree now; None if its root has ended.

        Finding descendants reads every process of the machine: without `find_children`, only the
        descendants found before are read.
        """
        try:
            found = self._root.children(recursive=True) if find_children else self._alive
        except psutil.Error:
            return None
        processes = [self._root, *(one for one in found if one != self._root)]
        now = {one: usage for one in processes if (usage := _usage_of(one)) is not None}
        if self._root not in now:
            return None
        self._ended += [usage for one, usage in self._alive.items() if one not in now]
        self._alive = now
        everyone = [*now.values(), *self._ended]
        return Usage(
            cpu_s=self._monotonic_sum("cpu", (one.cpu_s for one in now.values())) or 0.0,
            rss_bytes=sum(one.rss_bytes for one in now.values()),
            peak_rss_bytes=_sum_of_known(one.peak_rss_bytes for one in now.values()),
            threads=sum(one.threads for one in now.values()),
            read_bytes=self._monotonic_sum("read", (one.read_bytes for one in now.values())),
            write_bytes=self._monotonic_sum("write", (one.write_bytes for one in now.values())),
            voluntary_switches=_sum_of_known(one.voluntary_switches for one in everyone),
            involuntary_switches=_sum_of_known(one.involuntary_switches for one in everyone),
            major_faults=self._monotonic_sum("faults", (one.major_faults for one in now.values())),
        )

    def _monotonic_sum(self, counter: str, values: Iterable[_Number | None]) -> _Number | None:
        """The sum of a counter, never less than before. When a parent waits for an ended child, the
        kernel adds the child's counter to the parent's, so it must not be counted twice. A child
        that nobody waited for would take its share away."""
        now = _sum_of_known(values)
        if now is not None:
            now = self._most[counter] = max(now, self._most.get(counter, now))
        return now


def _usage_of(process: psutil.Process) -> Usage | None:
    try:
        with process.oneshot():
            times, switches = process.cpu_times(), process.num_ctx_switches()
            rss, threads = process.memory_info().rss, process.num_threads()
            read = write = None
            if hasattr(process, "io_counters"):
                try:
                    io = process.io_counters()
                    read, write = io.read_bytes, io.write_bytes
                except psutil.AccessDenied:
                    pass
    except psutil.Error:
        return None
    # Of children that have ended the kernel tells it with the parent that waited for them: also of
    # those that came and went between two samples, as a database's process for each connection.
    cpu_s = times.user + times.system + _ended_children_s(times)
    peak = _peak_rss_bytes(process.pid)
    faults = _major_faults(process.pid)
    return Usage(
        cpu_s, rss, peak, threads, read, write, switches.voluntary, switches.involuntary, faults
    )


def _peak_rss_bytes(pid: int) -> int | None:
    """VmHWM of proc(5), in kilobytes there."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:  # noqa: PTH123 - read every second
            for line in status:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def _major_faults(pid: int) -> int | None:
    """majflt and cmajflt of proc(5), fields 12 and 13; the name before them may have spaces."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - read every second
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[9]) + int(fields[10])


def _ended_children_s(times: Any) -> float:
    """Seconds of children that have ended, if the platform reports them."""
    parts = (getattr(times, name, 0.0) for name in ("children_user", "children_system"))
    return float(sum(parts))


def _sum_of_known(values: Iterable[_Number | None]) -> _Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class Sampler:
    """Samples process trees once a second while its `with` block lasts, in a thread of its own.

        with Sampler({"client": os.getpid()}, [data_dir], started_ns) as sampler:
            ...                # measure
            sampler.mark(0)    # phase 0 has ended: a sample is taken now, and is its last
        rows = sampler.rows()

    Args:
        processes: name in the telemetry table → process id.
        folders: the allocated bytes of these are the `disk_bytes` of the first process's rows.
        started_ns: the trial's start, as `time.perf_counter_ns`; `at_s` counts from it.
        every_s: seconds between samples.
        walk_every_s: seconds between walks over the folders and searches for new descendants;
            samples between them repeat the last figure. Marks always walk.
    """

    def __init__(
        self,
        processes: Mapping[str, int],
        folders: Iterable[Path],
        started_ns: int,
        *,
        every_s: float = 1.0,
        walk_every_s: float = 5.0,
    ) -> None:
        self._trees = {name: ProcessTree(pid) for name, pid in processes.items()}
        self._groups = {name: ControlGroups(pid) for name, pid in processes.items()}
        self._folders, self._started_ns = tuple(folders), started_ns
        self._every_s, self._walk_every_s = every_s, walk_every_s
        self._rows: list[dict[str, Any]] = []
        self._machine: list[dict[str, Any]] = []
        self._marked = self._looked = 0
        self._walked_s = 0.0
        self._disk_bytes: int | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="telemetry", daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> Sampler:
        self._sample(walk=True)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._ended.set()
        self._thread.join()
        self._sample(walk=True)
        if self._failure is not None and error is None:
            raise self._failure

    def mark(self, phase: int, began_ns: int | None = None) -> None:
        """Mark the end of the phase with this ordinal: take a sample, and assign it and earlier
        samples to the phase, back to `began_ns` (`time.perf_counter_ns`) or the mark before. Call
        it outside the clock."""
        self._sample(walk=True)
        with self._lock:
            first = -1.0 if began_ns is None else (began_ns - self._started_ns) / 1e9
            for row in [*self._rows[self._marked :], *self._machine[self._looked :]]:
                if row["at_s"] >= first:
                    row["phase"] = phase
            self._marked, self._looked = len(self._rows), len(self._machine)

    def follow(self, processes: Mapping[str, int]) -> None:
        """Sample these processes from now on under their names: a restarted process has another id.
        Counters of a new process begin anew. An ended process has no more samples."""
        with self._lock:
            for name, pid in processes.items():
                if name not in self._trees or self._trees[name].pid != pid:
                    self._trees[name], self._groups[name] = ProcessTree(pid), ControlGroups(pid)

    def rows(self) -> list[dict[str, Any]]:
        """The samples so far: the columns of the telemetry table but trial_id and phase_id, and
        `phase`, the ordinal of `mark`, or None outside phases."""
        with self._lock:
            return [dict(row) for row in self._rows]

    def machine_rows(self) -> list[dict[str, Any]]:
        """Samples of the machine at the same times: `at_s`, `phase` as in `rows`, and the fields of
        `Machine`."""
        with self._lock:
            return [dict(row) for row in self._machine]

    def _watch(self) -> None:
        try:
            while not self._ended.wait(self._every_s):
                self._sample(walk=False)
        except Exception as failure:  # noqa: BLE001 - raised when the block is left
            self._failure = failure

    def _sample(self, walk: bool) -> None:
        """Take one row per tree. Looking for descendants and walking over folders cost more: done
        with `walk`, and if it was long ago."""
        with self._lock:
            at_s = (time.perf_counter_ns() - self._started_ns) / 1e9
            walk = walk or at_s - self._walked_s >= self._walk_every_s
            if walk:
                self._walked_s = at_s
                self._disk_bytes = allocated_bytes(self._folders) if self._folders else None
            disk_bytes, load_1m = self._disk_bytes, os.getloadavg()[0]
            self._machine.append({"phase": None, "at_s": at_s, **vars(machine_now())})
            for name, tree in self._trees.items():
                usage = tree.usage(find_children=walk)
                if usage is None:
                    continue
                row = {"phase": None, "at_s": at_s, "process": name, **vars(usage)}
                group = self._groups[name].usage()
                row |= {"disk_bytes": disk_bytes, "load_1m": load_1m}
                row |= {"group_cpu_s": group.cpu_s, "group_peak_bytes": group.peak_bytes}
                link = traffic(tree.pid)
                row |= {"link_bytes": link.bytes, "link_packets": link.packets}
                self._rows.append(row)
                disk_bytes = None  # the folders belong to all: counted with the first
