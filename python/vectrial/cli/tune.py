"""`vectrial tune`: index and search parameters for a store on a dataset."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from vectrial.analysis.run_data import load
from vectrial.analysis.trial import Trial
from vectrial.cli import one_store as one
from vectrial.cli import options
from vectrial.cli import run as run_command
from vectrial.cli.output import (
    Format,
    plain_table,
    print_json,
    say,
    stderr_console,
    stdout_console,
)
from vectrial.experiments.common.recall_parameter import parameter_values
from vectrial.model.errors import StoreError, UserError
from vectrial.model.placement import size_bytes
from vectrial.model.store import Store
from vectrial.results.folder import CHOSEN, replace_text
from vectrial.run.prepare import RESOLVED, new_folder, plan_of, shape_of, toml_of
from vectrial.stores import registry
from vectrial.suite.model import DatasetRef, Suite, read_suite
from vectrial.tune.search import (
    Build,
    Candidate,
    Limits,
    Measured,
    TriedBuild,
    best_of,
    pareto_front,
    search,
)
from vectrial.tune.space import defaults, knobs

#: With this many rows, each build is first measured on a tenth of them.
_STAGED_ROWS = 20_000
_SEED = 42
_NUMBERS = ("recall", "QPS", "p99 ms", "memory")


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
    seconds: options.SecondsOption = 1.0,
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
    uses the store's defaults; Optuna chooses the next ones from the results. On 20,000 rows or more
    each build is first measured on 10 % of the rows and dropped if it is below the median. Prints
    the builds, the best settings per recall, the recommended one, and a suite that measures it
    again with repeats and finds its capacity. Progress goes to stderr. --resume needs the same
    options as the first call.

    Exit codes: 0 success, 1 nothing within the limits, 2 invalid input.
    """
    kind = registry.load(store)
    limits = Limits(
        recall,
        None if p99 is None else one.milliseconds(p99, "--p99") * 1e3,
        None if memory is None else _bytes(memory),
    )
    chosen = [one.index_of(kind, name) for name in index or (None,)]
    run_command.check_resume(resume, out)
    console = stderr_console()
    shape = shape_of(DatasetRef(name=dataset, rows=rows))
    bench = _Bench(kind, dataset, shape.rows, lane, k, seconds, console, allow_exposed)
    if resume is None:
        bench.folder = new_folder(out, bench.sweep([Build(chosen[0], {})], shape.rows))
    else:
        bench.resume(resume)
    ranges = {
        name: knobs(kind.capabilities.indexes[name], shape.rows, shape.dim) for name in chosen
    }
    tried = search(
        ranges,
        {n: defaults(kind.capabilities.indexes[n], of) for n, of in ranges.items()},
        bench.measure,
        limits,
        steps=bench.steps,
        budget=budget,
        seed=seed,
        on_build=bench.record,
    )
    result = result_of(tried, limits, bench.folder)
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


