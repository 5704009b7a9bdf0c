"""From a recorder to a phase: every figure of the same requests, and the self-check."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vectrial._engine import Recorder
from vectrial.experiments.base import Phase

#: The greatest share of failed operations at which a phase still counts as measured.
ERROR_SHARE = 0.001
#: Rounding that qps × mean latency / clients may exceed 1 by. Every sample lies within the
#: phase, so that anything more is a fault of the harness.
LITTLE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Outset:
    """The state of process and machine when a phase begins."""

    started_ns: int
    cpu_ns: int
    load_1m: float

    @staticmethod
    def now() -> Outset:
        """Taken right before the first request; its clock is `time.perf_counter_ns`."""
        load_1m = os.getloadavg()[0]
        return Outset(cpu_ns=time.process_time_ns(), load_1m=load_1m, started_ns=_clock())


_clock = time.perf_counter_ns


def phase_of(
    name: str,
    recorder: Recorder,
    outset: Outset,
    *,
    ended_ns: int,
    cpu_ns: int,
    issued: int,
    clients: int,
    params: Mapping[str, Any],
    no_recall: str,
) -> Phase:
    """The phase that a finished recorder describes, checked against itself.

    Args:
        recorder: of all clients, started at `outset`, not yet finished.
        ended_ns: when the last operation was done.
        cpu_ns: `time.process_time_ns` right after it, before anything is merged or summed up.
        issued: operations sent, counted apart from the recorder.
        clients: operations in flight at most.
        no_recall: why recall may be missing, for the reader.
    """
    recorder.finish(ended_ns)
    cpu_s = (cpu_ns - outset.cpu_ns) / 1e9
    seen = recorder.summary()
    metrics: dict[str, float | None] = dict(seen)
    count, errors = int(seen["count"] or 0), int(seen["errors"] or 0)
    qps, mean_us = seen["qps"], seen["latency_mean"]
    little = None if qps is None or mean_us is None else qps * mean_us / 1e6 / clients
    metrics |= {
        "concurrency": clients,
        "littles_law": little,
        "cpu_s": cpu_s,
        "cpu_us_per_op": cpu_s * 1e6 / count if count else None,
        "load_1m": outset.load_1m,
    }
    reason = _fault(count, errors, issued, little)
    histograms = {"latency": recorder.histogram("latency")} if count else {}
    if errors:
        histograms["error"] = recorder.histogram("error")
    return Phase(
        name=name,
        started_ns=outset.started_ns,
        ended_ns=ended_ns,
        params=params,
        metrics=metrics,
        missing=_missing(metrics, count, no_recall),
        histograms=histograms,
        windows={name: recorder.windows()},
        errors=recorder.errors(),
        valid=reason is None,
        reason=reason,
    )


def _missing(metrics: Mapping[str, float | None], count: int, no_recall: str) -> dict[str, str]:
    of_answers = ("recall_mean", "recall_p05", "recall_min", "short_answers", "duplicate_answers")
    nothing = "no operation succeeded"
    return {
        name: no_recall if count and name in of_answers else nothing
        for name, value in metrics.items()
        if value is None
    }


def _fault(count: int, errors: int, issued: int, little: float | None) -> str | None:
    """What is wrong with a phase, or None."""
    faults = []
    if count + errors != issued:
        faults.append(f"{issued} operations were sent, but {count} + {errors} errors recorded")
    if errors and not count:
        faults.append(f"all {errors} operations failed")
    elif not count:
        faults.append("nothing was measured")
    elif errors > ERROR_SHARE * (count + errors):
        share = errors / (count + errors)
        faults.append(
            f"{errors} of {count + errors} operations failed: {share:.2%}, more than"
            f" {ERROR_SHARE:.1%}"
        )
    if little is not None and little > 1 + LITTLE_TOLERANCE:
        faults.append(f"qps × mean latency is {little:.4f} of the clients: more than can be")
    return "; ".join(faults) or None
