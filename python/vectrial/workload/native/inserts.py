"""Bulk loading through the native lane: slabs of batches, encoded before their clock starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vectrial._engine import LoadControl, Recorder
from vectrial.engine.types import LoadOutcome
from vectrial.model.dataset import Dataset
from vectrial.model.phase import Phase
from vectrial.model.placement import Certificate
from vectrial.model.progress import Progress
from vectrial.model.schema import Schema
from vectrial.model.store import NativeRows
from vectrial.workload.ingest import add_batches, load_phase
from vectrial.workload.native.rows import columns_of, send

#: Most bytes of encoded requests held at once, in all slabs together.
SLAB_BYTES = 256 << 20
#: A component of a vector in the wordiest wire, JSON; its bytes elsewhere are 4.
_COMPONENT_BYTES = 12
#: Beside vector and metadata: id, names of columns, framing.
_ROW_BYTES = 200


def load(
    native: NativeRows,
    dataset: Dataset,
    schema: Schema,
    batch_rows: int,
    progress: Progress,
    certificate: Certificate,
    *,
    clients: int = 1,
    stop: int | None = None,
) -> Phase:
    """Insert rows 0 … stop in batches, by this many clients with one request each.

    Rows are encoded in slabs of bounded size. The clock stops between two slabs, while the next one
    is encoded, as in the other lanes while the next batch is cut. A batch is an error if it fails
    or the server refuses any of its rows; it is not sent again.

    Returns:
        The phase `load`, see `ingest.load_phase`; not valid if any row was not taken.
    """
    stop = dataset.rows if stop is None else stop
    placement = certificate.placement
    seen = _SlabTotals(load_1m=os.getloadavg()[0])
    for first, last in slabs(dataset, batch_rows, clients, stop):
        metadata = None
        if dataset.metadata is not None:
            metadata = dataset.metadata.slice(first, last - first)
        outcome = send(
            native,
            "insert",
            dataset.ids[first:last],
            dataset.vectors[first:last],
            columns_of(metadata, native.columns, [one.name for one in schema.fields]),
            batch=batch_rows,
            clients=clients,
            placement=placement,
            progress=_progress_callback(progress, first, batch_rows, stop),
        )
        seen.add(outcome)
        if seen.errors:
            break
    return seen.phase(stop, schema.dim, batch_rows, clients, certificate)


def slabs(dataset: Dataset, batch_rows: int, clients: int, stop: int) -> Iterator[tuple[int, int]]:
    """First row and end of each slab: a multiple of one round of batches, and at least one
    round."""
    metadata = 0
    if dataset.metadata is not None and dataset.rows:
        metadata = dataset.metadata.nbytes // dataset.rows
    row_bytes = dataset.dim * _COMPONENT_BYTES + 2 * metadata + _ROW_BYTES
    around = batch_rows * clients
    rows = max(1, SLAB_BYTES // (row_bytes * around)) * around
    for first in range(0, stop, rows):
        yield first, min(first + rows, stop)


def _progress_callback(
    progress: Progress, first: int, batch_rows: int, stop: int
) -> Callable[[LoadControl], None]:
    def tell(control: LoadControl) -> None:
        _, _, answered, _ = control.progress()
        progress(min(first + answered * batch_rows, stop), stop, "loading")

    return tell


@dataclass
class _SlabTotals:
    """Combined observations of the slabs of a load. whole: the record of all slabs, as if each had
    begun with the first."""

    load_1m: float
    whole: Recorder = field(default_factory=Recorder)
    started_ns: int = 0
    ended_ns: int = 0
    spent_ns: int = 0
    cpu_ns: int = 0
    rows: int = 0
    unanswered: int = 0
    reconnects: int = 0
    windows: dict[str, list[float | int | None]] = field(default_factory=dict)

    @property
    def errors(self) -> int:
        """Number of batches that failed, or were not answered."""
        return sum(count for _, count, _ in self.whole.errors()) + self.unanswered

    def add(self, outcome: LoadOutcome) -> None:
        (record,) = outcome["classes"]
        recorder = record["recorder"]
        self._add_windows(recorder.windows())
        self.started_ns = self.started_ns or outcome["started_ns"]
        recorder.shift(self.started_ns - outcome["started_ns"])
        self.whole.merge(recorder)
        self.ended_ns = outcome["ended_ns"]
        self.spent_ns += outcome["ended_ns"] - outcome["started_ns"]
        self.cpu_ns += outcome["cpu_ns"]
        self.reconnects += outcome["reconnects"]
        self.rows += record["rows"]
        self.unanswered += record["in_flight"]

    def _add_windows(self, new: dict[str, list[float | int | None]]) -> None:
        """Append a slab's seconds to those of the slabs before it."""
        before = len(self.windows.get("second", ()))
        for name, values in new.items():
            moved: Sequence[Any] = values
            if name == "second":
                moved = [before + int(second or 0) for second in values]
            self.windows.setdefault(name, []).extend(moved)

    def phase(
        self, rows: int, dim: int, batch_rows: int, clients: int, certificate: Certificate
    ) -> Phase:
        phase = load_phase(
            self.started_ns,
            self.spent_ns / 1e9,
            taken=self.rows,
            dim=dim,
            batch_rows=batch_rows,
            clients=clients,
        )
        phase.paused_ns = self.ended_ns - self.started_ns - self.spent_ns
        seconds, threads = self.spent_ns / 1e9, min(certificate.placement.threads, clients)
        share = self.cpu_ns / 1e9 / seconds / threads if seconds else None
        add_batches(phase, self.whole)
        phase.windows["load"] = self.windows
        phase.metrics |= {
            "errors": float(self.errors),
            "reconnects": float(self.reconnects),
            "load_1m": self.load_1m,
            "cpu_s": self.cpu_ns / 1e9,
            "client_cpu_share": share,
        }
        if batches := phase.metrics["batches"]:
            phase.metrics["cpu_us_per_op"] = self.cpu_ns / 1e3 / batches
        if phase.errors:
            phase.histograms["error"] = self.whole.histogram("error")
        faults = []
        if self.rows != rows:
            what = "; ".join(f"{kind}: {said[0]}" for kind, _, said in phase.errors if said)
            faults.append(f"{self.rows:,} of {rows:,} rows were taken: {what or 'no answer came'}")
        limit = certificate.limits.cpu_share
        if share is not None and share > limit:
            phase.metrics["client_cpu_share"] = share
            bound = f"the client used {share:.0%} of its processor time, more than {limit:.0%}"
            faults.append(f"client-bound: {bound}")
        if faults:
            phase.valid, phase.reason = False, "; ".join(faults)
        return phase
