"""The loss of a node at a set time of a load, its return, and what each node has in the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from time import perf_counter_ns, sleep

import numpy as np
from numpy.typing import NDArray

from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.faults import Fault, FaultEvent
from vectrial.model.store import Store
from vectrial.workload.python.sdk_process import opening_of
from vectrial.workload.python.timed import describe

_POLL_S, _SETTLE_POLL_S = 0.02, 0.5
#: Rows of a read.
_IDS = 1_000


class FaultSchedule:
    """Makes the fault and ends it, in a thread of its own, at set times of the load.

    Args:
        strike: see `Context`. number: the node's number, from 0.
        at_s: seconds from the start of the load until the loss; lost_s: from then until its end.
    """

    def __init__(
        self,
        strike: Callable[[int, Fault, bool], FaultEvent],
        number: int,
        fault: Fault,
        at_s: float,
        lost_s: float,
    ) -> None:
        self._strike, self._number, self._fault = strike, number, fault
        self._after_ns = (int(at_s * 1e9), int((at_s + lost_s) * 1e9))
        self._done: list[FaultEvent] = []
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

    def end(self) -> tuple[FaultEvent, FaultEvent]:
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


@dataclass(frozen=True)
class Writes:
    """Outcome of the writes. inserted, deleted: ids whose write was acknowledged. least, most: rows
    that there may be, given the writes of which nobody knows."""

    inserted: NDArray[np.int64]
    deleted: NDArray[np.int64]
    least: int
    most: int


@dataclass(frozen=True)
class Aftermath:
    """The rows of the nodes after a fault. missing, returned: largest number of rows of any node.
    counts: number of rows of each node."""

    missing: int
    returned: int
    counts: tuple[int, ...]

    @property
    def spread(self) -> int:
        """Difference between the greatest and the least count of a node."""
        return max(self.counts) - min(self.counts)

    def settled(self, writes: Writes) -> bool:
        """True if every node has every acknowledged write, and all agree on a possible count."""
        whole = not (self.missing or self.returned or self.spread)
        return whole and writes.least <= self.counts[0] <= writes.most


def query_nodes(context: Context, writes: Writes) -> Aftermath:
    """Query every node. Exceptions of a store propagate."""
    assert context.address is not None
    opening = opening_of(context)
    missing, returned, counts = [], [], []
    for node in range(len(context.address.nodes)):
        with closing(opening.open(node)) as store:
            store.refresh()
            counts.append(store.count())
            missing.append(len(writes.inserted) - _count_present(store, writes.inserted))
            returned.append(_count_present(store, writes.deleted))
    return Aftermath(max(missing), max(returned), tuple(counts))


def _count_present(store: Store, ids: NDArray[np.int64]) -> int:
    """Number of these rows that the store has."""
    parts = np.array_split(ids, max(1, -(-len(ids) // _IDS)))
    return sum(store.get(part).num_rows for part in parts if len(part))


def wait_settled(
    context: Context, writes: Writes, patience_s: float
) -> tuple[Aftermath | None, str]:
    """Query the nodes until they have settled, or until `patience_s` is over.

    Returns:
        The last answer; None if a node did not answer, with the reason.
    """
    ends, last, why = time.monotonic() + patience_s, None, ""
    while True:
        try:
            last, why = query_nodes(context, writes), ""
        except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
            last, why = None, ": ".join(describe(error))
        if (last is not None and last.settled(writes)) or time.monotonic() > ends:
            return last, why
        context.progress(0, 1, "waiting until the nodes agree")
        time.sleep(_SETTLE_POLL_S)
