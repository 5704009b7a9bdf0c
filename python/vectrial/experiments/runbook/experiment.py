"""Recall, speed and size of a collection whose rows are inserted, deleted and replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from vectrial.datasets.exact import exact_topk
from vectrial.experiments.base import Experiment, Target, Values, search_points
from vectrial.model.context import Context, Data
from vectrial.model.dataset import Dataset, Truth
from vectrial.model.errors import Unsupported, UserError
from vectrial.model.filters import Filters
from vectrial.model.inputs import Clients, PositiveSeconds, Seconds, Warmup
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.model.schema import Schema
from vectrial.model.workload import ClosedLoop
from vectrial.stores.common.arrow import batch_of
from vectrial.telemetry.disk import allocated_bytes
from vectrial.util.suggest import suggestion
from vectrial.workload import dispatch, ingest
from vectrial.workload.runbook import (
    ORDERED,
    OWN,
    LiveRows,
    Operation,
    RunbookStep,
    check_steps,
    cluster_order,
    loads,
    read_steps,
    replaced_counts,
)

METRICS = (
    MetricName("live_rows", "1", None, "rows that were live", "Live rows"),
    MetricName("replaced_rows", "1", None, "rows replaced or deleted until then", "Replaced"),
    MetricName("step_rows_per_s", "1/s", "higher", "rows of a step per second", "Rows/s"),
    MetricName("bytes_per_row", "B", "lower", "bytes on disk over live rows", "Disk per row"),
)

#: A file, and the dataset whose runbook in it is meant.
_FILE = re.compile(r"(?P<path>.+\.ya?ml)(#(?P<dataset>.+))?")


class RunbookExperiment(Experiment):
    """Make the steps of a runbook, and search where it says so, with the exact truth of the rows
    that are live then. At the end the same rows are loaded into a new collection, and searched as
    well: what the age of an index costs.

    A file of big-ann-benchmarks' streaming track says inserts, deletes, replacements and searches
    by ranges of rows; one that reaches beyond the dataset's rows is scaled down. Of a file with
    runbooks of several datasets one is named behind a `#`: `simple_runbook.yaml#msturing-1M`. Our
    own, on n rows:

    - `sliding_window`: half are live; a twentieth comes and as many of the oldest go, ten times;
    - `drift`: likewise, of rows that come cluster by cluster;
    - `replace`: half are live, and all of them are replaced, ten times;
    - `hot_updates`: half are live, and the same twentieth of n is replaced, ten times;
    - `expiry`: all are live, and a twentieth goes at a time, until half are left;
    - `reload`: all are deleted and inserted again, three times.

    script: the name of one of these, or the path of a file. search: search parameters; lists are
    grids. clients: closed-loop clients. min_s, max_s, warmup_queries: settings of each search.
    steps: steps of a file, which are read when the run is planned.
    """

    name: ClassVar[str] = "runbook"
    title: ClassVar[str] = "Collections that change"
    place: ClassVar[int] = 68
    report: ClassVar[str] = f"{__package__}.report"
    metrics: ClassVar[tuple[MetricName, ...]] = METRICS
    terms: ClassVar[Mapping[str, str]] = {"script": "runbook", "step": "step", "age": "index"}
    starts_from: ClassVar[State] = State.EMPTY
    mutates: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset({"script", "search"})

    script: str | tuple[str, ...] = "sliding_window"
    search: dict[str, Values] = Field(default_factory=dict)
    clients: Clients = 1
    min_s: Seconds = 1.0
    max_s: PositiveSeconds = 10.0
    warmup_queries: Warmup = 100
    steps: dict[str, tuple[tuple[str, int, int, int], ...]] = Field(default_factory=dict)

    @property
    def scripts(self) -> tuple[str, ...]:
        """The names or paths of the runbooks."""
        return (self.script,) if isinstance(self.script, str) else self.script

    def resolve(self, data: Data) -> RunbookExperiment:
        """The experiment with the steps of runbooks that are files.

        Raises:
            UserError: there is no such runbook, or it cannot be made on these data.
        """
        found = {}
        for name in self.scripts:
            if name in OWN or name in self.steps:
                continue
            file = _FILE.fullmatch(name)
            if file is None:
                remedy = suggestion(name, OWN) or f"one of {', '.join(OWN)}, or a .yaml file"
                raise UserError(f"there is no runbook '{name}'", where="script", remedy=remedy)
            path, dataset = Path(file["path"]), file["dataset"] or ""
            steps = check_steps(read_steps(path, data.rows, dataset), data.rows)
            found[name] = tuple((str(s.operation), s.start, s.end, s.rows) for s in steps)
        return self.model_copy(update={"steps": {**self.steps, **found}}) if found else self

    def points(self, target: Target) -> list[OperatingPoint]:
        can, points = target.capabilities, search_points(target, self.search)
        if not can.inserts_after_build:
            raise Unsupported(f"{target.name} inserts nothing once its index is built")
        if not can.delete:
            raise Unsupported(f"{target.name} has no delete")
        return [point.with_parameters(script=name) for name in self.scripts for point in points]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        name = str(point["script"])
        dataset = _order_rows(context.dataset, name, context.seed)
        steps = self._steps(name, dataset.rows)
        schema = Schema(dataset.dim, dataset.metric)
        context = replace(context, schema=schema)
        live, gone = LiveRows(dataset.rows), replaced_counts(steps)
        context.store.create(schema, context.index)
        for number, step in enumerate(steps):
            context.progress(number, len(steps), f"{name}: {step.operation}")
            live.apply(step)
            about = {"script": name, "step": number + 1, "age": "aged"}
            if step.operation is Operation.SEARCH:
                yield self._search_phase(
                    context, _live_dataset(dataset, live), point, about, gone[number]
                )
            else:
                yield _run_step(context, dataset, step, about)
        now = _live_dataset(dataset, live)
        with context.second_store("anew") as store:
            context.progress(len(steps), len(steps), f"{name}: the same rows anew")
            anew = replace(context, store=store)
            store.create(schema, context.index)
            ingest.load(store, now, schema, context.batch_rows, context.progress)
            about = {"script": name, "step": len(steps), "age": "anew"}
            yield self._search_phase(anew, now, point, about, 0)

    def _steps(self, name: str, rows: int) -> tuple[RunbookStep, ...]:
        if name in OWN:
            return tuple(OWN[name](rows))
        return tuple(
            RunbookStep(Operation(how), *positions) for how, *positions in self.steps[name]
        )

    def _search_phase(
        self,
        context: Context,
        live_dataset: Dataset,
        point: Mapping[str, Any],
        about: Mapping[str, Any],
        gone: int,
    ) -> Phase:
        """A phase of searches among the live rows."""
        ingest.finish(context.store, context.progress)
        on_disk = allocated_bytes(context.data_dirs) if about["age"] == "aged" else None
        held = replace(context, dataset=live_dataset, truth=partial(_truth, live_dataset))
        load = ClosedLoop(self.clients, min_s=self.min_s, max_s=self.max_s)
        phase = dispatch.search(held, point, load, warmup_queries=self.warmup_queries)
        phase.params = {**phase.params, **about}
        phase.metrics |= {"live_rows": float(live_dataset.rows), "replaced_rows": float(gone)}
        if on_disk is not None and context.data_dirs:
            phase.metrics |= {
                "disk_bytes": float(on_disk),
                "bytes_per_row": on_disk / max(1, live_dataset.rows),
            }
        return phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the searches, and of searches of the same rows loaded anew."""
        steps = self._steps(str(point["script"]), rows)
        searches = sum(step.operation is Operation.SEARCH for step in steps)
        return 5.0 + (1 + searches) * self.min_s * 1.5

    def loads_at(self, point: Mapping[str, Any]) -> float:
        """Loads of all rows that are written, and once more of the rows that are live at the
        end."""
        return loads(self._steps(str(point["script"]), 1000))


