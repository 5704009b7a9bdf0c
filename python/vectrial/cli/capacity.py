"""`vectrial capacity`: the highest QPS of a store within limits."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.table import Table

from vectrial.analysis import capacity as capacities
from vectrial.analysis.capacity import CapacityStep
from vectrial.analysis.trial import Trial, Value
from vectrial.cli import options, values
from vectrial.cli.output import (
    Format,
    plain_table,
    print_json,
    stderr_console,
    stdout_console,
)
from vectrial.cli.run import measurer
from vectrial.questions.bench import DATASET, Bench
from vectrial.questions.capacity import capacity as find_capacity
from vectrial.questions.capacity import confirmed_qps
from vectrial.workload.record import ERROR_SHARE

_STEP_METRICS = ("qps", "latency_p50", "latency_p99", "recall_mean", "errors", "count")
_RESULT_METRICS = (
    "sustained_qps", "bracket_low", "bracket_high", "confirmations", "steps_down", *_STEP_METRICS,
)  # fmt: skip
_LIMITS = ("p99_ms", "recall", "error_share")
_NUMBERS = ("step", "offered/s", "QPS", "p99 ms", "recall", "errors")


def capacity(
    store: options.StoreArgument,
    dataset: options.DatasetOption = DATASET,
    rows: options.RowsOption = None,
    p99: options.P99Option = "20ms",
    recall: options.RecallOption = 0.95,
    errors: values.ErrorsOption = ERROR_SHARE,
    index: options.IndexOption = None,
    param: options.BuildParametersOption = None,
    search: options.SearchParametersOption = None,
    lane: options.LaneOption = None,
    k: options.KOption = 10,
    seconds: options.SecondsOption = 4.0,
    confirm_seconds: Annotated[
        float,
        typer.Option(
            min=0.1, metavar="SECONDS", help="Duration of each step that confirms the result."
        ),
    ] = 10.0,
    resolution: Annotated[
        float,
        typer.Option(
            min=0.005,
            max=1,
            metavar="SHARE",
            help="Stop when the highest passing and the lowest failing rate differ by less.",
        ),
    ] = 0.05,
    max_rate: Annotated[
        float | None,
        typer.Option(
            min=0.5, metavar="QPS", help="Highest rate to probe.", show_default="no limit"
        ),
    ] = None,
    repeats: options.RepeatsOption = 1,
    out: options.OutOption = options.RUNS,
    allow_exposed: options.ExposedOption = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Find the highest QPS that STORE sustains with p99, recall and errors within limits.

    \b
    vectrial capacity faiss
    vectrial capacity weaviate --p99 10ms --recall 0.98
    vectrial capacity milvus --dataset mine --format jsonl

    Requests arrive on a schedule that does not wait for answers (open loop). The search first
    finds the lowest value of the search parameter that reaches the recall, then the rate. Longer
    steps confirm the result. If the client was the limit, the result is "at least". The run folder
    keeps every step for `vectrial report`. Progress goes to stderr. docs/capacity.md describes the
    method.

    Exit codes: 0 success, 1 no rate was confirmed, 2 invalid input.
    """
    console = stderr_console()
    found = find_capacity(
        store,
        dataset=dataset,
        rows=rows,
        p99_ms=values.milliseconds(p99, "--p99"),
        recall=recall,
        errors=errors,
        index=index,
        params=values.parameters(param or (), "--param"),
        search=values.parameters(search or (), "--search"),
        lane=lane,
        k=k,
        seconds=seconds,
        confirm_seconds=confirm_seconds,
        resolution=resolution,
        max_rate=max_rate,
        repeats=repeats,
        bench=Bench(out, allow_exposed=allow_exposed, measure=measurer(console)),
    )
    for trial in found.trials:
        if form is Format.JSONL:
            print_json(_objects(trial))
        else:
            _print_steps(trial)
    values.warn_interference(found.run, console)
    print(found.folder, file=sys.stderr if form is Format.JSONL else sys.stdout)
    if not found.is_confirmed:
        sys.exit(1)


def _objects(trial: Trial) -> Iterator[dict[str, Any]]:
    """One object per step, then one for the result."""
    shared = {
        "store": trial.series.store,
        "index": trial.series.index_kind,
        "lane": trial.series.lane,
        "dataset": trial.dataset,
        "rows": trial.rows,
        "repeat": trial.repeat,
    }
    for step in capacities.curve(trial):
        yield {**shared, "kind": "step", **_step(step)}
    yield {**shared, "kind": "result", **_result(trial)}


def _step(step: CapacityStep) -> dict[str, Any]:
    return {
        "step": step.number,
        "purpose": step.purpose,
        "rate": step.rate,
        "search": dict(step.setting),
        "passed": step.passed,
        "reason": step.why,
        "client_bound": step.client_bound,
        "valid": step.phase.valid,
        "invalid_reason": step.phase.reason,
        **{name: step.figure(name) for name in _STEP_METRICS},
    }


def _result(trial: Trial) -> dict[str, Any]:
    phase = capacities.answer(trial)
    params: Mapping[str, Any] = {} if phase is None else phase.params
    metrics: Mapping[str, Value] = {} if phase is None else phase.metrics
    figures = {name: value.value for name, value in metrics.items()}
    return {
        "status": trial.status,
        "valid": phase is not None and phase.valid,
        "text": capacities.sentence(trial),
        "limits": {name: params.get(name) for name in _LIMITS},
        "recall_parameter": params.get("recall_parameter"),
        "recall_parameter_value": figures.get("recall_parameter_value"),
        "confirmed": confirmed_qps(trial),
        **{name: figures.get(name) for name in _RESULT_METRICS},
        "confirmed_p99_us": [one.value("latency_p99") for one in capacities.confirmations(trial)],
        "other_cores": capacities.other_cores(trial),
    }


def _print_steps(trial: Trial) -> None:
    console = stdout_console()
    table: Table = plain_table(
        *_NUMBERS, "search parameters", "purpose", "verdict", right=_NUMBERS, whole=_NUMBERS
    )
    for step in capacities.curve(trial):
        p99, recall = step.figure("latency_p99"), step.figure("recall_mean")
        table.add_row(
            str(step.number),
            f"{step.rate:,.5g}",
            f"{step.figure('qps') or 0:,.5g}",
            "—" if p99 is None else f"{p99 / 1e3:,.4g}",
            "—" if recall is None else f"{recall:.4f}",
            f"{step.figure('errors') or 0:,.0f}",
            values.parameter_text(step.setting),
            step.purpose,
            step.verdict,
        )
    if table.row_count:
        console.print(table)
    name = f"{trial.series.store}, {trial.series.lane}, {trial.dataset}, {trial.rows:,} rows"
    console.print(f"{name}: {capacities.sentence(trial)}", soft_wrap=True)
