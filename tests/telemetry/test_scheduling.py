"""What processes had of the processors, as the kernel counts it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from vectrial.telemetry.scheduling import descendants, scheduling_time


def test_a_busy_thread_runs_or_waits_for_all_of_its_time() -> None:
    before, began = scheduling_time([os.getpid()]), time.perf_counter()
    assert before is not None
    while time.perf_counter() < began + 0.2:
        pass
    after, seconds = scheduling_time([os.getpid()]), time.perf_counter() - began
    assert after is not None
    used = after - before
    assert used.ran_s > 0.01
    assert used.waited_s >= 0
    assert used.ran_s + used.waited_s >= 0.95 * seconds


def test_a_sleeping_thread_does_neither() -> None:
    before = scheduling_time([os.getpid()])
    time.sleep(0.2)
    after = scheduling_time([os.getpid()])
    assert before is not None
    assert after is not None
    assert (after - before).ran_s < 0.1


def test_processes_that_were_started_count_and_ended_ones_do_not() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = descendants([os.getpid()])
    assert found[0] == os.getpid()
    assert child.pid in found
    assert scheduling_time([child.pid]) is not None
    child.communicate(b"\n")
    assert scheduling_time([child.pid]) is None
    assert child.pid not in descendants([os.getpid(), child.pid])


@pytest.mark.parametrize("pids", [[], [2**22 + 1]])
def test_nobody_is_not_known(pids: list[int]) -> None:
    assert scheduling_time(pids) is None
