"""`vectrial tune`: index and search parameters for a store on a dataset."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vectrial.analysis.run_data import load
from vectrial.cli import options, values
from vectrial.cli.output import Format, print_json, say, stderr_console
from vectrial.cli.run import check_resume, measurer
from vectrial.cli.tune_view import objects, print_tables
from vectrial.model.errors import UserError
from vectrial.model.placement import size_bytes
from vectrial.questions.bench import DATASET, Bench
from vectrial.questions.tune import SEED
from vectrial.questions.tune import tune as find_settings


def tune(
    store: options.StoreArgument,
    dataset: options.DatasetOption = DATASET,
    rows: options.RowsOption = None,
    recall: options.RecallOption = 0.95,
    p99: Annotated[
        str | None,
        typer.Option(
            "--p99",
            metavar="TIME",
            help="Limit on p99 latency with one client, with its unit, e.g. 5ms.",
            show_default="no limit",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Limit on the growth of resident memory while loading, e.g. 2GiB.",
            show_default="no limit",
        ),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Kind of index to try (repeatable).",
            show_default="the store's first that trades recall for speed",
        ),
    ] = None,
    lane: options.LaneOption = None,
    budget: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of builds.")] = 12,
    last: Annotated[
        int,
        typer.Option(
            "--finalists",
            min=0,
            metavar="N",
            help="Number of best builds that are loaded again and measured in turns; 0: none.",
        ),
    ] = 3,
    seconds: options.SecondsOption = 0.5,
    k: options.KOption = 10,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, metavar="N", help="Random seed of the search.")
    ] = SEED,
    out: options.OutOption = options.RUNS,
    resume: options.ResumeOption = None,
    allow_exposed: options.ExposedOption = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Find the fastest index and search parameters of STORE at a recall, within limits.

    \b
    vectrial tune hnswlib --recall 0.98
    vectrial tune weaviate --dataset mine --p99 5ms --memory 2GiB --budget 20

    Each build is searched by one client at several values of its search parameter. The first build
    uses the store's defaults; Optuna chooses the next ones from the results. Where loading takes
    longer than that, each build is first measured on 10 % of the rows and dropped if it is below
    the median. The best builds are then loaded three times more and searched in turns, at the
    settings that they need to reach the recall, so that it is known which of them differ. Prints
    the builds, the best settings per recall, the last candidates, the recommended one, and a suite
    that measures it again and finds its capacity. Progress goes to stderr. --resume needs the same
    options as the first call.

    Exit codes: 0 success, 1 nothing within the limits, 2 invalid input.
    """
    check_resume(resume, out)
    console = stderr_console()
    bench = Bench(
        out,
        resume,
        lambda line: say(console, line),
        allow_exposed,
        measurer(console),
        "the same command with",
    )
    found = find_settings(
        store,
        dataset=dataset,
        rows=rows,
        recall=recall,
        p99_ms=None if p99 is None else values.milliseconds(p99, "--p99"),
        memory_bytes=None if memory is None else _bytes(memory),
        indexes=index or (),
        lane=lane,
        budget=budget,
        last=last,
        seconds=seconds,
        k=k,
        seed=seed,
        bench=bench,
    )
    if form is Format.JSONL:
        print_json(objects(found))
    else:
        print_tables(found)
    values.warn_interference(load(found.folder), console)
    if found.best is None:
        sys.exit(1)


def _bytes(text: str) -> int:
    try:
        return size_bytes(text)
    except ValueError as error:
        raise UserError(f"'{text}' is {error}", where="--memory") from error
