"""What indexes on metadata cost when loading."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pydantic import Field

from vectrial.document.sheet import STEPS, Sheet, metric
from vectrial.experiments.base import Experiment, Target
from vectrial.experiments.common import generated_columns
from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.phase import Phase
from vectrial.model.store import FieldType

if TYPE_CHECKING:
    from vectrial.analysis.analysis import Facet
    from vectrial.analysis.run_data import RunData

#: What is compared: what of → (the arm with it, the arm without it).
_PAIRS = {"indexes": ("on", "off"), "columns": ("off", "none"), "both": ("fixed", "none")}


def _overheads(run: RunData, facet: Facet) -> list[str]:
    """What columns and indexes cost each store, in words."""
    said = []
    for point in run.select("scalar_index_overhead", "overhead"):
        if (point.dataset, point.rows) != (facet.dataset, facet.rows):
            continue
        load, ready = point.spread("load_overhead"), point.spread("ready_overhead")
        if load is not None and ready is not None:
            what = {"indexes": "indexes", "columns": "columns without indexes"}.get(
                str(point.params["of"]), "columns, as it indexes them"
            )
            said.append(
                f"{run.labels[point.series]}: {what} change the load by {load.median:+.1%}"
                f" and the time until ready by {ready.median:+.1%}."
            )
    return said


_SHEET = Sheet(
    "What indexes on metadata cost when loading",
    "The same rows in the same batches: without columns (none), with columns and no index on "
    "them (off), with all of them indexed (on), or as the store alone decides (fixed).",
    ("arm",),
    (("payload_index", "Index"), ("fields", "Columns")),
    (
        *STEPS,
        metric("ready_s", "together", "s", "Seconds"),
        metric("rows_per_s", "Rows/s", "1/s"),
    ),
    notes=_overheads,
)


class ScalarIndexOverhead(Experiment):
    """The same rows in the same batches into empty stores: without metadata, with generated
    columns that are not indexed, and with the same columns indexed. Arms take turns, in the
    opposite order every other time. A store that lets nobody choose has two arms.

    fields: columns. rounds: times that every arm is loaded.
    rows: at most so many; all when not given.
    """

    name: ClassVar[str] = "scalar_index_overhead"
    title: ClassVar[str] = "Cost of metadata indexes"
    place: ClassVar[int] = 25
    terms: ClassVar[Mapping[str, str]] = {
        "payload_index": "payload index",
        "fields": "columns",
        "of": "of",
    }
    sheet: ClassVar[Sheet | None] = _SHEET

    fields: int = Field(default=24, ge=1, le=100)
    rounds: int = Field(default=1, ge=1, le=20)
    rows: int | None = Field(default=None, gt=0)

    @classmethod
    def writes(cls) -> bool:
        """Every figure is of a load beside."""
        return True

    def points(self, target: Target) -> list[dict[str, Any]]:
        if not target.can.field_types:
            raise Unsupported(f"{target.name} keeps no metadata")
        return [{} if self.rows is None else {"rows": min(target.data.rows, self.rows)}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        can = context.store.capabilities.under(context.index.kind)
        arms = ("none", "off", "on") if can.payload_index else ("none", "fixed")
        seen: dict[str, list[Phase]] = defaultdict(list)
        started = perf_counter_ns()
        for turn in range(self.rounds):
            for arm in arms if (context.seed + turn) % 2 else reversed(arms):
                phase = self._load(context, arm, can.field_types)
                seen[arm].append(phase)
                yield phase
        for what, (with_it, without) in _PAIRS.items():
            if with_it in seen and without in seen:
                phase = self._overhead(what, seen[with_it], seen[without], started)
                phase.params = {**phase.params, "batch_rows": context.batch_rows}
                yield phase

    def _load(self, context: Context, arm: str, types: frozenset[FieldType]) -> Phase:
        rows = context.dataset.rows
        table = (
            pa.table({}) if arm == "none" else generated_columns.columns(rows, self.fields, types)
        )
        dataset = generated_columns.with_columns(context.dataset, table)
        schema = generated_columns.schema_of(context, table, indexed=arm != "off")
        started = perf_counter_ns()
        with context.beside(f"overhead-{arm}") as store:
            load, steps = generated_columns.fill(context, store, dataset, schema)
            count = store.count()
        phase = Phase("arm", started, perf_counter_ns())
        phase.params = {
            "payload_index": arm,
            "fields": len(schema.fields),
            "batch_rows": context.batch_rows,
        }
        ready = sum(step.seconds for step in steps)
        phase.metrics |= {f"{step.name}_s": step.seconds for step in steps}
        phase.metrics |= {
            "ready_s": ready,
            "rows_per_s": rows / steps[0].seconds,
            "ready_rows_per_s": rows / ready,
            "count": float(count),
            "batches": load.metrics["batches"],
        }
        if count != rows:
            phase.valid, phase.reason = False, f"the store counts {count} rows, {rows} were loaded"
        return phase

    def _overhead(
        self,
        what: str,
        with_it: list[Phase],
        without: list[Phase],
        started_ns: int,
    ) -> Phase:
        phase = Phase("overhead", started_ns, perf_counter_ns())
        phase.params = {"of": what, "fields": self.fields}
        for step, name in (("load_s", "load_overhead"), ("ready_s", "ready_overhead")):
            more, less = (median(p.metrics[step] or 0.0 for p in arm) for arm in (with_it, without))
            phase.metrics[name] = more / less - 1
        batches = {one.metrics["batches"] for one in (*with_it, *without)}
        if len(batches) > 1:
            phase.valid, phase.reason = False, "the arms were not loaded in the same batches"
        wrong = [one for one in (*with_it, *without) if not one.valid]
        if wrong:
            arms = "; ".join(f"'{one.params['payload_index']}': {one.reason}" for one in wrong)
            phase.valid, phase.reason = False, f"it rests on loads that are not valid: {arms}"
        return phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Three loads a round, with columns."""
        return self.rounds * 3 * rows * (20e-6 + self.fields * 4e-6 + dim * 0.6e-6)
