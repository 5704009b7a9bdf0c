"""What each node of a cluster has in the end, of what was acknowledged."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vectrial.model.context import Context
from vectrial.model.store import Store
from vectrial.workload.python.sdk_process import opening_of
from vectrial.workload.python.timed import describe

_POLL_S = 0.5
_IDS = 1_000


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
    """What the nodes have. missing, returned: rows, the most of any node. counts: of each node."""

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


def look(context: Context, writes: Writes) -> Aftermath:
    """Query every node. Exceptions of a store propagate."""
    assert context.address is not None
    opening = opening_of(context)
    missing, returned, counts = [], [], []
    for node in range(len(context.address.nodes)):
        with closing(opening.open(node)) as store:
            store.refresh()
            counts.append(store.count())
            missing.append(len(writes.inserted) - _there(store, writes.inserted))
            returned.append(_there(store, writes.deleted))
    return Aftermath(max(missing), max(returned), tuple(counts))


def _there(store: Store, ids: NDArray[np.int64]) -> int:
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
            last, why = look(context, writes), ""
        except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
            last, why = None, ": ".join(describe(error))
        if (last is not None and last.settled(writes)) or time.monotonic() > ends:
            return last, why
        context.progress(0, 1, "waiting until the nodes agree")
        time.sleep(_POLL_S)
