"""Live view of a phase of the native lane."""

from __future__ import annotations

import time
from collections.abc import Callable

from vectrial._engine import LoadControl
from vectrial.engine.types import LoadWindow
from vectrial.model.phase import Live
from vectrial.model.progress import Progress
from vectrial.model.workload import ClosedLoop, Load
from vectrial.stats.quantiles import QUANTILES

#: Seconds over which processor time is taken.
_SHARE_S = 1.0


def progress_callback(
    load: Load,
    threads: int,
    name: str,
    progress: Progress,
    show: Callable[[Live], None],
    until: Callable[[], bool] | None = None,
) -> Callable[[LoadControl], None]:
    """Callback that `drive` calls a few times a second: it reports progress and state of a run, and
    ends the run when `until` says so."""
    of_s = load.min_s if isinstance(load, ClosedLoop) else load.duration_s
    offered = None if isinstance(load, ClosedLoop) else load.rate
    busy = BusyCores(time.process_time)

    def follow(control: LoadControl) -> None:
        started_ns, _, _, errors = control.progress()
        if not started_ns:
            progress(0, 1, f"{name}: warming up")
            return
        if until is not None and until():
            control.cancel()
        elapsed_s = max(time.perf_counter_ns() - started_ns, 0) / 1e9
        progress(min(elapsed_s, of_s), of_s, name)
        (second,) = control.last_second(1)
        if second is not None:
            remaining_s = of_s - elapsed_s
            show(
                Live(
                    name=name,
                    offered=offered,
                    achieved=second["count"],
                    p50_us=_window_percentile(second, "p50"),
                    p99_us=_window_percentile(second, "p99"),
                    recall=second["recall"],
                    errors=errors,
                    client_share=(busy.cores() or 0.0) / threads,
                    remaining_s=remaining_s if remaining_s > 0 else None,
                )
            )

    return follow


def _window_percentile(second: LoadWindow, name: str) -> float | None:
    """A percentile of the answers in a second, in microseconds; None if there are too few."""
    if QUANTILES[f"latency_{name}"].why_unsupported(second["count"]):
        return None
    return second["p50_us"] if name == "p50" else second["p99_us"]


class BusyCores:
    """Number of processors that a process kept busy in the last second or so.

    Args:
        cpu_s: its processor time so far; None if unknown.
    """

    def __init__(self, cpu_s: Callable[[], float | None]) -> None:
        self._cpu_s = cpu_s
        self._last: float | None = None
        self._at = (time.perf_counter(), cpu_s())

    def cores(self) -> float | None:
        """Busy cores, updated once a second; None before the first update or if unknown."""
        now = time.perf_counter()
        before, used = self._at
        if now - before >= _SHARE_S:
            total = self._cpu_s()
            self._at = (now, total)
            self._last = None
            if used is not None and total is not None:
                self._last = (total - used) / (now - before)
        return self._last
