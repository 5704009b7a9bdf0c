"""Runs that are made up, and what stands beside a published figure in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from recorded_trials import recorded_phase, recorded_trial

from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import Trial
from vectrial.model.store import Store
from vectrial.model.trial import CheckResult
from vectrial.stores import registry
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.collect import ComparedFigure, cells
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.published import figures

#: What a run says of itself.
RUN = {
    "environment": {"cpu": {"model": "Some CPU", "logical": 2}},
    "started_at": datetime(2026, 11, 21, 22, 1, tzinfo=UTC),
    "vectrial_version": "0.1.0",
    "git_revision": "f8ae180b0e3b394c3d1e",
}


@cache
def kinds() -> Mapping[str, type[Store]]:
    """Every store by its name. To load them takes a second, which the collection of tests need not
    wait for."""
    return {name: registry.load(name) for name in registry.names()}


def trial(
    store: str,
    index: str,
    experiment: str,
    phases: Sequence[tuple[str, Mapping[str, Any], Mapping[str, float]]],
    rows: int,
    *,
    version: str | None = None,
    reason: str | None = None,
    built: Mapping[str, Any] | None = None,
    gate: Sequence[CheckResult] = (),
    server: Mapping[str, Any] | None = None,
    repeat: int = 1,
) -> Trial:
    """A trial of phases that have these names, parameters and metrics, all of them valid; `reason`
    is what each says of itself all the same."""
    made = (
        recorded_phase(at, name, metrics, params, reason=reason)
        for at, (name, params, metrics) in enumerate(phases)
    )
    return recorded_trial(
        repeat,
        *made,
        store=store,
        index_kind=index,
        store_version=version,
        rows=rows,
        experiment=experiment,
        index_params=built or {},
        repeat=repeat,
        gate=tuple(gate),
        server=server,
    )


def run_of(*trials: Trial, rows: int | None = None, queries: int = 500) -> MeasuredPart:
    """What was measured of a part."""
    rows = trials[0].rows if rows is None else rows
    datasets = ({"name": "some", "rows": rows, "queries": queries},)
    return MeasuredPart(RunData(Path(), RUN, datasets, trials, {}), "some", rows)


def measured(
    store: str,
    index: str,
    experiment: str,
    phase: str,
    params: Mapping[str, Any],
    metrics: Mapping[str, float],
    rows: int,
    **more: Any,
) -> MeasuredPart:
    """A run of one phase; `more` as `trial` takes it."""
    return run_of(trial(store, index, experiment, [(phase, params, metrics)], rows, **more))


def every(report: str, part: str, run: MeasuredPart) -> list[ComparedFigure]:
    """The cells of a report in such a run."""
    stores = {one.series.store for one in run.run.trials}
    return cells(REPRODUCTIONS[report], {part: run}, known=stores)


def beside(
    report: str, part: str, run: MeasuredPart, metric: str, *, of: str = "", **params: Any
) -> ComparedFigure:
    """The cell of the one figure `of` a system (any) that has this metric and these parameters, in
    such a run."""
    (found,) = [
        cell
        for cell, figure in zip(every(report, part, run), figures(report), strict=True)
        if figure.metric == metric
        and of in ("", figure.store)
        and all(figure.params.get(name) == value for name, value in params.items())
    ]
    return found