@dataclass
class _Bench:
    """Measures builds, all into one run folder. rows: of the dataset."""

    store: type[Store]
    dataset: str
    rows: int
    lane: str | None
    k: int
    seconds: float
    console: Console
    allow_exposed: bool
    folder: Path = field(default_factory=Path)
    _complete: list[Build] = field(default_factory=list)
    _works: bool = False

    @property
    def steps(self) -> list[int]:
        """Numbers of rows on which a build is measured, in order."""
        return [self.rows // 10, self.rows] if self.rows >= _STAGED_ROWS else [self.rows]

    def sweep(self, builds: Sequence[Build], rows: int) -> Suite:
        """The suite that measures builds on the first `rows` rows."""
        values: dict[str, list[int]] = {}
        for kind in dict.fromkeys(build.kind for build in builds):
            index = self.store.capabilities.indexes[kind]
            own = parameter_values(index, self.k)
            if index.recall_parameter:
                values[index.recall_parameter] = sorted(
                    {*values.get(index.recall_parameter, []), *own[::2], *own[-1:]}
                )
        limits = {"min_s": self.seconds, "max_s": self.seconds}
        experiments: list[dict[str, Any]] = [
            {"experiment": "storage"},
            {"experiment": "search", "search": values, **limits},
        ]
        return self._suite("tune", builds, rows, 1, experiments)

    def chosen(self, best: Candidate, limits: Limits, rows: int | None) -> Suite:
        """The suite that measures a candidate again and finds its capacity."""
        p99 = {} if limits.p99_us is None else {"p99_ms": limits.p99_us / 1e3}
        experiments: list[dict[str, Any]] = [
            {"experiment": "storage"},
            {"experiment": "search", "search": dict(best.search)},
            {"experiment": "capacity", "recall": limits.recall, **p99},
        ]
        return self._suite("tuned", [best.build], rows, 3, experiments)

    def _suite(
        self,
        name: str,
        builds: Sequence[Build],
        rows: int | None,
        repeats: int,
        experiments: list[dict[str, Any]],
    ) -> Suite:
        return one.suite_of(
            name,
            self.store,
            dataset=self.dataset,
            rows=rows,
            indexes=[(build.kind, build.params) for build in builds],
            lane=self.lane,
            k=self.k,
            repeats=repeats,
            experiments=experiments,
        )

    def resume(self, folder: Path) -> None:
        """Continue the run in a folder.

        Raises:
            UserError: there is none, or other options made it.
        """
        if not (folder / RESOLVED).is_file():
            raise UserError("there is no run here to resume", where=str(folder))
        suite = read_suite(folder / RESOLVED)
        builds = [Build(ref.index or "", ref.params) for ref in suite.stores]
        rows = suite.datasets[0].rows
        known = self.store.capabilities.indexes
        same = rows in self.steps and all(build.kind in known for build in builds)
        if rows is None or not same or self.sweep(builds, rows) != suite:
            raise UserError(
                "this run was not made by this command with these options",
                where=str(folder),
                remedy="give the options of the first call, or leave --resume out",
            )
        self.folder = folder.resolve()
        self._complete = builds if rows == self.rows else []

    def record(self, tried: TriedBuild) -> None:
        """Print a build. The run's suite then lists the builds measured on all rows."""
        say(self.console, _line(tried))
        if tried.state == "complete" and tried.build not in self._complete:
            self._complete.append(tried.build)
            replace_text(self.folder / RESOLVED, toml_of(self.sweep(self._complete, self.rows)))

    def measure(self, build: Build, rows: int) -> Measured:
        """Load a build once and search it at every value of the search parameter.

        Raises:
            UserError: the store does not support the build.
            StoreError: the store does not work on this machine.
        """
        suite = self.sweep([build], rows)
        plan = plan_of(suite, suite.name)
        refused = [r.reason for r in plan.refusals if r.row.experiment == "search"]
        if refused:
            raise UserError(refused[0])
        run_command.measure(
            plan,
            suite,
            toml_of(suite),
            self.folder,
            self.console,
            again=f"the same command with --resume {shlex.quote(str(self.folder))}",
            allow_exposed=self.allow_exposed,
        )
        keys = {trial.row.key for trial in plan.trials}
        trials = [trial for trial in load(self.folder).trials if trial.key in keys]
        skipped = [trial.reason for trial in trials if trial.status == "skipped"]
        if len(skipped) < len(trials):
            self._works = True
        elif skipped and not self._works:  # no other build would be measured either
            raise StoreError(f"{self.store.name} cannot be measured here: {skipped[0]}")
        return _measured(build, trials)


def _measured(build: Build, trials: Sequence[Trial]) -> Measured:
    loads = (p for t in trials if t.experiment == "storage" for p in t.phases)
    memory = next((phase.value("rss_growth_bytes") for phase in loads), None)
    found, reason = [], "nothing was measured"
    for trial in trials:
        if trial.experiment != "search":
            continue
        if trial.status != "ok":
            reason = trial.reason or trial.status
            continue
        (phase,) = trial.phases
        recall, qps = phase.value("recall_mean"), phase.value("qps")
        if recall is not None and qps is not None:
            params = {n: v for n, v in trial.params.items() if n not in ("k", "returns", "clients")}
            p99_us = phase.value("latency_p99")
            found.append(Candidate(build, params, recall, qps, p99_us, memory))
    return Measured(found, reason)


def _bytes(text: str) -> int:
    try:
        return size_bytes(text)
    except ValueError as error:
        raise UserError(f"'{text}' is {error}", where="--memory") from error


# -- output ------------------------------------------------------------------------------------


@dataclass
class Result:
    """The outcome of tuning. reason: of having no `best`. suite: TOML that measures the best."""

    tried: Sequence[TriedBuild]
    front: Sequence[Candidate]
    best: Candidate | None
    reason: str
    limits: Limits
    folder: Path
    suite: str = ""


def result_of(tried: Sequence[TriedBuild], limits: Limits, folder: Path) -> Result:
    """The best candidate of all builds within the limits, or why there is none."""
    every = [each for build in tried if build.state != "again" for each in build.candidates]
    best, _, fault = best_of(Measured(every), limits)
    reason = ""
    if not every:
        reason = "no build could be measured whole; the reason is beside each"
    elif best is None:
        reason = (
            f"nothing is within the limits; the nearest has {fault}:"
            " relax a limit, or raise --budget"
        )
    return Result(tried, pareto_front(every), best, reason, limits, folder)


def _line(tried: TriedBuild) -> str:
    head = f"build {tried.number}: {tried.build.label}"
    best = tried.best
    if best is None:
        return f"{head}: {tried.state}: {tried.reason}"
    point = f"{best.qps:,.5g} QPS at recall {best.recall:.4f}"
    return f"{head}: {point}, {one.listed(best.search)}"


def objects(result: Result) -> Iterator[dict[str, Any]]:
    """One object per build, per point of the front, and for the choice."""
    for tried in result.tried:
        build = {"build": tried.number, "state": tried.state, "reason": tried.reason}
        own = {"index": tried.build.kind, "params": dict(tried.build.params)}
        yield {"kind": "build", **build, **_values(tried.best), **own}
    for candidate in result.front:
        yield {"kind": "front", **_values(candidate)}
    yield {
        "kind": "choice",
        "recall_floor": result.limits.recall,
        "folder": str(result.folder),
        "reason": result.reason,
        **_values(result.best),
        "suite": str(result.folder / CHOSEN) if result.suite else None,
        "suite_toml": result.suite or None,
    }


def _values(candidate: Candidate | None) -> dict[str, Any]:
    """All keys, with or without a candidate."""
    return {
        "index": candidate and candidate.build.kind,
        "params": candidate and dict(candidate.build.params),
        "search": candidate and dict(candidate.search),
        "recall_mean": candidate and candidate.recall,
        "qps": candidate and candidate.qps,
        "latency_p99": candidate and candidate.p99_us,
        "rss_growth_bytes": candidate and candidate.memory_bytes,
    }


def print_tables(result: Result) -> None:
    """Print the builds, the front, the choice and the run folder on stdout."""
    console = stdout_console()
    builds = _table("build", "index", "state")
    for tried in result.tried:
        cells = _cells(tried.best) if tried.best else ("—",) * 5
        builds.add_row(str(tried.number), tried.build.label, tried.state, *cells, tried.reason)
    console.print(builds)
    console.print("\nbest at each recall, of all builds:")
    front = _table("index")
    best = result.best
    for candidate in result.front:
        note = "the choice" if candidate == best else candidate.fault(result.limits) or ""
        front.add_row(candidate.build.label, *_cells(candidate), note)
    console.print(front)
    if best is None:
        print(f"\nno choice: {result.reason}")
    else:
        print(f"\nchoice: {best.build.label}, {one.listed(best.search)}: {best.qps:,.5g} QPS")
        print(f"measure it again with: vectrial run {shlex.quote(str(result.folder / CHOSEN))}")
        print(f"which is this suite:\n\n{result.suite.strip()}\n")
    print(result.folder)


def _table(*left: str) -> Table:
    return plain_table(*left, "search", *_NUMBERS, "", right=_NUMBERS)


def _cells(candidate: Candidate) -> tuple[str, str, str, str, str]:
    memory = candidate.memory_bytes
    return (
        one.listed(candidate.search) or "—",
        f"{candidate.recall:.4f}",
        f"{candidate.qps:,.5g}",
        "—" if candidate.p99_us is None else f"{candidate.p99_us / 1e3:,.3g}",
        "—" if memory is None else f"{memory / 2**20:,.4g} MiB",
    )
