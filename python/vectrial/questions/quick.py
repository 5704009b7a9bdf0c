"""The quick comparison: the faster store at equal recall, within minutes and without a suite."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field, InstanceOf

from vectrial.analysis.analysis import LOAD, Sweep, sweeps
from vectrial.analysis.run_data import Point, RunData, load
from vectrial.compare.ranking import Ranking, rank
from vectrial.datasets.ingest import metric_of
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.errors import UserError
from vectrial.model.inputs import Clients
from vectrial.model.phase import Role
from vectrial.model.progress import Progress
from vectrial.model.trial import Series
from vectrial.plan.estimate import TimeLimit
from vectrial.plan.model import DatasetShape
from vectrial.plan.quick import END_S, REPEATS, QuickOptions, QuickPlan, quick_plan
from vectrial.questions.bench import DATASET, Bench, question
from vectrial.questions.contenders import (
    SkippedStore,
    check_shape,
    contenders,
    dataset_of_file,
    default_dataset,
    is_file,
    named_shape,
)
from vectrial.run.measuring import LineView
from vectrial.run.prepare import plan_of
from vectrial.run.runner import RunTimeLimit
from vectrial.stats.intervals import Spread
from vectrial.stores import registry
from vectrial.suite.commented import commented_text
from vectrial.util import formatting
from vectrial.util.formatting import plural

#: Parameters of a point that hold for a whole table of searches.
_COMMON = frozenset({*LOAD, "returns", "durability"})
_HEAD = (
    "The suite of `vectrial quick`. Edit it, look at its plan with `vectrial run FILE --dry-run`, "
    "and measure it with `vectrial run FILE`. docs/suites.md explains all keys.",
)


@dataclass(frozen=True)
class QuickQuestion:
    """The load and the target recall."""

    recall: float = 0.95
    clients: int = 1
    k: int = 10

    def __str__(self) -> str:
        by = formatting.plural(self.clients, "client")
        return f"recall ≥ {self.recall:g}, k = {self.k:,}, {by}"


@dataclass(frozen=True)
class QuickChoice:
    """The choice of what to measure in the time available.

    options: the time and what was asked for. shape: the whole dataset. skipped: stores that are not
        measured. text: the suite as TOML, with comments.
    """

    plan: QuickPlan
    options: QuickOptions
    shape: DatasetShape
    skipped: tuple[SkippedStore, ...]
    text: str

    def __str__(self) -> str:
        suite, shape = self.plan.suite, self.shape
        names = ", ".join(ref.store for ref in suite.stores)
        return (
            f"{names}: {suite.datasets[0].rows or shape.rows:,} rows of {shape.name}"
            f" ({shape.dim}-d, {shape.metric}), {plural(suite.repeats, 'repeat')},"
            f" about {self.plan.estimate_s / 60:.1f} of {self.options.budget_s / 60:g} minutes"
        )


@dataclass(frozen=True)
class QuickAnswer:
    """Stores at a recall: measured points, loads, and which of them differ.

    folder: the run folder. ranking: stores by QPS at exactly the recall, with verdicts. skipped:
        stores that were not measured. succeeded: whether anything was measured and this machine
        lacked nothing.
    """

    question: QuickQuestion
    folder: Path
    run: RunData
    ranking: Ranking
    skipped: tuple[SkippedStore, ...] = ()
    succeeded: bool = True

    @cached_property
    def sweep(self) -> Sweep | None:
        """The searches; None if there are none."""
        return next(iter(sweeps(self.run, self.question.clients)), None)

    @cached_property
    def best(self) -> Mapping[Series, Point]:
        """The fastest measured point of each store that reaches the recall; first the stores with
        the highest QPS at exactly the recall."""
        sweep = self.sweep
        if sweep is None:
            return {}
        found = {one: sweep.best(one, self.question.recall) for one in self.run.labels}
        able = [(series, point) for series, point in found.items() if point is not None]
        return dict(sorted(able, key=lambda item: -self._qps(*item)))

    def _qps(self, series: Series, point: Point) -> float:
        at_recall = self.at_recall(series)
        return (point.value("qps") or 0.0) if at_recall is None else at_recall.median

    def at_recall(self, series: Series) -> Spread | None:
        """QPS of a store at exactly the recall, over its repeats; None if it has none."""
        name = self.run.labels[series]
        return next((one.spread for one in self.ranking.stores if one.name == name), None)

    def load(self, series: Series, metric: str) -> Point | None:
        """The point of a store's load or size that has the metric."""
        points = [*self.run.points_in_role(Role.LOAD), *self.run.points_in_role(Role.SIZE)]
        own = (point for point in points if point.series == series and point.state == "ok")
        return next((point for point in own if point.value(metric) is not None), None)

    def reason(self, series: Series) -> str:
        """Reason why a store has no point that reaches the recall."""
        points = [] if self.sweep is None else self.sweep.ranked(series)
        if points:
            most = max(point.value("recall_mean") or 0 for point in points)
            short = f"at most {formatting.recall(most)}"
            return f"recall {self.question.recall:g} is not reached: {short}"
        unranked = [] if self.sweep is None else self.sweep.select(series, None)
        own = [trial for trial in self.run.trials if trial.series == series]
        wrong = [why for trial in own if (why := self.run.why_wrong(trial))]
        if wrong:
            return f"wrong: it failed the gate: {wrong[0]}"
        if unranked:
            return unranked[0].why_unranked
        reasons = dict.fromkeys(trial.reason for trial in own if trial.reason)
        return "; ".join(map(str, reasons)) or "it has no search"


