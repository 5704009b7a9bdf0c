"""Operations timed one at a time: create, read, update, delete, find."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from vectrial._engine import Recorder
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.workload.python.threads import PROGRESS_S
from vectrial.workload.python.timed import call_timed, record_operation
from vectrial.workload.record import PhaseStart, phase_of

T = TypeVar("T")


def timed_operations(
    name: str,
    operation: Callable[[int], T],
    count: int,
    *,
    max_s: float | None = None,
    progress: Progress | None = None,
) -> tuple[Phase, list[T | None]]:
    """Call `operation(0)`, `operation(1)`, … one after the other, each call timed.

    Prepare what a call needs beforehand, and check its effect afterwards with its result, so that
    nothing else happens between two operations.

    Args:
        count: number of operations; none is begun `max_s` seconds after the start or later.
        progress: called with (done, of, name) every half second, between two operations.

    Returns:
        The phase, and the result of each call: None for failed calls, whose errors are in the
            phase. Shorter than `count` if `max_s` ended it.
    """
    recorder, results = Recorder(), list[T | None]()
    phase_start = PhaseStart.now()
    done = phase_start.started_ns
    recorder.start(done)
    stop = done + int(max_s * 1e9) if max_s is not None else 1 << 62
    reported = done
    for i in range(count):
        sample = call_timed(operation, i)
        record_operation(recorder, sample)
        results.append(sample.result)
        done = sample.done_ns
        if done >= stop:
            break
        if progress is not None and done - reported >= PROGRESS_S * 1e9:
            reported = done
            progress(i + 1, count, name)
    cpu_ns = time.process_time_ns()
    phase = phase_of(
        name,
        recorder,
        phase_start,
        ended_ns=done,
        cpu_ns=cpu_ns,
        issued=len(results),
        clients=1,
        params={"loop": "closed", "clients": 1},
        no_recall="an operation has no answer to judge",
    )
    return phase, results
