"""The bench of `vectrial tune`: it measures builds, all into one run folder, and the last
candidates in turns, into another."""

from __future__ import annotations

import hashlib
import shlex
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from vectrial.analysis.run_data import load
from vectrial.analysis.trial import PhaseResult, Trial
from vectrial.cli import one_store as one
from vectrial.cli import run as run_command
from vectrial.cli.output import say
from vectrial.cli.tune_view import Finalist, Finals, build_line
from vectrial.compare.ranking import rank
from vectrial.experiments.common.recall_parameter import parameter_values
from vectrial.model.capabilities import Index
from vectrial.model.errors import StoreError, UserError
from vectrial.model.store import Store
from vectrial.plan.estimate import load_s
from vectrial.plan.model import Plan
from vectrial.results.folder import replace_text
from vectrial.run.prepare import RESOLVED, plan_of, toml_of
from vectrial.suite.model import Suite, read_suite
from vectrial.tune.finals import settings_near
from vectrial.tune.search import Build, Candidate, Measured, TriedBuild, TuneLimits
from vectrial.util import formatting
from vectrial.util.variants import full_name

#: With this many rows, each build is first measured on a tenth of them, where a load takes longer
#: than the searches.
_STAGED_ROWS = 20_000
#: A setting is searched for so many times `seconds` at most, so that every query is asked.
_LONGER = 4
#: Loads of each of the last candidates, and seconds of each of their settings.
_LOADS, _FINAL_S = 3, 0.7


