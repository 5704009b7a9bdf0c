"""`vectrial quick`: which stores of this machine are faster at equal recall, within minutes."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console

from vectrial.cli import options, values
from vectrial.cli import quick_view as view
from vectrial.cli.output import Format, print_json, progress_bars, say, stderr_console
from vectrial.cli.run import measurer
from vectrial.model.progress import Progress
from vectrial.questions.bench import DATASET, Bench
from vectrial.questions.quick import QuickChoice, QuickQuestion, choose, measure_choice


def quick(
    stores: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STORE",
            help="Stores to measure; by default those that work here in process, as many as fit.",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Dataset, or a file of vectors, which is imported.",
            show_default=DATASET,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC",
            help="Metric of a file: cosine, l2 or ip.",
            show_default="the file's own, else cosine",
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Use only the first N rows.", show_default="as many as fit"
        ),
    ] = None,
    recall: options.RecallOption = 0.95,
    k: options.KOption = 10,
    clients: options.ClientsOption = 1,
    minutes: options.MinutesOption = 3.0,
    out: options.OutOption = options.RUNS,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the suite and a time estimate; measure nothing."),
    ] = False,
    allow_exposed: options.ExposedOption = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Find out within minutes which STORES are faster at equal recall, without a suite.

    \b
    vectrial quick                              what works here, on word vectors
    vectrial quick hnswlib faiss --minutes 5    these two, in five minutes
    vectrial quick --dataset my.parquet         your own vectors
    vectrial quick --dry-run > quick.toml       the suite, to edit and run

    Measures loading, size and search in a closed loop, three repeats or more where the time allows.
    All stores of a repeat are loaded, and searched in turns of a moment. Figures go to stderr as
    they come. The tables at the end have measured points only; the sentences below them say which
    stores differ at the recall, and which are not told apart. The run folder keeps everything, the
    suite included: `vectrial report` shows the rest. A machine that is slower than
    expected measures fewer stores.

    Exit codes: 0 success, 1 nothing could be measured, or this machine lacked something, 2 invalid
    input, 130 after Ctrl-C.
    """
    began = time.monotonic()
    console = stderr_console()
    bench = Bench(
        out,
        progress=lambda line: say(console, line),
        allow_exposed=allow_exposed,
        measure=measurer(console, whole=True),
    )
    with progress_bars() as bars:
        fetching = None if dry_run else _with_notes(bars, console)
        choice = choose(stores or (), dataset, metric, rows, k, clients, minutes, fetching, bench)
    if dry_run:
        _print_plan(choice, form, console)
        return
    answer = measure_choice(choice, QuickQuestion(recall, clients, k), began, bench)
    view.print_answer(answer, form)
    values.warn_interference(answer.run, console)
    with suppress(BrokenPipeError):
        view.print_next(answer, form)
    if not answer.succeeded:
        sys.exit(1)


def _with_notes(progress: Progress, console: Console) -> Progress:
    """A progress callback that, without a terminal, also prints a line for each kind of work."""
    seen: set[str] = set()

    def update(done: float, of: float, what: str) -> None:
        if not console.is_terminal and what not in seen:
            seen.add(what)
            say(console, what)
        progress(done, of, what)

    return update


def _print_plan(choice: QuickChoice, form: Format, console: Console) -> None:
    plan = choice.plan
    if form is Format.JSONL:
        names = [ref.store for ref in plan.suite.stores]
        facts = {"kind": "plan", "estimate_s": plan.estimate_s, "stores": names}
        print_json([{**facts, "left_out": list(plan.left_out), "suite": choice.text}])
        return
    print(choice.text, end="")
    say(console, f"about {plan.estimate_s:.0f} s")
