"""What a phase of the native lane is doing right now, for whoever looks on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from vectrial._engine import LoadControl
from vectrial.load.offered import Closed, Load

#: Seconds over which the client's share of its processors is taken.
_SHARE_S = 1.0


@dataclass(frozen=True)
class Live:
    """The last second of a phase, and how much of the phase is left.

    offered: arrivals a second that the schedule asks for; None in a closed loop.
    achieved: answers a second. p50_us, p99_us, recall: of them; None where there were none.
    errors: since the start of the phase.
    client_share: processor time of the measuring process over that of the client's threads.
    left_s: seconds to the end; None when it is past its least duration.
    """

    name: str
    offered: float | None
    achieved: float
    p50_us: float | None
    p99_us: float | None
    recall: float | None
    errors: int
    client_share: float
    left_s: float | None


def follower(
    load: Load,
    threads: int,
    name: str,
    progress: Callable[[float, float, str], None],
    show: Callable[[Live], None],
) -> Callable[[LoadControl], None]:
    """What `drive` calls a few times a second: it tells how far the run is, and what it does."""
    of_s = load.min_s if isinstance(load, Closed) else load.duration_s
    offered = None if isinstance(load, Closed) else load.rate
    share = _Share(threads)

    def follow(control: LoadControl) -> None:
        started_ns, _, _, errors = control.progress()
        if not started_ns:
            progress(0, 1, f"{name}: warming up")
            return
        elapsed_s = max(time.perf_counter_ns() - started_ns, 0) / 1e9
        progress(min(elapsed_s, of_s), of_s, name)
        (second,) = control.last_second(1)
        if second is not None:
            left_s = of_s - elapsed_s
            show(
                Live(
                    name=name,
                    offered=offered,
                    achieved=second["count"],
                    p50_us=second["p50_us"],
                    p99_us=second["p99_us"],
                    recall=second["recall"],
                    errors=errors,
                    client_share=share.now(),
                    left_s=left_s if left_s > 0 else None,
                )
            )

    return follow


class _Share:
    """This process's processor time over that of so many threads, of the last second or so."""

    def __init__(self, threads: int) -> None:
        self._threads, self._last = threads, 0.0
        self._at = (time.perf_counter(), time.process_time())

    def now(self) -> float:
        """The share, anew once a second."""
        at = (time.perf_counter(), time.process_time())
        if (passed := at[0] - self._at[0]) >= _SHARE_S:
            self._last = (at[1] - self._at[1]) / passed / self._threads
            self._at = at
        return self._last
