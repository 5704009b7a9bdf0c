"""The fastest index and search parameters of a store at a recall, within limits.

Builds are measured one after the other, all into one run folder, and the last candidates in turns,
into another.
"""

from __future__ import annotations

import hashlib
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, InstanceOf

from vectrial.analysis.run_data import load
from vectrial.analysis.trial import PhaseResult, Trial
from vectrial.compare.ranking import rank
from vectrial.experiments.common.recall_parameter import parameter_values
from vectrial.model.capabilities import Index
from vectrial.model.errors import StoreError, UserError
from vectrial.model.store import Store
from vectrial.plan.estimate import load_s
from vectrial.questions.bench import (
    DATASET,
    Bench,
    index_of,
    question,
    run_search,
    suite_of,
    trials_in,
)
from vectrial.questions.builds import (
    Build,
    BuildMeasurement,
    BuildRequest,
    Candidate,
    TriedBuild,
    TuneLimits,
    search,
)
from vectrial.questions.finals import (
    Finalist,
    Finals,
    TuneAnswer,
    answer_of,
    finalists,
    settings_near,
)
from vectrial.questions.space import defaults, knobs
from vectrial.results.folder import CHOSEN, replace_text
from vectrial.run.prepare import RESOLVED, plan_of, shape_of, toml_of
from vectrial.stores import registry
from vectrial.suite.model import DatasetRef, Suite
from vectrial.util import formatting
from vectrial.util.variants import full_name

#: Least rows at which each build is first measured on a tenth of them, if a load takes longer than
#: the searches.
_STAGED_ROWS = 20_000
#: Factor by which the search of a setting may exceed `seconds`, so that every query is sent.
_LONGER = 4
#: Loads of each of the last candidates, and seconds of each of their settings.
_LOADS, _FINAL_S = 3, 0.7
SEED = 42


@question
def tune(
    store: str,
    *,
    dataset: str = DATASET,
    rows: int | None = None,
    recall: Annotated[float, Field(ge=0, le=1)] = 0.95,
    p99_ms: Annotated[float, Field(gt=0)] | None = None,
    memory_bytes: Annotated[int, Field(gt=0)] | None = None,
    indexes: Sequence[str] = (),
    lane: str | None = None,
    budget: Annotated[int, Field(ge=1)] = 12,
    last: Annotated[int, Field(ge=0)] = 3,
    seconds: float = 0.5,
    k: int = 10,
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = SEED,
    bench: InstanceOf[Bench] | None = None,
) -> TuneAnswer:
    """Find the fastest index and search parameters of a store at a recall, as `vectrial tune` does.

    Args:
        store: name of a store. rows: the first of the dataset; all unless given.
        recall: least mean recall. p99_ms: limit on p99 latency in milliseconds with one client.
        memory_bytes: limit on the growth of resident memory while loading.
        indexes: kinds of index to try; by default the first that trades recall for speed.
        budget: number of builds. last: number of the best builds that are loaded again and measured
            in turns. seconds: duration of a step. seed: seed of the search.
        lane, k: as in `capacity`.
        bench: where and how to measure.

    Raises:
        UserError: an argument is wrong, or the store does not support it.
        StoreError: the store does not work on this machine.
        NotInstalled: Optuna is missing.
    """
    bench = bench or Bench()
    kind = registry.load(store)
    limits = TuneLimits(recall, None if p99_ms is None else p99_ms * 1e3, memory_bytes)
    chosen = [index_of(kind, name) for name in indexes or (None,)]
    shape = shape_of(DatasetRef(name=dataset, rows=rows))
    builds = _Builds(kind, dataset, shape.rows, shape.dim, lane, k, seconds, bench)
    builds.begin(chosen)
    known = kind.capabilities.indexes
    ranges = {name: knobs(known[name], shape.rows, shape.dim) for name in chosen}
    tried = run_search(
        search(
            ranges,
            {name: defaults(known[name], of) for name, of in ranges.items()},
            limits,
            steps=builds.steps(chosen),
            budget=budget,
            seed=seed,
            on_build=builds.record,
        ),
        builds.measure,
    )
    best = finalists(tried, last)
    finals = builds.finals(best, limits) if best else None
    answer = answer_of(tried, limits, builds.folder, finals)
    if answer.best is not None:
        answer.suite = toml_of(builds.chosen_suite(answer.best, limits, rows))
        (builds.folder / CHOSEN).write_text(answer.suite, encoding="utf-8")
    return answer


