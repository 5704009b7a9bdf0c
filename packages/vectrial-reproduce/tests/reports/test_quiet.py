"""The machine is quiet where a phase would not be marked as disturbed."""

from __future__ import annotations

import itertools
import os

import pytest

from vectrial.telemetry.machine import MachineCounters
from vectrial_reproduce.reports.results import quiet
from vectrial_reproduce.reports.results.quiet import Activity, BusyProcess


def test_quiet_ends_where_a_phase_counts_as_disturbed() -> None:
    assert Activity(0.2, 2).is_quiet
    assert not Activity(0.21, 2).is_quiet
    assert Activity(0.21, 4).is_quiet
    assert not Activity(0.0, 2, steal_share=0.02).is_quiet
    assert Activity(None, 2).is_quiet  # a platform that does not tell


def test_what_is_busy_is_named() -> None:
    processes = [
        BusyProcess(7, "rustc", 1.5),
        BusyProcess(8, "cc", 0.3),
        BusyProcess(9, "sshd", 0.01),
    ]
    assert str(Activity(1.8, 2, 0.0, processes)) == (
        "1.8 of 2 processors are busy (rustc (pid 7): 1.50; cc (pid 8): 0.30)"
    )
    assert str(Activity(0.0, 2, 0.05)) == "other guests of the host take 5% of the processors"
    assert str(Activity(0.0, 2)) == "quiet"


def test_it_waits_and_says_so_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 15.0)
    monkeypatch.setattr(quiet.time, "monotonic", lambda: next(clock))
    seen = iter([*[Activity(1.0, 2)] * 9, Activity(0.0, 2)])
    said: list[str] = []
    quiet.wait(said.append, lambda: next(seen))
    assert len(said) == 3  # after 15, 75 and 135 seconds
    assert "for 135 s so far: 1.0 of 2 processors are busy" in said[-1]
    assert next(seen, None) is None
    quiet.wait(said.append, lambda: Activity(0.0, 2))
    assert len(said) == 3


def test_a_look_leaves_this_process_out(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getpid()
    used = iter([
        {(own, "python"): 1.0, (7, "rustc"): 5.0, (8, "ended"): 1.0},
        {(own, "python"): 1.5, (7, "rustc"): 6.0, (9, "new"): 0.25},
    ])  # fmt: skip
    machines = iter(
        [MachineCounters(busy_s=10.0, steal_s=0.0), MachineCounters(busy_s=12.0, steal_s=0.25)]
    )
    clock = iter([100.0, 105.0])
    monkeypatch.setattr(quiet, "_cpu_s_by_process", lambda: next(used))
    monkeypatch.setattr(quiet, "machine_now", lambda: next(machines))
    monkeypatch.setattr(quiet.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(quiet.time, "sleep", lambda _: None)
    monkeypatch.setattr(quiet.os, "cpu_count", lambda: 2)
    found = quiet.measure_activity()
    assert found.cores == pytest.approx((2.0 - 0.5) / 5)
    assert found.steal_share == pytest.approx(0.25 / 5 / 2)
    assert [(one.name, one.cores) for one in found.processes] == [("rustc", 0.2), ("new", 0.05)]


def test_a_look_at_this_machine_names_its_processes() -> None:
    found = quiet.measure_activity(0.01)
    assert found.processors == os.cpu_count()
    assert os.getpid() not in {one.pid for one in found.processes}
