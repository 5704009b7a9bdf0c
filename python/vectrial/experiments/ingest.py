"""Loading: how fast rows are taken, made durable, indexed, and found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, field_validator

from vectrial._engine import Recorder
from vectrial.errors import Unsupported
from vectrial.experiments.base import Context, Experiment, Phase, State, search_params
from vectrial.load import bulk
from vectrial.stores.base import Index, Store


class Ingest(Experiment):
    """Load growing parts of the dataset, each into an empty store.

    checkpoints: fractions of the rows (at most 1), or numbers of rows; all rows are loaded in any
        case, and a number beyond them is the same as all.
    probes: rows at the end that are inserted one by one, each searched for until found.
    probe_limit_s: probing stops after so long.
    """

    name: ClassVar[str] = "ingest"
    title: ClassVar[str] = "Loading and indexing"
    starts_from: ClassVar[State] = State.EMPTY
    axes: ClassVar[frozenset[str]] = frozenset({"checkpoints"})

    checkpoints: tuple[int | float, ...] = (0.25, 0.5, 1.0)
    probes: int = Field(default=20, ge=0, le=1000)
    probe_limit_s: float = Field(default=5.0, gt=0)

    @field_validator("checkpoints")
    @classmethod
    def _sizes(cls, value: tuple[int | float, ...]) -> tuple[int | float, ...]:
        if not value or min(value) <= 0:
            raise ValueError("expected fractions of the rows, or numbers of rows, above 0")
        if any(isinstance(size, float) and size > 1 for size in value):
            raise ValueError("a fraction is at most 1, a number of rows is whole")
        return value

    def points(self, store: type[Store], index: Index, rows: int) -> list[dict[str, Any]]:
        if rows <= self.probes:
            raise Unsupported(f"{rows} rows are all probes: set fewer `probes` than rows")
        sizes = {min(rows, round(c * rows) if c <= 1 else int(c)) for c in self.checkpoints}
        return [{"rows": size} for size in sorted(sizes | {rows}) if size > self.probes]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        store, dataset = context.store, context.dataset
        store.create(context.schema, context.index)
        bulk_rows = dataset.rows - self.probes
        load = bulk.load(
            store, dataset, context.schema, context.batch_rows, context.progress, stop=bulk_rows
        )
        yield _load_phase(load, bulk_rows, dataset.dim)
        yield self._freshness(context, bulk_rows)
        steps = bulk.finish(store, context.progress)
        for step in steps:
            phase = Phase(step.name, step.started_ns, step.ended_ns)
            phase.metrics[f"{step.name}_s"] = step.seconds
            if step.name == "wait" and step.note:
                phase.params = {"known_by": step.note}
            yield phase
        ready_s = load.seconds + sum(step.seconds for step in steps)
        total = Phase("ingest", load.started_ns, steps[-1].ended_ns)
        total.metrics |= {
            "load_s": load.seconds,
            **{f"{step.name}_s": step.seconds for step in steps},
            "ready_s": ready_s,
            "ready_rows_per_s": bulk_rows / ready_s,
            "count": float(store.count()),
        }
        yield total

    def _freshness(self, context: Context, first: int) -> Phase:
        """Insert the last rows one by one; each is searched for until an answer has it."""
        phase = Phase("freshness", perf_counter_ns(), perf_counter_ns())
        recorder = Recorder()
        recorder.start(phase.started_ns)
        lost = None
        for row in range(first, context.dataset.rows):
            if lost is not None or _seconds_since(phase.started_ns) > self.probe_limit_s:
                self._insert_rest(context, row)
                break
            lost = self._probe(context, row, recorder)
        phase.ended_ns = perf_counter_ns()
        recorder.finish(phase.ended_ns)
        count = int(recorder.summary()["count"] or 0)
        phase.metrics["count"] = float(count)
        if count and lost is None:
            phase.metrics["time_to_searchable"] = recorder.summary()["latency_p50"]
            phase.histograms["latency"] = recorder.histogram("latency")
        else:
            phase.missing["time_to_searchable"] = lost or "no row was probed"
        return phase

    def _probe(self, context: Context, row: int, recorder: Recorder) -> str | None:
        """Time from acknowledged to found; a reason when the row is not to be found."""
        dataset, store = context.dataset, context.store
        store.insert(bulk.batch(dataset, context.schema, np.array([row])))
        acknowledged = perf_counter_ns()
        vector, wanted = dataset.vectors[row], int(dataset.ids[row])
        while True:
            try:
                found, _ = store.searcher(context.k, search_params(context, {}))(vector)
            except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
                return f"not searchable before the index is built: {error}"
            now = perf_counter_ns()
            if wanted in found:
                recorder.operation(acknowledged, acknowledged, now)
                return None
            if _seconds_since(acknowledged) > self.probe_limit_s:
                return f"a row was not found within {self.probe_limit_s:g} s of its insert"

    @staticmethod
    def _insert_rest(context: Context, row: int) -> None:
        rest = np.arange(row, context.dataset.rows)
        context.store.insert(bulk.batch(context.dataset, context.schema, rest))

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """A graph index takes some 60 µs per row and 100 components on one core."""
        return 0.5 + rows * (20e-6 + dim * 0.6e-6)


def _load_phase(step: bulk.Step, rows: int, dim: int) -> Phase:
    phase = Phase("load", step.started_ns, step.ended_ns)
    phase.metrics |= {
        "load_s": step.seconds,
        "count": float(rows),
        "rows_per_s": rows / step.seconds,
        "mb_per_s": rows * dim * 4 / 1e6 / step.seconds,
    }
    return phase


def _seconds_since(at_ns: int) -> float:
    return (perf_counter_ns() - at_ns) / 1e9
