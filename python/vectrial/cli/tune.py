"""`vectrial tune`: index and search parameters for a store on a dataset."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vectrial.analysis.run_data import load
from vectrial.cli import one_store as one
from vectrial.cli import options
from vectrial.cli import run as run_command
from vectrial.cli.output import Format, print_json, stderr_console
from vectrial.cli.tune_bench import TuneBench
from vectrial.cli.tune_view import objects, print_tables, result_of
from vectrial.model.errors import UserError
from vectrial.model.placement import size_bytes
from vectrial.results.folder import CHOSEN
from vectrial.run.prepare import new_folder, shape_of, toml_of
from vectrial.stores import registry
from vectrial.suite.model import DatasetRef
from vectrial.tune.finals import finalists
from vectrial.tune.search import Build, TuneLimits, search
from vectrial.tune.space import defaults, knobs

_SEED = 42


def tune(
    store: options.StoreArgument,
    dataset: options.DatasetOption = one.DATASET,
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
    ] = _SEED,
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
    kind = registry.load(store)
    limits = TuneLimits(
        recall,
        None if p99 is None else one.milliseconds(p99, "--p99") * 1e3,
        None if memory is None else _bytes(memory),
    )
    chosen = [one.index_of(kind, name) for name in index or (None,)]
    run_command.check_resume(resume, out)
    console = stderr_console()
    shape = shape_of(DatasetRef(name=dataset, rows=rows))
    bench = TuneBench(
        kind, dataset, shape.rows, shape.dim, lane, k, seconds, console, allow_exposed
    )
    if resume is None:
        bench.folder = new_folder(out, bench.sweep([Build(chosen[0], {})], shape.rows))
    else:
        bench.resume(resume, chosen)
    ranges = {
        name: knobs(kind.capabilities.indexes[name], shape.rows, shape.dim) for name in chosen
    }
    tried = search(
        ranges,
        {n: defaults(kind.capabilities.indexes[n], of) for n, of in ranges.items()},
        bench.measure,
        limits,
        steps=bench.steps(chosen),
        budget=budget,
        seed=seed,
        on_build=bench.record,
    )
    best = finalists(tried, last)
    finals = bench.finals(best, limits) if best else None
    result = result_of(tried, limits, bench.folder, finals)
    if result.best is not None:
        result.suite = toml_of(bench.chosen(result.best, limits, rows))
        (bench.folder / CHOSEN).write_text(result.suite, encoding="utf-8")
    if form is Format.JSONL:
        print_json(objects(result))
    else:
        print_tables(result)
    one.warn_interference(load(bench.folder), console)
    if result.best is None:
        sys.exit(1)


def _bytes(text: str) -> int:
    try:
        return size_bytes(text)
    except ValueError as error:
        raise UserError(f"'{text}' is {error}", where="--memory") from error