@dataclass
class TuneBench:
    """Measures builds, all into one run folder.

    rows, dim: size of the dataset. k: neighbours. seconds: least time of each setting. folder:
        folder of the run.
    """

    store: type[Store]
    dataset: str
    rows: int
    dim: int
    lane: str | None
    k: int
    seconds: float
    console: Console
    allow_exposed: bool
    folder: Path = field(default_factory=Path)
    _complete: list[Build] = field(default_factory=list)
    _works: bool = False

    def steps(self, kinds: Sequence[str]) -> list[int]:
        """Numbers of rows on which a build is measured, in order."""
        known = self.store.capabilities.indexes
        loads_s, searches_s = 0.0, 0.0
        for kind in kinds:
            index = Index(kind, known[kind].build())
            loads_s = max(loads_s, load_s(self.store, index, self.rows, self.dim))
            values = parameter_values(known[kind], self.k)
            searches_s = max(searches_s, max(1, len(values)) * self.seconds)
        staged = self.rows >= _STAGED_ROWS and loads_s > searches_s
        return [self.rows // 10, self.rows] if staged else [self.rows]

    def sweep(self, builds: Sequence[Build], rows: int) -> Suite:
        """The suite that measures builds on the first `rows` rows."""
        values: dict[str, list[int]] = {}
        for kind in dict.fromkeys(build.kind for build in builds):
            index = self.store.capabilities.indexes[kind]
            own = parameter_values(index, self.k)
            if index.recall_parameter:
                values[index.recall_parameter] = sorted(
                    {*values.get(index.recall_parameter, []), *own}
                )
        limits = {"min_s": self.seconds, "max_s": _LONGER * self.seconds}
        experiments: list[dict[str, Any]] = [
            {"experiment": "storage"},
            {"experiment": "search", "search": values, **limits},
        ]
        return self._suite("tune", builds, rows, 1, experiments)

    def chosen(self, best: Candidate, limits: TuneLimits, rows: int | None) -> Suite:
        """The suite that measures a candidate again and finds its capacity."""
        p99 = {} if limits.p99_us is None else {"p99_ms": limits.p99_us / 1e3}
        experiments: list[dict[str, Any]] = [
            {"experiment": "storage"},
            {"experiment": "search", "search": dict(best.search)},
            {"experiment": "capacity", "recall": limits.recall, **p99},
        ]
        return self._suite("tuned", [best.build], rows, _LOADS, experiments)

    def final(self, finalists: Sequence[TriedBuild], recall: float) -> Suite:
        """The suite of the last candidates, in turns: each build with the settings around the one
        that it needs."""
        experiments = []
        for tried in finalists:
            parameter = self._parameter(tried.build)
            near = settings_near(tried.candidates, parameter, recall) if parameter else []
            experiments.append(
                {
                    "experiment": "search",
                    "stores": [self._name(tried)],
                    "search": {parameter: near} if parameter else {},
                    "min_s": _FINAL_S,
                    "max_s": _LONGER * _FINAL_S,
                }
            )
        builds = [tried.build for tried in finalists]
        variants = [_variant(tried) for tried in finalists]
        return self._suite("tune-finals", builds, self.rows, _LOADS, experiments, variants)

    def _suite(
        self,
        name: str,
        builds: Sequence[Build],
        rows: int | None,
        repeats: int,
        experiments: list[dict[str, Any]],
        variants: Sequence[str] = (),
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
            variants=variants,
        )

    def _parameter(self, build: Build) -> str | None:
        return self.store.capabilities.indexes[build.kind].recall_parameter

    def _name(self, tried: TriedBuild) -> str:
        """Name of a finalist as a variant of the store."""
        return full_name(self.store.name, _variant(tried))

    def resume(self, folder: Path, kinds: Sequence[str]) -> None:
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
        same = rows in self.steps(kinds) and all(build.kind in known for build in builds)
        if rows is None or not same or self.sweep(builds, rows) != suite:
            raise UserError(
                "this run was not made by this command with these options",
                where=str(folder),
                remedy="give the options of the first call, or leave --resume out",
            )
        self.folder = folder.resolve()
        self._complete = builds if rows == self.rows else []

    def record(self, tried: TriedBuild) -> None:
        """Print a build, and list the builds measured on all rows in the run's suite."""
        say(self.console, build_line(tried))
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
        self._run(plan, suite, self.folder)
        keys = {trial.row.key for trial in plan.trials}
        trials = [trial for trial in load(self.folder).trials if trial.key in keys]
        skipped = [trial.reason for trial in trials if trial.status == "skipped"]
        if len(skipped) < len(trials):
            self._works = True
        elif skipped and not self._works:  # no other build would be measured either
            raise StoreError(f"{self.store.name} cannot be measured here: {skipped[0]}")
        return _measured(build, trials)

    def finals(self, finalists: Sequence[TriedBuild], limits: TuneLimits) -> Finals:
        """Load the last candidates again and search them in turns, at the settings that they need.
        They are a separate run, which continues when it is resumed."""
        suite = self.final(finalists, limits.recall)
        numbers = formatting.joined([f"{tried.number}" for tried in finalists])
        say(self.console, f"builds {numbers} again, in turns, at the settings that they need")
        # Other candidates, of other options, have a run of their own.
        digest = hashlib.sha256(toml_of(suite).encode()).hexdigest()[:6]
        folder = self.folder.with_name(f"{self.folder.name}-finals-{digest}")
        self._run(plan_of(suite, suite.name), suite, folder)
        run = load(folder)
        searched: dict[str, list[tuple[Trial, PhaseResult]]] = defaultdict(list)
        for trial, phase in run.phases():
            if trial.status == "ok" and phase.valid:
                searched[trial.series.store].append((trial, phase))
        able: dict[str, tuple[TriedBuild, Candidate]] = {}
        for tried in finalists:
            name = self._name(tried)
            candidate = _least(tried, searched[name], self._parameter(tried.build), limits)
            if candidate is not None:
                able[name] = tried, candidate
        ranking = rank(run, limits.recall, among=able.keys())
        return Finals(
            folder,
            tuple(
                Finalist(*able[one.name], one.median, ranking.verdicts.get((0, place)))
                for place, one in enumerate(ranking.stores)
            ),
        )

    def _run(self, plan: Plan, suite: Suite, folder: Path) -> None:
        run_command.measure(
            plan,
            suite,
            toml_of(suite),
            folder,
            self.console,
            again=f"the same command with --resume {shlex.quote(str(self.folder))}",
            allow_exposed=self.allow_exposed,
        )


def _variant(tried: TriedBuild) -> str:
    return f"build-{tried.number}"


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
            params = _search_params(trial)
            found.append(Candidate(build, params, recall, qps, phase.value("latency_p99"), memory))
    return Measured(found, reason)


def _search_params(trial: Trial) -> Mapping[str, Any]:
    return {n: v for n, v in trial.params.items() if n not in ("k", "returns", "clients")}


def _least(
    tried: TriedBuild,
    searched: Sequence[tuple[Trial, PhaseResult]],
    parameter: str | None,
    limits: TuneLimits,
) -> Candidate | None:
    """The least setting of a finalist that is within the limits, by the medians over its loads;
    None if there is none."""
    assert tried.best is not None, "a finalist has been within the limits"
    settings: dict[Any, list[tuple[Trial, PhaseResult]]] = defaultdict(list)
    for trial, phase in searched:
        settings[trial.params.get(parameter) if parameter else None].append((trial, phase))
    for value in sorted(settings, key=lambda one: (one is not None, one)):
        loads = settings[value]
        phases = [phase for _, phase in loads]
        recall, qps, p99 = (_median(phases, name) for name in ("recall_mean", "qps", "latency_p99"))
        if recall is None or qps is None:
            continue
        params = _search_params(loads[0][0])
        memory = tried.best.memory_bytes
        candidate = Candidate(tried.build, params, recall, qps, p99, memory)
        if candidate.fault(limits) is None:
            return candidate
    return None


def _median(phases: Sequence[PhaseResult], metric: str) -> float | None:
    values = [value for phase in phases if (value := phase.value(metric)) is not None]
    return statistics.median(values) if values else None
