"""`vectrial capacity`: how much a store sustains within limits."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table

from vectrial.analysis import capacity as capacities
from vectrial.analysis.capacity import Tried
from vectrial.analysis.run_data import load
from vectrial.analysis.trial import Trial, Value
from vectrial.cli import one_store as one
from vectrial.cli.form import Form, FormOption, on_stderr, on_stdout
from vectrial.stores import registry
from vectrial.workload.record import ERROR_SHARE

#: Metrics of a look at a rate, and of an answer, by name.
_OF_A_LOOK = ("qps", "latency_p50", "latency_p99", "recall_mean", "errors", "count")
_OF_AN_ANSWER = (
    "sustained_qps", "bracket_low", "bracket_high", "confirmations", "steps_down", "search_effort",
    *_OF_A_LOOK,
)  # fmt: skip
_LIMITS = ("p99_ms", "recall", "error_share")


def capacity(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="Store to measure; see `vectrial stores`.")
    ],
    dataset: one.DatasetOption = one.DATASET,
    rows: one.RowsOption = None,
    p99: one.P99Option = "20ms",
    recall: one.RecallOption = 0.95,
    errors: Annotated[
        float, typer.Option(min=0, max=ERROR_SHARE, help="Limit on the share of failed requests.")
    ] = ERROR_SHARE,
    index: one.IndexOption = None,
    param: Annotated[
        list[str] | None, typer.Option(help="Set a build parameter, e.g. m=16 (repeatable).")
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(help="Fix a search parameter, e.g. ef_search=64 (repeatable)."),
    ] = None,
    lane: one.LaneOption = None,
    k: one.KOption = 10,
    duration: Annotated[
        float, typer.Option(min=0.1, help="Seconds of each step of the search.")
    ] = 4.0,
    confirm: Annotated[
        float, typer.Option(min=0.1, help="Seconds of each step that confirms the result.")
    ] = 10.0,
    resolution: Annotated[
        float,
        typer.Option(
            min=0.005,
            max=1,
            help="Stop when highest passing and lowest failing rate are this close (0.05 = 5 %).",
        ),
    ] = 0.05,
    most: Annotated[
        float | None, typer.Option(min=0.5, help="Highest rate to try, in requests per second.")
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Number of independent repeats; each reloads the data.")
    ] = 1,
    out: one.OutOption = None,
    allow_exposed: one.ExposedOption = False,
    form: FormOption = Form.TABLE,
) -> None:
    """Find the highest QPS that STORE sustains with p99, recall and errors within limits.

    \b
    vectrial capacity faiss                                     20 ms, recall 0.95, word vectors
    vectrial capacity weaviate --p99 10ms --recall 0.98
    vectrial capacity milvus --dataset mine --format jsonl

    Requests arrive on a schedule that does not wait for answers (open loop). The search first
    finds the lowest value of the search parameter that reaches the recall, then the rate. Longer
    steps confirm the result. If the client was the limit, the result is "at least". The run folder
    keeps every step for `vectrial report`. Progress goes to stderr. Exit codes: 0 success, 1 no
    rate was confirmed, 2 invalid input. docs/capacity.md describes the method.
    """
    kind = registry.load(store)
    asked: dict[str, Any] = {
        "experiment": "capacity",
        "p99_ms": one.milliseconds(p99, "--p99"),
        "recall": recall,
        "errors": errors,
        "search": one.values(search or (), "--search"),
        "duration_s": duration,
        "confirm_s": confirm,
        "resolution": resolution,
        **({} if most is None else {"most_rate": most}),
    }
    suite = one.suite_of(
        "capacity",
        kind,
        dataset=dataset,
        rows=rows,
        indexes=[(one.index_of(kind, index), one.values(param or (), "--param"))],
        lane=lane,
        k=k,
        repeats=repeats,
        experiments=[asked],
    )
    console = on_stderr()
    folder = one.measure(suite, out, console, allow_exposed=allow_exposed)
    run = load(folder)
    found = capacities.trials(run)
    for trial in found:
        if form is Form.JSONL:
            _lines(trial)
        else:
            _table(trial)
    one.caution(run, console)
    print(folder, file=sys.stderr if form is Form.JSONL else sys.stdout)
    if not any(trial.status == "ok" and _confirmed(trial) is not None for trial in found):
        sys.exit(1)


def _confirmed(trial: Trial) -> float | None:
    phase = capacities.answer(trial)
    return None if phase is None else capacities.confirmed(phase)


def _lines(trial: Trial) -> None:
    about = {"store": trial.series.store, "index": trial.series.index_kind}
    about |= {"lane": trial.series.lane, "dataset": trial.dataset}
    facts: dict[str, Any] = {**about, "rows": trial.rows, "repeat": trial.repeat}
    for tried in capacities.curve(trial):
        print(json.dumps({**facts, "kind": "rate", **_facts(tried)}))
    print(json.dumps({**facts, "kind": "answer", **_answer(trial)}))


def _answer(trial: Trial) -> dict[str, Any]:
    phase = capacities.answer(trial)
    params: Mapping[str, Any] = {} if phase is None else phase.params
    figures: Mapping[str, Value] = {} if phase is None else phase.metrics
    return {
        "status": trial.status,
        "valid": phase is not None and phase.valid,
        "answer": capacities.sentence(trial),
        "limits": {name: params.get(name) for name in _LIMITS},
        "dial": params.get("dial"),
        "confirmed": _confirmed(trial),
        **{n: figures[n].value if n in figures else None for n in _OF_AN_ANSWER},
    }


def _facts(tried: Tried) -> dict[str, Any]:
    return {
        "try": tried.number,
        "purpose": tried.purpose,
        "rate": tried.rate,
        "search": dict(tried.setting),
        "held": tried.held,
        "why": tried.why,
        "client_bound": tried.client_bound,
        "valid": tried.phase.valid,
        "reason": tried.phase.reason,
        **{name: tried.figure(name) for name in _OF_A_LOOK},
    }


def _table(trial: Trial) -> None:
    console = on_stdout()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("step", "offered/s", "QPS", "p99 ms", "recall", "errors"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("setting", "for", "verdict"):
        table.add_column(title, overflow="fold")
    for tried in capacities.curve(trial):
        p99, recall = tried.figure("latency_p99"), tried.figure("recall_mean")
        table.add_row(
            str(tried.number),
            f"{tried.rate:,.5g}",
            f"{tried.figure('qps') or 0:,.5g}",
            "—" if p99 is None else f"{p99 / 1e3:,.4g}",
            "—" if recall is None else f"{recall:.4f}",
            f"{tried.figure('errors') or 0:,.0f}",
            " ".join(f"{name}={value}" for name, value in tried.setting.items()),
            tried.purpose,
            tried.verdict,
        )
    if table.row_count:
        console.print(table)
    name = f"{trial.series.store}, {trial.series.lane}, {trial.dataset}, {trial.rows:,} rows"
    console.print(f"{name}: {capacities.sentence(trial)}", soft_wrap=True)
