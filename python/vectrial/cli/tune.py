"""`vectrial tune`: index and search parameters for a store on one's own data."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from vectrial.analysis.run_data import load
from vectrial.analysis.trial import Trial
from vectrial.cli import one_store as one
from vectrial.cli import run as run_command
from vectrial.cli.form import Form, FormOption, on_stderr, on_stdout, say
from vectrial.experiments.common.recall_parameter import ladder
from vectrial.model.errors import StoreError, UserError
from vectrial.model.placement import size_bytes
from vectrial.model.store import Store
from vectrial.results.folder import CHOSEN, replace_text
from vectrial.run.prepare import RESOLVED, new_folder, plan_of, shape_of, toml_of
from vectrial.stores import registry
from vectrial.suite.model import DatasetRef, Suite, read_suite
from vectrial.tune.search import Build, Candidate, Limits, Measured, Tried, front, judged, search
from vectrial.tune.space import defaults, knobs

#: From so many rows on, builds are measured on a tenth of them first.
_MANY = 20_000
_SEED = 42


def tune(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="Store to tune; see `vectrial stores`.")
    ],
    dataset: one.DatasetOption = one.DATASET,
    rows: one.RowsOption = None,
    recall: one.RecallOption = 0.95,
    p99: Annotated[
        str | None,
        typer.Option("--p99", help="p99 latency limit with one client, e.g. 5ms (default: none)."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="Limit on the growth of resident memory while loading, e.g. 2GiB."),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            help="Index kind to try (repeatable). Default: the same choice as `capacity`."
        ),
    ] = None,
    lane: one.LaneOption = None,
    budget: Annotated[int, typer.Option(min=1, help="Maximum number of builds.")] = 12,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds per search parameter.")] = 1.0,
    k: one.KOption = 10,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Random seed of the search.")
    ] = _SEED,
    out: one.OutOption = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Resume this run with the same options; completed builds are skipped."),
    ] = None,
    allow_exposed: one.ExposedOption = False,
    form: FormOption = Form.TABLE,
) -> None:
    """Find the fastest index and search parameters of STORE at a recall, within limits.

    \b
    vectrial tune hnswlib --recall 0.98
    vectrial tune weaviate --dataset mine --p99 5ms --memory 2GiB --budget 20

    Each build is searched by one client at several values of its search parameter. The first build
    uses the store's defaults; Optuna chooses the next ones from the results. On 20,000 rows or more
    each build is first measured on 10 % of the rows and dropped if it is below the median. Prints
    the builds, the best settings per recall, the recommended one, and a suite that measures it
    again with repeats and finds its capacity. Progress goes to stderr. Exit codes: 0 success,
    1 nothing within the limits, 2 invalid input.
    """
    kind = registry.load(store)
    limits = Limits(
        recall,
        None if p99 is None else one.milliseconds(p99, "--p99") * 1e3,
        None if memory is None else _bytes(memory),
    )
    chosen = [one.index_of(kind, name) for name in index or (None,)]
    if resume is not None and out is not None:
        raise UserError("a run goes on in its own folder", where="--out", remedy="leave it out")
    console = on_stderr()
    shape = shape_of(DatasetRef(name=dataset, rows=rows))
    bench = _Bench(kind, dataset, shape.rows, lane, k, seconds, console, allow_exposed)
    if resume is None:
        bench.folder = new_folder(out, bench.suite(Build(chosen[0], {}), shape.rows))
    else:
        _go_on(bench, resume)
    turned = {
        name: knobs(kind.capabilities.indexes[name], shape.rows, shape.dim) for name in chosen
    }
    tried = search(
        turned,
        {n: defaults(kind.capabilities.indexes[n], of) for n, of in turned.items()},
        bench.measured,
        limits,
        steps=bench.steps,
        budget=budget,
        seed=seed,
        tell=bench.told,
    )
    every = [each for said in tried if said.state != "again" for each in said.candidates]
    best, reason = _choice(every, limits)
    suite = "" if best is None else toml_of(bench.chosen(best, limits, rows))
    if suite:
        (bench.folder / CHOSEN).write_text(suite, encoding="utf-8")
    show = _lines if form is Form.JSONL else _tables
    show(tried, front(every), best, reason, limits, bench.folder, suite)
    one.caution(load(bench.folder), console)
    if best is None:
        sys.exit(1)


class _Bench:
    """Where builds are measured: all into one run folder."""

    def __init__(
        self,
        store: type[Store],
        dataset: str,
        rows: int,
        lane: str | None,
        k: int,
        seconds: float,
        console: Console,
        allow_exposed: bool,
    ) -> None:
        """rows: of the dataset, all that are to be used."""
        self._allow_exposed = allow_exposed
        self._store, self._dataset, self._rows = store, dataset, rows
        self._lane, self._k, self._seconds, self._console = lane, k, seconds, console
        self.folder = Path()
        self._whole: list[Build] = []
        self._able = False

    @property
    def steps(self) -> list[int]:
        """Numbers of rows on which a build is measured, one after another."""
        return [self._rows // 10, self._rows] if self._rows >= _MANY else [self._rows]

    def suite(self, build: Build, rows: int) -> Suite:
        """What is measured of a build on so many rows."""
        return self._sweep([build], rows)

    def _sweep(self, builds: Sequence[Build], rows: int) -> Suite:
        asked: dict[str, list[int]] = {}
        for kind in dict.fromkeys(build.kind for build in builds):
            index = self._store.capabilities.indexes[kind]
            values = ladder(index, self._k)
            if index.dial:
                asked[index.dial] = sorted({*asked.get(index.dial, []), *values[::2], *values[-1:]})
        sweep = {"min_s": self._seconds, "max_s": self._seconds}
        measured: list[dict[str, Any]] = [
            {"experiment": "footprint"},
            {"experiment": "recall_sweep", "search": asked, **sweep},
        ]
        return self._suite("tune", builds, rows, 1, measured)

    def goes_on(self, kept: Suite, folder: Path) -> bool:
        """Take up the run in this folder, whose suite is `kept`, if these options made it."""
        builds = [Build(ref.index or "", ref.params) for ref in kept.stores]
        rows = kept.datasets[0].rows
        known = self._store.capabilities.indexes
        if rows not in self.steps or not all(build.kind in known for build in builds):
            return False
        if self._sweep(builds, rows) != kept:
            return False
        self.folder = folder.resolve()
        self._whole = builds if rows == self._rows else []
        return True

    def told(self, said: Tried) -> None:
        """A build was tried. The run's suite becomes one of those that were measured whole, so that
        these are what it repeats."""
        say(self._console, _line(said))
        if said.state == "complete" and said.build not in self._whole:
            self._whole.append(said.build)
            replace_text(self.folder / RESOLVED, toml_of(self._sweep(self._whole, self._rows)))

    def chosen(self, best: Candidate, limits: Limits, rows: int | None) -> Suite:
        """What measures a choice anew, and finds its capacity."""
        p99 = {} if limits.p99_us is None else {"p99_ms": limits.p99_us / 1e3}
        asked: list[dict[str, Any]] = [
            {"experiment": "footprint"},
            {"experiment": "recall_sweep", "search": dict(best.search)},
            {"experiment": "capacity", "recall": limits.recall, **p99},
        ]
        return self._suite("tuned", [best.build], rows, 3, asked)

    def _suite(
        self,
        name: str,
        builds: Sequence[Build],
        rows: int | None,
        repeats: int,
        asked: list[dict[str, Any]],
    ) -> Suite:
        return one.suite_of(
            name,
            self._store,
            dataset=self._dataset,
            rows=rows,
            indexes=[(build.kind, build.params) for build in builds],
            lane=self._lane,
            k=self._k,
            repeats=repeats,
            experiments=asked,
        )

    def measured(self, build: Build, rows: int) -> Measured:
        """Load a build once and search it at every value of the ladder."""
        suite = self.suite(build, rows)
        plan = plan_of(suite, suite.name)
        refused = [r.reason for r in plan.refusals if r.row.experiment == "recall_sweep"]
        if refused:
            raise UserError(refused[0])
        again = f"the same command with --resume {shlex.quote(str(self.folder))}"
        text = toml_of(suite)
        run_command.measure(
            plan,
            suite,
            text,
            self.folder,
            self._console,
            again=again,
            allow_exposed=self._allow_exposed,
        )
        keys = {trial.row.key for trial in plan.trials}
        trials = [trial for trial in load(self.folder).trials if trial.key in keys]
        lacking = [trial.reason for trial in trials if trial.status == "skipped"]
        if len(lacking) < len(trials):
            self._able = True
        elif lacking and not self._able:  # no other build would be measured either
            raise StoreError(f"{self._store.name} cannot be measured here: {lacking[0]}")
        held = (phase for t in trials if _is(t, "footprint") for phase in t.phases)
        memory = next((phase.value("rss_growth_bytes") for phase in held), None)
        return Measured(*_candidates(build, trials, memory))


def _candidates(
    build: Build, trials: Sequence[Trial], memory: float | None
) -> tuple[list[Candidate], str]:
    found, reason = [], "nothing was measured"
    for trial in trials:
        if not _is(trial, "recall_sweep"):
            continue
        if trial.status != "ok":
            reason = trial.reason or trial.status
            continue
        (phase,) = trial.phases
        recall, qps = phase.value("recall_mean"), phase.value("qps")
        p99_us = phase.value("latency_p99")
        if recall is not None and qps is not None and p99_us is not None:
            search = {n: v for n, v in trial.params.items() if n not in ("k", "returns")}
            found.append(Candidate(build, search, recall, qps, p99_us, memory))
    return found, reason


def _is(trial: Trial, experiment: str) -> bool:
    return trial.experiment == experiment


def _bytes(written: str) -> int:
    try:
        return size_bytes(written)
    except ValueError as error:
        raise UserError(f"'{written}' is {error}", where="--memory") from error


def _go_on(bench: _Bench, folder: Path) -> None:
    if not (folder / RESOLVED).is_file():
        raise UserError("there is no run here to go on with", where=str(folder))
    if not bench.goes_on(read_suite(folder / RESOLVED), folder):
        raise UserError(
            "this run was not made by this command with these options",
            where=str(folder),
            remedy="give the options that it was begun with, or leave --resume out",
        )


def _choice(every: Sequence[Candidate], limits: Limits) -> tuple[Candidate | None, str]:
    """The best of all builds, or why there is none."""
    if not every:
        return None, "no build could be measured whole; the reason is beside each"
    best, _, fault = judged(Measured(every), limits)
    if best is not None:
        return best, ""
    lacking = f"nothing is within the limits; the nearest has {fault}"
    return None, f"{lacking}: relax a limit, or raise --budget"


def _line(tried: Tried) -> str:
    if tried.best is None:
        return f"build {tried.number}: {tried.build.label}: {tried.state}: {tried.reason}"
    best = tried.best
    return (
        f"build {tried.number}: {tried.build.label}: {best.qps:,.5g} QPS at recall"
        f" {best.recall:.4f}, {_setting(best.search)}"
    )


def _setting(search: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in search.items())


def _facts(candidate: Candidate | None) -> dict[str, Any]:
    """All keys, whether there is a candidate or not."""
    said = candidate
    return {
        "index": said and said.build.kind,
        "params": said and dict(said.build.params),
        "search": said and dict(said.search),
        "recall_mean": said and said.recall,
        "qps": said and said.qps,
        "latency_p99": said and said.p99_us,
        "rss_growth_bytes": said and said.memory_bytes,
    }


def _lines(
    tried: Sequence[Tried],
    best_of: Sequence[Candidate],
    best: Candidate | None,
    reason: str,
    limits: Limits,
    folder: Path,
    suite: str,
) -> None:
    for said in tried:
        facts = {"build": said.number, "state": said.state, "reason": said.reason}
        own = {"index": said.build.kind, "params": dict(said.build.params)}
        print(json.dumps({"kind": "build", **facts, **_facts(said.best), **own}))
    for candidate in best_of:
        print(json.dumps({"kind": "front", **_facts(candidate)}))
    told = {"recall_floor": limits.recall, "folder": str(folder), "reason": reason}
    kept = {"suite": str(folder / CHOSEN) if suite else None, "suite_toml": suite or None}
    print(json.dumps({"kind": "choice", **told, **_facts(best), **kept}))


def _tables(
    tried: Sequence[Tried],
    best_of: Sequence[Candidate],
    best: Candidate | None,
    reason: str,
    limits: Limits,
    folder: Path,
    suite: str,
) -> None:
    console = on_stdout()
    builds = _table("build", "index", "state")
    for said in tried:
        row = (str(said.number), said.build.label, said.state)
        builds.add_row(*row, *(_figures(said.best) if said.best else ("—",) * 5), said.reason)
    console.print(builds)
    console.print("\nbest at each recall, of all builds:")
    at_best = _table("index")
    for candidate in best_of:
        note = "the choice" if candidate == best else candidate.fault(limits) or ""
        at_best.add_row(candidate.build.label, *_figures(candidate), note)
    console.print(at_best)
    if best is None:
        print(f"\nno choice: {reason}")
    else:
        print(f"\nchoice: {best.build.label}, {_setting(best.search)}: {best.qps:,.5g} QPS")
        print(f"measure it again with: vectrial run {shlex.quote(str(folder / CHOSEN))}")
        print(f"which is this suite:\n\n{suite.strip()}\n")
    print(folder)


def _table(*left: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in left:
        table.add_column(title, overflow="fold")
    for title in ("search", "recall", "QPS", "p99 ms", "memory"):
        table.add_column(title, justify="left" if title == "search" else "right")
    table.add_column("", overflow="fold")
    return table


def _figures(candidate: Candidate) -> tuple[str, str, str, str, str]:
    memory = candidate.memory_bytes
    return (
        _setting(candidate.search) or "—",
        f"{candidate.recall:.4f}",
        f"{candidate.qps:,.5g}",
        f"{candidate.p99_us / 1e3:,.3g}",
        "—" if memory is None else f"{memory / 2**20:,.4g} MiB",
    )