def setting(point: Point) -> dict[str, object]:
    """Search parameters of a point."""
    return {name: value for name, value in point.params.items() if name not in _COMMON}


@question
def quick(
    stores: str | Sequence[str] = (),
    *,
    dataset: str | Path | None = None,
    metric: str | None = None,
    rows: Annotated[int, Field(ge=1)] | None = None,
    recall: Annotated[float, Field(ge=0, le=1)] = 0.95,
    k: Annotated[int, Field(ge=1)] = 10,
    clients: Clients = 1,
    minutes: Annotated[float, Field(ge=0.05, le=600)] = 3.0,
    bench: InstanceOf[Bench] | None = None,
) -> QuickAnswer:
    """Find out within minutes which stores are faster at equal recall, as `vectrial quick` does.

    Args:
        stores: names of stores; by default those that work here in process, as many as fit.
        dataset: name of a dataset, or a file of vectors, which is imported; word vectors unless
            given. metric: metric of a file: "cosine", "l2" or "ip". rows: the first rows of the
            dataset; by default as many as fit.
        recall: mean recall at which stores are compared. k: neighbours per query. clients: that
            search at once. minutes: time for everything.
        bench: where and how to measure.

    Raises:
        UserError: an argument is wrong, or nothing can be measured.
    """
    began = time.monotonic()
    bench = bench or Bench()
    names = [stores] if isinstance(stores, str) else stores
    data = None if dataset is None else str(dataset)
    choice = choose(
        names, data, metric, rows, k, clients, minutes, LineView(bench.progress).fetching, bench
    )
    return measure_choice(choice, QuickQuestion(recall, clients, k), began, bench)


def choose(
    stores: Sequence[str],
    dataset: str | None,
    metric: str | None,
    rows: int | None,
    k: int,
    clients: int,
    minutes: float,
    fetching: Progress | None,
    bench: Bench,
) -> QuickChoice:
    """The choice that `quick` would measure; see there for the arguments.

    fetching: progress of a dataset that is fetched or imported; None: nothing is fetched unless it
        is a file.

    Raises:
        UserError: an argument is wrong, or nothing can be measured.
    """
    for name in stores:
        registry.load(name)  # before anything is fetched
    shape = _shape(dataset, metric, fetching, bench)
    check_shape(shape, rows, k)
    able, skipped = contenders(stores, shape.metric, clients)
    for store in skipped if stores else ():
        bench.progress(f"! {store.store} is skipped: {store.reason}")
    if not able:
        raise UserError(
            "; ".join(f"{store.store}: {store.reason}" for store in skipped) or "no store works",
            remedy="pip install 'vectrial[stores]' installs the libraries",
        )
    options = QuickOptions(minutes * 60, bool(stores), rows, k, clients)
    plan = quick_plan(able, shape, options)
    skipped += [SkippedStore(name, _why_no_time(plan, minutes)) for name in plan.left_out]
    return QuickChoice(
        plan, options, shape, tuple(skipped), commented_text(plan.suite, EXPERIMENTS, _HEAD)
    )


def measure_choice(
    choice: QuickChoice, question: QuickQuestion, began: float, bench: Bench
) -> QuickAnswer:
    """Measure a choice within its time, and rank the stores.

    began: `time.monotonic()` at the start of the time.
    """
    suite = choice.plan.suite
    bench.progress(str(choice))
    limit = TimeLimit(
        choice.options.budget_s - END_S,
        min(REPEATS, suite.repeats),
        each_once=choice.options.named,
    )
    folder = bench.new_folder(suite)
    plan = plan_of(suite, "vectrial quick")
    outcome = bench.run(plan, folder, choice.text, time_limit=RunTimeLimit(limit, began))
    run = load(folder, is_own_run=True)
    ranking = rank(run, question.recall, question.clients)
    return QuickAnswer(question, folder, run, ranking, choice.skipped, outcome.succeeded)


def _shape(
    dataset: str | None, metric: str | None, fetching: Progress | None, bench: Bench
) -> DatasetShape:
    """The shape of a dataset that is in the library or can be fetched."""
    own = dataset is not None and is_file(dataset)
    if metric is not None and not own:
        raise UserError("only a file is given a metric", where="--metric", remedy="leave it out")
    if dataset is not None and not own:
        return named_shape(dataset)
    if dataset is not None:
        progress = fetching or (lambda done, of, what: None)
        found = dataset_of_file(Path(dataset), metric_of(metric), progress, bench.progress)
        return named_shape(found.name)
    if fetching is None:
        return named_shape(DATASET)
    return named_shape(default_dataset(fetching, bench.progress))


def _why_no_time(plan: QuickPlan, minutes: float) -> str:
    every = (len(plan.left_out) + len(plan.suite.stores)) / len(plan.suite.stores)
    more = f"{minutes * every + 0.5:.0f}"
    return f"{minutes:g} minutes are too short for it: --minutes {more}, or name it"
