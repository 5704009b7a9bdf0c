"""What else the machine did: counters as kernels tell them, and their share of a phase."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from vectrial.model.phase import Phase
from vectrial.telemetry.machine import add_machine_metrics, machine_now
from vectrial.telemetry.process import Sampler

TICKS = os.sysconf("SC_CLK_TCK")
SECOND = 1_000_000_000


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_counters_are_read_as_kernels_write_them(tmp_path: Path) -> None:
    write(
        tmp_path / "proc",
        {
            "stat": f"cpu  {3 * TICKS} {TICKS} {2 * TICKS} 99 7 0 {TICKS} {4 * TICKS} 0\ncpu0 1\n",
            "pressure/memory": "some avg10=0 total=700000\nfull avg10=0 total=9\n",
            "pressure/cpu": "some avg10=1.00 avg60=0.50 total=2500000\nfull avg10=0 total=9\n",
            "self/cgroup": "0::/a/b\n",
        },
    )
    write(
        tmp_path / "sys",
        {
            "fs/cgroup/a/b/cpu.stat": "usage_usec 5\nthrottled_usec 1500000\n",
            "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "3000000\n",
            "devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1000000\n",
        },
    )
    found = machine_now(tmp_path / "proc", tmp_path / "sys")
    assert (found.busy_s, found.steal_s) == (7, 4)
    assert (found.stalled_s, found.throttled_s, found.mhz) == (2.5, 1.5, 2000)


def test_the_first_version_of_control_groups_counts_nanoseconds(tmp_path: Path) -> None:
    write(tmp_path / "proc", {"self/cgroup": "4:cpu,cpuacct:/a\n2:memory:/a\n"})
    write(
        tmp_path / "sys", {"fs/cgroup/cpu/cpu.stat": "nr_throttled 1\nthrottled_time 250000000\n"}
    )
    assert machine_now(tmp_path / "proc", tmp_path / "sys").throttled_s == 0.25


def test_what_a_platform_does_not_tell_is_left_out(tmp_path: Path) -> None:
    found = machine_now(tmp_path, tmp_path)
    assert set(vars(found).values()) == {None}
    phase = Phase("search", 0, SECOND)
    rows = [{"at_s": float(at), "phase": 0 if at else None, **vars(found)} for at in (0, 1)]
    add_machine_metrics([phase], rows, [], 0)
    assert phase.metrics == {}


def row(at_s: float, phase: int | None, **counters: float) -> dict[str, Any]:
    known = dict.fromkeys(("busy_s", "steal_s", "stalled_s", "throttled_s", "mhz"))
    return {"at_s": at_s, "phase": phase, **known, **counters}


def test_shares_are_of_the_phase_and_without_what_was_measured() -> None:
    machine = [
        row(0.0, None, busy_s=10, steal_s=1.0, stalled_s=5.0, throttled_s=0.0, mhz=2000),
        row(2.0, 0, busy_s=14, steal_s=1.4, stalled_s=6.0, throttled_s=0.5, mhz=1800),
        row(4.0, 0, busy_s=16, steal_s=1.4, stalled_s=6.0, throttled_s=0.5, mhz=1800),
    ]
    for one, stalled_s in zip(machine, (1.0, 3.0, 3.0), strict=True):
        one["memory_stalled_s"] = stalled_s
    samples = [
        {"at_s": at, "phase": phase, "process": name, "cpu_s": cpu}
        for name, used in (("server", (0.0, 1.0, 2.0)), ("client", (0.0, 0.5, 1.0)))
        for (at, phase), cpu in zip(((0.0, None), (2.0, 0), (4.0, 0)), used, strict=True)
    ]
    phase = Phase("search", 0, 4 * SECOND)
    add_machine_metrics([phase], machine, samples, 0, processors=2)
    found = phase.metrics
    assert found["other_cores"] == pytest.approx((6 - 3) / 4)
    assert found["steal_share"] == pytest.approx(0.4 / 4 / 2)
    assert found["stalled_share"] == pytest.approx(0.25)
    assert found["memory_stalled_share"] == pytest.approx(0.5)
    assert found["throttled_share"] == pytest.approx(0.125)
    assert found["cpu_mhz"] == 1800


def test_too_short_a_phase_has_no_shares() -> None:
    phase = Phase("search", 0, SECOND // 10)
    rows = [row(0.0, None, busy_s=1.0), row(0.1, 0, busy_s=1.1)]
    add_machine_metrics([phase], rows, [], 0)
    assert phase.metrics == {}


def test_the_sampler_looks_at_the_machine_with_every_sample() -> None:
    started = time.perf_counter_ns()
    with Sampler({"client": os.getpid()}, [], started, every_s=0.05) as sampler:
        time.sleep(0.3)
        sampler.mark(0)
    elapsed_s = (time.perf_counter_ns() - started) / 1e9
    rows = sampler.machine_rows()
    assert len(rows) >= 3
    assert [r["at_s"] for r in rows] == sorted(r["at_s"] for r in rows)
    assert {r["phase"] for r in rows} == {0, None}, "the last sample is after the phase"
    phase = Phase("search", started, started + SECOND)
    add_machine_metrics([phase], rows, sampler.rows(), started)
    if rows[0]["busy_s"] is not None:
        # The last counters are read some time after the instant that is noted for them.
        late = elapsed_s / max(row["at_s"] for row in rows if row["phase"] == 0)
        assert 0 <= (phase.metrics["other_cores"] or 0) <= (os.cpu_count() or 1) * late + 1
