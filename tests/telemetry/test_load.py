"""How busy the machine is."""

from __future__ import annotations

import multiprocessing
import time

import pytest

from vectrial.telemetry import load


def burn(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_competitors_for_every_processor_slow_work_down() -> None:
    context = multiprocessing.get_context("spawn")
    rivals = [context.Process(target=burn, args=(20.0,)) for _ in range(3 * load._processors())]
    for rival in rivals:
        rival.start()
    try:
        deadline = time.monotonic() + 20
        while (found := load.slowdown(0.3)) < 2 and time.monotonic() < deadline:
            pass
    finally:
        for rival in rivals:
            rival.terminate()
            rival.join()
    assert 2 <= found <= 20


def test_a_machine_without_time_for_us_is_not_infinitely_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "_computed", lambda seconds: (seconds, 0.0))
    assert load.slowdown(0.1) == 20
    monkeypatch.setattr(load, "_computed", lambda seconds: (seconds, 2 * seconds))
    assert load.slowdown(0.1) == 1