@dataclass
class _Builds:
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
    bench: Bench
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

    def sweep_suite(self, builds: Sequence[Build], rows: int) -> Suite:
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

    def chosen_suite(self, best: Candidate, limits: TuneLimits, rows: int | None) -> Suite:
        """The suite that measures a candidate again and finds its capacity."""
        p99 = {} if limits.p99_us is None else {"p99_ms": limits.p99_us / 1e3}
        experiments: list[dict[str, Any]] = [
            {"experiment": "storage"},
            {"experiment": "search", "search": dict(best.search)},
            {"experiment": "capacity", "recall": limits.recall, **p99},
        ]
        return self._suite("tuned", [best.build], rows, _LOADS, experiments)

    def final_suite(self, finalists: Sequence[TriedBuild], recall: float) -> Suite:
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
        return suite_of(
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

    def begin(self, kinds: Sequence[str]) -> None:
        """Choose the name of the run folder, or read the run that goes on.

        Raises:
            UserError: there is none, or other options made it.
        """
        resumed = self.bench.resumed(lambda suite: self._is_own(suite, kinds))
        if resumed is None:
            self.folder = self.bench.new_folder(self.sweep_suite([Build(kinds[0], {})], self.rows))
            return
        self.folder, suite = resumed
        if suite.datasets[0].rows == self.rows:
            self._complete = _builds_of(suite)

    def _is_own(self, suite: Suite, kinds: Sequence[str]) -> bool:
        builds, rows = _builds_of(suite), suite.datasets[0].rows
        known = self.store.capabilities.indexes
        same = rows in self.steps(kinds) and all(build.kind in known for build in builds)
        return same and rows is not None and self.sweep_suite(builds, rows) == suite

    def record(self, tried: TriedBuild) -> None:
        """Print a build, and list the builds measured on all rows in the run's suite."""
        self.bench.progress(_line(tried))
        if tried.state == "complete" and tried.build not in self._complete:
            self._complete.append(tried.build)
            replace_text(
                self.folder / RESOLVED, toml_of(self.sweep_suite(self._complete, self.rows))
            )

    def measure(self, attempt: BuildRequest) -> BuildMeasurement:
        """Load a build once and search it at every value of the search parameter.

        Raises:
            UserError: the store does not support the build.
            StoreError: the store does not work on this machine.
        """
        suite = self.sweep_suite([attempt.build], attempt.rows)
        plan = plan_of(suite, suite.name)
        refused = [r.reason for r in plan.refusals if r.row.experiment == "search"]
        if refused:
            raise UserError(refused[0])
        self.bench.run(plan, self.folder, question=self.folder)
        keys = {trial.row.key for trial in plan.trials}
        trials = [trial for trial in trials_in(self.folder) if trial.key in keys]
        skipped = [trial.reason for trial in trials if trial.status == "skipped"]
        if len(skipped) < len(trials):
            self._works = True
        elif skipped and not self._works:  # no other build would be measured either
            raise StoreError(f"{self.store.name} cannot be measured here: {skipped[0]}")
        return _measurement_of(attempt.build, trials)

    def finals(self, finalists: Sequence[TriedBuild], limits: TuneLimits) -> Finals:
        """Load the last candidates again and search them in turns, at the settings that they need.
        They are a separate run, which continues when it is resumed."""
        suite = self.final_suite(finalists, limits.recall)
        numbers = formatting.list_in_words([f"{tried.number}" for tried in finalists])
        self.bench.progress(f"builds {numbers} again, in turns, at the settings that they need")
        # Other candidates, of other options, have a run of their own.
        digest = hashlib.sha256(toml_of(suite).encode()).hexdigest()[:6]
        folder = self.folder.with_name(f"{self.folder.name}-finals-{digest}")
        self.bench.run(plan_of(suite, suite.name), folder, question=self.folder)
        run = load(folder)
        searched: dict[str, list[tuple[Trial, PhaseResult]]] = defaultdict(list)
        for trial, phase in run.phases():
            if trial.status == "ok" and phase.valid:
                searched[trial.series.store].append((trial, phase))
        able: dict[str, tuple[TriedBuild, Candidate]] = {}
        for tried in finalists:
            name = self._name(tried)
            candidate = _least_candidate(
                tried, searched[name], self._parameter(tried.build), limits
            )
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


def _line(tried: TriedBuild) -> str:
    """Progress line of a build that was tried."""
    head = f"build {tried.number}: {tried.build.label}"
    best = tried.best
    if best is None:
        return f"{head}: {tried.state}: {tried.reason}"
    point = f"{best.qps:,.5g} QPS at recall {best.recall:.4f}"
    return f"{head}: {point}, {formatting.params(best.search)}"


def _builds_of(suite: Suite) -> list[Build]:
    return [Build(ref.index or "", ref.params) for ref in suite.stores]


def _variant(tried: TriedBuild) -> str:
    return f"build-{tried.number}"


def _measurement_of(build: Build, trials: Sequence[Trial]) -> BuildMeasurement:
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
    return BuildMeasurement(found, reason)


def _search_params(trial: Trial) -> Mapping[str, Any]:
    return {n: v for n, v in trial.params.items() if n not in ("k", "returns", "clients")}


def _least_candidate(
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
