"""The loss of a node at a set time of a load, and its return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter_ns, sleep

from vectrial.model.errors import Unsupported
from vectrial.model.faults import Fault, Struck

_POLL_S = 0.02


class Loss:
    """Makes the fault and ends it, in a thread of its own, at set times of the load.

    Args:
        strike: see `Context`. number: the node's number, from 0.
        at_s: seconds from the start of the load until the loss; lost_s: from then until its end.
    """

    def __init__(
        self,
        strike: Callable[[int, Fault, bool], Struck],
        number: int,
        fault: Fault,
        at_s: float,
        lost_s: float,
    ) -> None:
        self._strike, self._number, self._fault = strike, number, fault
        self._after_ns = (int(at_s * 1e9), int((at_s + lost_s) * 1e9))
        self._done: list[Struck] = []
        self._failure: Exception | None = None
        self._halt = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, started_ns: int) -> None:
        """Start the schedule of the fault at the start of the load; later calls change nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, args=(started_ns,), daemon=True)
            self._thread.start()

    def _work(self, started_ns: int) -> None:
        try:
            for back, after_ns in zip((False, True), self._after_ns, strict=True):
                while perf_counter_ns() < started_ns + after_ns and not self._halt.is_set():
                    sleep(_POLL_S)
                if self._halt.is_set():
                    return
                self._done.append(self._strike(self._number, self._fault, back))
        except Exception as failure:  # noqa: BLE001 - raised where the load is waited for
            self._failure = failure

    def end(self) -> tuple[Struck, Struck]:
        """Wait until loss and return are done; if the load has ended earlier, end the fault now.

        Raises:
            Unsupported: the fault cannot be made. RuntimeError: the load ended before the loss.
        """
        self._halt.set()
        if self._thread is not None:
            self._thread.join()
        if len(self._done) == 1:
            with suppress(Unsupported):
                self._done.append(self._strike(self._number, self._fault, True))
        if self._failure is not None:
            raise self._failure
        if len(self._done) < 2:
            raise RuntimeError("the load ended before the node was lost")
        lost, back = self._done
        return lost, back
