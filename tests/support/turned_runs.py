"""Runs whose stores took turns, with ratios that a test asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from compared_runs import Made

from vectrial._engine import Recorder
from vectrial.model.phase import Phase, Role, Slice, Turn

MS = 1_000_000


@cache
def histogram(mean_us: int, nth: int) -> bytes:
    """Latencies around a mean."""
    recorder = Recorder()
    recorder.start(0)
    rng = np.random.default_rng([mean_us, nth])
    for latency in rng.lognormal(np.log(mean_us), 0.2, 400).tolist():
        recorder.operation(0, 0, int(latency * 1000))
    return recorder.histogram("latency")


def turned(
    rates: Mapping[str, float],
    *,
    loads: Sequence[float] = (0.0,),
    rounds: int = 60,
    noise: float = 0.02,
    shared: float = 0.3,
    session: int | None = None,
    recalls: Sequence[float] = (0.97,),
    waits: float | None = None,
    side_by_side: float = 1.0,
) -> Made:
    """A run of stores, each with this rate.

    Args:
        loads: how far the rates of a load lie off, as logarithms, in turn added to one store and
            taken from the next. noise: of a slice; shared: of a round, which all stores meet alike.
        session: of each store another one, from this on; None: all the same.
        waits: as a share of a slice at most, for a processor, in which nothing is answered; None:
            nobody told. side_by_side: threads that have work at once.
        recalls: of the operating points, each half as fast as the one before.
    """
    made, rng = Made(), np.random.default_rng(7)
    for repeat, off in enumerate(loads, 1):
        pace = shared * rng.standard_normal(rounds)
        for at, (store, rate) in enumerate(rates.items()):
            for ef, recall in enumerate(recalls, 1):
                logs = pace + noise * rng.standard_normal(rounds) + off * (-1) ** at
                speeds = rate / 2 ** (ef - 1) * np.exp(logs)
                waited = np.zeros(rounds) if waits is None else waits * rng.random(rounds)
                speeds *= 1 - waited
                slices = tuple(
                    Slice(
                        Turn(number, at, 50 * MS, 1 if session is None else session + at),
                        number * 100 * MS, 0.045, max(1, round(0.045 * speed)), 0,
                        histogram(int(1e6 / rate), number), 0.005, round(0.005 * speed), recall,
                        0.1, 0.0,
                        *((None, None) if waits is None else (
                            0.045 * (1 - lost) * side_by_side, 0.045 * lost,
                        )),
                    )
                    for number, (speed, lost) in enumerate(
                        zip(speeds.tolist(), waited.tolist(), strict=True)
                    )
                )  # fmt: skip
                count = sum(one.count for one in slices)
                metrics = {
                    "count": count, "qps": count / (0.045 * rounds), "recall_mean": recall,
                    "latency_p50": 1e6 / rate, "latency_p99": 2e6 / rate,
                }  # fmt: skip
                params = {"loop": "closed", "clients": 1, "ef_search": 10 * ef, "k": 10}
                ended_ns = round(0.045 * rounds * 1e9)
                phase = Phase("search", 0, ended_ns, params, dict(metrics), role=Role.SEARCH)
                phase.slices = slices
                made.trial(store, repeat=repeat, before=[phase], params={"ef_search": 10 * ef})
    return made
