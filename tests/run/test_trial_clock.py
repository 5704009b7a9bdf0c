"""A measuring process whose clock was slowed down has no valid times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vectrial.run import job
from vectrial.worker.messages import Finished


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the parent's clock."""
    at = [100.0]
    monkeypatch.setattr(job.time, "monotonic", lambda: at[0])
    return at


def finished(duration_s: float) -> Finished:
    return Finished("key", "ok", None, None, datetime.now(UTC), 0, duration_s)


@pytest.mark.parametrize(
    ("said_s", "took_s", "faulty"),
    [
        (10.0, 10.1, False),
        (10.0, 30.0, True),  # a clock at a third
        (0.1, 1.9, False),  # a message that was read late
        (10.0, 9.0, False),
        (100.0, 151.0, False),
        (100.0, 153.0, True),
    ],
)
def test_a_trial_that_took_longer_than_its_own_clock_says_is_invalid(
    now: list[float], said_s: float, took_s: float, faulty: bool
) -> None:
    clock = job._TrialClock()
    clock.started("key")
    now[0] += took_s
    clock.ended("key")
    now[0] += 600  # its results come when the gate has looked at the load
    fault = clock.fault(finished(said_s))
    assert bool(fault) is faulty
    if faulty:
        assert f"it took {took_s:.3g} s" in fault


def test_trials_that_wait_for_turns_are_not_timed_by_it(now: list[float]) -> None:
    clock = job._TrialClock()
    clock.started("key")
    clock.forget({"key", "other"})
    now[0] += 60
    clock.ended("key")
    assert clock.fault(finished(1.0)) == ""
