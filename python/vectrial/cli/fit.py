"""`vectrial fit`: the least memory and processor time at which stores hold limits."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from vectrial.analysis.fit import FitResult, FitStep
from vectrial.cli import options, values
from vectrial.cli.output import Format, print_json, say, stderr_console, stdout_console
from vectrial.cli.price_sheet import read_prices
from vectrial.cli.run import check_resume, measurer
from vectrial.questions.bench import DATASET, Bench
from vectrial.questions.fit import FitAnswer
from vectrial.questions.fit import fit as find_fit
from vectrial.stats.intervals import Spread
from vectrial.suite.model import Prices
from vectrial.workload.record import ERROR_SHARE

_METRICS = ("qps", "latency_p50", "latency_p99", "recall_mean", "errors", "count", "ready_s")


def fit(
    stores: Annotated[
        list[str], typer.Argument(metavar="STORE", help="Names of stores; see `vectrial stores`.")
    ],
    dataset: options.DatasetOption = DATASET,
    rows: options.RowsOption = None,
    p99: options.P99Option = "20ms",
    recall: options.RecallOption = 0.95,
    errors: values.ErrorsOption = ERROR_SHARE,
    load_factor: Annotated[
        float,
        typer.Option(
            min=1.1,
            max=1000,
            metavar="N",
            help="Longest load time, as a multiple of that with the whole machine.",
        ),
    ] = 3.0,
    rate: Annotated[
        float,
        typer.Option(
            min=0.5, metavar="QPS", help="Searches per second, on a schedule (open loop)."
        ),
    ] = 200.0,
    clients: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Clients that wait for each answer (closed loop), in place of --rate.",
            show_default="open loop",
        ),
    ] = None,
    index: options.IndexOption = None,
    param: options.BuildParametersOption = None,
    search: options.SearchParametersOption = None,
    lane: options.LaneOption = None,
    k: options.KOption = 10,
    seconds: options.SecondsOption = 5.0,
    warmup: Annotated[
        float,
        typer.Option(
            min=0,
            max=86_400,
            metavar="SECONDS",
            help="Searches at full speed before those that count.",
        ),
    ] = 20.0,
    confirm_seconds: Annotated[
        float,
        typer.Option(
            min=0.1, metavar="SECONDS", help="Duration of the searches that confirm the result."
        ),
    ] = 10.0,
    confirmations: Annotated[
        int,
        typer.Option(
            min=1, max=100, metavar="N", help="Number of new loads that confirm the result."
        ),
    ] = 3,
    resolution: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=1,
            metavar="SHARE",
            help="Stop when the least passing and the greatest failing memory differ by less.",
        ),
    ] = 0.1,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Add the cost per month: a TOML file with the keys of a suite's [prices].",
        ),
    ] = None,
    out: options.OutOption = options.RUNS,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Continue this run. Give the options of the first call."
        ),
    ] = None,
    allow_exposed: options.ExposedOption = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Find the least memory and processor time at which STOREs load, survive and hold limits.

    \b
    vectrial fit redis-search --rows 20000
    vectrial fit pgvector hnswlib --dataset mine --p99 10ms --recall 0.98 --prices prices.toml
    vectrial fit weaviate --rate 1000 --format jsonl
    vectrial fit weaviate --resume runs/latest

    Each step loads every row into a new server in a control group with limits, searches it, and
    checks its answers. The search halves the memory until a step does not hold, narrows it down,
    then halves the processors. New loads confirm the result. Says what happens just below it:
    killed, refused, slow or wrong. The run folder keeps every step for `vectrial report`. Progress
    goes to stderr. Needs control groups: root, or a delegated group. docs/fit.md describes the
    method.

    Exit codes: 0 success, 1 nothing was confirmed for a store, 2 invalid input.
    """
    check_resume(resume, out)
    console = stderr_console()
    sheet = None if prices is None else read_prices(prices)
    bench = Bench(
        out,
        resume,
        lambda line: say(console, line),
        allow_exposed,
        measurer(console, known_lines=set()),
        shlex.join(["vectrial", *without_folders(sys.argv[1:])]),
    )
    found = find_fit(
        stores,
        dataset=dataset,
        rows=rows,
        p99_ms=values.milliseconds(p99, "--p99"),
        recall=recall,
        errors=errors,
        load_factor=load_factor,
        rate=rate,
        clients=clients,
        index=index,
        params=values.parameters(param or (), "--param"),
        search=values.parameters(search or (), "--search"),
        lane=lane,
        k=k,
        seconds=seconds,
        warmup_seconds=warmup,
        confirm_seconds=confirm_seconds,
        confirmations=confirmations,
        resolution=resolution,
        prices=sheet,
        bench=bench,
    )
    _show(found, sheet, form)
    values.warn_interference(found.run, console)
    print(found.folder, file=sys.stderr if form is Format.JSONL else sys.stdout)
    if not found.is_confirmed:
        sys.exit(1)


def without_folders(words: Sequence[str]) -> list[str]:
    """The words of a command line without `--resume` and `--out` and their folders."""
    left = list(words)
    for option in ("--resume", "--out"):
        while option in left:
            at = left.index(option)
            del left[at : at + 2]
        left = [word for word in left if not word.startswith(f"{option}=")]
    return left


def _show(found: FitAnswer, prices: Prices | None, form: Format) -> None:
    """Print the results."""
    if form is Format.JSONL:
        print_json(_objects(found.fits, prices))
        return
    # Imported here: the chart library takes a while, and measuring does not need it.
    from vectrial.document.blocks import Report
    from vectrial.document.render import terminal
    from vectrial.experiments.fit.report import sections_of

    sections = sections_of(found.run, found.fits, prices)
    report = Report(title="", sections=tuple(sections), labels=found.run.labels)
    stdout_console().print(terminal.render(report))


def _objects(found: Sequence[FitResult], prices: Prices | None) -> Iterator[dict[str, Any]]:
    """One object per step of each store, then one for its result."""
    for fit in found:
        shared = {
            "store": fit.series.store,
            "index": fit.series.index_kind,
            "lane": fit.series.lane,
            "dataset": fit.dataset,
            "rows": fit.rows,
        }
        for step in fit.steps:
            yield {**shared, "kind": "step", **_step(step)}
        memory = fit.memory_bytes
        yield {
            **shared,
            "kind": "result",
            "requirements": dict(fit.requirements),
            "memory_bytes": memory,
            "memory_to_raw": None if memory is None else memory / fit.raw_bytes,
            "store_bytes": fit.store_bytes,
            "process_bytes": fit.process_bytes,
            "processors": fit.cpus,
            "confirmations": len(fit.confirmed),
            "search": fit.setting,
            **{
                name: _spread(fit.spread(name))
                for name in (*_METRICS, "empty_rss_bytes", "client_bytes")
            },
            "below_memory": None if fit.below_memory is None else _step(fit.below_memory),
            "below_processors": None if fit.below_cpus is None else _step(fit.below_cpus),
            "contradictions": list(fit.contradictions),
            "reason": fit.reason,
            "per_month": None if prices is None else fit.per_month(prices),
            "currency": None if prices is None else prices.currency,
        }


def _step(step: FitStep) -> dict[str, Any]:
    return {
        "step": step.number,
        "purpose": step.purpose,
        "memory_bytes": step.memory_bytes,
        "processors": step.cpus,
        "outcome": str(step.verdict.outcome),
        "reason": step.verdict.why,
        "peak_bytes": step.peak_bytes,
        **{name: step.figure(name) for name in _METRICS},
    }


def _spread(spread: Spread | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {"median": spread.median, "low": spread.low, "high": spread.high, "n": spread.n}
