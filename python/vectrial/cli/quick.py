"""`vectrial quick`: which stores of this machine are faster at equal recall, within minutes."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from vectrial.cli import options
from vectrial.cli import run as run_command
from vectrial.cli.output import Format, print_json, progress_bars, say, stderr_console
from vectrial.datasets.ingest import metric_of
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.errors import UserError
from vectrial.model.progress import Progress
from vectrial.plan.estimate import TimeLimit
from vectrial.plan.model import DatasetShape
from vectrial.plan.quick import END_S, REPEATS, QuickOptions, QuickPlan, quick_plan
from vectrial.run.prepare import new_folder, plan_of
from vectrial.run.quick import (
    DATASET,
    Skipped,
    check_shape,
    contenders,
    default_dataset,
    imported,
    is_file,
    named_shape,
)
from vectrial.run.runner import Within
from vectrial.stores import registry
from vectrial.suite.commented import commented
from vectrial.util import interrupts
from vectrial.util.formatting import plural


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
    for name in stores or ():
        registry.load(name)  # before anything is fetched
    shape = _shape(dataset, metric, dry_run, console)
    check_shape(shape, rows, k)
    able, skipped = contenders(stores or (), shape.metric, clients)
    for store in skipped if stores else ():
        say(console, f"! {store.store} is skipped: {store.reason}")
    if not able:
        raise UserError(
            "; ".join(f"{store.store}: {store.reason}" for store in skipped) or "no store works",
            remedy="pip install 'vectrial[stores]' installs the libraries",
        )
    quick_options = QuickOptions(minutes * 60, bool(stores), rows, k, clients)
    plan = quick_plan(able, shape, quick_options)
    skipped += [Skipped(name, _no_time(plan, minutes)) for name in plan.left_out]
    text = commented(plan.suite, EXPERIMENTS, _HEAD)
    if dry_run:
        _print_plan(plan, text, form, console)
        return
    say(console, _planned(plan, shape, minutes))
    measuring = _Measuring(plan, text, out, began, quick_options, allow_exposed)
    folder, succeeded = measuring.run(console)
    _answer(folder, (recall, clients, k), skipped, form, console)
    if not succeeded:
        sys.exit(1)


_HEAD = (
    "The suite of `vectrial quick`. Edit it, look at its plan with `vectrial run FILE --dry-run`, "
    "and measure it with `vectrial run FILE`. docs/suites.md explains all keys.",
)


def _shape(
    dataset: str | None, metric: str | None, dry_run: bool, console: Console
) -> DatasetShape:
    """The shape of a dataset that is in the library or can be fetched."""
    own = dataset is not None and is_file(dataset)
    if metric is not None and not own:
        raise UserError("only a file is given a metric", where="--metric", remedy="leave it out")
    if dataset is not None and not own:
        return named_shape(dataset)
    if dataset is None and dry_run:
        return named_shape(DATASET)

    def note(line: str) -> None:
        say(console, line)

    with progress_bars() as progress:
        if dataset is None:
            name = default_dataset(_noting(progress, console), note)
        else:
            name = imported(Path(dataset), metric_of(metric), progress, note).name
    return named_shape(name)


def _noting(progress: Progress, console: Console) -> Progress:
    """A progress callback that, without a terminal, also prints a line for each kind of work."""
    seen: set[str] = set()

    def update(done: float, of: float, what: str) -> None:
        if not console.is_terminal and what not in seen:
            seen.add(what)
            say(console, what)
        progress(done, of, what)

    return update


def _no_time(plan: QuickPlan, minutes: float) -> str:
    every = (len(plan.left_out) + len(plan.suite.stores)) / len(plan.suite.stores)
    more = f"{minutes * every + 0.5:.0f}"
    return f"{minutes:g} minutes are too short for it: --minutes {more}, or name it"


def _planned(plan: QuickPlan, shape: DatasetShape, minutes: float) -> str:
    suite = plan.suite
    rows = suite.datasets[0].rows or shape.rows
    names = ", ".join(ref.store for ref in suite.stores)
    return (
        f"{names}: {rows:,} rows of {shape.name} ({shape.dim}-d, {shape.metric}),"
        f" {plural(suite.repeats, 'repeat')}, about {plan.estimate_s / 60:.1f}"
        f" of {minutes:g} minutes"
    )


def _print_plan(plan: QuickPlan, text: str, form: Format, console: Console) -> None:
    if form is Format.JSONL:
        names = [ref.store for ref in plan.suite.stores]
        facts = {"kind": "plan", "estimate_s": plan.estimate_s, "stores": names}
        print_json([{**facts, "left_out": list(plan.left_out), "suite": text}])
        return
    print(text, end="")
    say(console, f"about {plan.estimate_s:.0f} s")


@dataclass(frozen=True)
class _Measuring:
    plan: QuickPlan
    text: str
    out: Path
    began: float
    options: QuickOptions
    allow_exposed: bool

    def run(self, console: Console) -> tuple[Path, bool]:
        """Measure what fits into the time; returns the run folder, and whether the run
        succeeded."""
        suite = self.plan.suite
        limit = TimeLimit(
            self.options.budget_s - END_S,
            min(REPEATS, suite.repeats),
            each_once=self.options.named,
        )
        folder = new_folder(self.out, suite)
        outcome = run_command.measure(
            plan_of(suite, "vectrial quick"),
            suite,
            self.text,
            folder,
            console,
            allow_exposed=self.allow_exposed,
            within=Within(limit, self.began),
        )
        return folder, outcome.succeeded


def _answer(
    folder: Path,
    target: tuple[float, int, int],
    skipped: Sequence[Skipped],
    form: Format,
    console: Console,
) -> None:
    """Print the answer. target: recall, clients, k."""
    # Imported here: statistics take a while, and the first figure does not wait for them.
    from vectrial.analysis.run_data import load
    from vectrial.cli import one_store as one
    from vectrial.cli import quick_view as view
    from vectrial.compare.ranking import rank

    question = view.QuickQuestion(*target)
    interrupts.set_hint(f"interrupted; the run is complete: vectrial report {folder}")
    run = load(folder, own=True)
    ranking = rank(run, question.recall, question.clients)
    if form is Format.JSONL:
        print_json(view.objects(run, ranking, question, skipped))
    else:
        view.print_answer(run, ranking, question, skipped)
    one.warn_interference(run, console)
    with suppress(BrokenPipeError):
        if form is Format.JSONL:
            print_json([{"kind": "run", "folder": str(folder)}])
        else:
            view.print_next(folder, run, ranking)
