"""Loads of the same rows without columns, with them, and with them indexed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from time import perf_counter_ns

import pyarrow as pa

from vectrial.experiments.common import generated_columns
from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.phase import Phase
from vectrial.model.schema import FieldType, Schema
from vectrial.workload import ingest

#: Subject of a comparison → (the arm with it, the arm without it).
PAIRS = {"indexes": ("on", "off"), "columns": ("off", "none"), "both": ("fixed", "none")}


def own_columns(schema: Schema, types: Iterable[FieldType], count: int) -> list[str]:
    """Names of the dataset's first `count` columns that a store of these types can hold.

    Raises:
        Unsupported: there are fewer.
    """
    can = set(types)
    names = [field.name for field in schema.fields if field.type in can]
    if len(names) < count:
        raise Unsupported(
            f"{count} columns of the dataset are asked for, and the store holds {len(names)} of its"
            f" {len(schema.fields)}"
        )
    return names[:count]


def load_arm(context: Context, arm_name: str, columns: pa.Table) -> Phase:
    """The phase "arm": the context's rows with these columns, loaded into a separate empty store
    until they are ready.

    arm_name: "none", "off", "on" or "fixed".
    """
    rows = context.dataset.rows
    table = pa.table({}) if arm_name == "none" else columns
    dataset = generated_columns.with_columns(context.dataset, table)
    schema = generated_columns.schema_of(context, table, indexed=arm_name != "off")
    started = perf_counter_ns()
    with context.second_store(f"payload-{arm_name}") as store:
        load, steps = generated_columns.load_collection(context, store, dataset, schema)
        count = store.count()
    phase = Phase("arm", started, perf_counter_ns())
    phase.params = {
        "payload_index": arm_name,
        "fields": len(schema.fields),
        "batch_rows": context.batch_rows,
    }
    times = ingest.load_times(load, steps)
    phase.metrics |= {
        **times,
        "rows_per_s": rows / times["load_s"],
        "ready_rows_per_s": rows / times["ready_s"],
        "count": float(count),
        "batches": load.metrics["batches"],
    }
    if count != rows:
        phase.invalidate(f"the store counts {count} rows, {rows} were loaded")
    return phase


def overhead_phase(
    pair: str, larger_arms: Sequence[Phase], smaller_arms: Sequence[Phase], started_ns: int
) -> Phase:
    """The phase "overhead": the median times of the larger arms over those of the smaller arms,
    minus 1.

    pair: a key of `PAIRS`.
    """
    phase = Phase("overhead", started_ns, perf_counter_ns())
    phase.params = {"of": pair}
    for metric, name in (("load_s", "load_overhead"), ("ready_s", "ready_overhead")):
        with_it, without = (
            median(p.metrics[metric] or 0.0 for p in arm) for arm in (larger_arms, smaller_arms)
        )
        phase.metrics[name] = with_it / without - 1
    arms = (*larger_arms, *smaller_arms)
    wrong = [one for one in arms if not one.valid]
    if wrong:
        reasons = "; ".join(f"'{one.params['payload_index']}': {one.reason}" for one in wrong)
        phase.invalidate(f"it depends on loads that are not valid: {reasons}")
    if len({one.metrics["batches"] for one in arms}) > 1:
        phase.invalidate("the arms were not loaded in the same batches")
    return phase