def _order_rows(dataset: Dataset, name: str, seed: int) -> Dataset:
    """The dataset with rows numbered from 0, in the order in which the runbook inserts them."""
    vectors = dataset.vectors
    if name in ORDERED:
        vectors = np.ascontiguousarray(vectors[cluster_order(vectors, seed)])
    ids = np.arange(dataset.rows, dtype=np.int64)
    return replace(dataset, vectors=vectors, ids=ids, metadata=None, filters=None)


def _live_dataset(dataset: Dataset, live: LiveRows) -> Dataset:
    """The live rows, under their tags."""
    return replace(dataset, vectors=np.ascontiguousarray(dataset.vectors[live.rows]), ids=live.tags)


def _truth(live_dataset: Dataset, k: int, where: Filters) -> Truth:
    assert where is None, "a runbook searches without a filter"
    return exact_topk(
        live_dataset.vectors, live_dataset.ids, live_dataset.queries, live_dataset.metric, k
    )


def _run_step(
    context: Context, dataset: Dataset, step: RunbookStep, about: Mapping[str, Any]
) -> Phase:
    """Run a step of the runbook; returns its phase."""
    store, schema, rows = context.store, context.schema, context.batch_rows
    upserts = type(store).capabilities.upsert
    phase = Phase(str(step.operation), perf_counter_ns(), 0, params=dict(about))
    for start in range(step.start, step.end, rows):
        tags = np.arange(start, min(step.end, start + rows), dtype=np.int64)
        if step.operation is Operation.DELETE:
            store.delete(tags)
            continue
        at = tags if step.operation is Operation.INSERT else tags - step.start + step.rows
        batch = batch_of(schema, tags, dataset.vectors[at], {})
        if step.operation is Operation.INSERT:
            store.insert(batch)
        elif upserts:
            store.upsert(batch)
        else:
            store.delete(tags)
            store.insert(batch)
        context.progress(start - step.start, step.count, str(step.operation))
    phase.ended_ns = perf_counter_ns()
    took_s = (phase.ended_ns - phase.started_ns) / 1e9
    phase.metrics = {"step_rows_per_s": step.count / max(took_s, 1e-9)}
    return phase
