"""How soon a server that was started again is as it was."""

from __future__ import annotations

from vectrial.experiments.cold_start import _add_ratios
from vectrial.model.phase import Phase


def phase(name: str, p50_us: float, seconds: list[float | None]) -> Phase:
    window = {"second": list(range(len(seconds))), "p50_us": seconds}
    made = Phase(name, 0, 1, metrics={"latency_p50": p50_us})
    made.windows[name] = window
    return made


def test_it_is_steady_from_the_first_second_that_is_as_fast_as_before() -> None:
    cold = phase("cold", 150.0, [900.0, None, 300.0, 109.0, 100.0])
    _add_ratios(cold, phase("warm", 100.0, [100.0]))
    assert cold.metrics["steady_after_s"] == 3.0
    assert cold.metrics["p50_to_warm"] == 1.5


def test_one_that_never_is_says_so() -> None:
    cold = phase("cold", 300.0, [900.0, 300.0])
    _add_ratios(cold, phase("warm", 100.0, [100.0]))
    assert "steady_after_s" not in cold.metrics
    assert cold.missing["steady_after_s"]
